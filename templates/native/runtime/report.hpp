// What a run has measured: as data (the document of `flowc run --json`) and as a table.
#pragma once
#include <dirent.h>

#include <cmath>
#include <deque>
#include <map>

#include "link.hpp"
#include "options.hpp"
#include "own_image.hpp"
#include "run.hpp"
#include "states_report.hpp"
#include "where.hpp"

namespace flow
{

// The folder of the program, with its data and networks: its own, or the one that FLOWC_HOME names.
// That of a unit is the one that its simulator names.
inline std::string home()
{
    const char *const named = run.stepped ? nullptr : getenv("FLOWC_HOME");
    return named ? named : own_folder();
}

const char *keep(const std::string &text)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static std::deque<std::string> kept;
    const Locked here(lock);
    return kept.emplace_back(text).c_str();
}
const char *in_build(const char *name) { return keep(home() + "/" + name); }

inline std::string read_file(const std::string &path)
{
    std::string text;
    FILE *const file = fopen(path.c_str(), "r");
    if (!file)
        return text;
    char piece[4096];
    for (size_t size; (size = fread(piece, 1, sizeof piece, file)) && text.size() < (1 << 24);)
        text.append(piece, size);
    fclose(file);
    return text;
}

// What the build says of itself under a name; null where it is unknown.
inline std::string manifest_of(const char *name)
{
    const std::string manifest = read_file(home() + "/.flowc-manifest.json"),
                      key = "\"" + std::string(name) + "\": \"";
    const size_t at = manifest.find(key);
    if (at == std::string::npos)
        return "null";
    const size_t begin = at + key.size();
    return json(manifest.substr(begin, manifest.find('"', begin) - begin));
}

// The digest of the build.
inline std::string build_of() { return manifest_of("digest"); }

// Bytes of a line of /proc/self/NAME; -1 where it is unknown.
inline int64_t memory_of(const char *file, const char *field)
{
    const std::string text = read_file(std::string("/proc/self/") + file);
    const size_t at = text.find(std::string("\n") + field + ":");
    return at == std::string::npos ? -1 : 1024 * atoll(text.c_str() + at + strlen(field) + 2);
}

inline std::string number(double value, int digits = 3) { return format("%.*f", digits, value); }
inline std::string bytes_or_null(int64_t bytes)
{
    return bytes < 0 ? "null" : std::to_string(bytes);
}

// -- of latencies --------------------------------------------------------------------------------
// mean, p50, p99 and max in ms, with that many digits; empty without latencies.
inline std::vector<std::string> figures(const Latencies &of, int digits = 3)
{
    const std::vector<ns> sorted = of.sorted();
    if (sorted.empty())
        return {};
    const auto quantile = [&](double q) {
        return sorted[std::min(sorted.size() - 1,
                               static_cast<size_t>(q * static_cast<double>(sorted.size())))];
    };
    std::vector<std::string> found;
    const double mean = static_cast<double>(of.total) / static_cast<double>(of.count);
    for (const double time :
         {mean, double(quantile(.5)), double(quantile(.99)), double(of.longest)})
        found.push_back(number(time / 1e6, digits));
    return found;
}

inline std::string latency_json(const Latencies &of)
{
    static const char *const names[] = {"mean", "p50", "p99", "max"};
    const std::vector<std::string> found = figures(of, 6);
    std::string made = "{";
    for (int i = 0; i < 4; i++)
        made += std::string(i ? ", " : "") + "\"" + names[i] +
                "\": " + (found.empty() ? "null" : found[i]);
    return made + "}";
}

// How many latencies lie in each of some bins that grow by the same factor; bin k is from ns[k] on,
// and below ns[k + 1].
inline std::string histogram(const Latencies &of)
{
    constexpr int BINS = 64;
    const std::vector<ns> sorted = of.sorted();
    if (sorted.empty())
        return "{\"ns\": [], \"counts\": []}";
    const ns least = sorted.front(), most = sorted.back();
    std::vector<ns> edges{least};
    const double low = std::log(std::max<double>(1, double(least))),
                 high = std::log(double(most + 1));
    for (int i = 1; i < BINS; i++) {
        const ns edge = static_cast<ns>(std::exp(low + (high - low) * i / BINS));
        if (edge > edges.back() && edge <= most)
            edges.push_back(edge);
    }
    edges.push_back(most + 1);
    std::string bins, counts;
    for (size_t i = 0; i < edges.size(); i++) {
        bins += (i ? ", " : "") + std::to_string(edges[i]);
        if (i + 1 < edges.size()) {
            const auto from = std::lower_bound(sorted.begin(), sorted.end(), edges[i]);
            const auto to = std::lower_bound(sorted.begin(), sorted.end(), edges[i + 1]);
            counts += (i ? ", " : "") + std::to_string(to - from);
        }
    }
    return "{\"ns\": [" + bins + "], \"counts\": [" + counts + "]}";
}

// -- the document --------------------------------------------------------------------------------
inline double seconds_of(const App &app)
{
    return app.last_end ? double(app.last_end - std::max<ns>(0, app.first_start)) / 1e9 : 0;
}

// Frames per second between the first and the last end; empty where there are too few.
inline std::string rate_of(const App &app)
{
    const double frames = double(app.total());
    if (frames > 1 && app.last_end > app.first_end)
        return number((frames - 1) * 1e9 / double(app.last_end - app.first_end), 2);
    return seconds_of(app) > 0 ? number(frames / seconds_of(app), 2) : "";
}

// Empty without a deadline.
inline std::string deadline_ms(const Latencies &of)
{
    return of.deadline < 0 ? "" : number(double(of.deadline) / 1e6, 6);
}

inline std::string or_null(const std::string &text) { return text.empty() ? "null" : text; }

inline std::string failure_json()
{
    if (!run.failed)
        return "null";
    const Failure &f = run.failure;
    return "{\"app\": " + (f.task ? json(f.task->app.name) : "null") +
           ", \"task\": " + (f.task ? json(f.task->name) : "null") +
           ", \"firing\": " + (f.firing < 0 ? "null" : std::to_string(f.firing)) +
           ", \"reason\": " + json(f.reason) + "}";
}

inline std::string app_json(const App &app)
{
    std::string paths;
    for (const Path *path : app.paths)
        paths += std::string(paths.empty() ? "" : ", ") + "{\"kind\": " + json(path->kind) +
                 ", \"source\": " + json(path->source.name) +
                 ", \"task\": " + json(path->sink.name) +
                 ", \"firings\": " + counted(std::to_string(path->latencies.count)) +
                 ", \"deadline_ms\": " + or_null(deadline_ms(path->latencies)) +
                 ", \"deadline_misses\": " + counted(std::to_string(path->latencies.misses)) +
                 ", \"latency_ms\": " + latency_json(path->latencies) +
                 ", \"histogram\": " + histogram(path->latencies) + "}";
    return "{\"frames\": " + counted(std::to_string(app.total())) +
           ", \"skipped\": " + counted(std::to_string(app.skipped)) +
           ", \"seconds\": " + counted(number(seconds_of(app), 4)) +
           ", \"fps\": " + or_null(rate_of(app)) +
           ", \"deadline_ms\": " + or_null(deadline_ms(app.latencies)) +
           ", \"deadline_misses\": " + counted(std::to_string(app.latencies.misses)) +
           ", \"overruns\": " + counted(std::to_string(app.overruns.load())) +
           ", \"not_begun\": " + counted(std::to_string(app.not_begun)) +
           ", \"latency_ms\": " + latency_json(app.latencies) +
           ", \"histogram\": " + histogram(app.latencies) + ", \"paths\": [" + paths + "]}";
}

inline double mean_us(const Done &done) { return double(done.busy) / 1e3 / double(done.fired); }

// The time from one firing of a source to the next; -1 without a period.
inline ns step_of(const Task &task)
{
    const Exact &period = task.app.period;
    return task.app.paced() ? period.over / (period.under * task.firings) : -1;
}

inline std::string us_or_null(ns time)
{
    return time < 0 ? "null" : number(double(time) / 1e3);
}

inline std::string task_json(const Task &task, double seconds)
{
    std::string mean = "null", deviation = "null";
    const Done done = task.done();
    const std::string engine = task.code.engine();
    if (done.fired) {
        const double of_one = double(done.busy) / double(done.fired);
        const double variance = std::max(0.0, done.squares / double(done.fired) - of_one * of_one);
        mean = number(mean_us(done));
        deviation = number(std::sqrt(variance) / 1e3);
    }
    return "{\"processor\": " + json(task.processor) +
           ", \"firings\": " + counted(std::to_string(done.fired)) + ", \"mean_us\": " + mean +
           ", \"std_us\": " + deviation +
           ", \"max_us\": " + counted(number(double(done.longest) / 1e3)) +
           (task.wcet < 0 ? "" : ", \"wcet_us\": " + us_or_null(task.wcet)) +
           ", \"share\": " + counted(number(double(done.busy) / 1e9 / seconds, 6)) +
           ", \"failed\": " + counted(std::to_string(task.failed)) +
           ", \"skipped\": " + counted(std::to_string(done.skipped)) +
           (engine.empty() ? "" : ", \"engine\": " + json(engine)) +
           (task.live ? ", \"wait\": {\"max_us\": " + us_or_null(task.longest_wait) +
                            ", \"period_us\": " + us_or_null(step_of(task)) + "}"
                      : "") +
           "}";
}

inline double utilization(const char *processor)
{
    double busy = 0;
    for (const Worker *worker : run.workers)
        busy += strcmp(worker->processor, processor) ? 0 : double(worker->busy);
    return busy / 1e9 / std::max(run.seconds, 1e-9);
}

// The names of apps whose workers are below the others.
inline std::vector<const char *> below()
{
    std::vector<const char *> names;
    for (const Worker *worker : run.workers)
        if (worker->below &&
            std::find(names.begin(), names.end(), worker->turns[0].app->name) == names.end())
            names.push_back(worker->turns[0].app->name);
    return names;
}

// What an app with a share gets of a processor, and has used.
struct Share {
    const Worker &worker;
    ns spent = worker.used.all;

    const char *app() const { return worker.turns[0].app->name; }
    double part() const
    {
        const Scheduling &given = worker.scheduling;
        return double(given.budget) * double(given.period.under) / double(given.period.over);
    }
    double used() const { return double(spent) / 1e9 / std::max(run.seconds, 1e-9); }
};

// Those of each app together.
inline std::vector<std::vector<Share>> shares()
{
    std::vector<std::vector<Share>> found;
    for (const Worker *worker : run.workers) {
        if (worker->scheduling.kind != Scheduling::SHARE)
            continue;
        const Share share{*worker};
        const auto known = std::find_if(found.begin(), found.end(), [&](const auto &of_app) {
            return of_app[0].app() == share.app();
        });
        if (known == found.end()) {
            found.push_back({share});
            continue;
        }
        const auto same = std::find_if(known->begin(), known->end(), [&](const Share &one) {
            return !strcmp(one.worker.processor, worker->processor);
        });
        if (same == known->end())
            known->push_back(share);
        else
            same->spent += share.spent;  // in another state
    }
    return found;
}

inline int64_t total(const About &about)
{
    int64_t sum = 0;
    for (const Planned &part : about.planned)
        sum += part.bytes;
    return sum;
}

// What drops tokens: links that are not only looked at, and live sources.
struct Dropped {
    const char *name;
    const Mailbox *box;
};

inline std::vector<Dropped> droppers()
{
    std::vector<Dropped> found;
    for (const Link *link : Link::all)
        if (const auto *queue = dynamic_cast<const Queue *>(link))
            found.push_back({link->name, &queue->box});
    for (const Task *task : Task::all)
        if (const Mailbox *const box = task->code.mailbox())
            found.push_back({task->name, box});
    return found;
}

// How full channels were at most; of those that states have under one name, the largest numbers.
struct Filled {
    const char *name;
    int64_t capacity, most;
};

inline std::vector<Filled> filled(const About &about)
{
    std::vector<Filled> found;
    std::map<std::string, size_t> places;
    for (const Channel &channel : about.channels) {
        const auto [at, is_new] = places.emplace(channel.name, found.size());
        if (is_new)
            found.push_back({channel.name, 0, 0});
        Filled &one = found[at->second];
        one.capacity = std::max(one.capacity, channel.capacity);
        one.most = std::max(one.most, channel.most());
    }
    return found;
}

// Members of an object, one to a line.
class Members
{
    std::string text;

public:
    void add(const std::string &name, const std::string &value)
    {
        text += (text.empty() ? "\n  " : ",\n  ") + json(name) + ": " + value;
    }
    bool empty() const { return text.empty(); }
    std::string object() const { return "{" + text + "}"; }
};

inline std::string report(const About &about, int status)
{
    const double seconds = std::max(run.seconds, 1e-9);
    Members apps, processors, tasks, channels, memory, dropped, whole;
    for (const App *app : App::all)
        apps.add(app->name, app_json(*app));
    for (const char *lane : about.processors)
        processors.add(lane, "{\"utilization\": " + counted(number(utilization(lane), 6)) + "}");
    for (const Task *task : Task::all)
        tasks.add(task->name, task_json(*task, seconds));
    for (const auto &[name, capacity, most] : filled(about))
        channels.add(name, "{\"capacity\": " + std::to_string(capacity) +
                               ", \"most\": " + counted(std::to_string(most)) + "}");
    for (const Dropped &place : droppers())
        dropped.add(place.name, "{\"written\": " + counted(std::to_string(place.box->written)) +
                                    ", \"dropped\": " +
                                    counted(std::to_string(place.box->dropped)) + "}");
    Members planned;
    for (const auto &[name, size] : about.planned)
        planned.add(name, std::to_string(size));
    planned.add("total", std::to_string(total(about)));
    const int64_t resident = memory_of("status", "VmRSS");
    memory.add("planned", about.planned.empty() ? "null" : planned.object());
    memory.add("process", counted(bytes_or_null(std::max(memory_of("status", "VmHWM"), resident))));
    memory.add("resident", counted(bytes_or_null(resident)));
    memory.add("proportional", counted(bytes_or_null(memory_of("smaps_rollup", "Pss"))));
    memory.add("before_networks", "null");
    memory.add("arenas", "null");
    memory.add("bands", "{}");
    whole.add("version", "1");
    whole.add("status", std::to_string(status));
    whole.add("failure", failure_json());
    whole.add("build", build_of());
    whole.add("where", where_json(read_file("/proc/cpuinfo"), manifest_of("flowc"), run.started));
    whole.add("apps", apps.object());
    whole.add("processors", processors.object());
    whole.add("tasks", tasks.object());
    whole.add("channels", channels.object());
    whole.add("memory", memory.object());
    whole.add("dropped", dropped.object());
    Members after_end;
    for (const Link *link : Link::all)
        if (link->after_end)
            after_end.add(link->name, counted(std::to_string(link->after_end)));
    if (!after_end.empty())
        whole.add("after_end", after_end.object());
    std::string names;
    for (const char *name : below())
        names += (names.empty() ? "" : ", ") + json(name);
    if (!names.empty())
        whole.add("background", "[" + names + "]");
    Members of_apps;
    for (const std::vector<Share> &of_app : shares()) {
        Members places;
        for (const Share &share : of_app)
            places.add(share.worker.processor,
                       "{\"part\": " + number(share.part(), 4) +
                           ", \"used\": " + number(share.used(), 4) +
                           ", \"above\": " + (share.worker.used.above ? "true" : "false") + "}");
        of_apps.add(of_app[0].app(), places.object());
    }
    if (!shares().empty())
        whole.add("shares", of_apps.object());
    if (run.control)
        for (const auto &[name, value] : of_states(*run.control))
            whole.add(name, value);
    return whole.object() + "\n";
}

// -- the table -----------------------------------------------------------------------------------
inline std::string ends_of(const Path &path)
{
    const std::string sink = path.sink.name;
    const std::string kind = strcmp(path.kind, "path") ? std::string(path.kind) + " " : "";
    return kind + path.source.name + " -> " + sink.substr(sink.find('.') + 1);
}

inline void add_figures(std::vector<std::string> &row, const Latencies &of)
{
    std::vector<std::string> found = figures(of);
    found.resize(4, found.empty() ? "-" : "");
    row.insert(row.end(), found.begin(), found.end());
}

inline std::string missed_of(const Latencies &of)
{
    return of.deadline < 0 ? "-" : std::to_string(of.misses);
}

inline std::string mb(int64_t bytes) { return bytes < 0 ? "-" : number(double(bytes) / 1e6, 2); }

// Each app and each path that has missed deadlines, with how many of all.
inline std::string missed_deadlines()
{
    std::string found;
    const auto add = [&](const std::string &name, const Latencies &of, int64_t others = 0) {
        if (of.misses)
            found += (found.empty() ? "" : ", ") + name + " " + std::to_string(of.misses) + " of " +
                     std::to_string(of.count + others);
    };
    for (const App *app : App::all) {
        add(app->name, app->latencies, app->not_begun);
        for (const Path *path : app->paths)
            add(ends_of(*path), path->latencies);
    }
    return found;
}

// Each app with frames that were left out after errors, with how many of all.
inline std::string left_out()
{
    std::string found;
    for (const App *app : App::all)
        if (app->skipped)
            found += (found.empty() ? "" : ", ") + std::to_string(app->skipped) + " of " +
                     std::to_string(app->total()) + " frames of " + app->name;
    return found;
}

// Each task with a firing that took longer than the `wcet` that the text declares.
inline std::string above_wcet()
{
    std::string found;
    for (const Task *task : Task::all)
        if (const ns longest = task->done().longest; task->wcet >= 0 && longest > task->wcet)
            found += (found.empty() ? "" : ", ") + std::string(task->name) + " " +
                     plain(double(longest) / 1e6) + " ms instead of " +
                     plain(double(task->wcet) / 1e6) + " ms";
    return found;
}

// Each live source that has waited for data for more than two of its periods, with how long.
inline std::string pauses()
{
    std::string found;
    for (const Task *task : Task::all) {
        const ns step = step_of(*task), longest = task->longest_wait;
        if (step >= 0 && longest > 2 * step)
            found += std::string(task->name) + " had no data for " +
                     decimals(double(longest) / 1e6, 1) + " ms (its period: " +
                     decimals(double(step) / 1e6, 1) + " ms)\n\n";
    }
    return found;
}

inline std::string table(const About &about)
{
    Rows apps{
        {"app", "frames", "fps", "latency ms: mean", "p50", "p99", "max", "missed", "overruns"}};
    Rows paths{{"path", "firings", "latency ms: mean", "p50", "p99", "max", "missed"}};
    for (const App *app : App::all) {
        std::vector<std::string> row{app->name, std::to_string(app->total()), rate_of(*app)};
        row[2] = row[2].empty() ? "-" : row[2];
        add_figures(row, app->latencies);
        row.push_back(missed_of(app->latencies));
        row.push_back(std::to_string(app->overruns.load()));
        apps.push_back(row);
        for (const Path *path : app->paths) {
            row = {ends_of(*path), std::to_string(path->latencies.count)};
            add_figures(row, path->latencies);
            row.push_back(missed_of(path->latencies));
            paths.push_back(row);
        }
    }
    Rows tasks{{"task", "processor", "firings", "mean us", "max us", "share"}};
    Rows lost{{"task", "failed", "left out"}};
    Rows engines{{"network", "engine"}};
    for (const Task *task : Task::all) {
        const Done done = task->done();
        const double share = double(done.busy) / 1e9 / std::max(run.seconds, 1e-9);
        tasks.push_back({task->name, task->processor, std::to_string(done.fired),
                         done.fired ? number(mean_us(done)) : "-",
                         number(double(done.longest) / 1e3), decimals(100 * share, 1) + " %"});
        if (task->failed || done.skipped)
            lost.push_back(
                {task->name, std::to_string(task->failed), std::to_string(done.skipped)});
        if (const std::string engine = task->code.engine(); !engine.empty())
            engines.push_back({task->name, engine});
    }
    Rows processors{{"processor", "busy"}};
    for (const char *lane : about.processors)
        processors.push_back({lane, decimals(100 * utilization(lane), 1) + " %"});
    Rows dropped{{"source: firings, link: tokens", "written", "dropped"}};
    for (const Dropped &place : droppers())
        dropped.push_back({place.name, std::to_string(place.box->written),
                           std::to_string(place.box->dropped)});
    std::string text = columns(apps) + "\n";
    for (const Rows &rows : {paths, lost, dropped, engines})
        if (rows.size() > 1)
            text += columns(rows) + "\n";
    if (!about.planned.empty()) {
        Rows memory{{"memory MB"}, {""}};
        for (const auto &[name, size] : about.planned) {
            memory[0].push_back(name);
            memory[1].push_back(mb(size));
        }
        memory[0].insert(memory[0].end(), {"planned", "process"});
        memory[1].insert(memory[1].end(), {mb(total(about)), mb(memory_of("status", "VmHWM"))});
        text += columns(memory) + "\n";
    }
    if (run.control)
        text += table_of_states(*run.control);
    std::string names;
    for (const char *name : below())
        names += (names.empty() ? "" : ", ") + std::string(name);
    if (!names.empty())
        text += "in the background, with what the others leave (nice 19): " + names + "\n\n";
    for (const std::vector<Share> &of_app : shares())
        for (const Share &share : of_app)
            text += std::string(share.app()) + " has a share of " + share.worker.processor +
                    format(": %.1f %%, and used %.1f %%", 100 * share.part(), 100 * share.used()) +
                    (share.worker.used.above ? "" : "; no priority puts it above the others") +
                    "\n\n";
    for (const Link *link : Link::all)
        if (link->after_end)
            text += std::string(link->name) +
                    " went on with the last token of a stream that had ended: " +
                    std::to_string(link->after_end) + " firings\n\n";
    if (!missed_deadlines().empty())
        text += pauses();
    return text + columns(tasks) + "\n" + columns(processors);
}

// -- the trace -----------------------------------------------------------------------------------
constexpr int LANES = 1, FRAMES = 3;  // processes of it: what runs, and the first app

// Of channels: an arrow from the firing that made the last token that a firing takes to that one,
// and how full they are when firings end.
class TracedChannels
{
    struct Made {
        size_t lane;
        ns begin, end;
    };
    std::map<std::pair<const Task *, int64_t>, Made> made;
    std::map<const Task *, std::vector<Tracer::Event>> firings;  // in the order of their ends
    std::map<const Task *, std::vector<size_t>> lanes;
    int64_t arrows = 0;

    static double us(ns time) { return double(time - run.begin) / 1e3; }

public:
    TracedChannels()
    {
        for (size_t lane = 1; lane <= run.workers.size(); lane++) {
            const Tracer &tracer = run.workers[lane - 1]->tracer;
            for (size_t i = 0; i < tracer.kept(); i++) {
                const Tracer::Event &e = tracer.at(i);
                if (e.kind != Tracer::FIRING)
                    continue;
                const Task *const task = static_cast<const Task *>(e.what);
                firings[task].push_back(e);
                lanes[task].push_back(lane);
                for (int64_t k = 0; k < e.group; k++)
                    made[{task, e.number + k}] = {lane, e.begin, e.end};
            }
        }
    }
    template <typename Add> void arrows_of(const Channel &channel, Add add)
    {
        const Task *const reader = &channel.reader.task;
        for (size_t i = 0; i < firings[reader].size(); i++) {
            const Tracer::Event &e = firings[reader][i];
            const int64_t before = channel.reader.tokens(e.number),
                          after = channel.reader.tokens(e.number + e.group),
                          last = after - 1 - channel.delay;
            if (after == before || last < 0)
                continue;
            const auto origin = made.find({&channel.writer.task, channel.writer.firing_of(last)});
            if (origin == made.end())
                continue;
            const Made &from = origin->second;
            const std::string one = "\"cat\": \"tokens\", \"name\": " + json(channel.name) +
                                    format(", \"pid\": %d, \"id\": %lld", LANES,
                                           static_cast<long long>(++arrows));
            const ns at = std::max(from.begin, from.end - 1);  // inside of its slice
            add("\"ph\": \"s\", " + one +
                format(", \"tid\": %zu, \"ts\": %.3f", from.lane, us(at)));
            add("\"ph\": \"f\", \"bp\": \"e\", " + one +
                format(", \"tid\": %zu, \"ts\": %.3f", lanes[reader][i], us(e.begin)));
        }
    }
    template <typename Add> void fill_of(const Channel &channel, Add add)
    {
        struct Step {
            ns time;
            bool writes;
            int64_t firings;  // of that task so far
        };
        std::vector<Step> steps;
        int64_t counts[2] = {-1, -1};
        for (const bool writes : {false, true})
            for (const Tracer::Event &e :
                 firings[writes ? &channel.writer.task : &channel.reader.task]) {
                steps.push_back({e.end, writes, e.number + e.group});
                if (counts[writes] < 0)
                    counts[writes] = e.number;
            }
        if (counts[0] < 0 || counts[1] < 0)
            return;
        std::stable_sort(steps.begin(), steps.end(),
                         [](const Step &a, const Step &b) { return a.time < b.time; });
        for (const Step &step : steps) {
            counts[step.writes] = step.firings;
            const int64_t tokens = channel.delay + channel.writer.tokens(counts[1]) -
                                   channel.reader.tokens(counts[0]);
            add("\"ph\": \"C\", \"name\": " + json(channel.name) +
                format(", \"pid\": %d, \"ts\": %.3f, \"args\": {\"tokens\": %lld}", LANES,
                       us(step.time), static_cast<long long>(tokens)));
        }
    }
};

// Everything as JSON for Perfetto and Chrome: a lane for each worker, and a process for each app.
inline std::string trace(const About &about)
{
    std::string events;
    const auto add = [&](const std::string &event) {
        events += (events.empty() ? "\n{" : ",\n{") + event + "}";
    };
    const auto named = [&](const char *what, int process, size_t lane, const std::string &name) {
        add(format(
                "\"ph\": \"M\", \"name\": \"%s\", \"pid\": %d, \"tid\": %zu, \"args\": {\"name\": ",
                what, process, lane) +
            json(name) + "}");
    };
    const auto at = [](const char *name, ns time) {
        return format(", \"%s\": %.3f", name, double(time - run.begin) / 1e3);
    };
    const auto app_process = [](const App &app) {
        return static_cast<int>(
            FRAMES + (std::find(App::all.begin(), App::all.end(), &app) - App::all.begin()));
    };
    named("process_name", LANES, 0, about.name);
    for (const App *app : App::all)
        named("process_name", app_process(*app), 0, std::string(app->name) + ": frames");
    size_t lost = 0;
    for (size_t lane = 1; lane <= run.workers.size(); lane++) {
        const Worker &worker = *run.workers[lane - 1];
        named("thread_name", LANES, lane, worker.processor);
        lost += worker.tracer.lost();
        for (size_t i = 0; i < worker.tracer.kept(); i++) {
            const Tracer::Event &e = worker.tracer.at(i);
            const std::string where = format("\"pid\": %d, \"tid\": %zu", LANES, lane);
            const std::string firing =
                format(", \"firing\": %lld", static_cast<long long>(e.number));
            if (e.kind == Tracer::FIRING) {
                const Task &task = *static_cast<const Task *>(e.what);
                add("\"ph\": \"X\", \"name\": " + json(task.name) + ", " + where +
                    at("ts", e.begin) +
                    format(", \"dur\": %.3f, \"args\": {\"frame\": %lld",
                           double(e.end - e.begin) / 1e3,
                           static_cast<long long>(e.number / task.firings)) +
                    firing + format(", \"firings\": %lld}", static_cast<long long>(e.group)));
            } else if (e.kind == Tracer::RELEASE) {
                const Task &task = *static_cast<const Task *>(e.what);
                add("\"ph\": \"i\", \"s\": \"t\", \"name\": \"release\", " + where +
                    at("ts", e.begin) + ", \"args\": {\"task\": " + json(task.name) + firing + "}");
            } else if (e.kind == Tracer::FRAME) {
                const App &app = *static_cast<const App *>(e.what);
                const std::string one =
                    format("\"cat\": \"frame\", \"name\": \"frame\", \"pid\": %d, \"tid\": 0, "
                           "\"id\": ",
                           app_process(app)) +
                    json(format("%s %lld", app.name, static_cast<long long>(e.number)));
                const std::string which =
                    "\"app\": " + json(app.name) +
                    format(", \"frame\": %lld", static_cast<long long>(e.number));
                add("\"ph\": \"b\", " + one + at("ts", e.begin) + ", \"args\": {" + which + "}");
                add("\"ph\": \"e\", " + one + at("ts", e.end));
                if (app.latencies.deadline >= 0 && e.end - e.begin > app.latencies.deadline)
                    add(format("\"ph\": \"i\", \"s\": \"p\", \"name\": \"deadline missed\", "
                               "\"pid\": %d, \"tid\": 0",
                               app_process(app)) +
                        at("ts", e.end) + ", \"args\": {" + which +
                        format(", \"late_us\": %.3f}",
                               double(e.end - e.begin - app.latencies.deadline) / 1e3));
            } else {
                const Path &path = *static_cast<const Path *>(e.what);
                add(format("\"ph\": \"i\", \"s\": \"p\", \"name\": \"deadline missed\", \"pid\": "
                           "%d, \"tid\": 0",
                           app_process(path.sink.app)) +
                    at("ts", e.end) + ", \"args\": {\"app\": " + json(path.sink.app.name) +
                    ", \"kind\": " + json(path.kind) +
                    ", \"source\": " + json(path.source.name) +
                    ", \"task\": " + json(path.sink.name) + firing +
                    format(", \"frame\": %lld, \"latency_us\": %.3f}",
                           static_cast<long long>(e.number / path.sink.firings),
                           double(e.end - e.begin) / 1e3));
            }
        }
    }
    TracedChannels traced_channels;
    for (const Channel &channel : about.channels) {
        if (run.control)
            break;  // firings are counted anew after each change
        traced_channels.arrows_of(channel, add);
        traced_channels.fill_of(channel, add);
    }
    if (lost)
        Run::complain(
            format("the trace lacks the first %zu events: --trace-frames keeps some of the frames",
                   lost));
    const std::string end = traced.end == FOREVER ? "null" : std::to_string(traced.end);
    return "{\"traceEvents\": [" + events +
           "],\n\"displayTimeUnit\": \"ms\",\n\"otherData\": {\"version\": 1, \"build\": " + build_of() +
           ", \"first_frame\": " + std::to_string(traced.first) + ", \"end_frame\": " + end +
           "}}\n";
}

}  // namespace flow
