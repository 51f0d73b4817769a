// When a source that drops tokens fires: when a task waits for tokens of the iteration, so that the
// token is the newest one at that moment, and does not become old while it waits for its reader.
#pragma once
#include "channel.hpp"
#include "link.hpp"

namespace flow
{

// Lets a source fire once a task waits for tokens of that iteration at one of the `places`, where it
// and the sources `beside` it write, fewer than `under_way` iterations of its app are under way
// (0: any number), and the sources beside it have a token, too.
class Gate : public Looks
{
public:
    struct Beside {
        Sampler &source;
        int64_t firings;  // in an iteration
    };

    struct Written {
        Place *place;
        int64_t tokens;  // in an iteration
    };

    // Without places it waits for no demand, as in an app with a period (`runtime/fresh.py`).
    Gate(Task &task, Sampler *own, int64_t under_way, Between names, std::vector<Written> places,
         std::vector<Beside> beside)
        : task(task), own(own), under_way(under_way), names(names), places(std::move(places)),
          beside(std::move(beside))
    {
        for (const Written &written : this->places)
            written.place->gates.push_back(this);
        for (const Beside &other : this->beside)
            other.source.mailbox_of().gates.push_back(this);
        if (under_way)
            task.app.gates.push_back(this);
    }
    void look() override { bell.ring(); }
    // Wait until a firing of iteration k may begin, the `first` one or another; false where the
    // stream ends before.
    bool wait(Worker &w, int64_t k, bool first)
    {
        if (task.code.shut)
            return true;  // the task is opened again first, whatever its readers want
        if (own)
            own->begin(task);
        const auto wanted = [&] { return is_wanted(k); };
        if (!wanted() && !w.wait(bell, names, "demand", task.app, k, wanted))
            return false;
        // data from outside may take as long as they like, which is no deadlock
        while (first && !has_company(k) && task.app.has(k)) {
            bell.wait([&] { return has_company(k) || !task.app.has(k); }, after(LOOK));
            w.began = now();
        }
        return task.app.has(k);
    }

private:
    Task &task;
    Sampler *const own;
    const int64_t under_way;
    const Between names;
    const std::vector<Written> places;
    const std::vector<Beside> beside;
    Bell bell;

    bool is_wanted(int64_t k) const
    {
        if (under_way && k - task.app.frames >= under_way)
            return false;
        for (const Written &written : places)
            if (written.place->asked_beyond(k * written.tokens))
                return true;
        return places.empty();
    }
    // Has every source beside it the first token of that iteration, or read it before?
    bool has_company(int64_t k) const
    {
        for (const Beside &other : beside) {
            const int64_t missing = k * other.firings + 1 - other.source.taken;
            if (missing > 0 && !other.source.holds(missing))
                return false;
        }
        return true;
    }
};

}  // namespace flow
