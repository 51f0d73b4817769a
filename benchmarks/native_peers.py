"""What `native.py` compares: texts with tasks in C, and peers in C++ that are written by hand.

The loop of spotter calls the same functions as the program and the same inference; two threads hand
a buffer to each other by POSIX semaphores; a thread sleeps until the next ms, as cyclictest does.
The threads of the last two are under SCHED_FIFO, on a core each.
"""

from __future__ import annotations

#: Tasks of a chain, and bytes of a token that goes there and back.
TASKS, MEGABYTE = 50, 1_000_000
#: Milliseconds of an app with a period of 1 ms.
TICKS = 2000

C = f"enum {{ TICKS = {TICKS} }};\n"
C += """int source(void *state, float *y, const void *p) { *y = 1; return 0; }
int same(void *state, const float *x, float *y, const void *p) { *y = *x; return 0; }
int sink(void *state, const float *x, const void *p) { return 0; }
int pass(void *state, const uint8_t *x, uint8_t *y, const void *p) { *y = *x; return 0; }
int tick(void *state, int64_t *y, const void *p) { return 0; }
int tock(void *state, const int64_t *x, const void *p) { return 0; }
static volatile int over;
int clock_of_all(void *state, float *y, const void *p)
{
    static int ticks;
    over = ticks++ == TICKS;
    *y = 1;
    return over ? FLOWC_END : 0;
}
int until(void *state, float *y, const void *p) { *y = 1; return over ? FLOWC_END : 0; }
int top(void *state, const float *logits, const void *p) { return 0; }
int step(void *state, const float *x, float *y, const void *p)
{
    volatile float v = *x;
    for (int i = 0; i < 20000; i++)
        v = v * 0.999f + 0.001f;
    *y = v;
    return 0;
}
"""
HOP = f"""type Token = uint8[{MEGABYTE}]
task Pass {{ in x: Token   out y: Token   c "tasks.c:pass" }}
app Hop {{
    ping: Pass   pong: Pass
    ping -> pong -> delay 1 -> ping
}}
platform two {{ cpu core[2] }}
mapping on two {{ Hop.ping -> core[0]   Hop.pong -> core[1] }}
"""
TICK = """task Tick { out y: int64   c "tasks.c:tick" }
task Tock { in x: int64   c "tasks.c:tock" }
app Clock {
    period 1 ms
    tick: Tick   tock: Tock
    tick -> tock
}
platform two { cpu core[2] }
mapping on two { Clock.tick -> core[0]   Clock.tock -> core[0] }
"""

#: An app of 1 kHz with a step of some 80 us, beside a network, and beside a task that is always busy
#: on its own core. With its stream those of the others end.
BESIDE = """type Image = float32[1, 3, 224, 224]
type Logits = float32[1, 1000]
task Clock { out y: float32   c "tasks.c:clock_of_all" }
task Source { out y: float32   c "tasks.c:until" }
task Step { in x: float32   out y: float32   c "tasks.c:step" }
task Sink { in x: float32   c "tasks.c:sink" }
task Camera { out image: Image   c "tasks.c:until" }
network Net from "mobilenet.onnx" { in image: Image   out logits: Logits   batch 1 }
task Top { in logits: Logits   c "tasks.c:top" }
app Control {
    period 1 ms
    source: Clock   step: Step   sink: Sink
    source -> step -> sink
}
app See {
    camera: Camera   net: Net   top: Top
    camera -> net -> top
}
app Busy {
    source: Source   step: Step   sink: Sink
    source -> step -> sink
}
platform two { cpu core[2] scheduler fixed_priority }
mapping on two {
    Control.source -> core[0]   Control.step -> core[0]   Control.sink -> core[0]
    See.camera -> core[1]   See.net -> core[1]   See.top -> core[1]
    Busy.source -> core[0]   Busy.step -> core[0]   Busy.sink -> core[0]
}
"""


def chain(processors: int) -> str:
    """A chain of TASKS tasks, dealt out to processors."""
    names = [f"t{i}" for i in range(TASKS)]
    kinds = ["Source", *["Same"] * (TASKS - 2), "Sink"]
    instances = "\n".join(f"    {name}: {kind}" for name, kind in zip(names, kinds, strict=True))
    pins = "\n".join(f"    Chain.{name} -> core[{i % processors}]" for i, name in enumerate(names))
    return f"""task Source {{ out y: float32   c "tasks.c:source" }}
task Same {{ in x: float32   out y: float32   c "tasks.c:same" }}
task Sink {{ in x: float32   c "tasks.c:sink" }}
app Chain {{
{instances}
    {" -> ".join(names)}
}}
platform two {{ cpu core[2] }}
mapping on two {{
{pins}
}}
"""


#: What peers have in common: a clock, and threads that are bound to a core under SCHED_FIFO.
COMMON = r"""
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <time.h>
static int64_t now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
static void real_time(int core)
{
    sched_param p{}; p.sched_priority = 50;
    cpu_set_t one; CPU_ZERO(&one); CPU_SET(core, &one);
    if (sched_setscheduler(0, SCHED_FIFO, &p) || sched_setaffinity(0, sizeof one, &one)) exit(3);
    prctl(PR_SET_TIMERSLACK, 1);
}
"""
SEMAPHORES = rf"""
static sem_t there, back;
static uint8_t tokens[2][{MEGABYTE}];
static int count;
static void *answer(void *)
{{
    real_time(1);
    for (int i = 0; i < count; i++) {{
        sem_wait(&there);
        memset(tokens[1], 0, {MEGABYTE});
        tokens[1][0] = tokens[0][0];
        sem_post(&back);
    }}
    return nullptr;
}}
int main(int, char **words)
{{
    count = atoi(words[1]);
    sem_init(&there, 0, 0), sem_init(&back, 0, 0);
    pthread_t thread;
    pthread_create(&thread, nullptr, answer, nullptr);
    real_time(0);
    const int64_t begin = now();
    for (int i = 0; i < count; i++) {{
        memset(tokens[0], 0, {MEGABYTE});
        tokens[0][0] = tokens[1][0];
        sem_post(&there);
        sem_wait(&back);
    }}
    printf("%f\n", (now() - begin) / 2e3 / count);
    pthread_join(thread, nullptr);
}}
"""
SLEEPS = r"""
int main(int, char **words)
{
    const int count = atoi(words[1]);
    std::vector<int64_t> late;
    late.reserve(count);
    real_time(0);
    int64_t due = now();
    for (int i = 0; i < count; i++) {
        due += 1000000;
        const timespec t{due / 1000000000, due % 1000000000};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr)) {}
        late.push_back(now() - due);
    }
    std::sort(late.begin(), late.end());
    printf("%f %f\n", late[count / 2] / 1e3, late[count * 99 / 100] / 1e3);
}
"""
#: Spotter's functions in a loop, as a person would write it: overlaps are moved, nothing else is.
PLAIN = r"""
#include "native/flow.hpp"
#include "native/network.hpp"
extern "C" {
void *spotter_microphone_init(const void *); int spotter_microphone(void *, float *, const void *);
void *spotter_spectrum_init(const void *); int spotter_spectrum(void *, const float *, float *, const void *);
int mel_mel(void *, const float *, float *, const void *);
int spotter_picture(void *, const float *, float *, const void *);
int spotter_smooth(void *, const float *, const float *, float *, const void *);
int spotter_events(void *, const float *, const void *);
}
static float x[240 + 2560], power[257], mels[41 * 40 + 640], seen[49 * 40], scores[5], sure[3][5];
static flow::Network words("networks/spotter.onnx", 1, false);
static const flow::Tensor in(words, flow::Tensor::IN, "picture", 1, {1, 1, 49, 40}, seen, 1, sizeof seen, 1);
static const flow::Tensor out(words, flow::Tensor::OUT, "scores", 1, {1, 5}, scores, 1, sizeof scores, 1);
int main(int, char **given)
{
    const int count = atoi(given[1]);
    struct { const char *sound; int64_t loops; } mic = {flow::in_build("data/sound.wav"), 1 << 30};
    struct { double value; } weight = {0.5}, threshold = {0.6};
    struct { int64_t decisions, events, word; } kept = {};
    void *m = spotter_microphone_init(&mic), *s = spotter_spectrum_init(nullptr);
    const std::string why = words.open();
    if (!why.empty()) { fprintf(stderr, "%s\n", why.c_str()); return 1; }
    const flow::ns begin = flow::now();
    for (int k = 0; k < count; k++) {
        for (int i = 0; i < 5; i++)
            spotter_microphone(m, x + 240 + 512 * i, &mic);
        for (int i = 0; i < 16; i++) {
            spotter_spectrum(s, x + 160 * i, power, nullptr);
            mel_mel(nullptr, power, mels + 41 * 40 + 40 * i, nullptr);
        }
        for (int i = 0; i < 2; i++) {
            spotter_picture(nullptr, mels + 320 * i, seen, nullptr);
            words.run({seen}, {scores});
            spotter_smooth(nullptr, scores, sure[i], sure[i + 1], &weight);
            spotter_events(&kept, sure[i + 1], &threshold);
        }
        memmove(x, x + 2560, 240 * sizeof *x);
        memmove(mels, mels + 640, 41 * 40 * sizeof *mels);
        memcpy(sure[0], sure[2], sizeof *sure);
    }
    fprintf(stderr, "%f\n", double(flow::now() - begin) / 1e3 / count);
}
"""
