/* What the code of a HOPES task (`.cic`) calls, on top of a task in C of flowc. HOPES itself is not needed.

   A file that includes this one has said before: TASK_NAME, CIC_TURNS (turns of the loop around the task; 1: none),
   CIC_MODE (the name of a mode), CIC_PORTS and CIC_PARAMETERS (lists of what is defined below, each item with its
   comma). A firing has all of its data when it begins, so nothing waits; when it ends, the bytes that it moved have to
   be those that rate and sample_size say. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The header of the prototypes has included <complex.h> and <stdbool.h>: code may have other uses for their words, or
   include them itself. */
#undef I
#undef complex
#undef _COMPLEX_H
#ifndef __cplusplus
#undef bool
#undef true
#undef false
#undef _STDBOOL_H
#undef __STDBOOL_H
#endif

#define CIC_IN(name, bytes) { name, CIC_READ, 0, bytes, 0, 0, 0, 0, 0 }
#define CIC_OUT(name, bytes) { name, CIC_WRITTEN, 0, bytes, 0, 0, 0, 0, 0 }
/* The first bytes are initial tokens that the code has itself, and does not read. */
#define CIC_HELD(name, bytes, held) { name, CIC_READ, 0, bytes, 0, held, 0, 0, 0 }
/* At the borders of loops a firing may leave a port alone: an input that all turns see, or that the first one does
   without; an output to the next turn, and one of which the last turn counts, where the token is then the one before. */
#define CIC_SHARED(name, bytes) { name, CIC_READ, 1, bytes, 0, 0, 0, 0, 0 }
#define CIC_NEXT(name, bytes) { name, CIC_WRITTEN, 1, bytes, 0, 0, 0, 0, 0 }
#define CIC_LAST(name, bytes) { name, CIC_WRITTEN, 2, bytes, 0, 0, 0, 0, 0 }
/* The newest token: a firing may leave it as it is, or not look. */
#define CIC_SEEN(name, bytes) CIC_SHARED(name, bytes)
#define CIC_NEWEST(name, bytes) CIC_LAST(name, bytes)
/* A port that nothing is connected to: what is written there is gone. */
#define CIC_LOOSE(name) { name, CIC_NOWHERE, 1, 0, 0, 0, 0, 0, 0 }
#define CIC_VALUE(task, name) { task, name, 0 }

enum { CIC_READ = 1, CIC_WRITTEN, CIC_NOWHERE };
typedef struct {
    const char *name;
    int way, optional;
    long long bytes, done, held, left;
    unsigned char *data, *last;
} cic_port;

typedef struct {
    const char *task, *name;
    double value;
} cic_parameter;

static cic_port cic_ports[] = { CIC_PORTS { 0 } };
static cic_parameter cic_parameters[] = { CIC_PARAMETERS { 0 } };
static long long cic_firing;
static char cic_said[300];

static void cic_init(int), cic_go(int), cic_wrapup(void);

/* Why this firing has failed; the first reason counts. */
#define cic_wrong(...) (*cic_said ? 0 : snprintf(cic_said, sizeof cic_said, __VA_ARGS__))

/* -- ports: the number of one is its place in the table ------------------------------------------------------------ */
static inline int cic_find(const char *name)
{
    for (int i = 0; cic_ports[i].name; i++)
        if (!strcmp(cic_ports[i].name, name))
            return i;
    return -1;
}

static inline cic_port *cic_at(int port)
{
    return port < 0 || port >= (int)(sizeof cic_ports / sizeof *cic_ports) - 1 ? NULL : cic_ports + port;
}

static inline int cic_moved(int port, int way, const char *what, void *buffer, long long bytes)
{
    cic_port *p = cic_at(port);
    if (!p || bytes < 0)
        return cic_wrong("it %s %lld bytes through a port that it does not have", what, bytes), 0;
    if (p->way == CIC_NOWHERE && way == CIC_WRITTEN)
        return 0;
    if (p->way != way || !p->data) {
        cic_wrong("it %s port `%s`, which is %s", what, p->name, p->way == CIC_NOWHERE ? "not connected" :
                  p->way == way ? "for firings only" : way == CIC_READ ? "an output" : "an input");
        return 0;
    }
    long long left = p->bytes - p->done, now = bytes < left ? bytes : left;
    if (now > 0)
        memcpy(way == CIC_READ ? buffer : p->data + p->done, way == CIC_READ ? p->data + p->done : buffer, (size_t)now);
    p->done += bytes;
    return now > 0 ? (int)now : 0;
}

static inline int cic_available(int port)
{
    cic_port *p = cic_at(port);
    return !p ? 0 : (int)(p->way == CIC_READ ? p->bytes - p->done : p->done);
}

static inline int PORT_INITIALIZE(int task, const char *name) { return (void)task, cic_find(name); }
static inline int MQ_RECEIVE(int port, void *to, int bytes) { return cic_moved(port, CIC_READ, "reads", to, bytes); }
static inline int MQ_SEND(int port, const void *from, int bytes)
{
    return cic_moved(port, CIC_WRITTEN, "writes", (void *)from, bytes);
}
/* Buffers: each reading is of the newest token, the last writing counts, and a part of a token may do. */
static inline int cic_whole(int port, int moved)
{
    cic_port *p = cic_at(port);
    if (p && p->done > 0 && p->done <= p->bytes)
        p->done = p->bytes;
    return moved;
}
static inline void cic_again(int port)
{
    cic_port *p = cic_at(port);
    if (p)
        p->done = 0;
    if (p && p->last && p->data)
        memcpy(p->data, p->last, (size_t)p->bytes);
}
static inline int BUF_RECEIVE(int port, void *to, int bytes)
{
    return cic_again(port), cic_whole(port, MQ_RECEIVE(port, to, bytes));
}
static inline int BUF_SEND(int port, const void *from, int bytes)
{
    return cic_again(port), cic_whole(port, MQ_SEND(port, from, bytes));
}
static inline int MQ_AVAILABLE(int port) { return cic_available(port); }
/* Chunks of arrays are the tokens of turns, in their order: an index says nothing that is not known. */
static inline int AC_RECEIVE(int port, void *to, int bytes, int index)
{
    return (void)index, MQ_RECEIVE(port, to, bytes);
}
static inline int AC_SEND(int port, const void *from, int bytes, int index)
{
    return (void)index, MQ_SEND(port, from, bytes);
}
static inline int AC_CHECK(int port) { return cic_available(port) > 0 ? (int)(cic_firing % CIC_TURNS) : -1; }

/* -- the same with results ----------------------------------------------------------------------------------------- */
typedef int uem_result, uem_bool, uem_size;
typedef long long uem_time;
typedef unsigned char uem_uint8;
typedef unsigned int uem_uint32;
enum { ERR_UEM_NOERROR = 0, ERR_UEM_INFORMATION = 0x10000000, ERR_UEM_ERROR = 0x20000000, ERR_UEM_UNKNOWN,
       ERR_UEM_INVALID_PARAM, ERR_UEM_OUT_OF_MEMORY, ERR_UEM_NO_DATA, ERR_UEM_INTERNAL_FAIL, ERR_UEM_NOT_FOUND };
#define ERRIFGOTO(result, label) do { if ((result) & ERR_UEM_ERROR) goto label; } while (0)
#define ERRASSIGNGOTO(result, error, label) do { result = error; goto label; } while (0)
#define IFVARERRASSIGNGOTO(variable, value, result, error, label) \
    do { if ((variable) == (value)) { result = error; goto label; } } while (0)
#define ERRMEMGOTO(variable, result, label) IFVARERRASSIGNGOTO(variable, NULL, result, ERR_UEM_OUT_OF_MEMORY, label)
#define UEMASSIGNGOTO(result, error, label) ERRASSIGNGOTO(result, error, label)
#define UEM_DEBUG_PRINT(...)
#define IN
#define OUT
#define TRUE 1
#define FALSE 0
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define ARRAYLEN(array) (sizeof(array) / sizeof((array)[0]))

static inline uem_result UFPort_Initialize(int task, const char *name, int *port)
{
    return (*port = PORT_INITIALIZE(task, name)) < 0 ? ERR_UEM_NOT_FOUND : ERR_UEM_NOERROR;
}
static inline uem_result UFPort_ReadFromQueue(int port, void *to, int bytes, int index, int *done)
{
    return (*done = AC_RECEIVE(port, to, bytes, index)) == bytes ? ERR_UEM_NOERROR : ERR_UEM_NO_DATA;
}
static inline uem_result UFPort_WriteToQueue(int port, const void *from, int bytes, int index, int *done)
{
    return (*done = AC_SEND(port, from, bytes, index)) == bytes ? ERR_UEM_NOERROR : ERR_UEM_NO_DATA;
}
static inline uem_result UFPort_ReadFromBuffer(int port, void *to, int bytes, int index, int *done)
{
    return (void)index, (*done = BUF_RECEIVE(port, to, bytes)) == bytes ? ERR_UEM_NOERROR : ERR_UEM_NO_DATA;
}
static inline uem_result UFPort_WriteToBuffer(int port, const void *from, int bytes, int index, int *done)
{
    return (void)index, (*done = BUF_SEND(port, from, bytes)) == bytes ? ERR_UEM_NOERROR : ERR_UEM_NO_DATA;
}
static inline uem_result UFPort_GetNumOfAvailableData(int port, int index, int *bytes)
{
    return (void)index, *bytes = MQ_AVAILABLE(port), ERR_UEM_NOERROR;
}
static inline uem_result UFPort_GetAvailableIndex(int port, int *index)
{
    return (*index = AC_CHECK(port)) < 0 ? ERR_UEM_NO_DATA : ERR_UEM_NOERROR;
}
/* The bytes of a firing: the size of a channel is unknown here. */
static inline int UFPort_GetChannelSize(int port)
{
    return cic_at(port) ? (int)cic_ports[port].bytes : -1;
}
static inline uem_result UFLoop_GetIteration(int task, int thread, int *turn)
{
    return (void)task, (void)thread, *turn = (int)(cic_firing % CIC_TURNS), ERR_UEM_NOERROR;
}
/* Loops run all of their turns: this was said when the project was imported. */
static inline uem_result UFLoop_StopNextIteration(int task) { return (void)task, ERR_UEM_NOERROR; }

/* -- parameters ---------------------------------------------------------------------------------------------------- */
static inline double cic_parameter_of(const char *task, const char *name)
{
    for (int i = 0; cic_parameters[i].name; i++)
        if (!strcmp(cic_parameters[i].task, task) && !strcmp(cic_parameters[i].name, name))
            return cic_parameters[i].value;
    return cic_wrong("it asks for the parameter `%s` of `%s`, which there is not", name, task), 0.0;
}
#define SYS_REQ(request, ...) SYS_REQ_##request(__VA_ARGS__)
#define SYS_REQ_GET_PARAM_INT(task, name) ((long)cic_parameter_of(task, name))
#define SYS_REQ_GET_PARAM_FLOAT(task, name) cic_parameter_of(task, name)
/* The mode that was imported, of the task or of what is around it. */
#define SYS_REQ_GET_CURRENT_MODE_NAME(...) ((char *)CIC_MODE)

/* -- libraries ----------------------------------------------------------------------------------------------------- */
#define LIBCALL(port, ...) LIBCALL_##port(__VA_ARGS__)

/* -- the task ------------------------------------------------------------------------------------------------------ */
#define TASK_CODE_BEGIN
#define TASK_CODE_END
#define TASK_INIT static void cic_init(int TASK_ID)
#define TASK_GO static void cic_go(int nTaskId)
#define TASK_WRAPUP static void cic_wrapup(void)
#define THIS_TASK_ID 0
#define THIS_THREAD_ID 0
#define STATIC static

static inline void *cic_start(void)
{
    *cic_said = 0;
    cic_firing = 0;
    for (cic_port *p = cic_ports; p->name; p++) {
        p->left = p->held;
        if (p->optional == 2 && !p->last && !(p->last = (unsigned char *)calloc(1, (size_t)p->bytes)))
            return NULL;
    }
    cic_init(0);
    fflush(stdout);
    if (!*cic_said)
        return cic_ports;
    fprintf(stderr, "%s_init: %s\n", TASK_NAME, cic_said); /* flowc calls no _error without a state */
    return NULL;
}

static inline int cic_fire(const void *const *data)
{
    int i = 0;
    *cic_said = 0;
    for (cic_port *p = cic_ports; p->name; p++) {
        p->data = p->way == CIC_NOWHERE ? NULL : (unsigned char *)data[i++];
        p->done = p->left < p->bytes ? p->left : p->bytes;
        p->left -= p->done;
    }
    cic_go(0);
    cic_firing++;
    for (cic_port *p = cic_ports; p->name; p++) {
        if (p->done != p->bytes && !(p->optional && !p->done))
            cic_wrong("port `%s`: %lld bytes were %s, and rate and sample_size say %lld", p->name, p->done,
                      p->way == CIC_READ ? "read" : "written", p->bytes);
        else if (p->last && p->done)
            memcpy(p->last, p->data, (size_t)p->bytes);
        else if (p->last)
            memcpy(p->data, p->last, (size_t)p->bytes);
    }
    fflush(stdout);
    return *cic_said != 0;
}

static inline void cic_end(void)
{
    for (cic_port *p = cic_ports; p->name; p++)
        p->data = NULL;
    cic_wrapup();
    fflush(stdout);
}

/* HOPES compiles its code without these errors, and it is not ours to mend. */
#ifndef __cplusplus
#pragma GCC diagnostic ignored "-Wincompatible-pointer-types"
#pragma GCC diagnostic ignored "-Wint-conversion"
#pragma GCC diagnostic ignored "-Wimplicit-function-declaration"
#endif
