#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct counter { int64_t n; };

static int helper(void) { return 1; }

void *count_init(const count_params *p)
{
    (void)p;
    return getenv("NO_MEMORY") ? NULL : calloc(1, sizeof(struct counter));
}

int count(void *state, int64_t *n, const void *p)
{
    struct counter *c = state;
    const char *last = getenv("LAST"), *waits = getenv("WAITS");
    (void)p;
    if (last && c->n == atoi(last))
        return FLOWC_END;
    if (waits && c->n == atoi(waits))
        pause();
    *n = c->n;
    c->n += helper();
    return 0;
}

void count_exit(void *state)
{
    fprintf(stderr, "closed\n");
    free(state);
}

/* The name of a function in step.cpp as well. */
int step(void *state, const int64_t *n, int64_t *out, const void *p)
{
    step_state *s = state;
    (void)p;
    s->sum += *n;
    *out = s->sum;
    return 0;
}

int show(void *state, const int64_t *n, const show_params *p)
{
    (void)state;
    if (p->what == 1 && *n > 10)
        return 1;
    printf("%lld\n", (long long)*n);
    fflush(stdout);
    return 0;
}
