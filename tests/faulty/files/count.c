#include <stdio.h>

int count(void *state, int32_t *number, const count_params *p)
{
    count_state *s = state;
    *number = s->next++;
    return 0;
}

int show(void *state, const int32_t *number, const show_params *p)
{
    return printf("%d\n", *number) < 0;
}
