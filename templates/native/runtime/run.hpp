// What threads of a run do beside firing: they tell, stop, fail, and say what they wait for.
#pragma once
#include "text.hpp"
#include "worker.hpp"

namespace flow
{

std::string Failure::text() const
{
    if (!task)
        return reason;
    const std::string at = firing < 0 ? "" : " at firing " + std::to_string(firing);
    return std::string("app ") + task->app.name + ", task " + task->name + " failed" + at + ": " +
           reason;
}

void Run::complain(const std::string &text)
{
    if (run.inside) {
        if (run.to_caller)
            run.to_caller(text.c_str());
        return;
    }
    const std::string line = "flowc: " + text + "\n";
    (void)!write(2, line.data(), line.size());
}

void Run::say(const std::string &text)
{
    pthread_mutex_lock(&telling);
    const bool fresh = std::find(told.begin(), told.end(), text) == told.end();
    if (fresh)
        told.push_back(text);
    pthread_mutex_unlock(&telling);
    if (fresh)
        complain(text);
}

void Run::stir()
{
    for (Bell *bell : Bell::all)
        bell->ring();
}

void Run::give_up()
{
    if (draining || stopping || full_speed)
        return;
    const ns time = now();
    for (App *app : App::all)
        app->give_up(time, begin);
    for (const Worker *worker : workers)
        if (const int64_t task = worker->line ? worker->line->task.load() : 0)
            Task::all[task - 1]->waits(time - worker->line->since);
}

void Run::stop()
{
    give_up();
    stopping = true;
    for (App *app : App::all)
        app->until = 0;
    stir();
}

void Run::fail(Failure why)
{
    {
        const Locked here(telling);
        if (!failed)
            failure = std::move(why);
        failed = true;
    }
    stop();
}

std::string Run::why()
{
    const Locked here(telling);
    return failure.text();
}

void Run::end_stray(const Task &task, int64_t firing)
{
    complain(Failure{&task, firing,
                     "a process that it has forked has come back from there, and is ended: let it"
                     " end with _exit"}
                 .text());
    _exit(1);
}

void Worker::work()
{
    for (int64_t r = 0; !run.stopping.load(relaxed); r++) {
        bool left = false;
        for (const Turn &turn : turns)
            left |= r * turn.iterations - turn.behind < turn.app->until.load(relaxed);
        if (!left)
            break;
        round(*this, r);
    }
}

bool Worker::admit(App &app, int64_t k)
{
    const auto over = [&] { return !app.has(k) || run.stopping; };
    const ns spent = read_clock(CLOCK_THREAD_CPUTIME_ID) - used.counted;
    used.all += spent;
    used.left -= spent;
    while (!run.full_speed) {
        const int64_t passed = scheduling.period.fits(now() - run.begin) - used.periods;
        used.periods += passed;
        used.left = std::min(scheduling.budget, used.left + passed * scheduling.budget);
        if (used.left > 0)
            break;
        const int64_t wanted = -used.left / scheduling.budget + 1;
        if (over())
            return false;
        stirred.wait(over, run.begin + scheduling.period.times(used.periods + wanted, 1) + 1);
        progress.store(progress.load(relaxed) + 1, relaxed);
    }
    used.counted = read_clock(CLOCK_THREAD_CPUTIME_ID);
    began = now();
    return true;
}

bool Worker::failed(Task &task, int64_t firing, int status)
{
    if (status == END && run.stepped) {
        run.fail({&task, firing, "its stream has ended, and a step needs more of it"});
        return false;
    }
    if (status == END && task.source) {
        task.app.end_at(firing / task.firings);
        run.stir();
        return false;
    }
    run.fail({&task, firing, task.code.failed(status)});
    return false;
}

bool Worker::goes_on(Task &task, int64_t firing, int status, int64_t group)
{
    if (status == END && task.source)
        return failed(task, firing, status);
    const std::string why = thrown.empty() ? task.code.failed(status) : thrown;
    const bool anew = task.on_error == OnError::RESTART;
    const int64_t before = task.failed.fetch_add(group);
    task.app.skip(firing / task.firings, began);
    if (before < MOST_TOLD)
        Run::complain(Failure{&task, firing, why}.text() +
                      (anew ? "; it begins anew" : "; its frame is skipped") +
                      (before + group < MOST_TOLD
                           ? ""
                           : "; more failures of this task are only counted"));
    return !anew || begins_anew(task, firing);
}

bool Worker::begins_anew(Task &task, int64_t firing)
{
    if (task.code.shut)
        return true;
    const auto close = [&] {
        task.code.close();
        return 0;
    };
    if (called(task, firing, [&] { return caught(close); }))
        Run::complain(Failure{&task, firing, "close: " + thrown}.text());
    task.code.shut = true;
    task.code.tries = 0;
    return opens_again(task, firing);
}

bool Worker::opens_again(Task &task, int64_t firing)
{
    std::string why;
    const auto open = [&] {
        why = task.code.open();
        return 0;
    };
    if (called(task, firing, [&] { return caught(open); }))
        why = thrown;
    task.code.shut = !why.empty();
    if (why.empty())
        return true;
    const Failure failure{&task, firing, "cannot begin anew: " + why};
    task.code.due = now() + task.pause;
    const int64_t left = task.tries - ++task.code.tries;
    if (left > 0)
        Run::complain(failure.text() + "; " + std::to_string(left) +
                      (left == 1 ? " try is" : " tries are") + " left, the next in " +
                      format("%g s", double(task.pause) / 1e9));
    else
        run.fail(failure);
    return left > 0;
}

bool Worker::is_open(Task &task, int64_t firing)
{
    while (task.code.shut && task.app.has(firing / task.firings) && !run.stopping) {
        const ns left = task.code.due - now();
        if (left <= 0)
            opens_again(task, firing);
        else if (task.source && (task.live || !task.app.paced()) && !run.ending())
            usleep(static_cast<useconds_t>(std::min(left / 1000, INT64_C(50000))));
        else
            break;
    }
    began = now();
    return !task.code.shut;
}

std::string Worker::doing() const
{
    const int64_t task = line->task;
    if (task)
        return std::string(processor) + " is in " + Task::all[task - 1]->name + ", firing " +
               std::to_string(line->firing);
    const Between *at = waiting;
    if (!at)
        return "";
    const char *what = waits_for;
    if (!strcmp(what, "space"))
        return std::string(at->source) + " waits for space from " + at->destination;
    return std::string(at->destination) + " waits for " + what + " from " + at->source;
}

inline std::string who_waits()
{
    std::string found;
    for (const Worker *worker : run.workers) {
        const std::string doing = worker->doing();
        if (!doing.empty())
            found += (found.empty() ? "" : "; ") + doing;
    }
    return found.empty() ? "no worker waits" : found;
}

}  // namespace flow
