// The supervisor of a program: the process that was started, which stays behind while the program
// goes on in a child of it. It passes signals on, and names the task where the program cannot do so
// any more: C code has crashed it, has left with `exit`, or does not come back.
#pragma once
#include <signal.h>
#include <sys/wait.h>

#include <functional>

#include "worker.hpp"

namespace flow
{

constexpr double TICK = 0.25;  // seconds between two looks at the program
constexpr double HEED = 5.0;   // that it gets after a signal, and after another one
constexpr double HEED_AGAIN = 1.0;
constexpr double SAME_SIGNAL = 0.15;  // two signals within this time are one
constexpr double SILENT = 10.0;       // without a sign of life, after which it is said
constexpr double STARTS = 5.0;        // the same for a start
constexpr double ASLEEP = 1.0;        // a gap between two looks: the process was suspended

inline std::string name_of(int signal)
{
    static const std::pair<int, const char *> known[] = {
        {SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
        {SIGILL, "SIGILL"},   {SIGKILL, "SIGKILL"}, {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"},
        {SIGHUP, "SIGHUP"},   {SIGQUIT, "SIGQUIT"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"},
        {SIGALRM, "SIGALRM"}, {SIGTRAP, "SIGTRAP"}, {SIGSYS, "SIGSYS"},   {SIGXCPU, "SIGXCPU"},
    };
    for (const auto &[number, name] : known)
        if (number == signal)
            return name;
    return "signal " + std::to_string(signal);
}

inline std::string how_it_ended(int status)
{
    if (status >= 0)
        return "exited with status " + std::to_string(status);
    const char *const words = strsignal(-status);
    return "was ended by " + name_of(-status) + " (" + (words ? words : "no description") + ")";
}

class Supervisor
{
    Cells &cells;
    const double watchdog;
    const pid_t child;
    const std::function<void(const Failure &, int)> on_failure;
    int64_t beats = -1;
    ns life = now(), looked = now(), asked = 0;
    int words = 0, unheeded = 0, ends = 0, first_end = 0;
    uint64_t came = 0;
    bool stopped = false;

    struct Inside {
        const Task *task;
        int64_t firing;
    };
    static double since(ns time) { return double(now() - time) / 1e9; }

    // The tasks whose code ran last, with the numbers of their firings.
    std::vector<Inside> inside() const
    {
        std::vector<Inside> found;
        const int64_t crashed = cells.crashed;
        if (cells.lines[0].task)
            return {{Task::all[cells.lines[0].task - 1], -1}};
        for (size_t i = run.lines; i > 0; i--) {
            const Line &line = cells.lines[i];
            if (!line.task || (crashed && crashed != static_cast<int64_t>(i) + 1))
                continue;
            const Task *const task = Task::all[line.task - 1];
            // a source that drops tokens has a thread that makes them, and one that takes them
            const auto known = [&](const Inside &one) {
                return one.task == task && task->code.mailbox();
            };
            if (std::none_of(found.begin(), found.end(), known))
                found.insert(found.begin(), {task, line.firing});
        }
        return found;
    }
    Failure failure(const std::string &why) const
    {
        if (stopped)
            return {nullptr, -1, "the program was suspended and " + why};
        const int64_t phase = cells.phase;
        const std::string reason = (phase == STARTING  ? "cannot start: "
                                    : phase == CLOSING ? "close: "
                                                       : "") +
                                   why;
        const std::vector<Inside> found = inside();
        if (found.size() == 1)
            return {found[0].task, found[0].firing, reason};
        if (found.empty())
            return {nullptr, -1, "the program failed outside of its tasks: " + reason};
        return {nullptr, -1, "one of " + names(found) + " failed: " + reason};
    }
    static std::string names(const std::vector<Inside> &found)
    {
        std::string text;
        for (const Inside &one : found)
            text += (text.empty() ? "" : ", ") + std::string(one.task->name) +
                    (one.firing < 0 ? "" : " (firing " + std::to_string(one.firing) + ")");
        return text;
    }
    int tell(const Failure &why, int status) const
    {
        Run::complain(why.text());
        on_failure(why, status);
        return status;
    }
    void hand_on(int number, bool by_a_process)
    {
        came |= UINT64_C(1) << number;
        if (number == SIGINT || number == SIGTERM) {
            const bool again = asked && since(asked) < SAME_SIGNAL;
            asked = now();
            if (again)
                return;
            if (!ends++)
                cells.signal = first_end = number;
            unheeded++;
            beats = cells.beats;
            cells.asked++;
            kill(child, number);
            kill(child, SIGCONT);  // it cannot heed it while it is stopped
        } else if (by_a_process) {
            kill(child, number);
        }
    }
    // Why the program has to be ended, if it has to be.
    std::string stuck()
    {
        const bool suspended = since(looked) > ASLEEP;
        looked = now();
        if (cells.beats != beats || suspended) {
            unheeded = cells.beats != beats ? 0 : unheeded;
            beats = cells.beats;
            life = now();
            words = 0;
        }
        const double silent = since(life);
        if (unheeded) {
            const double patience = unheeded == 1 ? HEED : HEED_AGAIN;
            if (std::min(silent, since(asked)) > patience)
                return format("did not return within %.0f s of a signal", patience);
        } else if (cells.phase != IDLE) {
            if (watchdog > 0 && silent > watchdog)
                return "did not return for " + seconds(silent) + " s (see --watchdog)";
            const bool starts = cells.phase == STARTING;
            if (silent > (starts ? STARTS * (1 + words) : SILENT * (1 << words))) {
                words++;
                const std::string named = stopped ? "" : names(inside());
                Run::complain(format("no sign of life for %.0f s: ", silent) +
                              (named.empty() ? "the program" : named) + " is " +
                              (stopped                  ? "suspended"
                               : starts                 ? "starting"
                               : cells.phase == CLOSING ? "closing"
                                                        : "in a firing"));
            }
        }
        return "";
    }

public:
    Supervisor(Cells &cells, double watchdog, pid_t child,
               std::function<void(const Failure &, int)> on_failure)
        : cells(cells), watchdog(watchdog), child(child), on_failure(std::move(on_failure))
    {
    }
    // Wait for the end of the program; the status to exit with.
    int until_over(const sigset_t &heard)
    {
        for (;;) {
            const timespec tick{0, static_cast<long>(TICK * 1e9)};
            siginfo_t news;
            const int number = sigtimedwait(&heard, &news, &tick);
            if (number > 0 && number != SIGCHLD)
                hand_on(number, news.si_code <= 0);
            int status;
            if (waitpid(child, &status, WNOHANG | WUNTRACED | WCONTINUED) == child) {
                stopped = WIFSTOPPED(status);
                if (stopped || WIFCONTINUED(status))
                    continue;
                const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
                if (code >= 0 && cells.left)
                    return code ? code : static_cast<int>(cells.left - 1);
                if (code < 0 && (came >> -code & 1))
                    return 128 - code;
                return tell(failure("its process " + how_it_ended(code)), 1);
            }
            const std::string reason = stuck();
            if (!reason.empty()) {
                const Failure why = failure(reason);
                kill(child, SIGKILL);
                waitpid(child, &status, 0);
                return tell(why, unheeded ? 128 + first_end : 1);
            }
        }
    }
};

// The thread that has crashed says so; then the signal does what it always does.
inline void crashed(int number)
{
    run.cells->crashed = 1 + (own_line ? own_line - run.cells->lines : 0);
    signal(number, SIG_DFL);
    raise(number);
}

// Fork, and return in the child, which has to end with its parent. The parent waits for it, puts
// back what it may have left, and exits.
inline void supervise(double watchdog, std::function<void(const Failure &, int)> on_failure,
                      const std::function<void()> &put_back = [] {})
{
    sigset_t heard;
    sigemptyset(&heard);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGCHLD})
        sigaddset(&heard, number);
    sigset_t before;
    sigprocmask(SIG_BLOCK, &heard, &before);
    run.cells->beats++;
    fflush(nullptr);
    const pid_t parent = getpid(), child = fork();
    if (child) {
        const int nothing = open("/dev/null", O_RDWR);
        dup2(nothing, 0);
        dup2(nothing, 1);
        if (child < 0)
            Run::complain(std::string("cannot start: ") + strerror(errno));
        const int status =
            child < 0
                ? 1
                : Supervisor(*run.cells, watchdog, child, std::move(on_failure)).until_over(heard);
        put_back();
        _exit(status);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_atfork(nullptr, nullptr, [] { run.strayed = true; });
    if (getppid() != parent)
        _exit(1);
    // SIGINT and SIGTERM only wake the main thread, which looks at the cells.
    struct sigaction woken = {};
    woken.sa_handler = [](int) {};
    woken.sa_flags = SA_RESTART;
    for (const int number : {SIGINT, SIGTERM}) {
        sigaction(number, &woken, nullptr);
        sigdelset(&before, number);
    }
    sigprocmask(SIG_SETMASK, &before, nullptr);
    struct sigaction crash = {};
    crash.sa_handler = crashed;
    crash.sa_flags = SA_ONSTACK;
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
        sigaction(number, &crash, nullptr);
}

}  // namespace flow
