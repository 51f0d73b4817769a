// What firings read and made, for the harness: only in a program that was compiled with
// -DFLOWC_RECORD, which writes it to the file that the variable FLOWC_RECORD names. In all others
// what firings make goes to a recorder, where there is one (--record).
#pragma once
#include <cstdio>

#include "graph.hpp"

namespace flow
{

// Who records a run (recorder.hpp); nullptr where nobody does.
class Recorder;
inline Recorder *recorder = nullptr;

// A firing has made these tokens at an output, has made none of them, or has found a token of that
// number (-1: none yet) on the link that its task reads.
void record_made(const Task &task, int64_t firing, size_t port, const void *tokens);
void record_none(const Task &task, int64_t firing);
void record_found(int64_t firing, int64_t number);

#ifdef FLOWC_RECORD
// Bytes of the task's name, 0 for an input or 1 for an output, its number, firing, bytes of data; then
// the name and the data.
inline void record(const Task &task, int64_t firing, int64_t side, int64_t port, const void *data,
                   size_t bytes)
{
    static FILE *const file = fopen(getenv("FLOWC_RECORD"), "wb");
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    const Known known = task.code.known_as(task, firing);
    const int64_t length = static_cast<int64_t>(strlen(known.name));
    const int64_t head[] = {length, side, port, known.firing, static_cast<int64_t>(bytes)};
    pthread_mutex_lock(&one);
    fwrite(head, sizeof head, 1, file);
    fwrite(known.name, 1, length, file);
    if (bytes)
        fwrite(data, 1, bytes, file);
    pthread_mutex_unlock(&one);
}
// Firings that have failed or were left out: 2 in the place of a side.
inline void record_left_out(const Task &task, int64_t firing, int64_t group = 1)
{
    for (int64_t n = 0; n < group; n++)
        record(task, firing + n, 2, 0, nullptr, 0);
}
#else
inline void record(const Task &task, int64_t firing, int64_t side, int64_t port, const void *data,
                   size_t)
{
    if (side && __builtin_expect(recorder != nullptr, 0))
        record_made(task, firing, static_cast<size_t>(port), data);
}
inline void record_left_out(const Task &task, int64_t firing, int64_t group = 1)
{
    for (int64_t n = 0; __builtin_expect(recorder != nullptr, 0) && n < group; n++)
        record_none(task, firing + n);
}
#endif

}  // namespace flow
