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

// A channel, and how full it was at most.
struct Fill {
    const char *name;
    int64_t capacity;
    int64_t (*most)();
};

// Bytes for networks, as they were planned.
struct Planned {
    const char *name;
    int64_t bytes;
};

struct About {
    const char *name;
    std::vector<Fill> fills;
    std::vector<const char *> processors;
    std::vector<Planned> planned;
    std::vector<Setting> settings;
};

// A text that stays as long as the program.
const char *keep(const std::string &text);

// A file of the build, wherever it lies.
const char *in_build(const char *name);

// Run the program as the command line says; its exit status.
int main(const About &about, int count, char **words);

}  // namespace flow
