// What a worker notes for a trace, in memory that is there before the program begins.
#pragma once
#include <cstring>

#include "graph.hpp"

namespace flow
{

// Frames of each app that a trace has: from the first to the one before the end.
struct Traced {
    bool wanted = false;
    int64_t first = 0, end = FOREVER;

    bool has(int64_t frame) const { return wanted && frame >= first && frame < end; }
};

inline Traced traced;

class Tracer
{
public:
    enum Kind : int64_t { FIRING, RELEASE, FRAME, LATE };
    struct Event {
        Kind kind;
        const void *what;  // a task, an app, or a path
        int64_t number;
        ns begin, end;
        int64_t group;  // firings from that number on
    };
    static constexpr size_t MOST = 200000;

    void reserve()
    {
        events = static_cast<Event *>(malloc(MOST * sizeof(Event)));
        memset(events, 0, MOST * sizeof(Event));  // its pages are there before the first event
    }
    // The last ones are kept, the oldest of them first.
    size_t kept() const { return std::min(count, MOST); }
    size_t lost() const { return count - kept(); }
    const Event &at(size_t i) const { return events[(lost() + i) % MOST]; }
    void firing(const Task &task, int64_t firing, ns begin, ns end, int64_t group)
    {
        note(firing / task.firings, {FIRING, &task, firing, begin, end, group});
    }
    void release(const Task &task, int64_t firing, ns time)
    {
        note(firing / task.firings, {RELEASE, &task, firing, time, time, 1});
    }
    void frame(const App &app, int64_t k, ns begin, ns end)
    {
        note(k, {FRAME, &app, k, begin, end, 1});
    }
    void path(const Path &path, int64_t firing, ns latency, ns end)
    {
        if (path.latencies.deadline >= 0 && latency > path.latencies.deadline)
            note(firing / path.sink.firings, {LATE, &path, firing, end - latency, end, 1});
    }

private:
    Event *events = nullptr;
    size_t count = 0;

    void note(int64_t frame, const Event &event)
    {
        if (__builtin_expect(traced.has(frame), 0))
            events[count++ % MOST] = event;
    }
};

}  // namespace flow
