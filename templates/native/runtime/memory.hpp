// Memory that is zero at the start, and goes with what has it.
#pragma once
#include <sys/mman.h>

#include <cstdlib>

namespace flow
{

constexpr size_t LARGE = 1 << 16;

// Much of it begins on a page, so that a GPU can reach it; a page is there once it is touched.
template <typename T> class Zeros
{
    const size_t bytes;
    void *const memory;

    static void *mapped(size_t bytes)
    {
        void *const found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return found == MAP_FAILED ? nullptr : found;
    }

public:
    explicit Zeros(size_t count)
        : bytes(count * sizeof(T)), memory(bytes < LARGE ? calloc(1, bytes) : mapped(bytes))
    {
    }
    ~Zeros()
    {
        if (bytes < LARGE)
            free(memory);
        else if (memory)
            munmap(memory, bytes);
    }
    Zeros(const Zeros &) = delete;
    T *get() const { return static_cast<T *>(memory); }
    T &operator[](size_t i) const { return get()[i]; }
};

}  // namespace flow
