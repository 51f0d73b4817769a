// From the command line to the exit status: tasks start, workers run, the main thread watches over
// them, tasks are closed, and what was measured is told.
//
// 0 done, 1 something failed, 2 it cannot be run so, 130 interrupted, 143 terminated.
#include <cxxabi.h>
#include <malloc.h>

#include "ends.hpp"
#include "outside.hpp"
#include "recorder.hpp"
#include "report.hpp"
#include "supervisor.hpp"

namespace flow
{

constexpr double DRAIN = 5.0;  // seconds that frames in flight get after a signal
constexpr double GRACE = 0.6;  // that a stop may take before stuck firings are left alone
constexpr double WAITS =
    0.15;  // after which a source that has not returned is taken to wait for data
constexpr double DEADLOCK_AFTER = 1.0;
constexpr double PACE = 1.0;   // over which it is judged whether an app keeps its pace
constexpr double IN_LOG = 60;  // between two lines about how far it is
constexpr int REAL_TIME = 50;  // the priority of threads that have none of their own
constexpr ns LEAST_BUDGET = 1024;  // what the kernel reserves at least
constexpr size_t STACK = size_t{1} << 23;

// -- the thread of a worker ----------------------------------------------------------------------
std::string errno_text() { return format("[Errno %d] %s", errno, strerror(errno)); }

// Bind the calling thread to the n-th core that the process may use.
bool bind(int core)
{
    cpu_set_t all, one;
    CPU_ZERO(&all);
    CPU_ZERO(&one);
    if (sched_getaffinity(getpid(), sizeof all, &all))
        return false;
    int left = core % CPU_COUNT(&all), found = -1;
    while (left >= 0)
        left -= CPU_ISSET(++found, &all) != 0;
    CPU_SET(found, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

// Give the calling thread a fixed priority on a core; false where the system refuses, which is
// said.
bool fix(int core, int number)
{
    sched_param priority = {};
    priority.sched_priority = number;
    if (sched_setscheduler(0, SCHED_FIFO, &priority) == 0 && bind(core))
        return true;
    run.say("fixed priorities are not in force (" + errno_text() +
            "): the system schedules as it likes");
    return false;
}

// Reserve a budget of each period for the calling thread, on whatever core; false where the system
// refuses, which is said. Threads that tasks start are ordinary ones.
bool reserve(const Scheduling &wanted)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } asked = {};  // `struct sched_attr` of the kernel, as it has been since Linux 3.14
    asked.size = sizeof asked;
    asked.policy = 6;  // SCHED_DEADLINE
    asked.flags = 1;  // SCHED_FLAG_RESET_ON_FORK
    asked.runtime = static_cast<uint64_t>(std::max(wanted.budget, LEAST_BUDGET));
    asked.deadline = static_cast<uint64_t>(wanted.due);
    asked.period = static_cast<uint64_t>(wanted.period.over / wanted.period.under);
    if (syscall(SYS_sched_setattr, 0, &asked, 0) == 0)
        return true;
    run.say("reservations are not in force (" + errno_text() +
            "): threads have fixed priorities instead");
    return false;
}

// With --reserve: which threads of apps with a period reserve nothing, and why.
void tell_unreserved()
{
    std::string fixed, unbounded;
    for (const Worker *worker : run.workers) {
        const Scheduling &wanted = worker->scheduling;
        const std::string name = worker->processor;
        std::string &names = wanted.kind == Scheduling::FIXED ? fixed : unbounded;
        const bool ordinary = wanted.kind != Scheduling::BACKGROUND &&
                              wanted.kind != Scheduling::SHARE &&
                              wanted.kind != Scheduling::FIXED;
        const bool none = wanted.kind == Scheduling::FIXED || (ordinary && wanted.budget == 0);
        if (none && (", " + names + ",").find(", " + name + ",") == std::string::npos)
            names += (names.empty() ? "" : ", ") + name;
    }
    if (!fixed.empty())
        run.say("--reserve: " + fixed + ": nothing, the platform has fixed priorities");
    if (!unbounded.empty())
        run.say("--reserve: " + unbounded + ": nothing, the text does not bound this work");
}

void schedule(Worker &worker)
{
    prctl(PR_SET_TIMERSLACK, 1);  // sleeps end in time: 50 us later is the default
    const Scheduling &wanted = worker.scheduling;
    const bool bound = wanted.kind == Scheduling::BOUND;
    const bool streams = wanted.kind == Scheduling::ON_STREAM;
    const bool ordinary = wanted.kind == Scheduling::ORDINARY || bound || streams;
    if (ordinary && run.reserve && wanted.budget > 0 && reserve(wanted))
        return;
    if (wanted.kind == Scheduling::FIXED || (ordinary && run.real_time)) {
        fix(wanted.core, ordinary ? REAL_TIME : wanted.priority);
    } else if (bound) {
        if (!bind(wanted.core))
            run.say("threads are not bound to cores (" + errno_text() + "): times may be others");
    } else if (wanted.kind == Scheduling::SHARE) {
        worker.used.above = wanted.priority >= 0 && fix(wanted.core, wanted.priority);
        worker.used.left = wanted.budget;
        worker.used.counted = read_clock(CLOCK_THREAD_CPUTIME_ID);
    } else if (wanted.kind == Scheduling::BACKGROUND) {
        const bool nice =
            setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 19) == 0;
        worker.below = nice;
        if (!nice || (wanted.core >= 0 && !bind(wanted.core)))
            run.say("apps without a period are not below the others (" + errno_text() +
                    "): they take their time");
    }
}

void *thread_of(void *given)
{
    Worker &worker = *static_cast<Worker *>(given);
    const OfThread here(worker.line);
    schedule(worker);
    volatile char touched[1 << 16];  // now, not in the first deep firing
    for (size_t i = 0; i < sizeof touched; i += 4096)
        touched[i] = 0;
    if (++run.ready == static_cast<int>(run.workers.size()) && !run.stopping) {
        run.begin = now();
        run.gone = true;
    }
    while (!run.gone && !run.stopping)
        run.go.wait([] { return run.gone.load() || run.stopping.load(); });
    run.go.ring();
    worker.began = now();
    const auto failed = [&](const std::string &why) {
        const int64_t task = worker.line->task;
        run.fail({task ? Task::all[task - 1] : nullptr, task ? worker.line->firing.load() : -1, why});
        worker.line->task = 0;
    };
    const auto over = [&] {
        worker.alive = false;
        run.over++;
    };
    try {
        if (run.control)
            run.control->stays_of(worker);
        else
            worker.work();
    } catch (const abi::__forced_unwind &) {
        failed("ended its thread");
        over();
        throw;
    } catch (const std::exception &error) {
        failed(std::string("threw ") + error.what());
    } catch (...) {
        failed("threw what is no std::exception");
    }
    over();
    return nullptr;
}

// Pages that are there stay, and memory that is given back to malloc does, too.
void lock_memory()
{
    mallopt(M_TRIM_THRESHOLD, -1);
    mallopt(M_MMAP_MAX, 0);
    if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT))
        run.say("memory is not locked (" + errno_text() + "): the system may take it away");
}

// -- the main thread -----------------------------------------------------------------------------
// Signals that ask the program to end. What a terminal sends reaches this process as well as its
// supervisor, which decides what counts.
class Interrupts
{
    int64_t handled = 0;

public:
    int first = 0;
    // How often it was asked to end, after waiting for some time.
    int64_t asked(double seconds)
    {
        const timespec wait{0, static_cast<long>(seconds * 1e9)};
        nanosleep(&wait, nullptr);
        if (run.cells->asked > handled) {
            handled = run.cells->asked;
            first = static_cast<int>(run.cells->signal);
        }
        return handled;
    }
};

// Waits for the workers, notices deadlocks and stuck firings, and drains on a signal.
class Watch
{
    const Options &options;
    Interrupts &interrupts;
    int64_t handled = 0, seen = -1;
    std::vector<int64_t> asked;  // how often each worker had looked in vain when it was asked to look
    ns moved = now(), polled = now(), awake_since = 0, drained = 0, ends = 0, next_log = 0, logged = 0;
    struct Pace {
        int64_t frames = 0, overdue = 0, in_log = 0;
        std::vector<int64_t> misses;  // of deadlines: of frames, and of each path
        ns since = now();
        bool behind = false;
    };
    std::vector<Pace> paces = std::vector<Pace>(App::all.size());
    std::vector<std::pair<int64_t, double>> warned =
        std::vector<std::pair<int64_t, double>>(run.workers.size(), {-1, 10.0});

    static double since(ns time) { return double(now() - time) / 1e9; }
    // Where there are states, those of the other ones have nothing to do.
    static bool works(const Worker &worker) { return worker.alive && !worker.parked; }
    // Frames that are overdue count as frames that are late.
    static std::vector<int64_t> misses_of(const App &app, int64_t overdue)
    {
        std::vector<int64_t> misses{app.latencies.deadline < 0 ? 0 : app.latencies.misses + overdue};
        for (const Path *path : app.paths)
            misses.push_back(path->latencies.misses);
        return misses;
    }
    // Frames that have begun are finished, and no others begin.
    void drain()
    {
        run.give_up();
        run.draining = true;
        for (App *app : App::all)
            app->drain();
        Run::stir();
        drained = now();
    }
    // Only sources are left that wait for their data: what they wait for begins no frame any more.
    bool only_sources_wait()
    {
        bool any = false, others = false;
        for (Worker *worker : run.workers) {
            const int64_t task = worker->line->task;
            if (!works(*worker))
                continue;
            any = true;
            if (task && Task::all[task - 1]->source &&
                since(std::max(worker->line->since.load(), drained)) > WAITS)
                Task::all[task - 1]->app.end_at(worker->line->firing /
                                                Task::all[task - 1]->firings);
            else
                others = true;
        }
        if (others || !any) {
            Run::stir();
            return false;
        }
        for (const App *app : App::all)
            if (app->done() < app->limit)
                run.say(std::to_string(app->limit - app->done()) + " frames of " + app->name +
                        " did not end; " + who_waits());
        run.stopping = true;
        return true;
    }
    void abandon()
    {
        const ns until = now() + static_cast<ns>(GRACE * 1e9);
        while (now() < until && run.over < static_cast<int>(run.workers.size()) &&
               !(drained && only_sources_left()))
            usleep(1000);
    }
    static bool only_sources_left()
    {
        for (const Worker *worker : run.workers) {
            const int64_t task = worker->line->task;
            if (works(*worker) && !(task && Task::all[task - 1]->source))
                return false;
        }
        return true;
    }
    // Workers that wait for each other. Without progress, each is asked to look again first: one that
    // may go on may not have had a processor since.
    void check_deadlock()
    {
        int64_t progress = 0;
        bool any = false, all_wait = true;
        for (const Worker *worker : run.workers) {
            progress += worker->progress;
            any |= works(*worker);
            all_wait &= !works(*worker) || worker->waiting;
        }
        if (progress != seen || !any || !all_wait) {
            seen = progress;
            moved = now();
            asked.clear();
        } else if (since(moved) <= DEADLOCK_AFTER ||
                   run.over >= static_cast<int>(run.workers.size())) {
            return;
        } else if (asked.empty()) {
            for (const Worker *worker : run.workers)
                asked.push_back(worker->looked);
            Run::stir();
        } else {
            for (size_t i = 0; i < run.workers.size(); i++)
                if (works(*run.workers[i]) && run.workers[i]->looked <= asked[i])
                    return;
            run.fail({nullptr, -1, "deadlock: " + who_waits()});
        }
    }
    void check_stuck()
    {
        for (size_t i = 0; i < run.workers.size(); i++) {
            const Line &line = *run.workers[i]->line;
            const int64_t number = line.task, firing = line.firing;
            if (!number)
                continue;
            const Task &task = *Task::all[number - 1];
            const double seconds = since(std::max(line.since.load(), awake_since));
            if (options.watchdog > 0 && seconds > options.watchdog && !task.may_wait())
                run.fail({&task, firing,
                          "did not return for " + flow::seconds(seconds) +
                              " s (see --watchdog); " + who_waits()});
            else if (seconds > (warned[i].first == firing ? warned[i].second : 10.0)) {
                warned[i] = {firing, 2 * seconds};
                run.say(std::string(task.name) + format(" has been in firing %lld for %.0f s",
                                                        static_cast<long long>(firing), seconds));
            }
        }
    }
    static std::string out_of_time(const App &app, const std::vector<int64_t> &misses,
                                   int64_t frames, bool begins)
    {
        std::string told;
        const auto tell = [&](const std::string &name, const char *last, const Latencies &of) {
            told += (told.empty() ? "" : "; ") + name + "deadline " + in_ms(of.deadline);
            if (of.count)
                told += std::string(", ") + last + " " + in_ms(of.latest[(of.count - 1) % KEPT]);
        };
        int64_t missed = misses[0];
        if (missed)
            tell("", "last frame", app.latencies);
        for (size_t i = 1; i < misses.size(); i++) {
            missed += misses[i];
            if (misses[i])
                tell(ends_of(*app.paths[i - 1]) + ": ", "last", app.paths[i - 1]->latencies);
        }
        if (!begins)
            told += (told.empty() ? "" : "; ") + ("no frame begins: " + who_waits());
        return app.name +
               format(" missed %lld deadlines in its last %lld frames",
                      static_cast<long long>(missed), static_cast<long long>(frames)) +
               " (" + told + ")";
    }
    static std::string in_ms(ns time)
    {
        return plain(double(time) / 1e6) + " ms";
    }
    void check_pace()
    {
        for (size_t i = 0; i < paces.size(); i++) {
            App &app = *App::all[i];
            Pace &pace = paces[i];
            if (since(pace.since) < PACE || !app.paced() || run.full_speed)
                continue;
            const int64_t overdue = app.overdue(now(), run.begin),
                          done = app.total() + overdue - pace.frames;
            if (done <= 0)
                continue;
            const std::vector<int64_t> counted = misses_of(app, overdue);
            std::vector<int64_t> misses = counted;
            int64_t missed = 0;
            bool mostly = false;  // a path ends several times in a frame
            for (size_t k = 0; k < misses.size(); k++) {
                missed += misses[k] -= k < pace.misses.size() ? pace.misses[k] : 0;
                mostly |= 2 * misses[k] > done * (k ? app.paths[k - 1]->sink.firings : 1);
            }
            if (!pace.behind && mostly) {
                Run::complain(out_of_time(app, misses, done, overdue <= pace.overdue));
                pace.behind = true;
            } else if (pace.behind && !missed) {
                Run::complain(std::string(app.name) + " is in time again");
                pace.behind = false;
            }
            pace.misses = counted;
            pace.frames += done;
            pace.overdue = overdue;
            pace.since = now();
        }
    }
    void log()
    {
        if (options.quiet || since(logged) < IN_LOG)
            return;
        std::string text;
        for (size_t i = 0; i < paces.size(); i++) {
            const App &app = *App::all[i];
            if (!app.running)
                continue;
            const int64_t frames = app.total();
            const double rate = double(frames - paces[i].in_log) / since(logged);
            text += (text.empty() ? "" : "; ") + std::string(app.name) +
                    format(" %lld frames, %.1f fps", static_cast<long long>(frames), rate);
            if (app.latencies.deadline >= 0)
                text += format(", %lld missed", static_cast<long long>(app.latencies.misses));
            paces[i].in_log = frames;
        }
        logged = now();
        Run::complain(format("%.0f s: ", since(run.begin)) + text);
    }

public:
    Watch(const Options &options, Interrupts &interrupts) : options(options), interrupts(interrupts)
    {
        logged = run.begin;
    }
    // Return when all workers are done, or the program had to be stopped.
    void until_done()
    {
        while (run.over < static_cast<int>(run.workers.size())) {
            const int64_t asked = interrupts.asked(0.005);
            run.cells->beats++;
            if (since(polled) > ASLEEP)
                moved = awake_since = now();
            polled = now();
            if (run.stopping || (drained && only_sources_wait()))
                return abandon();
            if (asked > handled) {
                handled = asked;
                if (handled > 1) {
                    run.stop();
                    return abandon();
                }
                drain();
                ends = now();
            }
            if (!drained && options.seconds >= 0 && since(run.begin) >= options.seconds)
                drain();
            if (ends && since(ends) > DRAIN) {
                const std::string waits = who_waits();
                run.stop();
                run.say("frames in flight did not end; " + waits);
                return abandon();
            }
            check_pace();
            check_deadlock();
            check_stuck();
            if (recorder)
                recorder->look();
            log();
        }
    }
};

class Execution
{
    const About &about;
    const Options &options;
    Interrupts interrupts;
    std::vector<Task *> begun;
    std::set<const Code *> started;

    bool opened()
    {
        for (Task *task : Task::all) {
            if (started.count(&task->code))
                continue;  // with another state
            run.cells->enter(STARTING, task->number);
            const std::string why = interrupts.asked(0) ? "" : task->code.open();
            if (run.strayed)
                run.end_stray(*task, -1);
            run.cells->enter(STARTING);
            if (interrupts.first)
                return false;
            if (!why.empty()) {
                run.fail({task, -1, "cannot start: " + why});
                return false;
            }
            begun.push_back(task);
            started.insert(&task->code);
        }
        return true;
    }
    void close()
    {
        run.draining = true;
        for (Task *task : begun) {
            bool stuck = false;
            for (const Worker *worker : run.workers)
                stuck |= worker->alive && worker->line->task &&
                         &Task::all[worker->line->task - 1]->code == &task->code;
            run.cells->enter(CLOSING, task->number);
            if (!stuck && !task->code.shut)
                task->code.close();
        }
        run.cells->enter(IDLE);
    }
    bool start_workers()
    {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, STACK);
        for (Worker *worker : run.workers) {
            worker->alive = true;
            const int error = pthread_create(&worker->thread, &attributes, thread_of, worker);
            if (error) {
                worker->alive = false;
                run.over++;
                run.fail({worker->turns[0].app->tasks[0], -1,
                          std::string("cannot start: no thread for ") + worker->processor + ": " +
                              strerror(error)});
                run.go.ring();
                return false;
            }
        }
        return true;
    }
    int status() const
    {
        if (run.failed)
            return 1;
        if (interrupts.first)
            return 128 + interrupts.first;
        return options.fail_on_miss && (!missed_deadlines().empty() || lost_in_time()) ? 1 : 0;
    }
    // Was a frame left out that had a deadline?
    static bool lost_in_time()
    {
        return std::any_of(App::all.begin(), App::all.end(), [](const App *app) {
            return app->skipped && app->has_deadlines();
        });
    }
    // Say what frames have lost: does --fail-on-miss make it a failure?
    void say_loss(const std::string &lost, bool counts) const
    {
        if (counts && options.fail_on_miss)
            Run::complain(lost);
        else if (!options.quiet)
            Run::complain("warning: " + lost +
                          (counts ? "; --fail-on-miss makes it a failure" : ""));
    }

public:
    Execution(const About &about, const Options &options) : about(about), options(options) {}

    int executed(Output *measured, Output *trace_file, Output *table_file)
    {
        if (run.real_time)
            lock_memory();
        if (run.reserve)
            tell_unreserved();
        if (opened() && (run.cells->enter(RUNNING), true)) {
            if (start_workers()) {
                while (!run.gone && !run.stopping)
                    usleep(100);
                if (run.control && !run.control->start())
                    run.fail({nullptr, -1, std::string("no thread for the controller of states: ") +
                                               strerror(errno)});
                Watch(options, interrupts).until_done();
            }
            for (const Worker *worker : run.workers)
                if (!worker->alive && worker->thread)
                    pthread_join(worker->thread, nullptr);
            run.seconds = run.begin ? double(now() - run.begin) / 1e9 : 0;
        }
        if (run.control) {
            Run::stir();
            run.control->join();
        }
        close();
        const bool recorded = !recorder || recorder->finish(options.quiet);
        if (run.control)
            Control::total();
        return told(measured, trace_file, table_file, recorded);
    }

private:
    int told(Output *measured, Output *trace_file, Output *table_file, bool delivered)
    {
        const auto write_to = [&](Output *output, const std::string &content) {
            const std::string why = output ? output->written(content) : "";
            if (!why.empty())
                Run::complain(why);
            delivered &= why.empty();
        };
        if (trace_file)
            write_to(trace_file, trace(about));
        if (measured)
            write_to(measured, report(about, status()));
        bool any = !run.failed && !interrupts.first;
        for (const App *app : App::all)
            any |= app->total() > 0;
        if (table_file)
            write_to(table_file, any ? table(about) : "");
        const bool shown = any && !table_file && !options.quiet;
        errno = 0;
        if ((shown && printf("%s", table(about).c_str()) < 0) || fflush(stdout)) {
            if (errno != EPIPE) {
                Run::complain(std::string("cannot write to standard output: ") + strerror(errno));
                delivered = false;
            }
        }
        const std::string missed = missed_deadlines(), left = left_out(), above = above_wcet();
        if (!run.failed && !above.empty() && !options.quiet && options.clocks != "emulate")
            Run::complain("warning: firings took longer than the `wcet` that bounds rest on, or were interrupted: " +
                          above);
        if (run.failed)
            Run::complain(run.failure.text());
        else if (!left.empty())
            say_loss(left + " were left out by `on error`", lost_in_time());
        if (!run.failed && !missed.empty())
            say_loss("deadlines were missed: " + missed, true);
        const int found = status();
        return delivered || found ? found : 1;
    }
};

// `A:B`, `A:` or `:B` of --trace-frames; false where it is none.
bool range_of(const std::string &text)
{
    const size_t colon = text.find(':');
    if (colon == std::string::npos)
        return false;
    const std::string first = text.substr(0, colon), last = text.substr(colon + 1);
    traced.first = first.empty() ? 0 : count_of(first);
    traced.end = last.empty() ? FOREVER : count_of(last);
    return traced.first >= 0 && traced.end > traced.first;
}

// Standard streams that are closed lead to nothing, and a closed pipe is an error of who writes.
void open_streams()
{
    for (int stream = 0; stream < 3; stream++)
        if (fcntl(stream, F_GETFD) < 0)
            (void)!open("/dev/null", O_RDWR);
    signal(SIGPIPE, SIG_IGN);
}

// Before anything of it runs: as the options say.
void prepare(const Options &options)
{
    run.full_speed = options.full_speed;
    run.strict = options.strict;
    run.real_time = options.real_time || options.reserve;
    run.reserve = options.reserve && !options.full_speed;
    run.lines = run.workers.size() + Dropping::all.size();
    run.cells = Cells::shared(run.lines);
    Line *next = run.cells->lines;
    for (Worker *worker : run.workers)
        worker->line = ++next;
    for (Dropping *source : Dropping::all)
        source->line = ++next;
    if (run.control)
        run.control->frames = options.frames;
    for (App *app : App::all) {
        if (options.frames >= 0 && !run.control)
            app->have(options.frames);
        if (options.full_speed)
            app->latencies.deadline = -1;
        for (Path *path : app->paths)
            path->latencies.deadline = options.full_speed ? -1 : path->latencies.deadline;
    }
}

// From the first task that starts to the last one that is closed, without files; its status.
int execute(const About &about, const Options &options)
{
    return Execution(about, options).executed(nullptr, nullptr, nullptr);
}

// Open ends, for which it is called from elsewhere, and which only samples replace.
bool runs_by_itself()
{
    std::string ends;
    for (const OpenEnd *end : OpenEnd::all)
        ends += (ends.empty() ? "`" : ", `") + std::string(end->name) + "`";
    if (ends.empty() || getenv("FLOWC_FEED"))
        return true;
    Run::complain("it has open ends (" + ends + "): it is called from C, as its header says");
    return false;
}

int main(const About &about, int count, char **words)
{
    open_streams();
    const Options options = parsed(count, words);
    if (!options.trace_frames.empty() && options.trace.empty())
        refuse("--trace-frames: it is about --trace FILE");
    if (!options.channels.empty() && options.record.empty())
        refuse("--channels: it is about --record FILE");
    if (is_recording(options.replay))
        refuse("--replay: " + options.replay +
               " is a recording, which the program in Python replays: `python3 " +
               in_build("main.py") + " --replay " + options.replay + "`");
    if (overwrites(options))
        refuse("--record would overwrite what --replay reads");
    if (!options.trace_frames.empty() && !range_of(options.trace_frames))
        refuse("argument --trace-frames: `" + options.trace_frames +
               "` is no range of frames: write `100:120`, `100:` or `:20`");
    Given given = of_variable();
    for (const std::string &text : options.settings)
        given.emplace_back("--set", text);
    const std::vector<std::string> mistakes = give_all(about.settings, given);
    for (const std::string &mistake : mistakes)
        Run::complain(mistake);
    if (!runs_by_itself() || !mistakes.empty())
        return 2;
    std::unique_ptr<Control> control(about.scenario ? new Control(*about.scenario) : nullptr);
    std::unique_ptr<Outside> outside(control ? new Outside(*control) : nullptr);
    std::string wrong = outside ? outside->prepare(options) : needs_states(options);
    std::unique_ptr<Recorder> recording(options.record.empty() ? nullptr
                                                               : new Recorder(about, given));
    wrong = recording && wrong.empty() ? recording->choose(options.channels) : wrong;
    wrong = outside && wrong.empty() ? outside->listen() : wrong;
    if (!wrong.empty()) {
        Run::complain(wrong);
        return 2;
    }
    run.control = control.get();
    prepare(options);
    const auto put_back = [&] {
        if (outside && !run.cells->left)
            outside->put_back();
    };
    const auto tell = [&](const Failure &why, int status) {
        Output output, unfinished;
        if (!options.trace.empty() && unfinished.open(options.trace).empty())
            unfinished.forget();
        if (options.report.empty())
            return;
        run.fail(why);
        run.uncounted = true;
        if (run.control)
            Control::total();
        const std::string reason = output.open(options.report);
        const std::string refused = reason.empty() ? output.written(report(about, status)) : reason;
        if (!refused.empty())
            Run::complain(refused);
    };
    supervise(options.watchdog, tell, put_back);
    Output measured, trace_file, table_file;
    std::string why = options.trace.empty() ? "" : trace_file.open(options.trace);
    if (why.empty() && !options.report.empty())
        why = measured.open(options.report);
    if (why.empty() && !options.table.empty())
        why = table_file.open(options.table);
    int status = 1;
    if (why.empty() && recording) {
        why = recording->begin(options.record);
        status = recording->misused ? 2 : 1;
    }
    if (!why.empty()) {
        Run::complain(why);
        trace_file.forget();
        measured.forget();
        table_file.forget();
    } else {
        traced.wanted = !options.trace.empty();
        for (Worker *worker : run.workers)
            if (traced.wanted)
                worker->tracer.reserve();
        if (outside)
            outside->start();
        status = Execution(about, options)
                     .executed(options.report.empty() ? nullptr : &measured,
                               options.trace.empty() ? nullptr : &trace_file,
                               options.table.empty() ? nullptr : &table_file);
    }
    if (outside)
        outside->close();
    run.cells->left = 1 + status;
    run.cells->enter(IDLE);
    bool alive = run.sources > 0;
    for (const Worker *worker : run.workers)
        alive |= worker->alive;
    if (alive)
        _exit(status);  // a firing that never returns must not keep the process alive
    return status;
}

}  // namespace flow
