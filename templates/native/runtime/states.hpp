// The states of a program: their apps and workers, what leads from one to another, and what goes on
// from one to the next. Data alone: control.hpp decides which state the program is in.
#pragma once
#include "about.hpp"
#include "channel.hpp"
#include "pick.hpp"

namespace flow
{

// An array whose last `held` tokens are still there when its app begins anew. In round 0 token 0 of
// the writer lies at `zeroth`; those before it come into reach in the first `rounds`.
template <typename T> class Held : public Place
{
    const Array<T> tokens;
    const Array<uint8_t> holes;  // nowhere, where no token can be missing
    const App &app;
    const int64_t zeroth, rounds, held, in_iteration;
    const std::unique_ptr<T[]> initial;
    const std::unique_ptr<uint8_t[]> initial_holes;
    int64_t moves = 0;

public:
    // The last `delay` tokens before the first one have these values.
    Held(const App &app, Array<T> tokens, uint8_t *missing, int64_t zeroth, int64_t rounds,
         int64_t held, int64_t in_iteration, int64_t delay = 0, const T *values = nullptr)
        : tokens(tokens), holes{missing, 1, tokens.first, tokens.in_a_round}, app(app),
          zeroth(zeroth), rounds(rounds), held(held), in_iteration(in_iteration),
          initial(new T[held * tokens.size]()), initial_holes(new uint8_t[held]())
    {
        for (int64_t n = 0; n < delay && values; n++)
            for (int64_t i = 0; i < tokens.size; i++)
                initial[(held - delay + n) * tokens.size + i] = values[n];
    }
    // Put what lies before token 0 where round r looks for it, before anything fires in it.
    void begin(int64_t r) const
    {
        if (r >= rounds)
            return;
        place(tokens, r, initial.get());
        if (holes.at)
            place(holes, r, initial_holes.get());
    }
    // Move what the next round sees again to the front.
    void end()
    {
        tokens.end();
        if (holes.at)
            holes.end();
        moves++;
    }

    int64_t bytes() const override { return tokens.size * int64_t{sizeof(T)}; }
    void save(int64_t count, char *to, uint8_t *missing) const override
    {
        const int64_t after = zeroth - moves * tokens.in_a_round + app.done() * in_iteration;
        memcpy(to, tokens.at + (after - count) * tokens.size, count * bytes());
        for (int64_t i = 0; i < count; i++)
            missing[i] = holes.at ? holes.at[after - count + i] : 0;
    }
    void clear() override { moves = 0; }
    void load(int64_t count, const char *from, const uint8_t *missing) override
    {
        memcpy(initial.get() + (held - count) * tokens.size, from, count * bytes());
        memcpy(initial_holes.get() + held - count, missing, count);
    }

private:
    template <typename U> void place(const Array<U> &array, int64_t r, const U *values) const
    {
        const int64_t first = r ? array.first : 0, end = array.first + array.in_a_round;
        for (int64_t n = 0; n < held; n++) {
            const int64_t at = zeroth - r * array.in_a_round + n - held;
            if (at >= first && at < end)
                memcpy(array.at + at * array.size, values + n * array.size,
                       array.size * sizeof(U));
        }
    }
};

// What lies on a channel between two frames: `tokens` of them. The `key` is the same in all states.
struct Kept {
    const char *key;
    Place &place;
    int64_t tokens;
};

// The channels of an app of a state: all places where tokens lie, and what is kept of them.
struct Channels {
    App &app;
    const std::vector<Place *> places;
    const std::vector<Kept> kept;
};

// The clock rate that a pool of processors is to have, and its highest one, in Hz.
struct Clock {
    const char *pool, *kind;
    int64_t hz, highest;
};

// Apps that run together. A state of several `levels` has a name with the others in the text, and
// differs from them in its frames per second alone. One that differs from another state in variants of
// networks alone has its apps, workers and channels, and another `number` among all such.
struct State {
    const char *const name;
    const std::vector<App *> apps;
    const std::vector<Worker *> workers;
    const std::vector<Channels> channels;
    const double energy_mw;  // in the mean, by the model; below 0: not known
    const std::vector<Clock> clocks;  // that it is meant for
    const char *const level_of;
    const double rate;
    const int number = 0;

    // How often, and for how long; since when, and since when its time runs.
    int64_t entered = 0;
    ns spent = 0, since = 0, timer = 0;

    bool parked() const
    {
        return std::all_of(workers.begin(), workers.end(),
                           [](const Worker *w) { return w->parked.load(); });
    }
    bool begun() const
    {
        return std::all_of(apps.begin(), apps.end(), [](App *app) { return app->has_begun(); });
    }
};

// How a change is made: after the ends of frames, with the next one, or in the middle of one.
enum class Protocol { IDLE, NEXT, AT_ONCE };

// What leads from a state to another one: events, or so many ns in it (-1: no time does). The change
// takes `bound` ns at most (-1: nothing is known).
struct Transition {
    State &source, &target;
    const std::vector<const char *> events;
    const ns after, bound;
    const Protocol protocol = Protocol::IDLE;
};

struct Scenario {
    const std::vector<State *> states;
    State &initial;
    const std::vector<const char *> events;
    const std::vector<Transition> transitions;
};

// The channels of all states in one list.
inline std::vector<Channel> joined(std::initializer_list<std::vector<Channel>> of_states)
{
    std::vector<Channel> found;
    for (const std::vector<Channel> &channels : of_states)
        for (const Channel &channel : channels)
            found.push_back(channel);
    return found;
}

}  // namespace flow
