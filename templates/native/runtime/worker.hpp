// A worker: the thread that runs the order of one processor, again and again. main.cpp has a round
// of it as a function.
#pragma once
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "graph.hpp"
#include "record.hpp"
#include "trace.hpp"

namespace flow
{

// A task returns it when its stream has ended: FLOWC_END of the generated headers.
constexpr int END = 0x454E44;

// Why a program stops; without a task, something outside of the tasks is the reason.
struct Failure {
    const Task *task = nullptr;
    int64_t firing = -1;  // -1: none
    std::string reason;

    std::string text() const;
};

// What threads sleep on. Who rings pays for a call of the system only where one sleeps.
class Bell
{
    std::atomic<uint32_t> rung{0}, sleeping{0};

public:
    void ring()
    {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (!sleeping.load(relaxed))
            return;
        rung++;
        syscall(SYS_futex, &rung, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
    }
    // Sleep until `ready`, or until that time; false where the time has come.
    template <typename Ready> bool wait(Ready ready, ns time = -1)
    {
        const timespec at{time / 1000000000, time % 1000000000};
        bool in_time = true;
        for (;;) {
            const uint32_t seen = rung.load();
            sleeping = 1;
            std::atomic_thread_fence(std::memory_order_seq_cst);
            if (ready() || !in_time)
                break;
            const long slept = syscall(SYS_futex, &rung, FUTEX_WAIT_BITSET_PRIVATE, seen,
                                       time < 0 ? nullptr : &at, nullptr, FUTEX_BITSET_MATCH_ANY);
            in_time = slept == 0 || errno != ETIMEDOUT;
        }
        sleeping = 0;
        return in_time;
    }
    static inline std::vector<Bell *> all;
    Bell() { all.push_back(this); }
};

// A channel between two workers, as messages name it.
struct Between {
    const char *source, *destination;
};

// What the system schedules a thread by; an ordinary one has its core in real time alone.
struct Scheduling {
    enum Kind { ORDINARY, FIXED, BACKGROUND } kind;
    int core, priority;
};

struct Worker;

// What all threads of a program share.
struct Run {
    bool full_speed = false, real_time = false;
    ns begin = 0;
    double seconds = 0;
    Cells *cells = nullptr;
    std::vector<Worker *> workers;
    Failure failure;
    std::atomic<bool> failed{false}, stopping{false};
    std::atomic<bool> strayed{false};  // this is a process that a task has forked
    std::atomic<int> ready{0}, over{0};
    Bell go;
    std::atomic<bool> gone{false};
    pthread_mutex_t telling = PTHREAD_MUTEX_INITIALIZER;
    std::vector<std::string> told;

    // Tell the user of the program, once.
    void say(const std::string &text);
    static void complain(const std::string &text);
    // Something has changed: all that sleep look again.
    static void stir();
    // Workers leave what they are at, whatever becomes of their frames.
    void stop();
    // Stop everything; the first failure is the one that is reported.
    void fail(Failure why);
    // A process that a task has forked has come back from the task's code.
    [[noreturn]] static void end_stray(const Task &task, int64_t firing);
};

inline Run run;

struct Worker {
    const char *const processor;
    const Scheduling scheduling;
    void (*const round)(Worker &, int64_t);
    // Of each app: its iterations in a round, and how many the order is behind at most.
    struct Turn {
        App *app;
        int64_t iterations, behind;
    };
    const std::vector<Turn> turns;

    Line *line = nullptr;
    ns began = 0;     // when the current firing did, or will have
    ns released = 0;  // when the current firing of a source was released
    ns busy = 0;
    bool below = false;
    std::atomic<const Between *> waiting{nullptr};
    std::atomic<const char *> waits_for{""};
    std::atomic<int64_t> progress{0};
    std::atomic<bool> alive{false};
    pthread_t thread{};
    Bell stirred;
    Tracer tracer;

    Worker(const char *processor, Scheduling scheduling, void (*round)(Worker &, int64_t),
           std::vector<Turn> turns)
        : processor(processor), scheduling(scheduling), round(round), turns(std::move(turns))
    {
        run.workers.push_back(this);
    }

    // -- steps of a firing; false: the stream ends before it --------------------------------------
    // Wait until a firing of a source is released.
    bool wait_for_release(Task &task, int64_t k, int64_t i)
    {
        released = -1;
        App &app = task.app;
        if (!app.paced() || run.full_speed)
            return true;
        const ns step = app.period.times(1, task.firings);
        released = run.begin + app.period.times(k * task.firings + i, task.firings);
        stirred.wait([&] { return !app.has(k); }, released);
        if (!app.has(k))
            return false;
        began = now();
        progress.store(progress.load(relaxed) + 1, relaxed);
        if (began - released >= step)
            app.overruns++;
        tracer.release(task, k * task.firings + i, released);
        return true;
    }
    // A source is never so far ahead of the ends of frames that these would not be known any more.
    bool begin_frame(Task &task, int64_t k)
    {
        while (k - task.app.frames.load(relaxed) >= UNDER_WAY && task.app.has(k))
            stirred.wait([&] { return !task.app.has(k); }, now() + 1000000);
        return task.app.started(k, task.source && released >= 0 ? released : began);
    }
    // Wait at one end of a channel between workers.
    template <typename Ready>
    bool wait(Bell &bell, const Between &at, const char *what, App &app, int64_t k, Ready ready)
    {
        waits_for.store(what, relaxed);
        waiting.store(&at, relaxed);
        bell.wait([&] { return ready() || !app.has(k); });
        waiting.store(nullptr, relaxed);
        began = now();
        return ready();
    }
    // Fire: what a call returns is 0, END, or a failure. A firing begins where the last one ended,
    // so that it costs one look at the clock.
    // A network may have a `group` of firings in one call.
    template <typename Call> bool fire(Task &task, int64_t firing, Call call, int64_t group = 1)
    {
        line->firing.store(firing, relaxed);
        line->since.store(began, relaxed);
        line->task.store(task.number, relaxed);
        const int status = call();
        if (__builtin_expect(run.strayed.load(relaxed), 0))
            run.end_stray(task, firing);
        line->task.store(0, relaxed);
        const ns begin = began, end = now(), took = end - begin;
        began = end;
        busy += took;
        task.fired += status ? 0 : group;
        task.busy += took;
        task.squares += static_cast<double>(took) * static_cast<double>(took);
        if (took > task.longest)
            task.longest = took;
        progress.store(progress.load(relaxed) + 1, relaxed);
        tracer.firing(task, firing, begin, end, group);
        go_on_from_trace();
        return status == 0 || failed(task, firing, status);
    }
    // Note the release for paths that begin here, and the end for those that end here.
    void tell_paths(Task &task, int64_t firing, ns start)
    {
        if (task.releases)
            task.releases[firing % (task.firings * LONGEST_AGO)].store(
                task.source && released >= 0 ? released : start, relaxed);
        for (Path *path : task.paths)
            tracer.path(*path, firing, path->ended(firing, began), began);
    }

    // -- the order -------------------------------------------------------------------------------
    // An entry: `fires` for some firings of iteration k, which lies in that slot of the round.
    template <typename Fires> void entry(Fires fires, Task &task, bool ends_frame, int64_t k,
                                         int64_t slot, int64_t first, int64_t times,
                                         int64_t group = 1)
    {
        if (!task.app.has(k))
            return;
        for (int64_t i = first; i < first + times; i += group)
            if (run.stopping.load(relaxed) || !fires(*this, k, slot, i))
                return;
        if (ends_frame && first + times == task.firings) {
            const ns begin = task.app.ended(k, began);
            if (begin >= 0)
                tracer.frame(task.app, k, begin, began);
            go_on_from_trace();
        }
    }
    // All rounds.
    void work();
    // What it does or waits for, in words; empty where it is between two firings.
    std::string doing() const;

private:
    // What a trace takes is no part of the next firing.
    void go_on_from_trace()
    {
        if (__builtin_expect(traced.wanted, 0))
            began = now();
    }
    bool failed(Task &task, int64_t firing, int status);
};

}  // namespace flow
