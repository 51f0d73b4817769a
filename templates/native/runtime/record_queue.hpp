// What waits to be recorded, in memory that a program shares with the process that writes it. It
// outlives the program.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "cells.hpp"

namespace flow
{

// One thing that is recorded; its bytes lie in blocks behind all things.
struct alignas(64) Recorded {
    enum Kind : uint32_t { TOKENS, NONE, FOUND, TEXT };
    struct Content {
        Kind kind;
        uint32_t of;      // the number of a topic, or of a task
        uint32_t tokens;  // that a firing has made
        uint32_t bytes;   // of all of them, or of a text
        int64_t number;   // of the first token, or of a firing
        int64_t found;    // the number of a token; -1: none
        ns time, release;
    };
    std::atomic<uint32_t> ready;  // 1 + its number among all things, once it is whole
    uint32_t block;
    Content content;
};

// Any thread puts things in without waiting; one process takes them out, in the order in which they
// were put in: each stands behind all that its firing may depend on.
class RecordQueue
{
    static constexpr size_t BLOCK = 64;
    static constexpr uint32_t LEAST_THINGS = 1 << 14, MOST_THINGS = 1 << 20;

    // Things and blocks so far, modulo 2^32 each: what is put in, and what was taken out.
    struct Shared {
        alignas(64) std::atomic<uint64_t> head;
        alignas(64) std::atomic<uint64_t> tail;
    };
    uint32_t things = LEAST_THINGS, blocks = LEAST_THINGS;
    size_t size = 0;
    Shared *shared = nullptr;
    Recorded *of = nullptr;
    char *memory = nullptr;

    static uint64_t both(uint32_t thing, uint32_t block)
    {
        return static_cast<uint64_t>(thing) << 32 | block;
    }
    static uint32_t thing(uint64_t ends) { return static_cast<uint32_t>(ends >> 32); }
    static uint32_t block(uint64_t ends) { return static_cast<uint32_t>(ends); }
    static uint32_t blocks_of(uint32_t bytes) { return (bytes + BLOCK - 1) / BLOCK; }

public:
    // Room for so many things and bytes, or as much as there may be. Why there is no memory for it;
    // empty where there is.
    std::string open(double wanted, double bytes, size_t most)
    {
        while (things < MOST_THINGS && things < wanted)
            things *= 2;
        while (2 * blocks * BLOCK <= most && double(blocks) * BLOCK < bytes)
            blocks *= 2;
        size = sizeof(Shared) + things * sizeof(Recorded) + blocks * BLOCK;
        void *const got =
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (got == MAP_FAILED)
            return strerror(errno);
        shared = static_cast<Shared *>(got);  // zero is what all of it begins with
        of = reinterpret_cast<Recorded *>(shared + 1);
        memory = reinterpret_cast<char *>(of + things);
        return "";
    }
    // No thread is kept waiting for a page of it, which this process has now.
    void touch() const
    {
        volatile char *const all = reinterpret_cast<volatile char *>(shared);
        for (size_t at = 0; at < size; at += 4096)
            all[at] = all[at];
    }
    int64_t room() const { return int64_t{blocks} * int64_t{BLOCK}; }
    // False where there is none. One half of it is kept free by threads that may wait, for those that
    // may not.
    bool put(const Recorded::Content &content, const void *data, bool may_wait)
    {
        const uint32_t needed = blocks_of(content.bytes);
        const uint32_t most_things = may_wait ? things / 2 : things;
        const uint32_t most = may_wait ? std::max(blocks / 2, needed) : blocks;
        uint64_t head = shared->head.load(relaxed);
        for (;;) {
            const uint64_t tail = shared->tail.load(std::memory_order_acquire);
            if (thing(head) - thing(tail) >= most_things ||
                block(head) - block(tail) + needed > most)
                return false;
            if (shared->head.compare_exchange_weak(
                    head, both(thing(head) + 1, block(head) + needed), std::memory_order_acq_rel))
                break;
        }
        Recorded &mine = of[thing(head) % things];
        mine.block = block(head);
        mine.content = content;
        const size_t at = block(head) % blocks * BLOCK;
        const size_t first = std::min<size_t>(content.bytes, blocks * BLOCK - at);
        if (content.bytes) {
            memcpy(memory + at, data, first);
            memcpy(memory, static_cast<const char *>(data) + first, content.bytes - first);
        }
        mine.ready.store(thing(head) + 1, std::memory_order_release);
        return true;
    }

    // -- the process that writes -------------------------------------------------------------------
    // What comes next; nullptr where it is not there, or not whole yet.
    const Recorded *next() const
    {
        const uint32_t number = thing(shared->tail.load(relaxed));
        const Recorded &found = of[number % things];
        return found.ready.load(std::memory_order_acquire) == number + 1 ? &found : nullptr;
    }
    // Some of its bytes.
    void append(const Recorded &one, size_t offset, size_t bytes, std::string &to) const
    {
        const size_t at = (one.block % blocks * BLOCK + offset) % (blocks * BLOCK);
        const size_t first = std::min(bytes, blocks * BLOCK - at);
        to.append(memory + at, first);
        to.append(memory, bytes - first);
    }
    void pop(const Recorded &one)
    {
        const uint64_t tail = shared->tail.load(relaxed);
        shared->tail.store(both(thing(tail) + 1, block(tail) + blocks_of(one.content.bytes)),
                           std::memory_order_release);
    }
    // Tokens that nobody has taken out.
    int64_t left() const
    {
        int64_t tokens = 0;
        const uint32_t end = thing(shared->head.load());
        for (uint32_t number = thing(shared->tail.load()); number != end; number++)
            tokens += of[number % things].content.tokens;
        return tokens;
    }
};

}  // namespace flow
