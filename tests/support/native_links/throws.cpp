#include <cstdlib>
#include <stdexcept>

// In Python's program, and so in the reference, an exception of C++ is a crash.
int thrower(void *, const int64_t *n, int64_t *m, const void *)
{
    if (*n == 1 && getenv("THROWS"))
        throw std::runtime_error("no luck");
    if (*n == 2 && getenv("THROWS"))
        throw 2;
    *m = *n;
    return 0;
}
