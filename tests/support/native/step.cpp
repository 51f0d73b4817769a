#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>
#include <unistd.h>

static int helper() { return 0; }

static std::vector<int64_t> seen; // of templates that both sources may have

int step(void *, const int64_t *n, int64_t *out, const step_params *p)
{
    seen.push_back(*n);
    *out = *n;
    if (*n != 5)
        return helper();
    switch (p->what) {
    case 1:
        return 3;
    case 2:
        return *(volatile int *)nullptr;
    case 3:
        exit(0);
    case 4:
        (void)!write(1, "hangs\n", 6);
        for (;;)
            pause();
    case 5:
        throw std::runtime_error("no luck with " + std::string(p->at));
    case 6:
        return FLOWC_END;
    case 7:
        abort();
    case 8:
        if (fork() == 0)
            return 0;
        break;
    case 9:
        return system("kill -TERM $$; exit 0") == SIGTERM ? 0 : 9; // as anywhere else
    }
    return 0;
}

const char *step_error(void *) { return "no signal"; }
