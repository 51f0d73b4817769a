// Channels. Inside of a worker they are arrays, laid out when the program was built; between
// workers they are rings with one writer and one reader. Tokens are read and written where they
// lie.
#pragma once
#include "worker.hpp"

namespace flow
{

// Of tokens that tasks which go on after errors may not have made, a byte says that one is missing.
// Is any of these?
inline bool any_missing(const uint8_t *missing, int64_t count)
{
    return count && memchr(missing, 1, count);
}

// Tokens of a delay, for an array of a worker: those that lie in a round before their writer fires.
//
// In round r the token n of the writer lies at `first + n - (r * iterations - stage) *
// per_iteration`; initial tokens are those below 0. `first` tokens stay from one round to the next.
template <typename T> struct Array {
    T *const at;
    const int64_t size, first, in_a_round;  // elements of a token; tokens kept, and made in a round

    // Put the initial tokens that come into reach with round r, before anything fires in it.
    // `zeroth` is where the token 0 of the writer lies in it.
    void begin(int64_t r, int64_t zeroth, int64_t count, const T *values) const
    {
        for (int64_t n = -count; n < 0; n++) {
            const int64_t place = zeroth + n;
            if (place >= (r ? first : 0) && place < first + in_a_round)
                for (int64_t i = 0; i < size; i++)
                    at[place * size + i] = values ? values[n + count] : T{};
        }
    }
    // Move what the next round sees again to the front.
    void end() const { memmove(at, at + in_a_round * size, first * size * sizeof(T)); }
};

// Where tokens lie that are still there when an app begins anew with a state: on the same channels
// of that state. `missing` has a byte for each.
class Place
{
public:
    // They let sources that drop fire when a task waits for tokens here.
    std::vector<Looks *> gates;

    virtual ~Place() = default;
    // Has a reader waited for more than the first n tokens?
    virtual bool asked_beyond(int64_t) const { return false; }
    virtual int64_t bytes() const = 0;  // of a token
    // The last tokens that were made.
    virtual void save(int64_t tokens, char *to, uint8_t *missing) const = 0;
    // As before the first firing; then, that these were the last ones.
    virtual void clear() = 0;
    virtual void load(int64_t tokens, const char *from, const uint8_t *missing) = 0;
};

// Token n of the writer lies at slot n % slots, and the slots are a multiple of what the writer
// makes in an iteration: so what a firing makes is in one piece. What a reader sees may begin near
// the end of the slots: then that part is copied in front of them, where `margin` tokens have room.
// With HOLES, tokens may be missing.
template <typename T, bool HOLES = false> class Ring : public Place
{
    const Between names;
    const int64_t size, slots, margin, capacity, delay;
    const Zeros<T> memory;
    const Zeros<uint8_t> memory_of_holes;
    T *const base;
    uint8_t *const holes;
    alignas(64) std::atomic<int64_t> written{0};
    int64_t seen_taken, most;
    alignas(64) std::atomic<int64_t> taken;
    int64_t seen_written = 0;
    std::atomic<int64_t> asked{0};  // up to which token the reader has waited
    alignas(64) Bell for_data;
    Bell for_space;

    int64_t slot(int64_t n) const { return ((n % slots) + slots) % slots; }

public:
    // `seen`: tokens that a firing of the reader sees at most.
    Ring(Between names, int64_t size, int64_t slots, int64_t capacity, int64_t seen,
         int64_t delay = 0, const T *values = nullptr)
        : names(names), size(size), slots(slots), margin(seen), capacity(capacity), delay(delay),
          memory((margin + slots) * size), memory_of_holes(HOLES ? margin + slots : 0),
          base(memory.get() + margin * size),
          holes(memory_of_holes.get() + (HOLES ? margin : 0)),
          seen_taken(-delay), most(delay), taken(-delay)
    {
        for (int64_t n = -delay; n < 0 && values; n++)
            for (int64_t i = 0; i < size; i++)
                base[slot(n) * size + i] = values[n + delay];
    }
    // Where a firing writes n tokens, once there is room; nullptr where the stream ends before.
    T *room(Worker &w, App &app, int64_t k, int64_t n)
    {
        const int64_t at = written.load(relaxed);
        const auto ready = [&] {
            return at + n - seen_taken <= capacity ||
                   at + n - (seen_taken = taken.load()) <= capacity;
        };
        if (!ready() && !w.wait(for_space, names, "space", app, k, ready))
            return nullptr;
        if (at + n - seen_taken > most)
            most = std::max(most, at + n - (seen_taken = taken.load()));
        return base + slot(at) * size;
    }
    void wrote(int64_t n)
    {
        written.store(written.load(relaxed) + n);
        for_data.ring();
    }
    // The last `see` tokens once n more are there, which a firing takes; nullptr where the stream
    // ends before.
    const T *next(Worker &w, App &app, int64_t k, int64_t n, int64_t see)
    {
        const int64_t at = taken.load(relaxed);
        const auto ready = [&] {
            return seen_written - at >= n || (seen_written = written.load()) - at >= n;
        };
        if (!ready()) {
            if (!gates.empty())
                asked = at + n;
            for (Looks *gate : gates)
                gate->look();
            if (!w.wait(for_data, names, "data", app, k, ready))
                return nullptr;
        }
        const int64_t begin = slot(at + n - see), there = slots - begin;
        if (there >= see)
            return base + begin * size;
        memcpy(base - there * size, base + begin * size, there * size * sizeof(T));
        if constexpr (HOLES)
            memcpy(holes - there, holes + begin, there);
        return base - there * size;
    }
    // Of tokens that `room` or `next` has returned: is any missing; and they are, or are there.
    bool any_missing(const T *token, int64_t n) const
    {
        return flow::any_missing(holes + (token - base) / size, n);
    }
    void mark(const T *token, int64_t n, bool there)
    {
        memset(holes + (token - base) / size, !there, n);
    }
    void took(int64_t n)
    {
        taken.store(taken.load(relaxed) + n);
        for_space.ring();
    }
    bool asked_beyond(int64_t tokens) const override { return asked > tokens; }
    int64_t most_full() const { return most; }
    // All of its memory: `margin + slots` tokens.
    T *begin() const { return memory.get(); }

    int64_t bytes() const override { return size * int64_t{sizeof(T)}; }
    void save(int64_t tokens, char *to, uint8_t *missing) const override
    {
        for (int64_t i = 0; i < tokens; i++) {
            const int64_t at = slot(written - tokens + i);
            memcpy(to + i * bytes(), base + at * size, bytes());
            missing[i] = HOLES ? holes[at] : 0;
        }
    }
    void clear() override
    {
        written = seen_written = asked = 0;
        taken = seen_taken = -delay;
    }
    void load(int64_t tokens, const char *from, const uint8_t *missing) override
    {
        for (int64_t i = 0; i < tokens; i++) {
            const int64_t at = slot(i - tokens);
            memcpy(base + at * size, from + i * bytes(), bytes());
            if (HOLES)
                holes[at] = missing[i];
        }
    }
};

// The same for a task with replicas at one of its ends, or at both: they take turns, each of them
// has every n-th iteration. Token n of the writers lies at slot n % slots, from any of them.
//
// Each writer and each reader says where its next token is, so that tokens are there in order, and
// room is. A reader has memory of its own for what wraps around.
template <typename T, bool HOLES = false> class Shared : public Place
{
    struct alignas(64) End {
        std::atomic<int64_t> next{0}, moved{0};  // its next token, and tokens so far
        std::atomic<int64_t> asked{0};           // up to which token it has waited
        Bell bell;
    };
    const Between names;
    const int64_t size, slots, capacity, seen, kept, in_iteration, delay;
    const int64_t all_writers, all_readers;
    const std::unique_ptr<End[]> writers, readers;
    const Zeros<T> memory;
    T *const base;
    const Zeros<uint8_t> holes;
    std::atomic<int64_t> most;

    int64_t slot(int64_t n) const { return ((n % slots) + slots) % slots; }
    uint8_t &hole(int64_t at) const { return holes[all_readers * seen + at]; }
    void begin_anew()
    {
        for (int64_t i = 0; i < all_writers; i++) {
            writers[i].next = i * in_iteration;
            writers[i].moved = 0;
        }
        for (int64_t i = 0; i < all_readers; i++) {
            readers[i].next = i * in_iteration - delay;
            readers[i].moved = 0;
            readers[i].asked = 0;
        }
    }
    static int64_t least(const std::unique_ptr<End[]> &ends, int64_t count)
    {
        int64_t found = ends[0].next;
        for (int64_t i = 1; i < count; i++)
            found = std::min(found, ends[i].next.load());
        return found;
    }
    int64_t taken() const
    {
        int64_t sum = -delay;
        for (int64_t i = 0; i < all_readers; i++)
            sum += readers[i].moved;
        return sum;
    }
    // One end has moved n tokens, the first of its iterations `from` on; the others look again.
    void move(End &end, int64_t n, int64_t from, int64_t turns,
              const std::unique_ptr<End[]> &others, int64_t count)
    {
        int64_t next = end.next.load(relaxed) + n;
        if (n && (next - from) % in_iteration == 0)
            next += (turns - 1) * in_iteration;
        end.moved.store(end.moved.load(relaxed) + n);
        end.next.store(next);
        for (int64_t i = 0; i < count; i++)
            others[i].bell.ring();
    }

public:
    // `seen`: tokens that a firing of a reader sees at most, of which `kept` were seen before.
    Shared(Between names, int64_t size, int64_t slots, int64_t capacity, int64_t seen, int64_t kept,
           int64_t in_iteration, int64_t all_writers, int64_t all_readers, int64_t delay = 0,
           const T *values = nullptr)
        : names(names), size(size), slots(slots), capacity(capacity), seen(seen), kept(kept),
          in_iteration(in_iteration), delay(delay), all_writers(all_writers),
          all_readers(all_readers), writers(new End[all_writers]), readers(new End[all_readers]),
          memory((all_readers * seen + slots) * size), base(memory.get() + all_readers * seen * size),
          holes(HOLES ? all_readers * seen + slots : 0),
          most(delay)
    {
        begin_anew();
        for (int64_t n = -delay; n < 0 && values; n++)
            for (int64_t i = 0; i < size; i++)
                base[slot(n) * size + i] = values[n + delay];
    }
    T *room(Worker &w, App &app, int64_t k, int64_t n)
    {
        End &own = writers[k % all_writers];
        const int64_t end = own.next.load(relaxed) + n;
        const auto ready = [&] {
            return end - taken() <= capacity && end - least(readers, all_readers) <= slots - kept;
        };
        if (!ready() && !w.wait(own.bell, names, "space", app, k, ready))
            return nullptr;
        const int64_t filled = end - taken();
        for (int64_t before = most; before < filled && !most.compare_exchange_weak(before, filled);)
            ;
        return base + slot(end - n) * size;
    }
    void wrote(int64_t k, int64_t n)
    {
        move(writers[k % all_writers], n, 0, all_writers, readers, all_readers);
    }
    const T *next(Worker &w, App &app, int64_t k, int64_t n, int64_t see)
    {
        const int64_t reader = k % all_readers;
        End &own = readers[reader];
        const int64_t end = own.next.load(relaxed) + n;
        const auto ready = [&] { return end <= least(writers, all_writers); };
        if (!ready()) {
            if (!gates.empty())
                own.asked = end;
            for (Looks *gate : gates)
                gate->look();
            if (!w.wait(own.bell, names, "data", app, k, ready))
                return nullptr;
        }
        const int64_t begin = slot(end - see), there = slots - begin;
        if (there >= see)
            return base + begin * size;
        T *const copy = memory.get() + reader * seen * size;
        memcpy(copy, base + begin * size, there * size * sizeof(T));
        memcpy(copy + there * size, base, (see - there) * size * sizeof(T));
        if constexpr (HOLES) {
            uint8_t *const of_slots = holes.get() + all_readers * seen;
            memcpy(holes.get() + reader * seen, of_slots + begin, there);
            memcpy(holes.get() + reader * seen + there, of_slots, see - there);
        }
        return copy;
    }
    void took(int64_t k, int64_t n)
    {
        move(readers[k % all_readers], n, -delay, all_readers, writers, all_writers);
    }
    bool any_missing(const T *token, int64_t n) const
    {
        return flow::any_missing(holes.get() + (token - memory.get()) / size, n);
    }
    void mark(const T *token, int64_t n, bool there)
    {
        memset(holes.get() + (token - memory.get()) / size, !there, n);
    }
    bool asked_beyond(int64_t tokens) const override
    {
        for (int64_t i = 0; i < all_readers; i++)
            if (readers[i].asked > tokens)
                return true;
        return false;
    }
    int64_t most_full() const { return most; }
    // All of its memory: `all_readers * seen + slots` tokens.
    T *begin() const { return memory.get(); }

    int64_t bytes() const override { return size * int64_t{sizeof(T)}; }
    void save(int64_t tokens, char *to, uint8_t *missing) const override
    {
        int64_t written = 0;
        for (int64_t i = 0; i < all_writers; i++)
            written += writers[i].moved;
        for (int64_t i = 0; i < tokens; i++) {
            const int64_t at = slot(written - tokens + i);
            memcpy(to + i * bytes(), base + at * size, bytes());
            missing[i] = HOLES ? hole(at) : 0;
        }
    }
    void clear() override { begin_anew(); }
    void load(int64_t tokens, const char *from, const uint8_t *missing) override
    {
        for (int64_t i = 0; i < tokens; i++) {
            const int64_t at = slot(i - tokens);
            memcpy(base + at * size, from + i * bytes(), bytes());
            if (HOLES)
                hole(at) = missing[i];
        }
    }
};

// Each block of `count` tokens is read several times in a row; or only the last one of several
// blocks goes on.
template <typename T> int repeat(const T *from, T *to, int64_t block, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        memcpy(to + i * block, from, block * sizeof(T));
    return 0;
}
template <typename T> int last(const T *from, T *to, int64_t block, int64_t count)
{
    memcpy(to, from + (count - 1) * block, block * sizeof(T));
    return 0;
}

}  // namespace flow
