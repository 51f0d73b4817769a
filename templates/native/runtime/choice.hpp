// A network of which each frame takes the variant of the state that counts for it. At a change at
// once an inference is broken off, and its frame is done again with the next variant.
#pragma once
#include "inference.hpp"
#include "pick.hpp"

namespace flow
{

class Choice : public Code
{
public:
    // What the task is called in a state, its processors, and its code there.
    struct Variant {
        const char *name, *processors;
        Inference &code;
    };

private:
    // What a variant has done, by replicas of the task.
    struct Use {
        Variant variant;
        std::vector<Done> of_replica;
        int64_t before = 0;  // firings before the app has begun anew
    };
    struct Breakable : Attempt {
        Choice &choice;
        const int64_t worker;

        Breakable(Choice &choice, int64_t iteration, int64_t worker)
            : Attempt(iteration), choice(choice), worker(worker)
        {
        }
        void break_off() override { choice.use_of(state).variant.code.break_off(worker); }
    };
    Pick &pick;
    const int64_t replicas;
    const bool breaks;
    std::vector<Use> uses;
    std::vector<size_t> of_state;  // numbers of `uses`
    static inline thread_local Inference *last = nullptr;

    Use &use_of(int state) { return uses[of_state[state]]; }
    int inferred(int state, int64_t worker, From from, To to)
    {
        last = &use_of(state).variant.code;
        return last->infer(worker, from, to);
    }
    // The same until its state still counts at its end; the one that does.
    int until_it_stands(int64_t k, int64_t worker, From from, To to, int &status)
    {
        Breakable attempt(*this, k, worker);
        for (;;) {
            pick.start(attempt);
            status = inferred(attempt.state, worker, from, to);
            const bool stands = pick.stop(attempt, status == 0), broken = attempt.broken_off;
            if (broken)
                last->make_ready(worker);
            if (stands && (status == 0 || !broken))
                return attempt.state;
            attempt.broken_off = false;
        }
    }

public:
    // Its variants in each of the states; with `breaks`, inferences can be broken off.
    Choice(App &app, int64_t replicas, bool breaks, std::initializer_list<Variant> of_states)
        : pick(app.choosing()), replicas(replicas), breaks(breaks)
    {
        for (const Variant &variant : of_states) {
            size_t use = 0;
            while (use < uses.size() && strcmp(uses[use].variant.name, variant.name))
                use++;
            if (use == uses.size())
                uses.push_back({variant, std::vector<Done>(replicas)});
            of_state.push_back(use);
            if (breaks)
                variant.code.let_break_off(replicas);
        }
    }
    std::string open() override
    {
        std::string why;
        for (Use &use : uses)
            why = why.empty() ? use.variant.code.open() : why;
        return why;
    }
    void close() override
    {
        for (Use &use : uses)
            use.variant.code.close();
    }
    std::string failed(int status) override { return last->failed(status); }
    // A firing of iteration k.
    int run(int64_t k, From from, To to)
    {
        const int64_t worker = k % replicas;
        const ns begin = now();
        int status = 0, state = 0;
        if (breaks)
            state = until_it_stands(k, worker, from, to, status);
        else
            status = inferred(state = pick.of(k), worker, from, to);
        use_of(state).of_replica[worker].add(0, now() - begin);
        return status;
    }

    // -- in states -------------------------------------------------------------------------------
    Known known_as(const Task &task, int64_t firing) override
    {
        const int64_t k = firing / task.firings;
        const Use &use = use_of(pick.of(k));
        const std::vector<int64_t> counts = pick.counts(k, of_state.size());
        int64_t earlier = 0;
        for (size_t state = 0; state < counts.size(); state++)
            earlier += &use_of(static_cast<int>(state)) == &use ? counts[state] : 0;
        return {use.variant.name, use.before + earlier * task.firings + firing % task.firings};
    }
    void go_on(Task &, const Counts &fired) override
    {
        for (Use &use : uses)
            use.before = count_of(fired, use.variant.name);
    }
    void leave(const Task &task, int64_t iterations, Counts &fired) override
    {
        const std::vector<int64_t> counts = pick.counts(iterations, of_state.size());
        for (size_t state = 0; state < counts.size(); state++) {
            Use &use = use_of(static_cast<int>(state));
            use.of_replica[0].fired += counts[state] * task.firings;
            fired[use.variant.name] += counts[state] * task.firings;
        }
    }
    std::vector<Task *> apart(Task &task) override
    {
        std::vector<Task *> found;
        for (const Use &use : uses) {
            found.push_back(new Task(task.app, use.variant.name, use.variant.processors,
                                     use.variant.code, task.firings, false));
            for (const Done &done : use.of_replica)
                found.back()->of_replica[0].add(done);
        }
        found[0]->failed = task.failed.load();
        found[0]->of_replica[0].skipped = task.done().skipped;
        return found;
    }
};

}  // namespace flow
