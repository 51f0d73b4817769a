// What runs, and what is measured of it: apps, tasks, and the paths between them.
//
// Nothing is allocated here once the program has begun.
#pragma once
#include <pthread.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cells.hpp"

namespace flow
{

constexpr int64_t FOREVER = INT64_C(1) << 62;
// Iterations that a source may be ahead of a task whose data are still known by their release.
constexpr int64_t LONGEST_AGO = 256;
// Frames of an app that may be under way at once.
constexpr int64_t UNDER_WAY = 4096;
// Latencies that percentiles come from: the last ones.
constexpr int64_t KEPT = 100000;

// The code of a task, from its start to its end.
struct Code {
    virtual ~Code() = default;
    // Why it cannot start; empty where it has.
    virtual std::string open() { return ""; }
    virtual void close() {}
    // What a firing that returned this status means.
    virtual std::string failed(int status) { return "returned " + std::to_string(status); }
};

struct Latencies {
    int64_t count = 0, misses = 0;
    ns total = 0, longest = 0;
    ns deadline = -1;  // -1: none
    ns *latest = static_cast<ns *>(calloc(KEPT, sizeof(ns)));

    void add(ns latency)
    {
        latest[count++ % KEPT] = latency;
        total += latency;
        longest = std::max(longest, latency);
        misses += deadline >= 0 && latency > deadline;
    }
    std::vector<ns> sorted() const
    {
        std::vector<ns> found(latest, latest + std::min(count, KEPT));
        std::sort(found.begin(), found.end());
        return found;
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
};

struct Task;
struct Path;

struct App {
    const char *const name;
    const Exact period;  // under 0: as fast as data allows
    std::vector<Task *> tasks;
    std::vector<Path *> paths;
    const int enders;  // tasks that end a frame

    // Workers begin no firing of an iteration from this one on.
    std::atomic<int64_t> until{FOREVER};
    std::atomic<int64_t> frames{0};  // that have ended, also those behind the end of the stream
    std::atomic<int64_t> overruns{0};
    int64_t limit = FOREVER, begun = -1;
    Latencies latencies;
    ns first_start = -1, first_end = 0, last_end = 0;
    static inline std::vector<App *> all;

    App(const char *name, Exact period, ns deadline, int enders)
        : name(name), period(period), enders(enders)
    {
        latencies.deadline = deadline;
        pthread_mutexattr_t inherits;  // a thread below the others does not keep them waiting
        pthread_mutexattr_init(&inherits);
        pthread_mutexattr_setprotocol(&inherits, PTHREAD_PRIO_INHERIT);
        pthread_mutex_init(&lock, &inherits);
        all.push_back(this);
    }
    bool paced() const { return period.under != 0; }
    bool has(int64_t k) const { return k >= 0 && k < until.load(relaxed); }
    int64_t done() const { return std::min(frames.load(), limit); }

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
        Frame &frame = under_way[k % UNDER_WAY];
        if (frame.number != k)
            frame = {k, time, enders};
        frame.begin = std::min(frame.begin, time);
        begun = std::max(begun, k);
        first_start = first_start < 0 ? time : std::min(first_start, time);
        return true;
    }
    // One of the tasks that end a frame has ended it; the time it began, where it was the last one.
    // What begins with initial tokens may end it before a source is released.
    ns ended(int64_t k, ns time)
    {
        const Locked here(lock);
        Frame &frame = under_way[k % UNDER_WAY];
        if (frame.number != k)
            frame = {k, FOREVER, enders};
        if (--frame.left)
            return -1;
        const ns begin = std::min(frame.begin, time);
        frames++;
        latencies.add(time - begin);
        first_end = first_end ? first_end : time;
        last_end = time;
        return begin;
    }
    // The stream ends before that iteration.
    void end_at(int64_t k)
    {
        const Locked here(lock);
        limit = std::min(limit, k);
        until = std::min(until.load(), limit);
    }
    // Frames that have begun are finished, and no others begin.
    void drain()
    {
        const Locked here(lock);
        limit = std::min(limit, begun + 1);
        until = std::min(until.load(), limit);
    }

private:
    struct Frame {
        int64_t number;
        ns begin;
        int left;
    };
    struct Locked {
        pthread_mutex_t &lock;
        explicit Locked(pthread_mutex_t &lock) : lock(lock) { pthread_mutex_lock(&lock); }
        ~Locked() { pthread_mutex_unlock(&lock); }
    };
    pthread_mutex_t lock;
    std::vector<Frame> under_way = std::vector<Frame>(UNDER_WAY, Frame{-1, 0, 0});
};

// `number` counts from 1; `firings` are those of an iteration.
struct Task {
    App &app;
    const char *const name, *const processor;
    Code &code;
    const int64_t number, firings;
    const bool source;

    int64_t fired = 0;
    ns busy = 0, longest = 0;
    double squares = 0;
    std::unique_ptr<std::atomic<ns>[]> releases;  // of a source where a path begins
    std::vector<Path *> paths;                    // that end here
    static inline std::vector<Task *> all;

    Task(App &app, const char *name, const char *processor, Code &code, int64_t firings,
         bool source)
        : app(app), name(name), processor(processor), code(code),
          number(static_cast<int64_t>(all.size()) + 1), firings(firings), source(source)
    {
        app.tasks.push_back(this);
        all.push_back(this);
    }
};

// From a source to another task: from the release of the newest firing of the source that a firing
// of `sink` depends on, to the end of that firing. `newest` has it for each firing of an iteration.
struct Path {
    Task &source, &sink;
    const std::vector<int64_t> newest;
    Latencies latencies;

    Path(Task &source, Task &sink, std::vector<int64_t> newest, ns deadline)
        : source(source), sink(sink), newest(std::move(newest))
    {
        latencies.deadline = deadline;
        if (!source.releases)
            source.releases.reset(new std::atomic<ns>[source.firings * LONGEST_AGO]());
        sink.paths.push_back(this);
        sink.app.paths.push_back(this);
    }
    // The latency of a firing that ended at that time; -1 where it saw only initial tokens.
    ns ended(int64_t firing, ns time)
    {
        const int64_t before = firing / sink.firings * source.firings;
        const int64_t number = before + newest[firing % sink.firings];
        if (number < 0)
            return -1;
        const ns latency =
            time - source.releases[number % (source.firings * LONGEST_AGO)].load(relaxed);
        latencies.add(latency);
        return latency;
    }
};

}  // namespace flow
