// Tasks on a GPU: kernels that were compiled when the program was built, started by CUDA's driver.
//
// Each worker of a GPU has a stream, in which everything happens in order: a firing puts its work
// there and goes on. Tokens between tasks of the worker stay in the memory of the GPU. Where they
// come from the host or go there, the firing waits for that, so that other workers see nothing of
// it.
#pragma once
#include <initializer_list>

#include "worker.hpp"

namespace flow
{

// Tokens that a firing reads or writes, and where they lie.
struct Tokens {
    char *at;
    size_t bytes;
    bool on_gpu;
};
template <typename T> Tokens on_gpu(const T *at, int64_t elements)
{
    return {reinterpret_cast<char *>(const_cast<T *>(at)), elements * sizeof(T), true};
}
template <typename T> Tokens on_host(const T *at, int64_t elements)
{
    return {reinterpret_cast<char *>(const_cast<T *>(at)), elements * sizeof(T), false};
}

// What an output is copied to as well.
struct Copy {
    size_t output;
    Tokens to;
};

// An argument of a kernel: the address of a port, of `scratch` or of `state`, by their number in
// this order; or a value.
struct Argument {
    int place;
    alignas(16) char value[16];
};
inline Argument address(int place) { return {place, {}}; }
template <typename T> Argument value(T given)
{
    Argument made{-1, {}};
    memcpy(made.value, &given, sizeof given);
    return made;
}

struct Launch {
    const char *kernel;
    unsigned grid[3], block[3], shared;
    std::vector<Argument> arguments;
};

// The kernels of a task, one after the other, in a file of machine code.
class Kernels : public Code
{
    const char *const file;
    const std::vector<Launch> launches;
    const std::vector<size_t> sizes;     // of ports, inputs first, and of scratch
    const std::vector<size_t> of_state;  // bytes of each
    const bool waits;
    void *module = nullptr;
    std::vector<void *> functions;
    std::vector<char *> state;
    bool is_open = false;
    static thread_local std::string why;

    std::string loaded();
    std::string named(const Launch *running) const;
    bool launched(struct Lane &lane, char **places, const Launch **running);

public:
    // Its longest firing has `ports` of these sizes. With `waits`, it waits for each firing to end.
    Kernels(const char *file, std::vector<Launch> launches, std::vector<size_t> ports,
            std::vector<size_t> scratch, std::vector<size_t> state, bool waits);
    std::string open() override;
    void close() override;
    std::string failed(int) override { return why; }
    // Firings of its state that nobody had to wait for end before the next one begins.
    void leave(const Task &task, int64_t iterations, Counts &fired) override;
    int run(Worker &w, const Task &task, int64_t firing, std::initializer_list<Tokens> inputs,
            std::initializer_list<Tokens> outputs, std::initializer_list<Copy> copies = {});

    friend struct Lane;
};

// The stream of a worker.
struct Lane {
    struct Flying {
        const Task *task;
        int64_t firing;
        const Kernels *code;
        void *start, *end;
    };
    Worker &worker;
    void *stream = nullptr, *uploaded = nullptr;
    char *arena = nullptr;  // for what only one firing needs
    std::vector<Flying> flying;  // firings that are not known to have ended
    std::vector<void *> events;  // that can be used again
    std::string error;           // the first one
    static inline std::vector<Lane *> all;

    explicit Lane(Worker &worker) : worker(worker)
    {
        worker.lane = this;
        all.push_back(this);
    }
    std::string open();
    void close();
    // The calling thread uses the GPU from now on.
    void enter();
    // Has that call worked, and all before it?
    bool did(int status);
    void *event();
    bool copy(char *to, bool to_gpu, const char *from, bool from_gpu, size_t bytes);
    // Wait until all of it has happened, and count what has ended.
    bool settle();
};

// Memory of the GPU, zero at the start.
struct OnGpu {
    char *memory = nullptr;
    const size_t bytes;
    static inline std::vector<OnGpu *> all;

    explicit OnGpu(size_t bytes) : bytes(bytes) { all.push_back(this); }
    // Bytes from the host, before anything else is put into the stream.
    void fill(Worker &w, size_t at, const void *from, size_t count) const;
    // Move some bytes to its front.
    void to_front(Worker &w, size_t from, size_t count) const;
};

// Tokens inside of a worker, as `Array`.
template <typename T> struct GpuArray : OnGpu {
    const int64_t size, first, in_a_round;

    explicit GpuArray(int64_t elements, int64_t size = 1, int64_t first = 0, int64_t in_a_round = 0)
        : OnGpu(elements * sizeof(T)), size(size), first(first), in_a_round(in_a_round)
    {
    }
    operator T *() const { return reinterpret_cast<T *>(memory); }
    void begin(Worker &w, int64_t r, int64_t zeroth, int64_t count, const T *values) const
    {
        for (int64_t n = -count; n < 0; n++) {
            const int64_t place = zeroth + n;
            if (place < (r ? first : 0) || place >= first + in_a_round)
                continue;
            const std::vector<T> token(size, values[n + count]);
            fill(w, place * size * sizeof(T), token.data(), size * sizeof(T));
        }
    }
    void end(Worker &w) const
    {
        to_front(w, in_a_round * size * sizeof(T), first * size * sizeof(T));
    }
};

// Memory of a channel at whose other end is a worker of the host: the GPU reaches it itself.
struct Pinned {
    void *const memory;
    const size_t bytes;
    bool is_pinned = false;
    static inline std::vector<Pinned *> all;

    template <typename T>
    Pinned(T *memory, int64_t elements) : memory(memory), bytes(elements * sizeof(T))
    {
        all.push_back(this);
    }
};

// For the harness: what a firing has read or made on the GPU, in a program that records.
inline void record_on_gpu([[maybe_unused]] Worker &w, [[maybe_unused]] const Task &task,
                          [[maybe_unused]] int64_t firing, [[maybe_unused]] int64_t side,
                          [[maybe_unused]] int64_t port, [[maybe_unused]] const void *data,
                          [[maybe_unused]] size_t bytes)
{
#ifdef FLOWC_RECORD
    std::vector<char> here(bytes);
    w.lane->copy(here.data(), false, static_cast<const char *>(data), true, bytes);
    w.lane->settle();
    record(task, firing, side, port, here.data(), bytes);
#endif
}

}  // namespace flow
