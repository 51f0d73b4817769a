// Time, and what every thread is doing, in memory that outlives the program: its supervisor reads
// it.
#pragma once
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace flow
{

// Nanoseconds of the monotonic clock.
using ns = int64_t;

inline ns read_clock(clockid_t clock)
{
    timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}
inline ns now() { return read_clock(CLOCK_MONOTONIC); }

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
    Line lines[1];                 // of the main thread, of the workers, and of sources

    static Cells *shared(size_t others)
    {
        const size_t size = sizeof(Cells) + others * sizeof(Line);
        void *memory =
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            abort();
        return static_cast<Cells *>(memory);  // zero is what all of them begin with
    }
    // No thread looks at them any more.
    void release(size_t others) { munmap(this, sizeof(Cells) + others * sizeof(Line)); }
    void enter(Phase what, int64_t task = 0)
    {
        lines[0].task = task;
        phase = what;
        beats++;
    }
};

// Whose line it is that a thread writes, for the case that it crashes.
inline thread_local const Line *own_line = nullptr;

// While a thread has that line, a crash of it is named, also one that used up its stack.
class OfThread
{
    stack_t before;
    const size_t size = 1 << 16;
    void *const stack = malloc(size);

public:
    explicit OfThread(const Line *line)
    {
        own_line = line;
        stack_t own = {};
        own.ss_size = size;
        own.ss_sp = stack;
        sigaltstack(&own, &before);
    }
    ~OfThread()
    {
        sigaltstack(&before, nullptr);
        free(stack);
    }
    OfThread(const OfThread &) = delete;
};

}  // namespace flow
