/* The middle in C: FAULT=c:MOMENT:KIND says when (start, fire, close) and how it goes wrong. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fault(const char *moment)
{
    char wanted[64];
    const char *said = getenv("FAULT");
    if (!said || strncmp(said, "c:", 2) || strncmp(said + 2, moment, strlen(moment)))
        return 0;
    snprintf(wanted, sizeof wanted, "%s", strrchr(said, ':') + 1);
    if (!strcmp(wanted, "status"))
        return 7;
    if (!strcmp(wanted, "exit"))
        exit(0);
    if (!strcmp(wanted, "_exit"))
        _exit(0);
    if (!strcmp(wanted, "segv"))
        *(volatile int *)8 = 0;
    if (!strcmp(wanted, "fpe"))
        raise(SIGFPE);
    if (!strcmp(wanted, "abort"))
        abort();
    puts("hangs");
    fflush(stdout);
    for (;;)
        pause();
}

struct own { int64_t count; };
static struct own own;

void *middle_init(const void *p)
{
    (void)p;
    return fault("start") ? NULL : &own;
}

int middle(void *state, const int64_t *n, int64_t *m, const void *p)
{
    (void)p;
    struct own *s = state;
    *m = *n;
    return ++s->count == 3 ? fault("fire") : 0;
}

void middle_exit(void *state)
{
    (void)state;
    fault("close");
}
