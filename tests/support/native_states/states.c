#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Ends after LAST numbers, where that is set; each frame takes SLOW microseconds. */
int count(void *state, int64_t *n, const void *p)
{
    count_state *own = state;
    const char *last = getenv("LAST"), *slow = getenv("SLOW");
    (void)p;
    if (last && own->n >= atoll(last))
        return FLOWC_END;
    if (slow)
        usleep(atoi(slow));
    n[0] = own->n++;
    n[1] = own->n++;
    return 0;
}

int third(void *state, const int64_t *n, int64_t *m, const void *p)
{
    (void)state, (void)p;
    *m = *n;
    return *n % 7 == 5 ? 5 : 0;
}

int pair(void *state, const int64_t *m, int64_t *s, const void *p)
{
    pair_state *own = state;
    (void)p;
    *s = own->sum = (own->sum + 100 * m[0] + 10 * m[1] + m[2]) % 100003;
    return 0;
}

int slow(void *state, const int64_t *n, int64_t *m, const void *p)
{
    (void)state, (void)p;
    *m = 1000 * n[0] + n[3];
    return 0;
}

int both(void *state, const int64_t *a, const int64_t *b, int64_t *s, const void *p)
{
    (void)state, (void)p;
    *s = (3 * *a + *b) % 1009;
    return 0;
}

int row(void *state, const int64_t *n, float *x, const void *p)
{
    (void)state, (void)p;
    for (int i = 0; i < 4; i++)
        x[i] = (float)(*n % 1000 + i);
    return 0;
}

int sink(void *state, const float *x, const void *p)
{
    (void)state, (void)p;
    printf("rows %d\n", (int)(x[0] + x[7]));
    fflush(stdout);
    return 0;
}

int show(void *state, const int64_t *n, const show_params *p)
{
    (void)state;
    printf("%s %lld\n", p->who, (long long)*n);
    fflush(stdout);
    return 0;
}

int radio(void *state, int64_t *n, const void *p)
{
    radio_state *own = state;
    (void)p;
    usleep(1000);
    *n = own->n++;
    return 0;
}
