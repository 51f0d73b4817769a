/* A program that its caller steps, such as a unit of FMI: each step is an iteration, in the thread that asks for
   it. It starts no thread. Any number of them may run in a process, each with all of its state. */
#ifndef FLOW_UNIT_H
#define FLOW_UNIT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct flow_unit flow_unit;

/* A value of a parameter, by its path: where an int64_t, a double, a bool, or the address of a text is. */
typedef struct {
    const char *path;
    const void *value;
} flow_chosen;

/* Start all tasks; the files of the program are in the folder `home`. `*made` is to be ended even if this fails.
   0, or 1: flow_unit_error tells why. */
int flow_unit_begin(flow_unit **made, const char *home, const flow_chosen *chosen, size_t count);

/* One iteration: the tokens of each open end are at one of these addresses, in the order of main.cpp. 0, or 1 with
   the reason; then only the end may follow. */
int flow_unit_step(flow_unit *unit, void *const *ends);

/* End all tasks that have started, and free it. */
void flow_unit_end(flow_unit *unit);

/* Why it has failed, in memory of the caller. */
void flow_unit_error(const flow_unit *unit, char *said, size_t size);

#ifdef __cplusplus
}
#endif

#endif
