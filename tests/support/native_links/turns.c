#include <unistd.h>

int count(void *state, int64_t *n, const void *p)
{
    count_state *own = state;
    (void)p;
    n[0] = own->n++;
    n[1] = own->n++;
    return 0;
}

/* Frames take times of their own, so that later ones are done before earlier ones. */
int wide(void *state, const int64_t *n, int64_t *m, int64_t *spare, const void *p)
{
    (void)state, (void)p;
    if (n[0] % 8 == 2)
        usleep(2000);
    m[0] = n[0];
    m[1] = n[1];
    m[2] = n[0] * n[1];
    spare[4] = 1;
    return 0;
}

int slow(void *state, const int64_t *n, int64_t *m, const void *p)
{
    (void)state, (void)p;
    if (n[3] % 3 == 1)
        usleep(500);
    *m = n[0] + 10 * n[1] + 100 * n[2] + 1000 * n[3];
    return 0;
}

int odd(void *state, const int64_t *n, int64_t *m, const void *p)
{
    (void)state, (void)p, (void)n;
    m[0] = 1;
    return 0;
}

int third(void *state, const int64_t *n, int64_t *m, const void *p)
{
    (void)state, (void)p;
    if (*n % 5 == 1)
        usleep(1000);
    *m = *n;
    return *n % 3 == 2 ? 5 : 0;
}

int row(void *state, const int64_t *n, float *x, const void *p)
{
    (void)state, (void)p;
    for (int i = 0; i < 4; i++)
        x[i] = (float)*n + 0.25f * (float)i;
    return 0;
}

int show(void *state, const int64_t *n, const void *p)
{
    (void)state, (void)p, (void)n;
    return 0;
}

int sink(void *state, const float *x, const void *p)
{
    (void)state, (void)p, (void)x;
    return 0;
}
