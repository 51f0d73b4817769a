/* A GPU that is none, for programs in C++: the functions of CUDA's driver that they call.

   What is put into a stream happens when somebody waits for it, and not before. Memory of the GPU
   cannot be touched by the host: who tries crashes. A result that is copied to the host is a pattern
   there until it has been waited for. Kernels are functions of a shared library, which cuda.py beside
   this file makes; the file of machine code has its name instead. What a program does wrong is
   printed as a `violation`. FLOWC_STAND_IN_FAIL=KERNEL:N lets the n-th launch of a kernel fail. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

// Of NVIDIA's cuda.h, what is needed here.
typedef enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
} CUresult;
typedef int CUdevice, CUdevice_attribute, CUfunction_attribute;
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext, *CUmodule, *CUfunction, *CUstream, *CUevent;
enum { MAJOR = 75, MOST_DYNAMIC_SHARED = 8, NON_BLOCKING = 1 };

namespace {

constexpr size_t ROOM = size_t{1} << 30, WALL = 512;
constexpr unsigned char FRESH = 0xCD, BESIDE = 0x5C, LATE = 0xA5;
const char HEAD[] = "flowc stand-in\n";

struct Operation {
    std::string name;
    std::function<CUresult()> action;
};
struct Stream {
    std::deque<Operation> waiting;
    long put = 0, done = 0;
};
struct Event {
    Stream *stream = nullptr;
    long after = 0;
};
struct Kernel {
    std::string name;
    std::vector<std::pair<char, int>> parameters;
    int (*launch)(void **, const unsigned *, const unsigned *, size_t, int);
    int barriers;
    int most_shared = 48 << 10;
};
struct Module {
    void *library;
    int barriers;
    std::vector<Kernel *> kernels;
};

std::recursive_mutex one;
char *room = nullptr;
size_t used = 0;
std::map<char *, size_t> living;
std::map<char *, size_t> registered;
std::set<Stream *> streams;
std::set<Event *> events;
std::map<std::string, int> launched;
Stream legacy;
CUresult broken = CUDA_SUCCESS;
int retained = 0;
thread_local bool current = false;

void complain(const char *format, ...)
{
    va_list given;
    va_start(given, format);
    fprintf(stderr, "violation: ");
    vfprintf(stderr, format, given);
    fprintf(stderr, "\n");
    va_end(given);
}

/* The allocation that these bytes lie in, or none. */
std::pair<char *const, size_t> *block_of(const void *at, size_t bytes)
{
    char *const from = (char *)at;
    auto next = living.upper_bound(from);
    if (next == living.begin())
        return nullptr;
    auto &block = *--next;
    return from + bytes <= block.first + block.second ? &block : nullptr;
}
bool is_registered(const void *at, size_t bytes)
{
    for (auto &[from, size] : registered)
        if ((char *)at >= from && (char *)at + bytes <= from + size)
            return true;
    return false;
}
void protect(bool locked) { mprotect(room, ROOM, locked ? PROT_NONE : PROT_READ | PROT_WRITE); }

/* Everything in a stream up to an operation happens now. */
CUresult reach(Stream *stream, long until)
{
    protect(false);
    while (!broken && stream->done < until) {
        broken = stream->waiting.front().action();
        stream->waiting.pop_front();
        stream->done++;
        for (auto &[from, size] : living)
            for (size_t i = 0; i < WALL && !broken; i++)
                if ((unsigned char)from[size + i] != BESIDE) {
                    complain("something was written behind %zu bytes of the GPU", size);
                    from[size + i] = (char)BESIDE;
                }
    }
    protect(true);
    return broken;
}
CUresult put(Stream *stream, const std::string &name, std::function<CUresult()> action)
{
    stream->waiting.push_back({name, std::move(action)});
    stream->put++;
    return CUDA_SUCCESS;
}
CUresult entered()
{
    if (broken)
        return broken;
    return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
Stream *stream_of(CUstream given)
{
    Stream *const stream = given ? (Stream *)given : &legacy;
    if (given && !streams.count(stream)) {
        complain("there is no such stream");
        abort();
    }
    return stream;
}

}  // namespace

#define BEGIN                                       \
    std::lock_guard<std::recursive_mutex> here(one); \
    if (const CUresult status = entered()) return status

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult status, const char **text)
{
    *text = status == CUDA_ERROR_ILLEGAL_ADDRESS     ? "CUDA_ERROR_ILLEGAL_ADDRESS"
            : status == CUDA_ERROR_NO_BINARY_FOR_GPU ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
            : status == CUDA_ERROR_NOT_FOUND         ? "CUDA_ERROR_NOT_FOUND"
            : status == CUDA_ERROR_OUT_OF_MEMORY     ? "CUDA_ERROR_OUT_OF_MEMORY"
                                                     : "CUDA_ERROR_OTHER";
    return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult status, const char **text)
{
    *text = status == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
                                                 : "it does not work";
    return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int) { return *device = 0, CUDA_SUCCESS; }
CUresult cuDeviceGetName(char *name, int size, CUdevice)
{
    snprintf(name, (size_t)size, "Stand-in");
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice)
{
    *value = attribute == MAJOR ? 9 : 0;
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice)
{
    std::lock_guard<std::recursive_mutex> here(one);
    if (!room)
        room = (char *)mmap(nullptr, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                            -1, 0);
    retained++;
    *context = (CUcontext)&retained;
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice)
{
    std::lock_guard<std::recursive_mutex> here(one);
    retained--;
    const bool left = !living.empty() || !streams.empty() || !events.empty() || !registered.empty();
    if (!retained && !broken && left)
        complain("%zu allocations, %zu streams, %zu events and %zu pinned pieces are left",
                 living.size(), streams.size(), events.size(), registered.size());
    return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context)
{
    current = context != nullptr;
    return broken;
}

CUresult cuModuleLoadData(CUmodule *made, const void *image)
{
    BEGIN;
    const std::string text = (const char *)image;
    if (text.compare(0, sizeof HEAD - 1, HEAD))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    const size_t end = text.find('\n', sizeof HEAD - 1);
    const std::string path = text.substr(sizeof HEAD - 1, end - (sizeof HEAD - 1));
    void *const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fprintf(stderr, "%s\n", dlerror()), CUDA_ERROR_INVALID_IMAGE;
    *made = (CUmodule) new Module{library, atoi(text.c_str() + end), {}};
    return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule given)
{
    BEGIN;
    Module *const module = (Module *)given;
    for (Kernel *kernel : module->kernels)
        delete kernel;
    dlclose(module->library);
    delete module;
    return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction *made, CUmodule given, const char *name)
{
    BEGIN;
    Module *const module = (Module *)given;
    const std::string text = name;
    void *const launch = dlsym(module->library, ("flowc_launch_" + text).c_str());
    void *const describe = dlsym(module->library, ("flowc_signature_of_" + text).c_str());
    if (!launch || !describe)
        return CUDA_ERROR_NOT_FOUND;
    Kernel *const kernel = new Kernel{text, {}, nullptr, module->barriers};
    kernel->launch = (decltype(kernel->launch))launch;
    const char *words = ((const char *(*)())describe)();
    char kind;
    int size, read;
    while (sscanf(words, "%c%d %n", &kind, &size, &read) == 2) {
        kernel->parameters.emplace_back(kind, size);
        words += read;
    }
    module->kernels.push_back(kernel);
    *made = (CUfunction)kernel;
    return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    BEGIN;
    if (attribute != MOST_DYNAMIC_SHARED)
        return CUDA_ERROR_INVALID_VALUE;
    ((Kernel *)function)->most_shared = value;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *made, size_t bytes)
{
    BEGIN;
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    const size_t taken = (bytes + WALL + 511) / 512 * 512;
    if (used + taken > ROOM)
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *const from = room + used;
    used += taken;
    protect(false);
    memset(from, FRESH, bytes);
    memset(from + bytes, BESIDE, taken - bytes);
    protect(true);
    living[from] = bytes;
    *made = (CUdeviceptr)from;
    return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr given)
{
    BEGIN;
    for (Stream *stream : streams)
        if (!stream->waiting.empty())
            complain("memory is freed while %s may be under way",
                     stream->waiting.front().name.c_str());
    if (!living.erase((char *)given))
        complain("what is freed was not allocated");
    return CUDA_SUCCESS;
}
CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned)
{
    BEGIN;
    registered[(char *)memory] = bytes;
    return CUDA_SUCCESS;
}
CUresult cuMemHostUnregister(void *memory)
{
    BEGIN;
    return registered.erase((char *)memory) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void check(const void *at, size_t bytes, const char *what)
{
    if (!block_of(at, bytes)) {
        complain("%s of %zu bytes is not inside of an allocation", what, bytes);
        abort();
    }
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream given)
{
    BEGIN;
    check((void *)to, bytes, "an upload");
    if (is_registered(from, bytes))
        return put(stream_of(given), "an upload", [=] {
            return memcpy((void *)to, from, bytes), CUDA_SUCCESS;
        });
    const std::string staged((const char *)from, bytes);
    return put(stream_of(given), "an upload", [=] {
        return memcpy((void *)to, staged.data(), bytes), CUDA_SUCCESS;
    });
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream given)
{
    BEGIN;
    check((void *)from, bytes, "a download");
    Stream *const stream = stream_of(given);
    put(stream, "a download", [=] { return memcpy(to, (void *)from, bytes), CUDA_SUCCESS; });
    if (!is_registered(to, bytes))
        return reach(stream, stream->put);
    memset(to, LATE, bytes);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream given)
{
    BEGIN;
    check((void *)to, bytes, "a copy");
    check((void *)from, bytes, "a copy");
    if (to < from + bytes && from < to + bytes)
        complain("a copy of %zu bytes overlaps", bytes);
    return put(stream_of(given), "a copy", [=] {
        return memcpy((void *)to, (void *)from, bytes), CUDA_SUCCESS;
    });
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream given)
{
    BEGIN;
    check((void *)to, bytes, "a filling");
    return put(stream_of(given), "a filling", [=] {
        return memset((void *)to, value, bytes), CUDA_SUCCESS;
    });
}

CUresult cuStreamCreate(CUstream *made, unsigned flags)
{
    BEGIN;
    if (flags != NON_BLOCKING)
        complain("a stream waits for the default one");
    Stream *const stream = new Stream;
    streams.insert(stream);
    *made = (CUstream)stream;
    return CUDA_SUCCESS;
}
// As many levels as a small GPU has. What was made says so.
CUresult cuCtxGetStreamPriorityRange(int *lowest, int *highest)
{
    BEGIN;
    *lowest = 0;
    *highest = -5;
    return CUDA_SUCCESS;
}
CUresult cuStreamCreateWithPriority(CUstream *made, unsigned flags, int priority)
{
    if (const char *file = getenv("FLOWC_STANDIN_STREAMS")) {
        FILE *const noted = fopen(file, "a");
        fprintf(noted, "%d\n", priority);
        fclose(noted);
    }
    if (priority > 0 || priority < -5)
        return complain("no such priority"), CUDA_ERROR_INVALID_VALUE;
    return cuStreamCreate(made, flags);
}
CUresult cuStreamSynchronize(CUstream given)
{
    BEGIN;
    return reach(stream_of(given), stream_of(given)->put);
}
CUresult cuStreamDestroy_v2(CUstream given)
{
    BEGIN;
    streams.erase(stream_of(given));
    delete (Stream *)given;
    return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent *made, unsigned)
{
    BEGIN;
    Event *const event = new Event;
    events.insert(event);
    *made = (CUevent)event;
    return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream given)
{
    BEGIN;
    Stream *const stream = stream_of(given);
    put(stream, "an event", [] { return CUDA_SUCCESS; });
    *(Event *)event = {stream, stream->put};
    return CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent given)
{
    BEGIN;
    const Event &event = *(Event *)given;
    return event.stream ? reach(event.stream, event.after) : CUDA_SUCCESS;
}
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    BEGIN;
    for (const CUevent one : {start, end}) {
        const Event &event = *(Event *)one;
        if (!event.stream || event.stream->done < event.after)
            return CUDA_ERROR_NOT_READY;
    }
    *milliseconds = 0.25f;
    return CUDA_SUCCESS;
}
CUresult cuEventDestroy_v2(CUevent event)
{
    BEGIN;
    events.erase((Event *)event);
    delete (Event *)event;
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned a, unsigned b, unsigned c, unsigned x,
                        unsigned y, unsigned z, unsigned shared, CUstream given, void **arguments,
                        void **)
{
    BEGIN;
    Kernel *const kernel = (Kernel *)function;
    if ((int)shared > kernel->most_shared || x * y * z > 1024 || !(a && b && c && x && y && z))
        return CUDA_ERROR_INVALID_VALUE;
    std::vector<std::string> values;
    bool wild = false;
    for (size_t i = 0; i < kernel->parameters.size(); i++) {
        const auto [kind, size] = kernel->parameters[i];
        values.emplace_back((const char *)arguments[i], kind == 'v' ? (size_t)size : 8);
        char *at = nullptr;
        if (kind != 'v')
            memcpy(&at, arguments[i], 8);
        if (kind != 'v' && (!block_of(at, 1) || (uintptr_t)at % (uintptr_t)size)) {
            complain("argument %zu of kernel %s is no memory of the GPU", i + 1,
                     kernel->name.c_str());
            wild = true;
        }
    }
    const char *const fail = getenv("FLOWC_STAND_IN_FAIL");
    const std::string now = kernel->name + ":" + std::to_string(++launched[kernel->name]);
    wild |= fail && now == fail;
    return put(stream_of(given), "kernel " + kernel->name, [=] {
        if (wild)
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        std::vector<void *> places;
        for (const std::string &value : values)
            places.push_back((void *)value.data());
        const unsigned grid[] = {a, b, c}, block[] = {x, y, z};
        if (kernel->launch(places.data(), grid, block, shared, kernel->barriers))
            complain("threads of a block of kernel %s wait at different barriers",
                     kernel->name.c_str());
        return CUDA_SUCCESS;
    });
}

}  // extern "C"
