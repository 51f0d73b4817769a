// Time, and what every thread is doing, in memory that outlives the program: its supervisor reads
// it.
#pragma once
#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace flow
{

// Nanoseconds of the monotonic clock.
using ns = int64_t;

inline ns now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

constexpr auto relaxed = std::memory_order_relaxed;

// What a thread is inside: the number of a task from 1 on (0: none), its firing, and since when.
struct alignas(64) Line {
    std::atomic<int64_t> task, firing;
    std::atomic<ns> since;
};

// What the main thread is at: nothing that has to end soon, or one of these.
enum Phase : int64_t { IDLE, STARTING, RUNNING, CLOSING };

struct Cells {
    std::atomic<int64_t> beats;    // signs of life so far
    std::atomic<int64_t> phase;    // what the main thread is at
    std::atomic<int64_t> left;     // 1 + the status that the program has chosen; 0: not yet
    std::atomic<int64_t> asked;    // how often it was asked to end
    std::atomic<int64_t> signal;   // by which signal first
    std::atomic<int64_t> crashed;  // 1 + the line of the thread that has crashed; 0: none
    Line lines[1];                 // of the main thread, then of the workers

    static Cells *shared(size_t workers)
    {
        const size_t size = sizeof(Cells) + workers * sizeof(Line);
        void *memory =
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            abort();
        return static_cast<Cells *>(memory);  // zero is what all of them begin with
    }
    void enter(Phase what, int64_t task = 0)
    {
        lines[0].task = task;
        phase = what;
        beats++;
    }
};

}  // namespace flow
