// A worker: the thread that runs the order of one processor, again and again. main.cpp has a round
// of it as a function.
#pragma once
#include <cxxabi.h>
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
// So many failures of a task that goes on after errors are told, all are counted.
constexpr int64_t MOST_TOLD = 20;

// Why a program stops; without a task, something outside of the tasks is the reason.
struct Failure {
    const Task *task = nullptr;
    int64_t firing = -1;  // -1: none
    std::string reason;

    std::string text() const;
};

// What threads sleep on, any number of them. Who rings pays for a call of the system only where one
// sleeps.
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
        sleeping++;
        for (;;) {
            const uint32_t seen = rung.load();
            std::atomic_thread_fence(std::memory_order_seq_cst);
            if (ready() || !in_time)
                break;
            const long slept = syscall(SYS_futex, &rung, FUTEX_WAIT_BITSET_PRIVATE, seen,
                                       time < 0 ? nullptr : &at, nullptr, FUTEX_BITSET_MATCH_ANY);
            in_time = slept == 0 || errno != ETIMEDOUT;
        }
        sleeping--;
        return in_time;
    }
    static inline std::vector<Bell *> all;
    Bell() { all.push_back(this); }
};

// Of n replicas of a task, is it the turn of this one in iteration k?
constexpr bool in_turn(int64_t k, int64_t replica, int64_t n) { return k % n == replica; }

// A channel between two workers, as messages name it.
struct Between {
    const char *source, *destination;
};

// What the system schedules a thread by; an ordinary one has its core in real time alone. A thread
// with a share has a budget of each period, and a priority (-1: none) above all others. An ordinary
// one may reserve its budget (0: nothing bounds its work), each time until it is due. Where CPUs
// differ, one is bound to its core. On a GPU with priorities its stream has the priority, 0 the
// lowest.
struct Scheduling {
    enum Kind { ORDINARY, BOUND, ON_STREAM, FIXED, BACKGROUND, SHARE } kind;
    int core, priority;
    ns budget = 0;
    Exact period = {0, 1};
    ns due = 0;
};

// What a thread with a share has used; what is looked at is its CPU time, between two firings.
struct Used {
    bool above = false;  // its priority is in force
    ns all = 0, left = 0, counted = 0;
    int64_t periods = 0;
};

struct Worker;
class Control;
struct Lane;

// What all threads of a program share.
struct Run {
    bool full_speed = false, real_time = false, reserve = false;
    bool strict = false;  // a GPU is waited for after each kernel
    const time_t started = read_clock(CLOCK_REALTIME) / 1000000000;  // time() is a tick behind
    ns begin = 0;
    double seconds = 0;
    bool uncounted = false;  // this process only knows that it has failed
    Cells *cells = nullptr;
    Control *control = nullptr;  // of a program with states
    std::vector<Worker *> workers;
    Failure failure;
    std::atomic<bool> failed{false}, stopping{false}, draining{false};
    std::atomic<bool> strayed{false};  // this is a process that a task has forked
    std::atomic<int> ready{0}, over{0};
    std::atomic<int> sources{0};  // threads of sources that go on by themselves
    size_t lines = 0;             // of all threads but the main one
    Bell go;
    std::atomic<bool> gone{false};
    pthread_mutex_t telling = PTHREAD_MUTEX_INITIALIZER;
    std::vector<std::string> told;
    bool stepped = false;                       // by its caller, who needs every iteration
    bool inside = false;                        // of a process that is not its own
    void (*to_caller)(const char *) = nullptr;  // gets its messages there

    // Frames under way are finished at most, and no others begin.
    bool ending() const { return draining || stopping; }
    // Tell the user of the program, once.
    void say(const std::string &text);
    static void complain(const std::string &text);
    // Something has changed: all that sleep look again.
    static void stir();
    // Workers leave what they are at, whatever becomes of their frames.
    void stop();
    // What should have begun by now will not.
    void give_up();
    // Stop everything; the first failure is the one that is reported.
    void fail(Failure why);
    // The failure in words, while the program still runs.
    std::string why();
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
    Used used;
    std::atomic<const Between *> waiting{nullptr};
    std::atomic<const char *> waits_for{""};
    std::atomic<int64_t> progress{0};
    std::atomic<int64_t> looked{0};  // how often it has looked in vain, where it waits
    std::atomic<bool> alive{false};
    std::atomic<bool> parked{false};  // it waits until its state is entered
    std::atomic<double> slower{1};    // how many times as long a firing is to take
    pthread_t thread{};
    Bell stirred;
    Tracer tracer;
    Lane *lane = nullptr;  // its stream, where it is one of a GPU

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
        released = (app.since ? app.since : run.begin) + app.period.times(k * task.firings + i, task.firings);
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
    bool wait_for_frames(App &app, int64_t k)
    {
        while (k - app.frames.load(relaxed) >= UNDER_WAY && app.has(k))
            stirred.wait([&] { return !app.has(k); }, now() + 1000000);
        return app.has(k);
    }
    bool begin_frame(Task &task, int64_t k)
    {
        return wait_for_frames(task.app, k) &&
               task.app.started(k, task.source && released >= 0 ? released : began);
    }
    // Wait until the budget of a thread with a share allows another firing.
    bool admit(App &app, int64_t k);
    // Wait at one end of a channel between workers.
    template <typename Ready>
    bool wait(Bell &bell, const Between &at, const char *what, App &app, int64_t k, Ready ready)
    {
        waits_for.store(what, relaxed);
        waiting.store(&at, relaxed);
        bell.wait([&] {
            const bool go = ready() || !app.has(k);
            looked.store(looked.load(relaxed) + !go);
            return go;
        });
        waiting.store(nullptr, relaxed);
        began = now();
        return ready();
    }
    // Fire: what a call returns is 0, END, or a failure. A firing begins where the last one ended,
    // so that it costs one look at the clock.
    // A network may have a `group` of firings in one call.
    template <typename Call> bool fire(Task &task, int64_t firing, Call call, int64_t group = 1)
    {
        const int status = called(task, firing, call);
        if (status == 0)
            linger();
        const ns begin = began;
        began = now();
        count(task, firing, status ? 0 : group, begin);
        return status == 0 || failed(task, firing, status);
    }
    // The same for a live source, which its data release; what counts is the time in which its
    // thread computes, and not that in which it waits.
    template <typename Call> bool fire_live(Task &task, int64_t firing, Call call)
    {
        const ns spent = called_live(task, firing, call);
        return last ? failed(task, firing, last) : arrived(task, firing, spent);
    }
    // The same for a task on a GPU, which counts the time that a firing takes there.
    template <typename Call> bool fire_there(Task &task, int64_t firing, Call call)
    {
        const int status = called(task, firing, call);
        const ns begin = began;
        began = now();
        progress.store(progress.load(relaxed) + 1, relaxed);
        if (status)
            return failed(task, firing, status);
        tracer.firing(task, firing, begin, began, 1);
        go_on_from_trace();
        return true;
    }
    // The same for tasks that go on after errors: is it `there`, what it should have made?
    template <typename Call>
    bool attempt(Task &task, int64_t firing, bool &there, Call call, int64_t group = 1)
    {
        if (__builtin_expect(task.code.shut, 0) && !is_open(task, firing)) {
            there = false;
            leave_out(task, firing, group);
            return !run.stopping && task.app.has(firing / task.firings);
        }
        const int status = called(task, firing, [&] { return caught(call); });
        if (status == 0)
            linger();
        const ns begin = began;
        began = now();
        there = status == 0;
        if (!there && !goes_on(task, firing, status, group))
            return false;
        count(task, firing, group, begin);
        return true;
    }
    template <typename Call>
    bool attempt_live(Task &task, int64_t firing, bool &there, Call call)
    {
        if (__builtin_expect(task.code.shut, 0) && !is_open(task, firing))
            return there = false;
        const ns spent = called_live(task, firing, [&] { return caught(call); });
        there = last == 0;
        return (there || goes_on(task, firing, last, 1)) && arrived(task, firing, spent);
    }
    // Firings whose data are not there, since a firing before them has failed.
    void leave_out(Task &task, int64_t firing, int64_t group = 1)
    {
        const ns begin = began;
        began = now();
        task.done(firing).skipped += group;
        task.app.skip(firing / task.firings, began);
        count(task, firing, group, begin);
    }
    // Note the release for paths that begin here, and the end for those that end here.
    void tell_paths(Task &task, int64_t firing, ns start)
    {
        if (task.releases)
            task.releases[firing % (task.firings * LONGEST_AGO)].store(
                task.source && released >= 0 ? released : start, relaxed);
        for (Path *path : task.paths)
            tracer.path(*path, firing, path->over(firing, began), began);
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
    // Wait for as long as a firing would have gone on at a slower clock.
    void linger() const
    {
        const double more = slower.load(relaxed) - 1;
        if (__builtin_expect(more > 0, 0)) {
            const ns time = static_cast<ns>(double(now() - began) * more);
            const timespec rest{time / 1000000000, time % 1000000000};
            nanosleep(&rest, nullptr);
        }
    }
    template <typename Call> int called(Task &task, int64_t firing, Call call)
    {
        line->firing.store(firing, relaxed);
        line->since.store(began, relaxed);
        line->task.store(task.number, relaxed);
        const int status = call();
        if (__builtin_expect(run.strayed.load(relaxed), 0))
            run.end_stray(task, firing);
        line->task.store(0, relaxed);
        return status;
    }
    // Its status is `last` afterwards; the time in which the thread has computed.
    template <typename Call> ns called_live(Task &task, int64_t firing, Call call)
    {
        began = now();
        const ns before = read_clock(CLOCK_THREAD_CPUTIME_ID);
        last = called(task, firing, call);
        const ns spent = read_clock(CLOCK_THREAD_CPUTIME_ID) - before, came = task.code.arrived();
        began = now();
        released = came < 0 ? began : came;
        return spent;
    }
    // The data of a live source have come; false where its app has ended meanwhile.
    bool arrived(Task &task, int64_t firing, ns spent)
    {
        task.waited(began - line->since.load(relaxed) - spent);
        if (firing % task.firings == 0 && !task.app.started(firing / task.firings, released))
            return false;
        count(task, firing, 1, began - spent);
        return true;
    }
    template <typename Call> int caught(Call call)
    {
        thrown.clear();
        try {
            return call();
        } catch (const abi::__forced_unwind &) {
            throw;  // it ends its thread
        } catch (const std::exception &error) {
            thrown = std::string("threw ") + error.what();
        } catch (...) {
            thrown = "threw what is no std::exception";
        }
        return 1;
    }
    // So many firings more, which have just ended.
    void count(Task &task, int64_t firing, int64_t firings, ns begin)
    {
        const ns took = began - begin;
        busy += took;
        task.done(firing).add(firings, took);
        progress.store(progress.load(relaxed) + 1, relaxed);
        if (firings)
            tracer.firing(task, firing, begin, began, firings);
        go_on_from_trace();
    }
    // What a trace takes is no part of the next firing.
    void go_on_from_trace()
    {
        if (__builtin_expect(traced.wanted, 0))
            began = now();
    }
    bool failed(Task &task, int64_t firing, int status);
    // A firing of a task has failed that goes on after errors; false where it ends or stops all the
    // same.
    bool goes_on(Task &task, int64_t firing, int status, int64_t group);
    bool begins_anew(Task &task, int64_t firing);
    // Its code is opened again; false where that was the last try.
    bool opens_again(Task &task, int64_t firing);
    // May a task fire? If it is closed after an error, it is opened again when its time has come: a
    // source that nothing paces waits for that.
    bool is_open(Task &task, int64_t firing);

    int last = 0;        // what the code of a live source has returned
    std::string thrown;  // what code has thrown, in words
};

}  // namespace flow
