#include "ramp.h"
#include "gains.h"
#include <stdio.h>

static long next;

void start(long first) { next = first; }

void count(int n, int *x)
{
    for (int i = 0; i < n; i++)
        x[i] = (int)next++;
}

void level(float *gain) { *gain = GAIN; }

/* Writes what it reads, as PREESM lets it. */
void times(const float *gain, int *x, int n, int *y)
{
    for (int i = 0; i < n; i++) {
        x[i] *= (int)*gain;
        y[i] = x[i];
    }
}

void show(int *before, int n, int *y)
{
    for (int i = 0; i < n; i++)
        printf("%d<%d%s", before[i], y[i], i + 1 < n ? " " : "\n");
    fflush(stdout);
}
