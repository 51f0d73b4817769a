#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int count(void *state, int64_t *n, const void *p)
{
    count_state *own = state;
    const char *last = getenv("LAST");
    (void)p;
    if (last && own->n == atoll(last))
        return FLOWC_END;
    *n = own->n++;
    return 0;
}

int third(void *state, const int64_t *n, int64_t *m, const void *p)
{
    (void)state, (void)p;
    *m = *n;
    return *n % 3 == 2 ? 5 : 0;
}

const char *third_error(void *state)
{
    (void)state;
    return "a third one";
}

/* Fails at its fourth firing, and counts from 0 again then. */
void *anew_init(const void *p)
{
    (void)p;
    return calloc(1, sizeof(int64_t));
}

int anew(void *state, const int64_t *n, int64_t *m, const void *p)
{
    int64_t *own = state;
    const char *fails = getenv("ANEW");
    (void)p;
    *m = 100 * ++*own + *n;
    return *own == 4 && fails ? 4 : 0;
}

void anew_exit(void *state) { free(state); }

int zeroed(void *state, const int64_t *n, int64_t *m, const void *p)
{
    zeroed_state *own = state;
    (void)p;
    *m = 100 * ++own->n + *n;
    return own->n == 5 ? 1 : 0;
}

int pair(void *state, const int64_t *m, int64_t *s, const void *p)
{
    (void)state, (void)p;
    *s = 1000 * m[0] + m[1];
    return 0;
}

int halves(void *state, const int64_t *m, int64_t *s, const void *p)
{
    (void)state, (void)p;
    *s = m[0] + m[1];
    return 0;
}

int copies(void *state, const int64_t *m, int64_t *s, const void *p)
{
    (void)state, (void)p;
    *s = 1000 * m[0] + m[1];
    return 0;
}

int both(void *state, const int64_t *a, const int64_t *b, int64_t *s, const void *p)
{
    (void)state, (void)p;
    *s = 1000 * *a + *b;
    return 0;
}

int show(void *state, const int64_t *n, const show_params *p)
{
    (void)state;
    printf("%s %lld\n", p->who, (long long)*n);
    fflush(stdout);
    return 0;
}

/* Fails before each tenth number, which then follows, and ends after 40 of them. What has been does
   not begin anew with the task. */
int radio(void *state, int64_t *n, const radio_params *p)
{
    static int64_t numbers[2], failures[2];
    const int which = !strcmp(p->who, "SONAR");
    (void)state;
    if (numbers[which] == 40)
        return FLOWC_END;
    if (numbers[which] % 10 == 9 && failures[which] <= numbers[which] / 10) {
        failures[which]++;
        return 2;
    }
    *n = numbers[which]++;
    return 0;
}
