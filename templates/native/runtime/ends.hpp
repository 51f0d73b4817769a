// Open ends of apps: where tokens come in from the caller of a library, and go out to it. A program
// that is measured or tested has samples instead.
#pragma once
#include <string>

#include "worker.hpp"

namespace flow
{

// Tokens that wait at an end: before the program takes them, and until the caller gets them.
constexpr size_t WAIT_IN = 4, WAIT_OUT = 64;
// Different tokens that a measured or tested program gets, over and over.
constexpr size_t SAMPLES = 8;
// After so many ns a thread that waits looks whether waiting still makes sense.
constexpr ns LOOK_AGAIN = 50000000;

// How a call of a library has ended.
enum Outcome : int { DONE, TIMED_OUT, CLOSED, FAILED };

// One open end; `code` of its task. Any thread may feed it, or fetch from it.
class OpenEnd : public Code
{
    const size_t bytes, places;
    const bool incoming;
    std::vector<char> memory;  // of the tokens that wait, or of samples
    std::vector<ns> times;   // at which they came
    size_t first = 0, count = 0;
    int64_t fed = 0, sampled = 0;
    bool samples = false, ended = false, left = false;
    char *here = nullptr;  // of a program that is stepped: the next of the tokens of its step
    ns came = -1;
    pthread_mutex_t lock;
    pthread_cond_t changed;

    void wait(ns until)
    {
        const ns time = std::min(until, now() + LOOK_AGAIN);
        const timespec at{time / 1000000000, time % 1000000000};
        pthread_cond_timedwait(&changed, &lock, &at);
    }
    // While a worker waits for a caller, it is in no firing: the task takes no time.
    template <typename Ready> void wait_in(Worker &w, Ready ready)
    {
        if (ready())
            return;
        const int64_t number = w.line->task.exchange(0);
        while (!ready())
            wait(FOREVER);
        w.line->since = now();
        w.line->task = number;
    }
    bool over() const
    {
        const App &app = task->app;
        return finished || run.failed || (app.limit < FOREVER && app.frames >= app.limit);
    }
    static Outcome gone() { return run.failed ? FAILED : CLOSED; }
    char *at(size_t number) { return memory.data() + (first + number) % places * bytes; }
    int moved(void *to, const void *from)
    {
        memcpy(to, from, bytes);
        here += bytes;
        return 0;
    }
    void push(const void *token)
    {
        times[(first + count) % places] = now();
        memcpy(at(count++), token, bytes);
    }
    void pop(void *token)
    {
        memcpy(token, at(0), bytes);
        came = times[first];
        first = (first + 1) % places;
        count--;
    }

public:
    const char *const name;
    const Task *task = nullptr;
    // The program has ended, and all that will come out of it is there.
    static inline std::atomic<bool> finished{false};
    static inline std::vector<OpenEnd *> all;

    OpenEnd(const char *name, bool incoming, size_t bytes)
        : bytes(bytes), places(incoming ? WAIT_IN : WAIT_OUT + 1), incoming(incoming),
          times(places), name(name)
    {
        lock_with_inheritance(lock);
        pthread_condattr_t monotonic;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&changed, &monotonic);
        all.push_back(this);
    }
    // A caller is there, from the start of the program on.
    void attach(const Task &own)
    {
        task = &own;
        memory.resize(places * bytes);
    }
    // Without a caller: samples from a folder; why there are none, or empty.
    std::string open() override
    {
        const char *const folder = getenv("FLOWC_FEED");
        const bool called = !memory.empty() || run.stepped;
        if (called || !incoming || !folder)
            return called || !incoming ? "" : "no caller puts tokens in";
        const std::string path = std::string(folder) + "/" + name;
        memory.resize(SAMPLES * bytes);
        FILE *const file = fopen(path.c_str(), "rb");
        samples = file && fread(memory.data(), bytes, SAMPLES, file) == SAMPLES;
        if (file)
            fclose(file);
        return samples ? "" : path + " has no samples";
    }
    ns arrived() const override { return samples ? -1 : came; }

    // -- for the program -------------------------------------------------------------------------
    int take(Worker &w, void *token)
    {
        if (here)
            return moved(token, here);
        if (samples) {
            memcpy(token, memory.data() + sampled++ % SAMPLES * bytes, bytes);
            return 0;
        }
        const Locked here(lock);
        const auto stopped = [&] { return left || run.stopping; };
        wait_in(w, [&] { return stopped() || ended || count; });
        if (stopped() || !count)
            return END;
        pop(token);
        pthread_cond_broadcast(&changed);
        return 0;
    }
    int give(Worker &w, const void *token)
    {
        if (here)
            return moved(here, token);
        if (memory.empty())
            return 0;
        const Locked here(lock);
        if (count < places)
            push(token);
        pthread_cond_broadcast(&changed);
        wait_in(w, [&] { return count <= WAIT_OUT || left || run.stopping; });
        return 0;
    }

    // -- for a caller that steps: where the tokens of the next step are ----------------------------
    void step(char *tokens) { here = tokens; }

    // -- for the caller; in ns, below 0: as long as it takes -------------------------------------
    Outcome feed(const void *token, ns patience)
    {
        const Locked here(lock);
        const ns until = patience < 0 ? FOREVER : now() + patience;
        for (;;) {
            const App &app = task->app;
            const bool beyond = app.limit < FOREVER && fed >= app.limit * task->firings;
            if (ended || left || beyond || over())
                return gone();
            if (count < places)
                break;
            if (now() >= until)
                return TIMED_OUT;
            wait(until);
        }
        push(token);
        fed++;
        pthread_cond_broadcast(&changed);
        return DONE;
    }
    Outcome fetch(void *token, ns patience)
    {
        const Locked here(lock);
        const ns until = patience < 0 ? FOREVER : now() + patience;
        for (;;) {
            const bool last = over();  // first: what ends has given all it had
            if (count)
                break;
            if (last)
                return gone();
            if (now() >= until)
                return TIMED_OUT;
            wait(until);
        }
        pop(token);
        pthread_cond_broadcast(&changed);
        return DONE;
    }
    // Nothing more comes in.
    void end()
    {
        const Locked here(lock);
        ended = true;
        pthread_cond_broadcast(&changed);
    }
    // The caller takes and gives nothing any more.
    void leave()
    {
        const Locked here(lock);
        left = true;
        pthread_cond_broadcast(&changed);
    }
};

}  // namespace flow
