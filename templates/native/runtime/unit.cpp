// A program that its caller steps. Nothing is printed, no signal is handled, no process forked, and
// no thread started.
#include "unit.hpp"

#include "image.hpp"
#include "options.hpp"

namespace flow
{

// What program.cpp does.
void prepare(const Options &options);

namespace
{

// -- inside of the image whose program runs ------------------------------------------------------
std::vector<Task *> begun;
int64_t iterations = 0;

// Why it has not been done; empty where it has.
template <typename Does> std::string thrown_by(Does does)
{
    try {
        does();
    } catch (const std::exception &error) {
        return std::string("threw ") + error.what();
    } catch (...) {
        return "threw what is no std::exception";
    }
    return "";
}

void give(const Setting &setting, const void *value)
{
    if (setting.kind == Setting::INT)
        memcpy(setting.value, value, sizeof(int64_t));
    else if (setting.kind == Setting::FLOAT)
        memcpy(setting.value, value, sizeof(double));
    else if (setting.kind == Setting::BOOL)
        memcpy(setting.value, value, sizeof(bool));
    else
        *static_cast<const char **>(setting.value) = keep(*static_cast<const char *const *>(value));
}

bool begin_here(const About &about, const flow_chosen *chosen, size_t count)
{
    run.inside = run.stepped = true;
    for (const flow_chosen *one = chosen; one < chosen + count; one++)
        for (const Setting &setting : about.settings)
            if (setting.path() == one->path)
                give(setting, one->value);
    Options options;
    options.full_speed = true;
    prepare(options);
    run.begin = now();
    for (Task *task : Task::all) {
        std::string why;
        const std::string thrown = thrown_by([&] { why = task->code.open(); });
        if (!thrown.empty() || !why.empty()) {
            run.fail({task, -1, thrown.empty() ? why : thrown});
            return false;
        }
        begun.push_back(task);
    }
    return true;
}

bool step_here(void *const *ends)
{
    for (size_t i = 0; i < OpenEnd::all.size(); i++)
        OpenEnd::all[i]->step(static_cast<char *>(ends[i]));
    Worker &worker = *run.workers[0];
    worker.began = now();
    const std::string thrown = thrown_by([&] { worker.round(worker, iterations); });
    if (!thrown.empty())
        run.fail({Task::all[worker.line->task - 1], worker.line->firing, thrown});
    iterations++;
    return !run.failed;
}

void end_here()
{
    for (Task *task : begun)
        task->code.close();
    for (Task *task : Task::all)
        task->code.release();
    run.cells->release(run.lines);
}

std::string error_here()
{
    const Failure &known = run.failure;
    const std::string name = std::string("task ") + known.task->name;
    if (known.firing < 0)
        return name + " cannot start: " + known.reason;
    return name + " failed at firing " + std::to_string(known.firing) + ": " + known.reason;
}

}  // namespace

Steps steps(const About &about) { return {about, begin_here, step_here, end_here, error_here}; }

}  // namespace flow

// -- for the caller ------------------------------------------------------------------------------
// An image of its own, from its start to its end.
struct flow_unit {
    flow::Image image;
    const flow::Steps *steps = nullptr;
    std::string why;
};

int flow_unit_begin(flow_unit **made, const char *home, const flow_chosen *chosen, size_t count)
{
    flow_unit *const unit = *made = new flow_unit;
    unit->why = unit->image.load(home);
    if (!unit->why.empty())
        return 1;
    unit->steps = unit->image.find<flow::Steps>("flow_steps");
    return !unit->steps->begin(unit->steps->about, chosen, count);
}

int flow_unit_step(flow_unit *unit, void *const *ends) { return !unit->steps->step(ends); }

void flow_unit_end(flow_unit *unit)
{
    if (unit->steps)
        unit->steps->end();
    unit->image.unload();
    delete unit;
}

void flow_unit_error(const flow_unit *unit, char *said, size_t size)
{
    const std::string why = unit->steps ? unit->steps->error() : unit->why;
    snprintf(said, size, "%s", why.c_str());
}
