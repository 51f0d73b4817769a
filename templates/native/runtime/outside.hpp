// What a program with states is told from outside: events over a socket, events of a script, a
// report whose stays are repeated.
#pragma once
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <fstream>
#include <sstream>

#include "control.hpp"
#include "json_value.hpp"
#include "options.hpp"

namespace flow
{

constexpr size_t LONGEST_EVENT = 256;  // bytes of a datagram that are looked at
constexpr int LOOK_OUTSIDE = 50;       // ms between two looks whether the program is over
constexpr int REPORT_VERSION = 1;

// The text of a file; why it cannot be read, or empty.
inline std::string text_of(const std::string &path, std::string &text)
{
    std::ifstream file(path, std::ios::binary);
    std::ostringstream content;
    if (!file || !(content << file.rdbuf() || file.eof()))
        return "cannot read " + path + ": " + strerror(errno ? errno : EIO);
    text = content.str();
    return "";
}

// Does a file begin as recordings do?
inline bool is_recording(const std::string &path)
{
    char begin[5] = {};
    std::ifstream(path, std::ios::binary).read(begin, sizeof begin);
    return !memcmp(begin, "\x89MCAP", sizeof begin);
}

// Why options are for other programs; empty where all of them are for one without states.
inline std::string needs_states(const Options &options)
{
    if (!options.replay.empty())
        return "--replay: " + options.replay +
               " is no report of this program, which has no states, and native programs replay no "
               "recordings";
    const char *const name = !options.start.empty()     ? "start"
                             : !options.events.empty()  ? "events"
                             : !options.control.empty() ? "control"
                             : options.clocks != "model" ? "clocks"
                                                         : nullptr;
    return name ? std::string("--") + name + " is for programs with states, and this one has none"
                : "";
}

class Outside
{
    // A line of a script: after so many seconds, or so many frames of an app, an event.
    struct Line {
        double when;
        std::string app, event;
    };
    Control &control;
    std::vector<Line> script;
    std::string path, refused;
    int listener = -1;
    bool bound = false;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread{};
    bool started = false;
    std::atomic<bool> over{false};

public:
    explicit Outside(Control &control) : control(control) {}

    // What the options ask for; why it cannot be, or empty. Nothing has begun yet.
    std::string prepare(const Options &options)
    {
        if (!options.start.empty()) {
            State *const state = control.named(options.start);
            if (!state)
                return "there is no state `" + options.start + "`" + near(options.start, states());
            control.initial = state;
        }
        std::string why;
        if (!options.replay.empty()) {
            if (!options.start.empty() || !options.events.empty() || !options.control.empty())
                return "--replay does again what was done: it goes with none of --start, --events "
                       "and --control";
            why = read_stays(options.replay);
        }
        if (why.empty() && options.clocks != "model") {
            try {
                control.give_rates(options.clocks == "set");
            } catch (const RatesRefused &reason) {
                refused = std::string("clock rates are left alone: ") + reason.what();
            }
        }
        if (why.empty() && !options.events.empty())
            why = read_script(options.events);
        path = options.control;
        return why;
    }
    // The socket is there from here on.
    std::string listen()
    {
        if (path.empty())
            return "";
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        listener = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        errno = path.size() < sizeof address.sun_path ? errno : ENAMETOOLONG;
        if (listener < 0 || path.size() >= sizeof address.sun_path)
            return "cannot listen at " + path + ": " + strerror(errno);
        memcpy(address.sun_path, path.c_str(), path.size() + 1);
        const mode_t before = umask(0177);
        if (dead(address))
            unlink(path.c_str());
        bound = bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0;
        const int error = errno;
        umask(before);
        return bound ? "" : "cannot listen at " + path + ": " + strerror(error);
    }
    // Raise events, now that the program has begun.
    void start()
    {
        if (!refused.empty())
            run.say(refused);
        if (script.empty() && listener < 0)
            return;
        control.raise_due = [this] { return raise_due(); };
        started = pthread_create(&thread, nullptr, thread_of, this) == 0;
    }
    void close()
    {
        over = true;
        if (started)
            pthread_join(thread, nullptr);
        started = false;
        if (listener >= 0)
            ::close(listener);
        listener = -1;
        put_back();
    }
    // The socket is gone, and the clocks are as they were; also where the program could not do so
    // itself.
    void put_back() const
    {
        if (bound)
            unlink(path.c_str());
        if (control.rates)
            control.rates->restore();
    }

private:
    std::vector<std::string> states() const
    {
        std::vector<std::string> found;
        for (const State *state : control.scenario.states)
            found.emplace_back(state->name);
        return found;
    }
    std::vector<std::string> apps() const
    {
        std::set<std::string> found;
        for (const App *app : App::all)
            found.insert(app->name);
        return {found.begin(), found.end()};
    }
    // Is it a socket without a listener, of a program that was killed?
    static bool dead(const sockaddr_un &address)
    {
        struct stat known;
        if (lstat(address.sun_path, &known) || !S_ISSOCK(known.st_mode))
            return false;
        const int probe = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        const bool refused =
            connect(probe, reinterpret_cast<const sockaddr *>(&address), sizeof address) &&
            errno == ECONNREFUSED;
        ::close(probe);
        return refused;
    }

    std::string read_script(const std::string &file)
    {
        std::string text;
        const std::string why = text_of(file, text);
        if (!why.empty())
            return why;
        std::istringstream lines(text);
        int number = 0;
        for (std::string line; std::getline(lines, line);) {
            const std::string place = file + ", line " + std::to_string(++number) + ": ";
            const std::string wrong = read_line(line.substr(0, line.find('#')));
            if (!wrong.empty())
                return place + wrong;
        }
        return "";
    }
    std::string read_line(const std::string &line)
    {
        std::istringstream content(line);
        std::vector<std::string> words;
        for (std::string word; content >> word;)
            words.push_back(word);
        if (words.empty())
            return "";
        if (words.size() < 3)
            return "write `2.5 s EVENT`, or `120 APP EVENT` for its 120th frame";
        char *end = nullptr;
        const double when = strtod(words[0].c_str(), &end);
        if (*end)
            return "`" + words[0] + "` is no number";
        const std::vector<std::string> known = apps(), events = control.events();
        if (words[1] != "s" && std::find(known.begin(), known.end(), words[1]) == known.end())
            return "there is no app `" + words[1] + "`" + near(words[1], known);
        if (std::find(events.begin(), events.end(), words[2]) == events.end())
            return "there is no event `" + words[2] + "`" + near(words[2], events);
        std::string event = words[2], word;
        for (size_t i = 3; i < words.size(); i++)
            event += " " + words[i];
        double rate = -1;
        const std::string why = control.parsed(event, word, rate);
        if (why.empty())
            script.push_back({when, words[1] == "s" ? "" : words[1], event});
        return why;
    }

    std::string read_stays(const std::string &file)
    {
        std::string text;
        const std::string why = text_of(file, text);
        if (!why.empty())
            return why;
        try {
            const JsonValue document = JsonValue::parsed(text);
            const JsonValue *const version = document.find("version");
            if (version && version->number() != REPORT_VERSION)
                throw std::runtime_error("its version is " + std::to_string(version->number()));
            for (const JsonValue &each : document["stays"].array())
                if (!read_stay(each))
                    return file + " is the report of another program: its state `" +
                           each["state"].string() + "` is not this one's";
        } catch (const std::runtime_error &error) {
            return file + " is no report of a program with states: " + error.what();
        }
        control.repeats = true;
        return "";
    }
    // False where this program has no such state with these apps.
    bool read_stay(const JsonValue &given)
    {
        const State *const state = control.named(given["state"].string());
        Stay stay{state, {}};
        for (const auto &[app, count] : given["frames"].members())
            stay.frames.emplace_back(app, count->number());
        if (!state || stay.frames.size() != state->apps.size())
            return false;
        for (const App *app : state->apps)
            if (std::none_of(stay.frames.begin(), stay.frames.end(),
                             [&](const auto &one) { return one.first == app->name; }))
                return false;
        control.script.push_back(stay);
        return true;
    }

    // Raise the events of the script whose time has come; false if there were none.
    bool raise_due()
    {
        std::vector<Line> due, waiting;
        {
            const Locked here(lock);
            const double seconds = double(now() - run.begin) / 1e9;
            for (const Line &line : script) {
                const double passed =
                    line.app.empty() ? seconds : double(control.had(line.app));
                (passed >= line.when ? due : waiting).push_back(line);
            }
            script = waiting;
        }
        for (const Line &line : due)
            control.raise(line.event);
        return !due.empty();
    }
    static void *thread_of(void *given)
    {
        Outside &outside = *static_cast<Outside *>(given);
        while (!outside.over) {
            if (!run.gone) {  // nothing has begun yet
                usleep(1000);
                continue;
            }
            bool follows;
            {
                const Locked here(outside.lock);
                follows = !outside.script.empty();
            }
            pollfd heard{outside.listener, POLLIN, 0};
            if (poll(&heard, outside.listener < 0 ? 0 : 1, follows ? 1 : LOOK_OUTSIDE) > 0)
                outside.hear();
            if (follows)
                outside.raise_due();
        }
        return nullptr;
    }
    void hear()
    {
        char bytes[LONGEST_EVENT];
        const ssize_t size = recv(listener, bytes, sizeof bytes, MSG_DONTWAIT);
        if (size < 0)
            return;
        std::string event(bytes, size);
        const char *const space = " \t\r\n\f\v";
        event.erase(0, std::min(event.find_first_not_of(space), event.size()));
        event.erase(event.find_last_not_of(space) + 1);
        std::string why = control.raise(event);
        if (why.empty())
            return;
        const std::string shown = printable(event), word = event.substr(0, event.find(' '));
        const std::vector<std::string> known = control.events();
        if (std::find(known.begin(), known.end(), word) == known.end())
            why = "there is no event `" + shown + "`" + near(event, known);
        run.say(why);
        control.ignore(shown);
    }
    // A datagram may hold anything.
    static std::string printable(const std::string &text)
    {
        std::string shown;
        for (const unsigned char c : text)
            shown += c == '\\'               ? "\\\\"
                     : c < 0x20 || c > 0x7e ? format("\\x%02x", c)
                                            : std::string(1, static_cast<char>(c));
        return shown;
    }
};

}  // namespace flow
