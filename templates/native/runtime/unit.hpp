// A program that its caller steps, for main.cpp: it has one worker, and the thread of the caller.
#pragma once
#include "about.hpp"
#include "ends.hpp"
#include "unit.h"

namespace flow
{

// What an image does for the caller of another one. False where the program has failed.
struct Steps {
    const About &about;
    bool (*begin)(const About &about, const flow_chosen *chosen, size_t count);
    bool (*step)(void *const *ends);
    void (*end)();
    std::string (*error)();
};

// What the image does that this is.
Steps steps(const About &about);

}  // namespace flow
