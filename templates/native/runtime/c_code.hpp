// Tasks in C and C++: functions of the sources in c/, under the names that build.sh gives them.
#pragma once
#include "graph.hpp"

namespace flow
{

// `init`, `exit` and `error` may be missing. Without `init` the state is memory of that size, zero.
class InC : public Code
{
    const char *const name;
    void *(*const init)(const void *);
    void (*const exit_)(void *);
    const char *(*const error)(void *);
    const void *const given;
    const size_t bytes;
    const Zeros<char> memory;
    bool is_open = false;

    std::string said() const
    {
        const char *const words = error ? error(state) : nullptr;
        return words && *words ? std::string(": ") + words : "";
    }

public:
    void *state;

    InC(const char *name, void *(*init)(const void *), void (*exit_)(void *),
        const char *(*error)(void *), const void *given, size_t bytes)
        : name(name), init(init), exit_(exit_), error(error), given(given), bytes(bytes),
          memory(bytes), state(bytes ? memory.get() : nullptr)
    {
    }
    std::string open() override
    {
        if (init)
            state = init(given);
        else if (bytes)
            memset(state, 0, bytes);
        is_open = state || !init;  // nothing is asked of a state that is not there
        return is_open ? "" : std::string(name) + "_init returned NULL";
    }
    void close() override
    {
        if (exit_ && is_open)
            exit_(state);
        is_open = false;
    }
    std::string failed(int status) override
    {
        if (status == 0x454E44)
            return std::string(name) + " returned FLOWC_END; only a source may end the stream";
        return std::string(name) + " returned " + std::to_string(status) + said();
    }
};

}  // namespace flow
