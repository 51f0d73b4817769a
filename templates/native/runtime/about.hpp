// What main.cpp says of the whole program, for the command line and the report.
#pragma once
#include "graph.hpp"

namespace flow
{

// A parameter of a task: its type, where its value is, and the value that the text gives it, in
// words.
struct Setting {
    enum Kind { INT, FLOAT, BOOL, STRING, FILE_, FIXED } kind;
    const char *task, *name;
    void *value;
    const char *shown;

    std::string path() const { return std::string(task) + "." + name; }
};

// The tokens of firings at one end of a channel, phase by phase.
struct End {
    const Task &task;
    std::vector<int64_t> rates;

    int64_t in_cycle() const { return tokens(static_cast<int64_t>(rates.size())); }
    // Of so many firings.
    int64_t tokens(int64_t firings) const
    {
        const int64_t phases = static_cast<int64_t>(rates.size());
        int64_t cycle = 0, before = 0;
        for (int64_t i = 0; i < phases; i++) {
            cycle += rates[i];
            before += i < firings % phases ? rates[i] : 0;
        }
        return firings / phases * cycle + before;
    }
    // The firing that a token belongs to, both counted from 0.
    int64_t firing_of(int64_t token) const
    {
        const int64_t cycle = in_cycle();
        int64_t phase = 0, left = token % cycle;
        while (left >= rates[phase])
            left -= rates[phase++];
        return token / cycle * static_cast<int64_t>(rates.size()) + phase;
    }
};

// A channel, and how full it was at most; `delay` tokens are there before the first one is made.
struct Channel {
    const char *name;
    int64_t capacity;
    int64_t (*most)();
    End writer, reader;
    int64_t delay;
};

// Bytes for networks, as they were planned.
struct Planned {
    const char *name;
    int64_t bytes;
};

struct About {
    const char *name;
    std::vector<Channel> channels;
    std::vector<const char *> processors;
    std::vector<Planned> planned;
    std::vector<Setting> settings;
    const struct Scenario *scenario = nullptr;  // of a program with states
};

// A text that stays as long as the program.
const char *keep(const std::string &text);

// A file of the build, wherever it lies.
const char *in_build(const char *name);

// Run the program as the command line says; its exit status.
int main(const About &about, int count, char **words);

}  // namespace flow
