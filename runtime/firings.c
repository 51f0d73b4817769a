/* Firings of tasks in C that follow each other, without Python in between: what chain.py has worked out is done here.

   A place is a base (0: the chain's own memory, then blocks from outside) and an offset in bytes. The steps, the pieces
   that are copied together for them, and their arguments (8 at most) lie in one table each. */
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef struct {
    int64_t base, offset;
} place;

typedef struct {
    place from, to;
    int64_t bytes;
} piece;

typedef struct {
    place at;
    int64_t cleared; /* bytes of an output: a task may count on zeros there */
} argument;

typedef struct {
    void *function, *state, *parameters;
    int64_t task, number, stage, per_iteration, offset; /* firing = (round - stage) * per_iteration + offset */
    int64_t first_piece, pieces, first_argument, arguments;
} step;

typedef struct {
    int64_t busy, longest;
    double squares;
} sums;

typedef struct {
    const step *steps;
    const piece *pieces;
    const argument *arguments;
    char **bases;
    sums *sums;
    volatile int64_t *line; /* what the worker is doing: number of the task, firing, since when */
    int64_t count, status;
} chain;

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static int call(const step *s, void **a)
{
    void *z = s->state, *p = s->parameters;
#define V void *
#define CALL(types, ...) ((int (*) types)s->function)(__VA_ARGS__)
    switch (s->arguments) {
    case 0: return CALL((V, V), z, p);
    case 1: return CALL((V, V, V), z, a[0], p);
    case 2: return CALL((V, V, V, V), z, a[0], a[1], p);
    case 3: return CALL((V, V, V, V, V), z, a[0], a[1], a[2], p);
    case 4: return CALL((V, V, V, V, V, V), z, a[0], a[1], a[2], a[3], p);
    case 5: return CALL((V, V, V, V, V, V, V), z, a[0], a[1], a[2], a[3], a[4], p);
    case 6: return CALL((V, V, V, V, V, V, V, V), z, a[0], a[1], a[2], a[3], a[4], a[5], p);
    case 7: return CALL((V, V, V, V, V, V, V, V, V), z, a[0], a[1], a[2], a[3], a[4], a[5], a[6], p);
    default: return CALL((V, V, V, V, V, V, V, V, V, V), z, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], p);
    }
}

/* Fire from step `first` on, in that round, until all have fired or `most` ns are over: the next step to fire.
   Where one returns something else than 0, that is in `status`, and the result is -1 - its number. */
int64_t flowc_chain(chain *c, int64_t first, int64_t round, int64_t most)
{
    int64_t began = now(), start = began;
    for (int64_t i = first; i < c->count; i++) {
        const step *s = c->steps + i;
        void *given[8];
        c->line[1] = (round - s->stage) * s->per_iteration + s->offset;
        c->line[2] = start;
        c->line[0] = s->number;
        for (const piece *p = c->pieces + s->first_piece, *end = p + s->pieces; p < end; p++)
            memmove(c->bases[p->to.base] + p->to.offset, c->bases[p->from.base] + p->from.offset, (size_t)p->bytes);
        for (int64_t k = 0; k < s->arguments; k++) {
            const argument *a = c->arguments + s->first_argument + k;
            given[k] = c->bases[a->at.base] + a->at.offset;
            if (a->cleared)
                memset(given[k], 0, (size_t)a->cleared);
        }
        int status = call(s, given);
        if (status) {
            c->status = status;
            return -1 - i;
        }
        int64_t end = now(), spent = end - start;
        sums *t = c->sums + s->task;
        t->busy += spent;
        t->squares += (double)spent * (double)spent;
        if (spent > t->longest)
            t->longest = spent;
        if (end - began > most)
            return i + 1;
        start = end;
    }
    return c->count;
}
