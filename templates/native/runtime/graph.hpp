// What runs, and what is measured of it: apps, tasks, and the paths between them.
//
// Nothing is allocated here once the program has begun.
#pragma once
#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cells.hpp"
#include "memory.hpp"

namespace flow
{

constexpr int64_t FOREVER = INT64_C(1) << 62;
// Iterations that a source may be ahead of a task whose data are still known by their release.
constexpr int64_t LONGEST_AGO = 256;
// Frames of an app that may be under way at once.
constexpr int64_t UNDER_WAY = 4096;
// Latencies that percentiles come from: the last ones.
constexpr int64_t KEPT = 100000;

class Locked
{
    pthread_mutex_t &lock;

public:
    explicit Locked(pthread_mutex_t &lock) : lock(lock) { pthread_mutex_lock(&lock); }
    ~Locked() { pthread_mutex_unlock(&lock); }
};

// A thread below the others that holds it does not keep them waiting.
inline void lock_with_inheritance(pthread_mutex_t &lock)
{
    pthread_mutexattr_t inherits;
    pthread_mutexattr_init(&inherits);
    pthread_mutexattr_setprotocol(&inherits, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&lock, &inherits);
}

class Mailbox;
class Pick;
struct App;
struct Task;

// The name and the number of a firing over all states that the program is in, one after the other.
struct Known {
    const char *name;
    int64_t firing;
};
// Firings by the names of tasks.
using Counts = std::map<std::string, int64_t>;
inline int64_t count_of(const Counts &counts, const char *name)
{
    const auto found = counts.find(name);
    return found == counts.end() ? 0 : found->second;
}

// The code of a task, from its start to its end. Where there are states, all of them share it.
struct Code {
    // It is closed after an error, and could not be opened again yet: tries that have failed in a
    // row, and when the next one is.
    std::atomic<bool> shut{false};
    int64_t tries = 0;
    ns due = 0;

    virtual ~Code() = default;
    // The app begins anew with a state, which fires it from now on.
    virtual void enter(const App &) {}
    // Its task goes on behind what was `fired` before, and has had so many iterations since then.
    virtual void go_on(Task &task, const Counts &fired);
    virtual void leave(const Task &task, int64_t iterations, Counts &fired);
    virtual Known known_as(const Task &task, int64_t firing);
    // What its task has done, under the names that it had.
    virtual std::vector<Task *> apart(Task &task) { return {&task}; }
    // Why it cannot start; empty where it has.
    virtual std::string open() { return ""; }
    virtual void close() {}
    // The program has ended, and its process goes on: give back what `close` keeps.
    virtual void release() {}
    // What a firing that returned this status means.
    virtual std::string failed(int status) { return "returned " + std::to_string(status); }
    // Of a live source, after a firing: when its data came; -1: just now.
    virtual ns arrived() const { return -1; }
    // After `open`: the inference engine, its version and precision, where a pin named it.
    virtual std::string engine() const { return ""; }
    // Where it drops tokens.
    virtual const Mailbox *mailbox() const { return nullptr; }
};

struct Latencies {
    int64_t count = 0, misses = 0;
    ns total = 0, longest = 0;
    ns deadline = -1;  // -1: none
    const Zeros<ns> latest{KEPT};

    void add(ns latency)
    {
        latest[count++ % KEPT] = latency;
        total += latency;
        longest = std::max(longest, latency);
        misses += deadline >= 0 && latency > deadline;
    }
    std::vector<ns> sorted() const
    {
        std::vector<ns> found(latest.get(), latest.get() + std::min(count, KEPT));
        std::sort(found.begin(), found.end());
        return found;
    }
    // Those of another state count as well.
    void add(const Latencies &other)
    {
        const int64_t kept = std::min(other.count, KEPT);
        for (int64_t i = other.count - kept; i < other.count; i++)
            latest[count++ % KEPT] = other.latest[i % KEPT];
        count += other.count - kept;
        total += other.total;
        longest = std::max(longest, other.longest);
        if (other.deadline >= 0 && (deadline < 0 || other.deadline < deadline))
            deadline = other.deadline;
        misses += other.misses;
    }
};

// A whole number of ns or a fraction of it.
struct Exact {
    int64_t over, under;

    ns times(int64_t count, int64_t parts) const
    {
        return static_cast<ns>(static_cast<__int128>(count) * over /
                               (static_cast<__int128>(under) * parts));
    }
    // How often it fits into a time.
    int64_t fits(ns time) const
    {
        return static_cast<int64_t>(static_cast<__int128>(time) * under / over);
    }
};

struct Path;

// Who looks again when something has changed that it waits for.
struct Looks {
    virtual void look() = 0;
};

struct App {
    const char *const name;
    const Exact period;  // under 0: as fast as data allows
    std::vector<Task *> tasks;
    std::vector<Path *> paths;
    const int enders;  // tasks that end a frame
    std::vector<Looks *> gates;  // they wait for the ends of frames

    // Workers begin no firing of an iteration from this one on.
    std::atomic<int64_t> until{FOREVER};
    std::atomic<int64_t> frames{0};  // that have ended, also those behind the end of the stream
    std::atomic<int64_t> overruns{0};
    int64_t skipped = 0;  // frames that ended without a part that has failed
    // Frames that were released and have not begun when everything was to end.
    int64_t not_begun = 0;
    std::atomic<int64_t> limit{FOREVER};
    std::atomic<bool> exhausted{false};  // its stream has ended by itself
    int64_t begun = -1;
    Latencies latencies;
    ns first_start = -1, first_end = 0, last_end = 0;
    // In a program with states, which have app objects of their own: does it run now; since when, if
    // it has begun anew; and the frames before, those of this object, and those of all (`before`).
    std::atomic<bool> running{true};
    ns since = 0;
    int64_t before = 0;
    std::atomic<int64_t> earlier{0};
    // Where states follow each other without a pause: which of them counts for a frame (null: they
    // need not be told apart); the first frame of the newest one, and was that change made at once?
    Pick *pick = nullptr;
    int64_t mark = 0;
    bool at_once = false;
    // The states since it has begun anew: their first frames, and when these ended (0: not yet).
    struct First {
        int64_t frame;
        ns ended;
    };
    std::vector<First> awaited;
    static inline std::vector<App *> all;

    App(const char *name, Exact period, ns deadline, int enders)
        : name(name), period(period), enders(enders)
    {
        latencies.deadline = deadline;
        lock_with_inheritance(lock);
        all.push_back(this);
    }
    bool paced() const { return period.under != 0; }
    bool has(int64_t k) const { return k >= 0 && k < until.load(relaxed); }
    bool goes_on(int64_t k) const { return k < until.load(relaxed); }
    int64_t done() const { return std::min(frames.load(), limit.load()); }
    // In all states.
    int64_t total() const { return earlier + done(); }

    // Begin anew: so many iterations more.
    void enter(int64_t iterations, ns time)
    {
        const Locked here(lock);
        earlier += done();
        frames = 0;
        begun = -1;
        since = time;
        mark = 0;
        at_once = false;
        awaited.assign(1, {0, 0});
        first_awaited = 0;
        std::fill(under_way.begin(), under_way.end(), Frame{-1, 0, 0, true});
        limit = iterations;
        until = iterations;
    }
    // What an app of that name has done in other states counts as done by this one.
    void add(const App &other);
    // Which state counts for a frame is asked from now on.
    Pick &choosing();
    // Has it begun a frame in its state, or will it have none?
    bool has_begun();
    // Another state goes on with the frames that have not begun, at once: that have not ended; the
    // first of them.
    int64_t follow(int state, bool at_once);
    // Does a state that it is in wait for the end of its first frame?
    bool awaits()
    {
        const Locked here(lock);
        return first_awaited < awaited.size() && limit > mark;
    }
    // Something fires in that frame before a source does; false where the app ends before it.
    bool begin(int64_t k)
    {
        const Locked here(lock);
        begun = k < limit ? std::max(begun, k) : begun;
        return k < limit;
    }
    // A source begins that frame, whose release it is.
    bool started(int64_t k, ns time)
    {
        const Locked here(lock);
        if (k >= limit)
            return false;
        Frame &frame = frame_of(k, time);
        frame.begin = std::min(frame.begin, time);
        begun = std::max(begun, k);
        first_start = first_start < 0 ? time : std::min(first_start, time);
        return true;
    }
    // Are its frames to end, or firings of its paths, in a given time?
    bool has_deadlines() const;
    int64_t frames_begun()
    {
        const Locked here(lock);
        return begun + 1;
    }
    // When a frame under way was released, as far as it is known; -1: it is not.
    ns release_of(int64_t k)
    {
        const Locked here(lock);
        const Frame &frame = under_way[k % UNDER_WAY];
        return frame.number == k && frame.begin < FOREVER ? frame.begin : -1;
    }
    // Something of that frame is left out.
    void skip(int64_t k, ns time)
    {
        const Locked here(lock);
        frame_of(k, time).whole = false;
    }
    // One of the tasks that end a frame has ended it; the time it began, where it was the last one.
    // What begins with initial tokens may end it before a source is released.
    ns ended(int64_t k, ns time)
    {
        const Locked here(lock);
        Frame &frame = frame_of(k, FOREVER);
        if (--frame.left)
            return -1;
        const ns begin = std::min(frame.begin, time);
        frames++;
        for (Looks *gate : gates)
            gate->look();
        first_end = first_end ? first_end : time;
        last_end = time;
        if (!frame.whole) {
            skipped++;
            return begin;
        }
        latencies.add(time - begin);
        while (first_awaited < awaited.size() && awaited[first_awaited].frame < frames)
            awaited[first_awaited++].ended = time;
        return begin;
    }
    // The stream ends before that iteration.
    void end_at(int64_t k)
    {
        const Locked here(lock);
        if (k >= limit)
            return;
        exhausted = true;
        have(k);
    }
    // It has at most so many iterations.
    void have(int64_t iterations)
    {
        limit = std::min(limit.load(), iterations);
        until = std::min(until.load(), limit.load());
    }
    // Frames whose releases passed a period ago, and that have not begun; the run began `at_first`.
    int64_t overdue(ns time, ns at_first)
    {
        const Locked here(lock);
        const ns from = since ? since : at_first;
        if (!paced() || !running || !from || !is_released())
            return 0;
        const int64_t due = std::min(period.fits(time - from), limit.load());
        return std::max(INT64_C(0), due - (begun + 1));
    }
    // Everything is to end: what is overdue will not begin, and is late.
    void give_up(ns time, ns at_first)
    {
        const int64_t left = overdue(time, at_first);
        const Locked here(lock);
        not_begun += left;
        overruns += left;
        latencies.misses += latencies.deadline >= 0 ? left : 0;
    }
    // Frames that have begun are finished, and no others begin.
    void drain()
    {
        const Locked here(lock);
        have(begun + 1);
    }

private:
    bool is_released() const;
    struct Frame {
        int64_t number;
        ns begin;
        int left;
        bool whole;
    };
    Frame &frame_of(int64_t k, ns time)
    {
        Frame &frame = under_way[k % UNDER_WAY];
        if (frame.number != k)
            frame = {k, time, enders, true};
        return frame;
    }
    size_t first_awaited = 0;
    pthread_mutex_t lock;
    std::vector<Frame> under_way = std::vector<Frame>(UNDER_WAY, Frame{-1, 0, 0, true});
};

// What becomes of everything when a firing fails: it stops, or goes on without what the firing
// would have made, and the task may begin anew.
enum class OnError { STOP, SKIP, RESTART };

// Firings of a task, those of them that were left out since something they need was not there, and
// their times.
struct alignas(64) Done {
    int64_t fired = 0, skipped = 0;
    ns busy = 0, longest = 0;
    double squares = 0;

    void add(const Done &other)
    {
        fired += other.fired;
        skipped += other.skipped;
        busy += other.busy;
        squares += other.squares;
        longest = std::max(longest, other.longest);
    }
    void add(int64_t firings, ns took)
    {
        fired += firings;
        busy += took;
        squares += static_cast<double>(took) * static_cast<double>(took);
        if (took > longest)
            longest = took;
    }
};

// `number` counts from 1; `firings` are those of an iteration. A `live` source waits for data from
// outside, which release it. Its replicas are on several processors, and have iterations in turn.
struct Task {
    App &app;
    const char *const name, *const processor;
    Code &code;
    const int64_t number, firings;
    const bool source, live;
    const OnError on_error;

    const int64_t replicas;
    const ns wcet;  // of a firing, as the text declares it; -1: it does not
    // Of a task that begins anew: how often it is opened at most, and the time between two tries.
    const int64_t tries;
    const ns pause;
    int64_t before = 0;  // firings before its app has begun anew
    const std::unique_ptr<Done[]> of_replica;
    std::atomic<int64_t> failed{0};               // firings
    std::unique_ptr<std::atomic<ns>[]> releases;  // of a source where a path begins
    std::vector<Path *> paths;                    // that end here
    // Of a live source, for data behind its first ones; -1: none have come.
    std::atomic<ns> longest_wait{-1};
    static inline std::vector<Task *> all;

    Task(App &app, const char *name, const char *processor, Code &code, int64_t firings,
         bool source, bool live = false, OnError on_error = OnError::STOP,
         int64_t replicas = 1, ns wcet = -1, int64_t tries = 20, ns pause = 500000000)
        : app(app), name(name), processor(processor), code(code),
          number(static_cast<int64_t>(all.size()) + 1), firings(firings), source(source),
          live(live), on_error(on_error), replicas(replicas), wcet(wcet), tries(tries),
          pause(pause),
          of_replica(new Done[replicas])
    {
        app.tasks.push_back(this);
        all.push_back(this);
    }
    // Where the replica counts that has that firing.
    Done &done(int64_t firing)
    {
        return of_replica[replicas == 1 ? 0 : firing / firings % replicas];
    }
    // Of all replicas.
    Done done() const
    {
        Done sum;
        for (int64_t i = 0; i < replicas; i++)
            sum.add(of_replica[i]);
        return sum;
    }
    void keep_releases()
    {
        if (!releases)
            releases.reset(new std::atomic<ns>[firings * LONGEST_AGO]());
    }
    // Is it a source whose firings may take as long as its data do? One that a period releases has
    // to return, as any other task.
    bool may_wait() const { return source && (live || !app.paced()); }
    // Data have come to a live source, which has waited for so long.
    void waited(ns time)
    {
        if (longest_wait.load(relaxed) < 0)
            longest_wait.store(0, relaxed);  // nothing was there before that could have become old
        else
            waits(time);
    }
    // It has waited for so long behind its first data, or still does.
    void waits(ns time)
    {
        const ns before = longest_wait.load(relaxed);
        if (before >= 0)
            longest_wait.store(std::max(before, time), relaxed);
    }
    // When one of its latest firings was released.
    ns release(int64_t firing) const
    {
        return releases[firing % (firings * LONGEST_AGO)].load(relaxed);
    }
};

inline void Code::go_on(Task &task, const Counts &fired) { task.before = count_of(fired, task.name); }
inline void Code::leave(const Task &task, int64_t iterations, Counts &fired)
{
    fired[task.name] += iterations * task.firings;
}
inline Known Code::known_as(const Task &task, int64_t firing)
{
    return {task.name, firing + task.before};
}
// An output of a task, for recordings: what a token is, and the tokens of firings, phase by phase.
struct OutputPort {
    const Task &task;
    const size_t number;  // among the outputs of its task
    const char *const name, *const dtype;
    const std::vector<int64_t> shape, rates;
    static inline std::vector<const OutputPort *> all;

    OutputPort(const Task &task, size_t number, const char *name, const char *dtype,
               std::vector<int64_t> shape, std::vector<int64_t> rates)
        : task(task), number(number), name(name), dtype(dtype), shape(std::move(shape)),
          rates(std::move(rates))
    {
        all.push_back(this);
    }
    std::string channel() const { return std::string(task.name) + "." + name; }
    int64_t elements() const
    {
        int64_t product = 1;
        for (const int64_t size : shape)
            product *= size;
        return product;
    }
    // Of so many firings.
    int64_t tokens(int64_t firings) const
    {
        const int64_t phases = static_cast<int64_t>(rates.size());
        int64_t cycle = 0, rest = 0;
        for (int64_t i = 0; i < phases; i++) {
            cycle += rates[i];
            rest += i < firings % phases ? rates[i] : 0;
        }
        return firings / phases * cycle + rest;
    }
};

// Which firing of a source is behind one of a task: `newest` has the newest one for each firing of
// an iteration.
class Behind
{
    const Task &source, &sink;
    const std::vector<int64_t> newest;

public:
    Behind(const Task &source, const Task &sink, std::vector<int64_t> newest)
        : source(source), sink(sink), newest(std::move(newest))
    {
    }
    // The newest firing of the source behind a firing; below 0: initial tokens.
    int64_t number(int64_t firing) const
    {
        return firing / sink.firings * source.firings + newest[firing % sink.firings];
    }
};

// From a source to another task: from the release of the newest firing of the source that a firing
// of `sink` depends on, to the end of that firing.
struct Path {
    Task &source, &sink;
    const char *const kind;
    Latencies latencies;

    Path(Task &source, Task &sink, std::vector<int64_t> newest, ns deadline,
         const char *kind = "path")
        : source(source), sink(sink), kind(kind), behind(source, sink, std::move(newest))
    {
        latencies.deadline = deadline;
        lock_with_inheritance(lock);
        sink.paths.push_back(this);
        sink.app.paths.push_back(this);
        source.keep_releases();
    }
    virtual ~Path() = default;
    // The latency of a firing that ended at that time, which counts; -1 where there is none.
    ns over(int64_t firing, ns time)
    {
        if (sink.replicas == 1)
            return ended(firing, time);
        const Locked here(lock);
        return ended(firing, time);
    }

protected:
    virtual ns ended(int64_t firing, ns time)
    {
        const int64_t number = behind.number(firing);
        return number < 0 ? -1 : took(time - source.release(number));
    }

    ns took(ns latency)
    {
        latencies.add(latency);
        return latency;
    }

private:
    const Behind behind;
    pthread_mutex_t lock;
};

// Does its period release a source of it?
inline bool App::is_released() const
{
    return std::any_of(tasks.begin(), tasks.end(),
                       [](const Task *task) { return task->source && !task->live; });
}

inline bool App::has_deadlines() const
{
    return latencies.deadline >= 0 ||
           std::any_of(paths.begin(), paths.end(),
                       [](const Path *path) { return path->latencies.deadline >= 0; });
}

inline void App::add(const App &other)
{
    earlier = total() + other.total();
    frames = 0;
    overruns += other.overruns;
    not_begun += other.not_begun;
    skipped += other.skipped;
    latencies.add(other.latencies);
    if (other.first_start >= 0)
        first_start = first_start < 0 ? other.first_start : std::min(first_start, other.first_start);
    if (other.first_end)
        first_end = first_end ? std::min(first_end, other.first_end) : other.first_end;
    last_end = std::max(last_end, other.last_end);
    for (Task *task : other.tasks) {
        const auto same = [&](const Task *one) { return !strcmp(one->name, task->name); };
        const auto known = std::find_if(tasks.begin(), tasks.end(), same);
        if (known == tasks.end()) {
            tasks.push_back(task);
        } else {
            (*known)->of_replica[0].add(task->done());
            (*known)->failed += task->failed;
            (*known)->longest_wait = std::max(ns((*known)->longest_wait), ns(task->longest_wait));
        }
    }
    for (Path *path : other.paths) {
        const auto same = [&](const Path *one) {
            return !strcmp(one->kind, path->kind) &&
                   !strcmp(one->source.name, path->source.name) &&
                   !strcmp(one->sink.name, path->sink.name);
        };
        const auto known = std::find_if(paths.begin(), paths.end(), same);
        if (known == paths.end())
            paths.push_back(path);
        else
            (*known)->latencies.add(path->latencies);
    }
}

}  // namespace flow
