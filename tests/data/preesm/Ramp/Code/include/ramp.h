/* A ramp, multiplied and shown. */
#ifndef RAMP_H
#define RAMP_H

#include <preesm.h>

void start(long first);
void count(int n, OUT int *x);
void level(OUT float *gain);
void times(IN const float *gain, IN int *x, int n, OUT int *y);
void show(IN int *before, int n, IN int *y);

#endif
