// How old data are that come through several apps, and how soon an output knows of an event.
//
// No stamp travels inside of an app, where it is arithmetic which firing of a source is behind
// another one. Only a token between two apps has marks, the releases of the sources that are asked
// for.
#pragma once
#include "link.hpp"

namespace flow
{

// From a source to a task of its app, or from a link that brings its data: tells of a firing the
// release of the newest data behind it along that way.
class Way
{
    Behind behind;
    const Task *source;
    const Reader *reader = nullptr;
    size_t mark = 0;

public:
    Way(Task &source, const Task &sink, std::vector<int64_t> newest)
        : behind(source, sink, std::move(newest)), source(&source)
    {
        source.keep_releases();
    }
    Way(const Task &link, const Task &sink, std::vector<int64_t> newest, const Reader &reader,
        size_t mark)
        : behind(link, sink, std::move(newest)), source(&link), reader(&reader), mark(mark)
    {
    }
    // -1 where there are no such data yet.
    ns release(int64_t firing) const
    {
        const int64_t number = behind.number(firing);
        if (number < 0)
            return -1;
        return reader ? reader->mark(number, mark) : source->release(number);
    }
};

enum Which { OLDEST, NEWEST };

// The release of the oldest data along all ways, -1 where one of them has none yet; or that of the
// newest ones.
class Ways : public Marker
{
    const Which which;
    const std::vector<Way> ways;

public:
    Ways(Which which, std::vector<Way> ways) : which(which), ways(std::move(ways)) {}
    ns release(int64_t firing) const override
    {
        ns found = -1;
        for (const Way &way : ways) {
            const ns release = way.release(firing);
            if (release < 0 && which == OLDEST)
                return -1;
            if (release >= 0 && (found < 0 || (release < found) == (which == OLDEST)))
                found = release;
        }
        return found;
    }
};

// A mark of the tokens that a task puts on a link.
struct Mark : Ways {
    Mark(Put &put, size_t number, Which which, std::vector<Way> ways) : Ways(which, std::move(ways))
    {
        put.markers[number] = this;
    }
};

// From the release of the newest data of a source behind a firing to the end of that firing; of
// several ways, the oldest data count.
class Age : public Path
{
    const Ways ways;

public:
    Age(Task &source, Task &sink, std::vector<Way> ways, ns deadline)
        : Path(source, sink, {}, deadline, "age"), ways(OLDEST, std::move(ways))
    {
    }
    ns ended(int64_t firing, ns time) override
    {
        const ns release = ways.release(firing);
        return release < 0 ? -1 : took(time - release);
    }
};

// From an event just after the release of the data that the last output knew to the end of the
// first firing that knows newer data; of several ways, the first news count.
class Reaction : public Path
{
    const Ways ways;
    ns known = 0;

public:
    Reaction(Task &source, Task &sink, std::vector<Way> ways, ns deadline)
        : Path(source, sink, {}, deadline, "reaction"), ways(NEWEST, std::move(ways))
    {
    }
    ns ended(int64_t firing, ns time) override
    {
        const ns release = ways.release(firing), before = known;
        if (release <= known)
            return -1;
        known = release;
        return before ? took(time - before) : -1;
    }
};

}  // namespace flow
