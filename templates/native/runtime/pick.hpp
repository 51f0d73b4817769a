// States that differ in variants of networks alone: which of them counts for each frame of an app. So
// a state can follow another one between two frames, while older ones are under way.
#pragma once
#include "graph.hpp"

namespace flow
{

// An inference for an iteration, which may be broken off; `state` counts for it so far.
struct Attempt {
    const int64_t iteration;
    int state = 0;
    bool broken_off = false;

    explicit Attempt(int64_t iteration) : iteration(iteration) {}
    virtual ~Attempt() = default;
    virtual void break_off() = 0;
};

// States have numbers among those that one set of workers serves. What is chosen for an iteration
// counts for all later ones.
class Pick
{
    struct Stretch {
        int state;
        int64_t first;  // its first iteration
    };
    pthread_mutex_t lock;
    std::vector<Stretch> stretches{{0, 0}};
    int64_t asked = -1;  // the newest iteration that was asked for
    int64_t done = -1;   // the newest one of which something was computed
    std::vector<Attempt *> under_way;

    int fixed(int64_t iteration)
    {
        asked = std::max(asked, iteration);
        size_t i = stretches.size() - 1;
        while (stretches[i].first > iteration)
            i--;
        return stretches[i].state;
    }

public:
    Pick() { lock_with_inheritance(lock); }
    // Anew, with a state from iteration 0 on.
    void begin(int state)
    {
        const Locked here(lock);
        stretches.assign(1, {state, 0});
        asked = done = -1;
    }
    // Another one counts from an iteration on that has not begun.
    void add(int state, int64_t first)
    {
        const Locked here(lock);
        stretches.push_back({state, first});
    }
    // The state that counts for an iteration, from now on.
    int of(int64_t iteration)
    {
        const Locked here(lock);
        return fixed(iteration);
    }
    // Another state counts from the first iteration on that was not asked for yet (at once: not
    // computed yet), which is `least` at least. Inferences under way for it, or for later ones, are
    // broken off.
    int64_t follow(int state, int64_t least, bool at_once)
    {
        const Locked here(lock);
        const int64_t first = std::max(least, 1 + (at_once ? done : asked));
        stretches.push_back({state, first});
        for (Attempt *attempt : under_way)
            if (attempt->iteration >= first) {
                attempt->broken_off = true;
                attempt->break_off();
            }
        return first;
    }
    // The newest iteration that has begun; after a change at once, an inference has to have ended.
    int64_t newest(bool at_once)
    {
        const Locked here(lock);
        return at_once ? done : asked;
    }
    // An inference begins.
    void start(Attempt &attempt)
    {
        const Locked here(lock);
        under_way.push_back(&attempt);
        attempt.state = fixed(attempt.iteration);
    }
    // It is over. Does its state still count, so that what it made stands?
    bool stop(Attempt &attempt, bool good)
    {
        const Locked here(lock);
        under_way.erase(std::find(under_way.begin(), under_way.end(), &attempt));
        const bool stands = fixed(attempt.iteration) == attempt.state;
        if (stands && good)
            done = std::max(done, attempt.iteration);
        return stands;
    }
    // For how many of the first `until` iterations each of so many states counted.
    std::vector<int64_t> counts(int64_t until, size_t states)
    {
        const Locked here(lock);
        std::vector<int64_t> found(states);
        for (size_t i = 0; i < stretches.size(); i++) {
            const int64_t end = i + 1 < stretches.size() ? stretches[i + 1].first : until;
            found[stretches[i].state] +=
                std::max<int64_t>(0, std::min(end, until) - stretches[i].first);
        }
        return found;
    }
};

inline Pick &App::choosing()
{
    pick = pick ? pick : new Pick;
    return *pick;
}

inline bool App::has_begun()
{
    if (pick)
        return pick->newest(at_once) >= mark || limit <= mark;
    const Locked here(lock);
    return begun >= mark || limit <= mark;
}

inline int64_t App::follow(int state, bool now)
{
    const int64_t first = pick ? pick->follow(state, mark, now) : -1;
    const Locked here(lock);
    mark = pick ? first : std::max(mark, begun + 1);
    at_once = now;
    awaited.push_back({mark, 0});
    return mark;
}

}  // namespace flow
