"""Exported projects of HOPES, run without HOPES: a thread for each task, and queues as long as the
project says.

What stands here for HOPES is what its wrappers call. Schedules and priorities are the system's.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from builds import HANGS

SCHEMA = "{http://peace.snu.ac.kr/CICXMLSchema}"
_MACROS = """
#define TASK_CODE_BEGIN
#define TASK_CODE_END
#define STATIC static
#define IN
#define OUT
#define THIS_THREAD_ID 0
#define ERR_UEM_NOERROR 0
#define TASK_INIT void NAME_init(int TASK_ID)
#define TASK_GO void NAME_go(int nTaskId)
#define TASK_WRAPUP void NAME_wrapup(void)
#define PORT_INITIALIZE(task, port) stand_in_port("NAME", port)
int stand_in_port(const char *task, const char *port);
int UFPort_ReadFromQueue(int port, unsigned char *data, int bytes, int chunk, int *moved);
int UFPort_WriteToQueue(int port, unsigned char *data, int bytes, int chunk, int *moved);
int UFPort_ReadFromBuffer(int port, unsigned char *data, int bytes, int chunk, int *moved);
int UFPort_WriteToBuffer(int port, unsigned char *data, int bytes, int chunk, int *moved);
"""
_MAIN = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static struct { const char *from, *out, *to, *in; int size, bytes, initial, used, first; unsigned char *data; } queues[] = {
QUEUES    { NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL } };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved_some = PTHREAD_COND_INITIALIZER;
static struct { const char *task, *port; } ports[4096];
static int known;
int stand_in_port(const char *task, const char *port)
{
    pthread_mutex_lock(&lock);
    ports[known].task = task;
    ports[known++].port = port;
    pthread_mutex_unlock(&lock);
    return known - 1;
}
int UFPort_ReadFromQueue(int port, unsigned char *data, int bytes, int chunk, int *moved)
{
    int i, k;
    if (bytes <= 0)
        return 1;
    pthread_mutex_lock(&lock);
    for (i = 0; strcmp(queues[i].to, ports[port].task) || strcmp(queues[i].in, ports[port].port); i++)
        ;
    while (queues[i].used < bytes)
        pthread_cond_wait(&moved_some, &lock);
    for (k = 0; k < bytes; k++)
        data[k] = queues[i].data[(queues[i].first + k) % queues[i].size];
    queues[i].first = (queues[i].first + bytes) % queues[i].size;
    queues[i].used -= bytes;
    pthread_cond_broadcast(&moved_some);
    pthread_mutex_unlock(&lock);
    return *moved = 0;
}
int UFPort_WriteToQueue(int port, unsigned char *data, int bytes, int chunk, int *moved)
{
    int i, k;
    pthread_mutex_lock(&lock);
    for (i = 0; queues[i].from; i++) {
        if (strcmp(queues[i].from, ports[port].task) || strcmp(queues[i].out, ports[port].port))
            continue;
        while (queues[i].used + bytes > queues[i].size)
            pthread_cond_wait(&moved_some, &lock);
        for (k = 0; k < bytes; k++)
            queues[i].data[(queues[i].first + queues[i].used + k) % queues[i].size] = data[k];
        queues[i].used += bytes;
        pthread_cond_broadcast(&moved_some);
    }
    pthread_mutex_unlock(&lock);
    return *moved = 0;
}
/* The newest token lies at the beginning. */
int UFPort_ReadFromBuffer(int port, unsigned char *data, int bytes, int chunk, int *moved)
{
    int i;
    pthread_mutex_lock(&lock);
    for (i = 0; strcmp(queues[i].to, ports[port].task) || strcmp(queues[i].in, ports[port].port); i++)
        ;
    *moved = queues[i].used < bytes ? queues[i].used : bytes;
    memcpy(data, queues[i].data, *moved);
    pthread_mutex_unlock(&lock);
    return 0;
}
int UFPort_WriteToBuffer(int port, unsigned char *data, int bytes, int chunk, int *moved)
{
    int i;
    pthread_mutex_lock(&lock);
    for (i = 0; queues[i].from; i++) {
        if (strcmp(queues[i].from, ports[port].task) || strcmp(queues[i].out, ports[port].port))
            continue;
        *moved = queues[i].used = queues[i].size < bytes ? queues[i].size : bytes;
        memcpy(queues[i].data, data, *moved);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}
PROTOTYPES
static struct { void (*init)(int), (*go)(int), (*wrapup)(void); int firings; } tasks[] = {
TASKS};
static void *run(void *number)
{
    long i = (long)number, k;
    for (k = 0; k < tasks[i].firings; k++)
        tasks[i].go((int)i);
    tasks[i].wrapup();
    return NULL;
}
int main(void)
{
    enum { COUNT = sizeof tasks / sizeof *tasks };
    pthread_t threads[COUNT];
    long i;
    alarm(SECONDS);
    for (i = 0; queues[i].from; i++) {
        queues[i].data = malloc(queues[i].size);
        memset(queues[i].data, 0xa5, queues[i].size); /* HOPES does not say that it is zero */
        queues[i].used = queues[i].initial;
    }
    for (i = 0; i < COUNT; i++)
        tasks[i].init((int)i);
    for (i = 0; i < COUNT; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (i = 0; i < COUNT; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
"""


def run(
    project: Path, name: str, firings: Mapping[str, int], libraries: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Compile a project and let each task fire so often."""
    algorithm = ElementTree.parse(project / f"{name}_algorithm.xml").getroot()
    architecture = ElementTree.parse(project / f"{name}_architecture.xml").getroot()
    there = project / str(next(architecture.iter(f"{SCHEMA}device")).get("name"))  # as HOPES does
    there.mkdir(exist_ok=True)
    tasks = [t for t in algorithm.iter(f"{SCHEMA}task") if t.get("hasSubGraph") == "No"]
    sources = {e.text for e in algorithm.iter(f"{SCHEMA}extraSource") if e.text}
    for task in tasks:
        text = _MACROS.replace("NAME", str(task.get("name")))
        headers = "".join(f'#include "../{h.text}"\n' for h in task.findall(f"{SCHEMA}extraHeader"))
        (there / f"{task.get('name')}.c").write_text(
            f'{text}{headers}#include "../{task.get("file")}"\n'
        )
    queues = prototypes = table = ""
    for c in algorithm.iter(f"{SCHEMA}channel"):
        size = int(c.attrib["sampleSize"])
        ends = [
            f'"{e.get("task")}", "{e.get("port")}"'
            for e in (*c.findall(f"{SCHEMA}src"), *c.findall(f"{SCHEMA}dst"))
        ]
        numbers = [
            int(c.attrib["size"]) * size,
            size,
            int(c.attrib["initialDataSize"]) * size,
            0,
            0,
        ]
        queues += f"    {{ {', '.join([*ends, *map(str, numbers), 'NULL'])} }},\n"
    for task in tasks:
        n = str(task.get("name"))
        prototypes += f"void {n}_init(int); void {n}_go(int); void {n}_wrapup(void);\n"
        table += f"    {{ {n}_init, {n}_go, {n}_wrapup, {firings[n]} }},\n"
    main = _MAIN.replace("QUEUES", queues).replace("PROTOTYPES", prototypes).replace("TASKS", table)
    (there / "main.c").write_text(main.replace("SECONDS", str(HANGS)))
    own = [str(p) for p in sorted(there.glob("*.c"))]
    command = ["cc", "-O0", "-w", "-pthread", *own, *(str(project / s) for s in sorted(sources))]
    subprocess.run(
        [*command, "-o", str(there / "proc"), *libraries, "-lm"],
        check=True,
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    return subprocess.run(
        [str(there / "proc")], capture_output=True, text=True, check=False, timeout=HANGS
    )
