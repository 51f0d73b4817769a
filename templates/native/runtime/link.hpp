// What does not wait for its reader: the newest tokens between two apps, and those of a source that
// goes on by itself.
#pragma once
#include "worker.hpp"

namespace flow
{

// Of a token between two apps: the releases of the data behind it, -1 where there are none yet.
using Marks = std::vector<ns>;

// Seconds after which a reader looks whether waiting still makes sense; and that a source which
// goes on by itself gets to see that the program ends.
constexpr double LOOK = 0.05;
constexpr double PATIENCE = 0.15;

inline ns after(double seconds) { return now() + static_cast<ns>(seconds * 1e9); }

// Memory for some tokens, each with the time at which it came, its number and its marks.
class Slots
{
    const size_t each;
    const Zeros<char> memory;

public:
    std::vector<ns> came;
    std::vector<int64_t> numbers;
    std::vector<Marks> marks;

    Slots(size_t count, size_t bytes, size_t marks)
        : each((bytes + 63) / 64 * 64), memory(count * each), came(count), numbers(count),
          marks(count, Marks(marks, -1))
    {
    }
    char *at(int slot) const { return memory.get() + slot * each; }
};

// Between two apps, which are known once they are made; where there are states, once one that runs
// them is entered.
struct Link {
    const char *const name;
    const App *writer = nullptr, *reader = nullptr;
    const size_t bytes, marked;
    // How often its reader has looked at the last token of a stream that had ended.
    std::atomic<int64_t> after_end{0};
    static inline std::vector<Link *> all;

    Link(const char *name, size_t bytes, size_t marked) : name(name), bytes(bytes), marked(marked)
    {
        all.push_back(this);
    }
    // The stream of its writer has ended by itself.
    bool ended() const { return writer && writer->exhausted && dry(); }
    // Its writer has made all frames that were asked for, though its stream goes on; not in a program
    // with states, where an app goes on later.
    bool cut() const { return writer && !run.control && dry() && !ended(); }
    // Its writer has made all frames that it will make.
    bool dry() const { return writer->frames >= writer->limit; }
    // Where the writer puts the next token and its marks, which `put` then hands over.
    virtual char *room() = 0;
    virtual Marks &marks() = 0;
    virtual void put() = 0;
};

// The newest token, for one writer and one reader that never wait for each other: each of them has
// a slot, and they exchange it for the third one.
class Newest : public Link
{
    static constexpr uint32_t FRESH = 4;
    Slots slots;
    alignas(64) uint32_t back = 0;
    int64_t written = 0;
    alignas(64) std::atomic<uint32_t> middle{1};
    alignas(64) uint32_t front = 2;
    bool any = false;

public:
    Newest(const char *name, size_t bytes, size_t marks)
        : Link(name, bytes, marks), slots(3, bytes, marks)
    {
    }
    char *room() override { return slots.at(back); }
    Marks &marks() override { return slots.marks[back]; }
    void put() override
    {
        slots.numbers[back] = written++;
        back = middle.exchange(back | FRESH, std::memory_order_acq_rel) & ~FRESH;
    }
    // The reader has the newest token, if there is any yet.
    bool look()
    {
        if (middle.load(relaxed) & FRESH) {
            front = middle.exchange(front, std::memory_order_acq_rel) & ~FRESH;
            any = true;
        }
        return any;
    }
    const char *token() const { return slots.at(front); }
    int64_t number() const { return slots.numbers[front]; }
    const Marks &seen() const { return slots.marks[front]; }
};

// The `keep` newest tokens: the reader takes each once, and where there are too many the oldest one
// makes room. Reader and writer have a slot each, so that only numbers of slots move under the
// lock.
class Mailbox
{
    Slots slots;
    const size_t keep;
    std::vector<int> waiting, spare;  // a circle of those that wait, from `first` on
    size_t first = 0, count = 0;
    int mine, theirs;  // the slots of the writer and of the reader
    mutable pthread_mutex_t lock;
    Bell changed;

    void ring()
    {
        changed.ring();
        for (Looks *gate : gates)
            gate->look();
    }
    bool next()
    {
        const Locked here(lock);
        if (!count)
            return false;
        spare.push_back(theirs);
        theirs = waiting[first];
        first = (first + 1) % keep;
        count--;
        return true;
    }

public:
    std::atomic<int64_t> written{0}, dropped{0};
    std::atomic<bool> closed{false};
    std::vector<Looks *> gates;  // who looks whether it holds tokens

    Mailbox(size_t bytes, size_t keep, size_t marks)
        : slots(keep + 2, bytes, marks), keep(keep), waiting(keep), mine(static_cast<int>(keep)),
          theirs(mine + 1)
    {
        spare.reserve(keep + 1);
        for (int slot = 0; slot < mine; slot++)
            spare.push_back(slot);
        lock_with_inheritance(lock);
    }
    char *room() const { return slots.at(mine); }
    Marks &marks() { return slots.marks[mine]; }
    void put()
    {
        slots.came[mine] = now();
        {
            const Locked here(lock);
            if (count == keep) {
                spare.push_back(waiting[first]);
                first = (first + 1) % keep;
                count--;
                dropped++;
            }
            slots.numbers[mine] = written;
            waiting[(first + count++) % keep] = mine;
            mine = spare.back();
            spare.pop_back();
            written++;
        }
        ring();
    }
    // No more will come.
    void close()
    {
        closed = true;
        ring();
    }
    // Are so many tokens there, as many as it keeps, or all that will come?
    bool holds(int64_t wanted) const
    {
        const Locked here(lock);
        return closed || count >= std::min(static_cast<size_t>(wanted), keep);
    }
    // Wait for the oldest token, which is the reader's from then on; false where none will come, or
    // it is `over`.
    template <typename Over> bool take(Over over)
    {
        for (;;) {
            const int64_t seen = written;
            const bool last = closed || over();
            if (next())
                return true;
            if (last)
                return false;
            changed.wait([&] { return written != seen || closed || over(); }, after(LOOK));
        }
    }
    const char *token() const { return slots.at(theirs); }
    int64_t number() const { return slots.numbers[theirs]; }
    const Marks &seen() const { return slots.marks[theirs]; }
    ns came() const { return slots.came[theirs]; }
};

class Queue : public Link
{
public:
    Mailbox box;

    Queue(const char *name, size_t bytes, size_t keep, size_t marks)
        : Link(name, bytes, marks), box(bytes, keep, marks)
    {
    }
    char *room() override { return box.room(); }
    Marks &marks() override { return box.marks(); }
    void put() override { box.put(); }
};

// What marks tokens: tells of a firing the release of the data behind it, -1 where there are none.
struct Marker {
    virtual ns release(int64_t firing) const = 0;
};

// A sink that puts each token on a link.
class Put : public Code
{
    Link &link;

public:
    std::vector<const Marker *> markers;  // of each mark

    explicit Put(Link &link) : link(link), markers(link.marked) {}
    Put(Link &link, const App &app) : Put(link) { enter(app); }
    void enter(const App &app) override { link.writer = &app; }
    int put(const void *token, int64_t firing)
    {
        memcpy(link.room(), token, link.bytes);
        Marks &marks = link.marks();
        for (size_t i = 0; i < markers.size(); i++)
            marks[i] = markers[i] ? markers[i]->release(firing) : -1;
        link.put();
        return 0;
    }
};

// A source that reads a link. The marks of the tokens of its latest firings are kept.
class Reader : public Code
{
    Link &read;
    const size_t marked;
    std::vector<std::atomic<ns>> kept;

protected:
    // A firing has found a token of that number (-1: none yet) with these marks.
    void note(int64_t firing, int64_t number, const Marks *marks)
    {
        if (__builtin_expect(recorder != nullptr, 0))
            record_found(firing, number);
        for (size_t i = 0; i < marked; i++)
            kept[place(firing, i)].store(marks ? (*marks)[i] : -1, relaxed);
    }

public:
    explicit Reader(Link &link) : read(link), marked(link.marked), kept(link.marked * LONGEST_AGO)
    {
    }
    void enter(const App &app) override { read.reader = &app; }
    size_t place(int64_t firing, size_t mark) const
    {
        return static_cast<size_t>(firing % LONGEST_AGO) * marked + mark;
    }
    ns mark(int64_t firing, size_t number) const
    {
        return kept[place(firing, number)].load(relaxed);
    }
};

// Looks at the newest token of a link, again and again; zeros before the first. It ends with the
// last stream that its app looks at.
class Latest : public Reader
{
    Newest &link;

public:
    explicit Latest(Newest &link) : Reader(link), link(link) {}
    Latest(Newest &link, const App &app) : Latest(link) { enter(app); }
    int look(void *token, int64_t firing)
    {
        bool over = true;
        for (const Link *other : Link::all)
            over &= other->reader != link.reader || other->ended();
        if (over)
            return END;
        if (!link.look()) {
            memset(token, 0, link.bytes);
            note(firing, -1, nullptr);
            return 0;
        }
        memcpy(token, link.token(), link.bytes);
        link.after_end += link.ended();
        // no other token overwrites the last one that was asked for, whose age says nothing
        note(firing, link.number(), link.cut() ? nullptr : &link.seen());
        return 0;
    }
};

// A source that chooses its token when it fires; `taken` counts its firings.
struct Sampler {
    std::atomic<int64_t> taken{0};

    virtual ~Sampler() = default;
    virtual Mailbox &mailbox_of() = 0;
    // Let what it reads go on by itself, if it does not yet.
    virtual void begin(const Task &) {}
    // Are so many tokens there, as many as are kept, or all that will come?
    virtual bool holds(int64_t count) = 0;
};

// Takes each token of a link once, and waits for the next.
class Take : public Reader, public Sampler
{
    Queue &link;

public:
    Take(Queue &link, const App &app) : Reader(link), link(link) { enter(app); }
    int take(void *token, int64_t firing)
    {
        if (!link.box.take([this] { return run.ending() || link.dry(); }))
            return END;
        memcpy(token, link.box.token(), link.bytes);
        taken = firing + 1;
        note(firing, link.box.number(), &link.box.seen());
        return 0;
    }
    Mailbox &mailbox_of() override { return link.box; }
    bool holds(int64_t count) override
    {
        return link.box.holds(count) || run.ending() || link.dry();
    }
    ns arrived() const override { return link.box.came(); }
};

// A source that goes on while its tokens are not taken: its newest ones wait, older ones are
// dropped. It has a thread of its own, and a token is what one firing makes at all outputs.
class Dropping : public Code, public Sampler
{
    Code &code;
    int (*const fire)(char *token);
    const size_t bytes;
    const Task *task = nullptr;
    pthread_t thread{};
    std::atomic<bool> started{false};
    int status = END;
    std::string why;

    static void *thread_of(void *given)
    {
        Dropping &source = *static_cast<Dropping *>(given);
        source.go_on();
        source.box.close();
        run.sources--;
        return nullptr;
    }
    void go_on()
    {
        const OfThread here(line);
        why.clear();
        for (int64_t number = 0; !run.ending(); number++) {
            memset(box.room(), 0, bytes);
            line->firing = number;
            line->since = now();
            line->task = task->number;
            try {
                status = fire(box.room());
            } catch (const std::exception &error) {
                status = 1;
                why = std::string("threw ") + error.what();
            } catch (...) {
                status = 1;
                why = "threw what is no std::exception";
            }
            if (run.strayed)
                run.end_stray(*task, number);
            line->task = 0;
            if (status) {
                why = status != END && why.empty() ? code.failed(status) : why;
                return;
            }
            box.put();
        }
        status = END;
    }

public:
    Mailbox box;
    Line *line = nullptr;
    static inline std::vector<Dropping *> all;

    Dropping(Code &code, int (*fire)(char *token), size_t bytes, size_t keep)
        : code(code), fire(fire), bytes(bytes), box(bytes, keep, 0)
    {
        all.push_back(this);
    }
    std::string open() override { return code.open(); }
    void begin(const Task &of) override
    {
        if (started)
            return;
        task = &of;
        run.sources++;
        started = !pthread_create(&thread, nullptr, thread_of, this);
        if (!started) {
            run.sources--;
            why = std::string("no thread for it: ") + strerror(errno);
        }
    }
    Mailbox &mailbox_of() override { return box; }
    bool holds(int64_t count) override { return box.holds(count) || run.ending(); }
    // Wait for a token, whose bytes `token` has then.
    int take(const Task &of, int64_t firing)
    {
        begin(of);
        if (!started)
            return 1;
        if (box.take([] { return run.ending(); })) {
            taken = firing + 1;
            return 0;
        }
        if (!box.closed || status == END)
            return END;
        // where the task goes on after errors, its next firing lets the source go on
        pthread_join(thread, nullptr);
        started = false;
        box.closed = false;
        return status;
    }
    const char *token() const { return box.token(); }
    ns arrived() const override { return box.came(); }
    std::string failed(int) override { return why; }
    const Mailbox *mailbox() const override { return &box; }
    // A firing that waits for data may still use what closing it would free.
    void close() override
    {
        for (const ns until = after(PATIENCE); started && !box.closed && now() < until;)
            usleep(1000);
        if (started && !box.closed)
            return;
        if (started)
            pthread_join(thread, nullptr);
        started = false;
        code.close();
    }
};

}  // namespace flow
