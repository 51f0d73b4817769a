#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct camera { int64_t n; };

/* The number behind a letter in the variable with the name of the camera: L ends it there, W waits,
   C crashes, F fails, and T is the time between two frames in ms. */
static int64_t asked(const char *who, char what, int64_t otherwise)
{
    const char *text = getenv(who), *at = text ? strchr(text, what) : NULL;
    return at ? atoll(at + 1) : otherwise;
}

void *cam_init(const cam_params *p)
{
    (void)p;
    return calloc(1, sizeof(struct camera));
}

int cam(void *state, int64_t *v, int64_t *twice, const cam_params *p)
{
    struct camera *c = state;
    if (c->n == asked(p->who, 'L', 50))
        return FLOWC_END;
    if (c->n == asked(p->who, 'W', -1))
        pause();
    if (c->n == asked(p->who, 'C', -1))
        abort();
    if (c->n == asked(p->who, 'F', -1))
        return 3;
    usleep(1000 * asked(p->who, 'T', 1));
    for (int i = 0; i < 4; i++) {
        if (v[i] || twice[i])
            return 8; /* it has to be zero */
        v[i] = c->n + i;
        twice[i] = 2 * c->n;
    }
    c->n++;
    return 0;
}

void cam_exit(void *state)
{
    fprintf(stderr, "closed\n");
    free(state);
}

int sum(void *state, const int64_t *a, const int64_t *b, int64_t *s, const void *p)
{
    sum_state *own = state;
    (void)p;
    own->sum += a[0] + b[3] - 2 * a[0]; /* 0 + 1 + 2 + ..., as long as both ports belong together */
    for (int i = 0; i < 4; i++)
        s[i] = own->sum + i;
    return 0;
}

int count(void *state, int64_t *v, const void *p)
{
    count_state *own = state;
    (void)p;
    if (own->n == asked("SHARE", 'L', 10))
        return FLOWC_END;
    v[0] = own->n++;
    return 0;
}

/* Computes for half a millisecond of its thread. */
int busy(void *state, const int64_t *v, int64_t *s, const void *p)
{
    struct timespec now, begin;
    (void)state, (void)p;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < 500000);
    s[0] = v[0];
    return 0;
}

int join(void *state, const int64_t *a, const int64_t *b, int64_t *s, const void *p)
{
    (void)state, (void)p;
    for (int i = 0; i < 4; i++)
        s[i] = 1000000 * a[i] + b[i];
    return 0;
}

int show(void *state, const int64_t *s, const show_params *p)
{
    (void)state;
    usleep(1000 * asked("SHOW", p->who[0], 0));
    printf("%s %lld\n", p->who, (long long)s[0]);
    fflush(stdout);
    return 0;
}
