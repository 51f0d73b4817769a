// Records a run, as runtime/record.py does: what tasks make, and what was decided, so that a replay
// does the same again. The file has the format MCAP.
//
// Threads of the program put what they make into memory, and a process of its own writes it, also
// when the program crashes or is killed. A thread of an app with a period, or in real time, never
// waits for it: what finds no room is counted and told. Others wait.
#pragma once
#include <dirent.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <tuple>

#include "control.hpp"
#include "mcap.hpp"
#include "options.hpp"
#include "record_queue.hpp"
#include "report.hpp"
#include "ros_messages.hpp"

namespace flow
{

constexpr const char *DECISIONS = "/flowc/decisions", *RECORDING_VERSION = "1";
// Bytes that may wait to be written, and bytes of the largest token.
constexpr int64_t MOST_WAITING = 256 << 20, LARGEST_TOKEN = 200 << 20;
// Seconds for which there is room, and frames of apps without a period.
constexpr double ROOM_FOR = 2.0, ROOM_FOR_FRAMES = 100;
// Seconds between two looks of the process that writes, and between two notes of how far the program
// is, which are in the file as soon.
constexpr double LOOK_FOR_MORE = 0.01, NOTED = 1.0;
constexpr double PATIENCE_OF_RECORDER = 10.0;  // without progress, after which it is given up

using Told = std::vector<std::pair<std::string, std::string>>;

// Would the recording overwrite what is replayed?
inline bool overwrites(const Options &options)
{
    struct stat written, read;
    return stat(options.record.c_str(), &written) == 0 && stat(options.replay.c_str(), &read) == 0 &&
           written.st_dev == read.st_dev && written.st_ino == read.st_ino;
}

// A port whose tokens are recorded; without a port, the topic of decisions.
struct Topic {
    std::string name, topic;
    const OutputPort *port = nullptr;
    Told told;
    size_t bytes = 0;    // of a token
    std::string before;  // of a message, before the bytes of the token
    bool picture = false;
    uint32_t count = 0;

    Topic() : topic(DECISIONS), told{{"version", RECORDING_VERSION}} {}
    explicit Topic(const OutputPort &port)
        : name(port.channel()), topic("/" + name), port(&port),
          bytes(static_cast<size_t>(port.elements() * element_of(port.dtype).bytes)),
          before(before_token(port)), picture(encoding_of(port))
    {
        for (char &letter : topic)
            if (letter == '.')
                letter = '/';
            else if (letter != '/' && letter != '_' && !isalnum(static_cast<unsigned char>(letter)))
                letter = '_';
        std::string shape;
        for (const int64_t size : port.shape)
            shape += (shape.empty() ? "" : ", ") + std::to_string(size);
        told = {{"channel", name},
                {"dtype", port.dtype},
                {"shape", "[" + shape + "]"},
                {"tokens_per_frame", std::to_string(port.tokens(port.task.firings))},
                {"source", port.task.source ? "1" : "0"}};
    }
};

class Recorder
{
    // What the program and the process that writes know of each other.
    struct Shared {
        std::atomic<bool> closed, broken;
        std::atomic<ns> moved;                        // when it last went on
        std::atomic<int64_t> taken, written;          // tokens
        std::atomic<int64_t> bytes;
        char reason[200];
    };
    const About &about;
    const Given given;
    std::string path;
    std::vector<Topic> topics{Topic()};
    // Of each task, by its number, the numbers of the topics of its outputs; 0: it is not recorded.
    std::vector<std::vector<uint32_t>> of_task;
    RecordQueue queue;
    Shared *shared = nullptr;
    std::vector<bool> patient;  // by the line of a thread: does it wait?
    std::atomic<int64_t> dropped{0}, waited{0};
    std::atomic<bool> late{false}, stuck{false};
    const ns wall = read_clock(CLOCK_REALTIME) - now();
    pid_t writer = -1;
    bool gone = false;
    ns looked = 0, noted = now();
    size_t stays_told = 0;

public:
    bool misused = false;  // is what `begin` complains about a mistake of the user?

    Recorder(const About &about, const Given &given) : about(about), given(given) {}

    // -- before it begins --------------------------------------------------------------------------
    // The channels that patterns with commas between choose, or all of them. What is wrong with
    // these; empty where nothing is.
    std::string choose(const std::string &patterns)
    {
        std::vector<std::string> names;
        std::vector<const OutputPort *> ports;
        for (const OutputPort *port : OutputPort::all)
            if (std::find(names.begin(), names.end(), port->channel()) == names.end()) {
                names.push_back(port->channel());
                ports.push_back(port);
            }
        std::vector<bool> chosen(names.size(), patterns.empty());
        std::string rest = patterns;
        while (!rest.empty()) {
            const std::string pattern = stripped(rest.substr(0, rest.find(',')));
            rest.erase(0, std::min(rest.size(), rest.find(',')) + 1);
            bool any = pattern.empty();
            for (size_t i = 0; i < names.size(); i++)
                if (!pattern.empty() && fits(pattern, names[i]))
                    any = chosen[i] = true;
            if (!any)
                return "--channels: there is no channel `" + pattern + "`; there is " +
                       listed(names);
        }
        for (size_t i = 0; i < names.size(); i++) {
            const std::string why = chosen[i] ? add(*ports[i]) : "";
            if (!why.empty())
                return why;
        }
        of_task.resize(Task::all.size() + 1);
        for (const OutputPort *port : OutputPort::all) {
            std::vector<uint32_t> &found = of_task[static_cast<size_t>(port->task.number)];
            found.resize(std::max(found.size(), port->number + 1));
            for (size_t i = 1; i < topics.size(); i++)
                if (topics[i].name == port->channel())
                    found[port->number] = static_cast<uint32_t>(i);
        }
        return "";
    }
    // Open the file, and start the process that writes it. Why that cannot be; empty where it is.
    std::string begin(const std::string &file)
    {
        path = file;
        const int opened =
            open(path.c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);
        struct stat known;
        if (opened < 0)
            return cannot_write();
        if (fstat(opened, &known) || !S_ISREG(known.st_mode)) {
            misused = true;
            close(opened);
            return "--record: " + path + " is no file";
        }
        if (ftruncate(opened, 0))
            return cannot_write();
        double things = 0, bytes = 0;
        for (const Topic &topic : topics)
            if (topic.port) {
                const Task &task = topic.port->task;
                const double seconds =
                    task.app.paced() ? double(task.app.period.times(1, 1)) / 1e9 : 0;
                const double frames = seconds ? ROOM_FOR / seconds : ROOM_FOR_FRAMES;
                things += frames * double(task.firings);
                bytes += std::max(double(topic.bytes) * 2, frames * double(topic.bytes) *
                                      double(topic.port->tokens(task.firings)));
            }
        const std::string why = queue.open(things, bytes, MOST_WAITING);
        void *const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (!why.empty() || memory == MAP_FAILED)
            return "no memory for the recording: " + (why.empty() ? strerror(errno) : why);
        shared = static_cast<Shared *>(memory);
        shared->moved = now();
        const pid_t program = getpid();
        writer = fork();
        if (writer < 0)
            return std::string("no process for the recording: ") + strerror(errno);
        if (!writer)
            write_all(opened, program);
        close(opened);
        queue.touch();
        patient.resize(run.lines + 1);
        for (const Worker *worker : run.workers)
            patient[worker->line - run.cells->lines] = may_wait(*worker);
        recorder = this;
        return "";
    }

    // -- while it runs: by threads that fire -------------------------------------------------------
    void made(const Task &task, int64_t firing, size_t output, const void *tokens)
    {
        const std::vector<uint32_t> &mine = of_task[static_cast<size_t>(task.number)];
        if (output >= mine.size() || !mine[output])
            return;
        const Topic &topic = topics[mine[output]];
        const OutputPort &port = *topic.port;
        const int64_t number = in_all_stays(task, firing), end = port.tokens(number + 1);
        const ns time = now(), known = released(task, firing), release = known < 0 ? time : known;
        const auto bytes = static_cast<int64_t>(topic.bytes);
        const int64_t most = std::max<int64_t>(1, queue.room() / 2 / std::max<int64_t>(1, bytes));
        const char *at = static_cast<const char *>(tokens);
        for (int64_t first = port.tokens(number); first < end; first += most) {
            const int64_t count = std::min(most, end - first);
            put({Recorded::TOKENS, mine[output], static_cast<uint32_t>(count),
                 static_cast<uint32_t>(count * bytes), first, 0, time, release},
                at);
            at += count * bytes;
        }
    }
    // Of a source alone: no other task decides it.
    void none(const Task &task, int64_t firing)
    {
        const std::vector<uint32_t> &mine = of_task[static_cast<size_t>(task.number)];
        if (!task.source || std::all_of(mine.begin(), mine.end(), [](uint32_t i) { return !i; }))
            return;
        const ns time = now();
        put({Recorded::NONE, static_cast<uint32_t>(task.number), 0, 0, in_all_stays(task, firing), 0,
             time, time},
            nullptr);
    }
    void found(const Task &task, int64_t firing, int64_t number)
    {
        const ns time = now();
        put({Recorded::FOUND, static_cast<uint32_t>(task.number), 0, 0, in_all_stays(task, firing),
             number, time, time},
            nullptr);
    }

    // -- by the main thread ------------------------------------------------------------------------
    // Note from time to time how far the program is, and see whether the file is still written.
    void look()
    {
        if (since(looked) < LOOK_FOR_MORE)
            return;
        looked = now();
        reap();
        if (since(noted) > NOTED && run.begin) {
            noted = looked;
            note(false);
        }
    }
    // The program is over: write what waits, and say what is in the file, or is missing there; true
    // where nothing is.
    bool finish(bool quiet)
    {
        if (!lost())
            while (!note(true) && !lost())
                wait_for_room();
        shared->closed = true;
        while (!reap() && since(shared->moved) < PATIENCE_OF_RECORDER)
            usleep(1000);
        if (!gone) {
            stuck = true;
            kill(writer, SIGKILL);
            waitpid(writer, nullptr, 0);
        }
        const int64_t missing =
            dropped + queue.left() + shared->taken - shared->written;
        const std::string why = reason();
        if (!why.empty())
            Run::complain("the recording " + path + " is not complete: " + why +
                          (missing ? "; " + grouped(missing) + " tokens are missing" : ""));
        else if (!quiet)
            Run::complain(grouped(shared->written) + " tokens of " +
                          std::to_string(topics.size() - 1) + " channels are in " + path +
                          format(" (%.1f MB)", double(shared->bytes) / 1e6) + in_waiting());
        return why.empty();
    }

private:
    static double since(ns time) { return double(now() - time) / 1e9; }
    std::string cannot_write() const { return "cannot write " + path + ": " + strerror(errno); }

    // -- channels ----------------------------------------------------------------------------------
    static std::string stripped(const std::string &text)
    {
        const size_t begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
        return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
    }
    // A name may leave out what stands in front, and `*` stands for anything.
    static bool fits(const std::string &pattern, const std::string &name)
    {
        std::string exact;
        for (const char letter : pattern)
            exact += letter == '[' ? "[[]" : std::string(1, letter);
        const auto matches = [&](const std::string &wanted) {
            return fnmatch(wanted.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
        };
        return matches(exact) || matches("*." + exact);
    }
    static std::string listed(const std::vector<std::string> &names)
    {
        constexpr size_t MOST = 12;
        std::string text;
        for (size_t i = 0; i < names.size() && i < MOST; i++)
            text += (i ? ", " : "") + names[i];
        return names.size() <= MOST
                   ? text
                   : text + " and " + std::to_string(names.size() - MOST) + " more";
    }
    std::string add(const OutputPort &port)
    {
        Topic made(port);
        if (static_cast<int64_t>(made.bytes) > LARGEST_TOKEN)
            return "tokens of " + made.name + " have " + std::to_string(made.bytes >> 20) +
                   " MB, and a recording takes " + std::to_string(LARGEST_TOKEN >> 20) +
                   " MB at most: leave it out with --channels";
        const auto taken = [&](const Topic &one) { return one.topic == made.topic; };
        while (std::any_of(topics.begin(), topics.end(), taken))
            made.topic += "_";
        topics.push_back(std::move(made));
        return "";
    }

    // -- threads that fire -------------------------------------------------------------------------
    static bool may_wait(const Worker &worker)
    {
        const auto paced = [](const Worker::Turn &turn) { return turn.app->paced(); };
        return !run.real_time &&
               (run.full_speed || std::none_of(worker.turns.begin(), worker.turns.end(), paced));
    }
    // The number of a firing, counted through all states.
    static int64_t in_all_stays(const Task &task, int64_t firing)
    {
        return task.app.before * task.firings + firing;
    }
    // When a frame was released; -1: not known.
    static ns released(const Task &task, int64_t firing)
    {
        App &app = task.app;
        const int64_t k = firing / task.firings;
        if (!app.paced() || run.full_speed)
            return app.release_of(k);
        return (app.since ? app.since : run.begin) + app.period.times(k, 1);
    }
    bool lost() const { return shared->broken || stuck; }
    void put(const Recorded::Content &content, const void *data)
    {
        const bool may_wait = own_line && patient[own_line - run.cells->lines];
        if (!lost() && queue.put(content, data, may_wait))
            return;
        if (!lost() && may_wait) {
            const ns begin = now();
            bool good = false;
            while (!lost() && !(good = queue.put(content, data, may_wait)))
                wait_for_room();
            waited += now() - begin;
            if (good)
                return;
        }
        late = true;
        dropped += content.tokens;
    }
    void wait_for_room()
    {
        if (since(shared->moved) > PATIENCE_OF_RECORDER)
            stuck = true;
        usleep(500);
    }

    // -- the main thread ---------------------------------------------------------------------------
    // Has the process that writes ended?
    bool reap()
    {
        int status = 0;
        if (!gone && waitpid(writer, &status, WNOHANG) == writer) {
            gone = true;
            if (!WIFEXITED(status) && !shared->broken) {
                snprintf(shared->reason, sizeof shared->reason, "its process has ended");
                shared->broken = true;
            }
        }
        return gone;
    }
    std::string reason() const
    {
        if (shared->broken)
            return shared->reason;
        if (stuck)
            return format("nothing could be written for %.0f s", PATIENCE_OF_RECORDER);
        return late ? "it was not written in time" : "";
    }
    std::string in_waiting() const
    {
        return waited > 10000000
                   ? format("; firings waited %.2f s until it was written", double(waited) / 1e9)
                   : "";
    }
    static std::string grouped(int64_t number)
    {
        std::string text = std::to_string(number);
        for (size_t at = text.size(); at > 3; at -= 3)
            text.insert(at - 3, ",");
        return text;
    }
    // How far the program is; false where there is no room to say so.
    bool note(bool ended)
    {
        std::map<std::string, std::pair<int64_t, int64_t>> apps;
        for (App *app : App::all) {
            if (!run.control)
                apps[app->name] = {app->done(), app->frames_begun()};
            else if (app->running || !apps.count(app->name))
                apps[app->name] = {run.control->had(app->name),
                                   run.control->had_earlier(app->name) +
                                       (app->running ? app->frames_begun() : 0)};
        }
        std::string done, begun;
        for (const auto &[name, frames] : apps) {
            const std::string key = (done.empty() ? "" : ", ") + json(name) + ": ";
            done += key + std::to_string(frames.first);
            begun += key + std::to_string(frames.second);
        }
        std::string text = std::string("{\"ended\": ") + (ended ? "true" : "false") +
                           ", \"frames\": {" + done + "}, \"begun\": {" + begun + "}";
        if (run.begin)
            text += ", \"began\": " + std::to_string(wall + run.begin);
        size_t over = 0;
        if (run.control)
            text += stays(over);
        text += "}";
        const ns time = now();
        const bool good = queue.put({Recorded::TEXT, 0, 0, static_cast<uint32_t>(text.size()), 0, 0,
                                     time, time},
                                    text.data(), false);
        stays_told = good ? over : stays_told;
        return good;
    }
    // The stays that were not over when they were told, and those since.
    std::string stays(size_t &over) const
    {
        std::vector<Stay> all;
        std::tie(all, over) = run.control->so_far();
        std::string text;
        for (size_t i = stays_told; i < all.size(); i++) {
            std::string frames;
            const auto tell = [&](const std::string &app, int64_t count) {
                frames += (frames.empty() ? "" : ", ") + json(app) + ": " + std::to_string(count);
            };
            for (const auto &[app, count] : all[i].frames)
                tell(app, count);
            text += (text.empty() ? "" : ", ") + std::string("{\"state\": ") +
                    json(all[i].state->name) + ", \"frames\": {" + frames + "}}";
        }
        return ", \"after\": " + std::to_string(stays_told) + ", \"stays\": [" + text + "]";
    }

    // -- the process that writes -------------------------------------------------------------------
    [[noreturn]] void write_all(int file, pid_t program)
    {
        for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGXFSZ})
            signal(number, SIG_IGN);  // it ends with the program
        for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
            signal(number, SIG_DFL);
        leave_files(file);
        const sched_param ordinary = {};
        sched_setscheduler(0, SCHED_OTHER, &ordinary);
        McapWriter to(file);
        begin_file(to);
        for (ns flushed = now();;) {
            const bool over = shared->closed || getppid() != program;
            const bool any = drain(to);
            if (since(flushed) > NOTED) {
                flush(to);
                flushed = now();
            }
            shared->moved = now();
            if (!any && over)
                break;
            if (!any)
                usleep(static_cast<useconds_t>(LOOK_FOR_MORE * 1e6));
        }
        require(to.finish());
        shared->written = shared->taken.load();
        shared->bytes = static_cast<int64_t>(to.bytes());
        _exit(0);
    }
    // Who waits for the ends of the program's files does not wait for this process.
    static void leave_files(int file)
    {
        const int nothing = open("/dev/null", O_RDWR);
        for (int stream = 0; stream < 3; stream++)
            dup2(nothing, stream);
        std::vector<int> others;
        if (DIR *const folder = opendir("/proc/self/fd")) {
            while (const dirent *const entry = readdir(folder))
                others.push_back(atoi(entry->d_name));
            closedir(folder);
        }
        for (const int other : others)
            if (other > 2 && other != file)
                close(other);
    }
    void require(const std::string &why)
    {
        if (why.empty())
            return;
        snprintf(shared->reason, sizeof shared->reason, "%s", why.c_str());
        shared->broken = true;
        _exit(1);
    }
    void begin_file(McapWriter &to)
    {
        std::string settings;
        for (const auto &[place, text] : given)
            settings += (settings.empty() ? "" : ", ") + json(text);
        require(to.start());
        require(to.add_metadata("flowc", {{"version", RECORDING_VERSION},
                                          {"program", about.name},
                                          {"build", digest()},
                                          {"settings", "[" + settings + "]"}}));
        for (const Topic &topic : topics)
            to.add_channel(topic.topic, topic.port ? message_of(*topic.port) : STRING,
                           definition_of(topic.port), topic.told);
    }
    static std::string digest()
    {
        const std::string build = build_of();
        return build == "null" ? "" : build.substr(1, build.size() - 2);
    }
    void flush(McapWriter &to)
    {
        require(to.flush());
        shared->written = shared->taken.load();
    }
    // Write what waits; false where nothing did.
    bool drain(McapWriter &to)
    {
        bool any = false;
        while (const Recorded *const one = queue.next()) {
            any = true;
            if (one->content.kind == Recorded::TOKENS)
                write_tokens(to, *one);
            else
                write_decision(to, *one);
            shared->taken += one->content.tokens;
            queue.pop(*one);
        }
        return any;
    }
    void write_tokens(McapWriter &to, const Recorded &one)
    {
        const Recorded::Content &content = one.content;
        const Topic &topic = topics[content.of];
        const auto log = static_cast<uint64_t>(wall + content.time);
        const auto publish = static_cast<uint64_t>(std::max<ns>(0, wall + content.release));
        const auto id = static_cast<uint16_t>(content.of + 1);
        std::string before = topic.before;
        if (topic.picture) {
            const uint32_t stamp[] = {static_cast<uint32_t>(publish / 1000000000),
                                      static_cast<uint32_t>(publish % 1000000000)};
            memcpy(&before[STAMP_AT], stamp, sizeof stamp);
        }
        for (uint32_t n = 0; n < content.tokens; n++) {
            std::string &chunk =
                to.add_message(id, static_cast<uint32_t>(content.number + n), log, publish,
                               before.size() + topic.bytes);
            chunk += before;
            queue.append(one, n * topic.bytes, topic.bytes, chunk);
            if (to.is_full())
                require(to.flush());
        }
        shared->moved = now();
    }
    void write_decision(McapWriter &to, const Recorded &one)
    {
        const Recorded::Content &content = one.content;
        std::string text;
        if (content.kind == Recorded::TEXT) {
            queue.append(one, 0, content.bytes, text);
        } else {
            const std::string task = json(Task::all[content.of - 1]->name),
                              firing = ", \"firing\": " + std::to_string(content.number);
            text = content.kind == Recorded::NONE
                       ? "{\"task\": " + task + firing + ", \"lists\": null}"
                       : "{\"reader\": " + task + firing + ", \"took\": " +
                             (content.found < 0 ? "null" : std::to_string(content.found)) + "}";
        }
        const std::string message = text_message(text);
        const auto time = static_cast<uint64_t>(wall + content.time);
        to.add_message(1, topics[0].count++, time, time, message.size()) += message;
        if (to.is_full())
            require(to.flush());
    }
};

void record_made(const Task &task, int64_t firing, size_t port, const void *tokens)
{
    recorder->made(task, firing, port, tokens);
}
void record_none(const Task &task, int64_t firing)
{
    recorder->none(task, firing);
}
void record_found(int64_t firing, int64_t number)
{
    if (own_line && own_line->task)
        recorder->found(*Task::all[own_line->task - 1], firing, number);
}

}  // namespace flow
