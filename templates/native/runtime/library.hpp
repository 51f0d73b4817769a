// A program as a library, for main.cpp: what the functions of its header do.
#pragma once
#include "about.hpp"
#include "ends.hpp"
#include "image.hpp"

namespace flow
{

// A message of the program, without a line end.
using Say = void (*)(const char *line);

// What an image of the library does for the caller of another one.
struct Face {
    const About &about;
    Outcome (*create)(const About &about, const char *const *settings, Say say);
    Outcome (*feed)(size_t end, const void *token, double seconds);
    Outcome (*fetch)(size_t end, void *token, double seconds);
    Outcome (*end)();
    Outcome (*close)();
    const char *(*error)();
};

// A program that runs. Its state is that of an image of its own: `create` loads a copy of the
// library, so that any number of them may run, and one may run again.
struct Library {
    Image image;
    const Face *face = nullptr;
    std::string why;
};

// What the image does that this is.
Face face(const About &about);

Outcome create(Library **made, const char *const *settings, Say say);
Outcome feed(Library *library, size_t end, const void *token, double seconds);
Outcome fetch(Library *library, size_t end, void *token, double seconds);
Outcome end(Library *library);
Outcome close(Library *library);
const char *error(const Library *library);

}  // namespace flow
