// CUDA's driver is opened when the program starts, not linked: so it is not needed where the program
// is compiled. Its functions are those of cuda_driver.hpp; the types and numbers below are those of
// its header, cuda.h.
#include "gpu.hpp"

#include <dlfcn.h>

#include <fstream>
#include <iterator>

#include "about.hpp"

namespace flow
{

namespace
{

using CUresult = int;
using CUdevice = int;
using CUdevice_attribute = int;
using CUfunction_attribute = int;
using CUdeviceptr = unsigned long long;
using CUcontext = void *;
using CUmodule = void *;
using CUfunction = void *;
using CUstream = void *;
using CUevent = void *;

constexpr CUdevice_attribute MAJOR = 75, MINOR = 76;  // of its compute capability
constexpr CUfunction_attribute MOST_DYNAMIC_SHARED = 8;
constexpr CUresult NO_BINARY_FOR_GPU = 209;
constexpr unsigned NON_BLOCKING = 1;  // a stream waits for no other one
constexpr unsigned ORDINARY_SHARED = 48 << 10;
constexpr size_t ALIGNED = 256, VECTOR = 16;  // kernels may read 16 bytes at once
constexpr size_t MOST_NAMED = 4;              // firings, in a message

struct Driver {
#define FLOWC_DRIVER(name, ...) CUresult (*name)(__VA_ARGS__);
#include "cuda_driver.hpp"
#undef FLOWC_DRIVER
} driver;

CUdevice device = 0;
CUcontext context = nullptr;
std::string device_name;
int users = 0;       // tasks that are open
size_t largest = 0;  // what a firing of any task needs in an arena
pthread_mutex_t flights = PTHREAD_MUTEX_INITIALIZER;  // `flying` of all lanes

CUdeviceptr number(const void *memory) { return reinterpret_cast<CUdeviceptr>(memory); }
size_t rounded(size_t bytes) { return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED; }

// An answer of the driver in words; empty where all is well.
std::string words(CUresult status)
{
    if (!status)
        return "";
    const char *name = nullptr, *text = nullptr;
    if (driver.cuGetErrorName(status, &name) || driver.cuGetErrorString(status, &text))
        return "CUDA error " + std::to_string(status);
    return std::string(name) + ": " + text;
}

std::string allocated(size_t bytes, char **memory)
{
    CUdeviceptr made = 0;
    const std::string why = words(driver.cuMemAlloc_v2(&made, std::max(bytes, ALIGNED)));
    *memory = reinterpret_cast<char *>(made);
    return why.empty() ? why : std::to_string(bytes) + " bytes on the GPU: " + why;
}

// Allocate memory that is zero.
std::string zeroed(size_t bytes, char **memory)
{
    const std::string why = allocated(bytes, memory);
    if (!why.empty())
        return why;
    return words(driver.cuMemsetD8Async(number(*memory), 0, std::max(bytes, ALIGNED), nullptr));
}

std::string no_gpu(const std::string &why)
{
    return "no NVIDIA GPU can be used here (" + why + ")";
}

std::string driver_opened()
{
    if (driver.cuInit)
        return "";
    void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return no_gpu(dlerror());
#define FLOWC_DRIVER(name, ...)                                                       \
    driver.name = reinterpret_cast<CUresult (*)(__VA_ARGS__)>(dlsym(library, #name)); \
    if (!driver.name)                                                                 \
        return no_gpu("libcuda.so.1 has no " #name);
#include "cuda_driver.hpp"
#undef FLOWC_DRIVER
    return "";
}

std::string device_opened()
{
    std::string why = driver_opened();
    if (!why.empty())
        return why;
    char name[128] = "";
    for (const CUresult status :
         {driver.cuInit(0), driver.cuDeviceGet(&device, 0),
          driver.cuDeviceGetName(name, sizeof name, device),
          driver.cuDevicePrimaryCtxRetain(&context, device), driver.cuCtxSetCurrent(context)})
        if (status)
            return no_gpu(words(status));
    device_name = name;
    for (OnGpu *array : OnGpu::all)
        if (why.empty())
            why = zeroed(array->bytes, &array->memory);
    for (Pinned *pinned : Pinned::all)  // without it copies take longer
        pinned->is_pinned = reinterpret_cast<size_t>(pinned->memory) % 4096 == 0 &&
                            !driver.cuMemHostRegister_v2(pinned->memory, pinned->bytes, 0);
    for (Lane *lane : Lane::all)
        if (why.empty())
            why = lane->open();
    return why.empty() ? words(driver.cuStreamSynchronize(nullptr)) : why;
}

void device_closed()
{
    driver.cuCtxSetCurrent(context);
    for (Lane *lane : Lane::all)
        lane->close();
    for (Pinned *pinned : Pinned::all)
        if (pinned->is_pinned)
            driver.cuMemHostUnregister(pinned->memory);
    for (OnGpu *array : OnGpu::all)
        driver.cuMemFree_v2(number(array->memory));
    driver.cuDevicePrimaryCtxRelease_v2(device);
}

std::string name_of(const Lane::Flying &one)
{
    return std::string(one.task->name) + " at firing " + std::to_string(one.firing);
}

// The firings that have been started and are not known to have ended, oldest first: one of them
// has failed.
std::string in_flight()
{
    const Locked here(flights);
    std::string found;
    size_t count = 0;
    for (const Lane *lane : Lane::all)
        for (size_t i = 0; i < std::min(lane->flying.size(), MOST_NAMED); i++, count++)
            found += (count ? ", " : "") + name_of(lane->flying[i]);
    if (count == 1)
        return "; in " + found;
    return count ? "; in one of these (--strict tells in which): " + found : "";
}

void settled(Lane &lane)
{
    if (!lane.settle() && !run.failed)
        run.fail({nullptr, -1, lane.error + in_flight()});
}

}  // namespace

// -- a stream ------------------------------------------------------------------------------------
// A stream of the urgency that its worker has; CUDA's more urgent ones have smaller numbers.
static CUresult urgent_stream(CUstream *stream, int urgency)
{
    int lowest = 0, highest = 0;
    if (const CUresult status = driver.cuCtxGetStreamPriorityRange(&lowest, &highest))
        return status;
    if (lowest - urgency < highest)
        run.say("the GPU has " + std::to_string(lowest - highest + 1) +
                " levels of priority: the most urgent apps share one");
    const int level = std::max(highest, lowest - urgency);
    return driver.cuStreamCreateWithPriority(stream, NON_BLOCKING, level);
}

std::string Lane::open()
{
    const Scheduling &wanted = worker.scheduling;
    const CUresult made = wanted.kind == Scheduling::ON_STREAM
                              ? urgent_stream(&stream, wanted.priority)
                              : driver.cuStreamCreate(&stream, NON_BLOCKING);
    for (const CUresult status : {made, driver.cuEventCreate(&uploaded, 0)})
        if (status)
            return words(status);
    return allocated(largest, &arena);
}

void Lane::close()
{
    for (const Flying &one : flying)
        events.insert(events.end(), {one.start, one.end});
    flying.clear();
    events.push_back(uploaded);
    for (void *one : events)
        driver.cuEventDestroy_v2(one);
    events.clear();
    driver.cuMemFree_v2(number(arena));
    driver.cuStreamDestroy_v2(stream);
    error.clear();
}

void Lane::enter()
{
    static thread_local bool entered = false;
    if (!entered)
        entered = did(driver.cuCtxSetCurrent(context));
}

bool Lane::did(int status)
{
    if (status && error.empty())
        error = words(status);
    return error.empty();
}

void *Lane::event()
{
    void *one = nullptr;
    if (events.empty()) {
        did(driver.cuEventCreate(&one, 0));
    } else {
        one = events.back();
        events.pop_back();
    }
    did(driver.cuEventRecord(one, stream));
    return one;
}

bool Lane::copy(char *to, bool to_gpu, const char *from, bool from_gpu, size_t bytes)
{
    if (!bytes)
        return true;
    if (!to_gpu)
        return did(driver.cuMemcpyDtoHAsync_v2(to, number(from), bytes, stream));
    if (!from_gpu)
        return did(driver.cuMemcpyHtoDAsync_v2(number(to), from, bytes, stream));
    return did(driver.cuMemcpyDtoDAsync_v2(number(to), number(from), bytes, stream));
}

bool Lane::settle()
{
    if (!did(driver.cuStreamSynchronize(stream)))
        return false;
    const Locked here(flights);
    for (const Flying &one : flying) {
        float milliseconds = 0;
        did(driver.cuEventElapsedTime(&milliseconds, one.start, one.end));
        const ns took = static_cast<ns>(double(milliseconds) * 1e6);
        const_cast<Task *>(one.task)->done(one.firing).add(1, took);
        worker.busy += took;
        events.insert(events.end(), {one.start, one.end});
    }
    flying.clear();
    return error.empty();
}

void OnGpu::fill(Worker &w, size_t at, const void *from, size_t count) const
{
    Lane &lane = *w.lane;
    lane.enter();
    lane.copy(memory + at, true, static_cast<const char *>(from), false, count);
    lane.did(driver.cuStreamSynchronize(lane.stream));
}

void OnGpu::to_front(Worker &w, size_t from, size_t count) const
{
    Lane &lane = *w.lane;
    lane.enter();
    for (size_t done = 0; done < count; done += from)  // pieces of a copy do not overlap
        lane.copy(memory + done, true, memory + from + done, true, std::min(from, count - done));
}

// -- kernels -------------------------------------------------------------------------------------
thread_local std::string Kernels::why;

Kernels::Kernels(const char *file, std::vector<Launch> launches, std::vector<size_t> ports,
                 std::vector<size_t> scratch, std::vector<size_t> state, bool waits)
    : file(file), launches(std::move(launches)), sizes([&] {
          ports.insert(ports.end(), scratch.begin(), scratch.end());
          return ports;
      }()),
      of_state(std::move(state)), waits(waits)
{
    size_t needed = 0;
    for (const size_t size : sizes)
        needed += rounded(size);
    largest = std::max(largest, needed);
}

std::string Kernels::open()
{
    is_open = true;
    if (!users++) {
        const std::string missing = device_opened();
        if (!missing.empty())
            return missing;
    }
    const std::string refused = loaded();
    if (!refused.empty())
        return refused;
    for (const size_t size : of_state) {
        state.push_back(nullptr);
        const std::string full = zeroed(size, &state.back());
        if (!full.empty())
            return full;
    }
    return words(driver.cuStreamSynchronize(nullptr));
}

// Load the machine code, and find the kernels in it.
std::string Kernels::loaded()
{
    std::ifstream stream(in_build(file), std::ios::binary);
    const std::string code((std::istreambuf_iterator<char>(stream)), {});
    if (code.empty())
        return std::string("there is no file ") + in_build(file);
    const CUresult status = driver.cuModuleLoadData(&module, code.data());
    if (status) {
        int major = 0, minor = 0;
        driver.cuDeviceGetAttribute(&major, MAJOR, device);
        driver.cuDeviceGetAttribute(&minor, MINOR, device);
        const std::string name = file;
        const std::string gpu = device_name + " has compute capability " + std::to_string(major) +
                                "." + std::to_string(minor);
        return name.substr(name.rfind('/') + 1) + ": " + words(status) +
               (status == NO_BINARY_FOR_GPU ? " (" + gpu + ")" : "");
    }
    for (const Launch &one : launches) {
        functions.push_back(nullptr);
        CUfunction &function = functions.back();
        std::string missing = words(driver.cuModuleGetFunction(&function, module, one.kernel));
        if (missing.empty() && one.shared > ORDINARY_SHARED)
            missing = words(driver.cuFuncSetAttribute(function, MOST_DYNAMIC_SHARED,
                                                      static_cast<int>(one.shared)));
        if (!missing.empty())
            return std::string("kernel ") + one.kernel + ": " + missing;
    }
    return "";
}

void Kernels::close()
{
    if (!is_open)
        return;
    is_open = false;
    driver.cuCtxSetCurrent(context);
    for (Lane *lane : Lane::all)  // firings that nobody had to wait for
        if (!lane->worker.alive)
            settled(*lane);
    for (char *memory : state)
        driver.cuMemFree_v2(number(memory));
    if (module)
        driver.cuModuleUnload(module);
    module = nullptr;
    state.clear();
    functions.clear();
    if (!--users)
        device_closed();
}

void Kernels::leave(const Task &task, int64_t iterations, Counts &fired)
{
    Code::leave(task, iterations, fired);
    driver.cuCtxSetCurrent(context);
    for (Lane *lane : Lane::all)
        if (lane->worker.parked)
            settled(*lane);
}

std::string Kernels::named(const Launch *running) const
{
    if (running)
        return std::string(" (kernel ") + running->kernel + ")";
    std::string found = launches.size() > 1 ? " (kernels" : " (kernel";
    for (const Launch &one : launches)
        found += (&one == &launches[0] ? " " : ", ") + std::string(one.kernel);
    return found + ")";
}

// Start all kernels, whose arguments are at these places.
bool Kernels::launched(Lane &lane, char **places, const Launch **running)
{
    static thread_local std::vector<void *> arguments;
    for (size_t i = 0; i < launches.size(); i++) {
        const Launch &one = launches[i];
        *running = &one;
        arguments.resize(one.arguments.size());
        for (size_t k = 0; k < one.arguments.size(); k++) {
            const Argument &given = one.arguments[k];
            arguments[k] =
                given.place < 0 ? const_cast<char *>(given.value) : (void *)&places[given.place];
        }
        if (!lane.did(driver.cuLaunchKernel(
                functions[i], one.grid[0], one.grid[1], one.grid[2], one.block[0], one.block[1],
                one.block[2], one.shared, lane.stream, arguments.data(), nullptr)))
            return false;
        if (flow::run.strict && !lane.did(driver.cuStreamSynchronize(lane.stream)))
            return false;
    }
    *running = nullptr;
    return true;
}

int Kernels::run(Worker &w, const Task &task, int64_t firing, std::initializer_list<Tokens> inputs,
                 std::initializer_list<Tokens> outputs, std::initializer_list<Copy> copies)
{
    Lane &lane = *w.lane;
    lane.enter();
    static thread_local std::vector<char *> places;
    places.resize(sizes.size() + state.size());
    char *room = lane.arena;
    for (size_t i = 0; i < sizes.size(); i++) {
        places[i] = room;
        room += rounded(sizes[i]);
    }
    std::copy(state.begin(), state.end(), places.begin() + static_cast<long>(sizes.size()));
    const auto in_place = [](const Tokens &tokens) {
        return tokens.on_gpu && reinterpret_cast<size_t>(tokens.at) % VECTOR == 0;
    };
    bool from_host = false, to_host = false;
    size_t at = 0;
    for (const Tokens &one : inputs) {
        if (in_place(one))
            places[at] = one.at;
        else
            lane.copy(places[at], true, one.at, one.on_gpu, one.bytes);
        from_host |= !one.on_gpu;
        at++;
    }
    if (from_host)
        lane.did(driver.cuEventRecord(lane.uploaded, lane.stream));
    for (const Tokens &one : outputs) {
        if (in_place(one))
            places[at] = one.at;
        at++;
    }
    void *const start = lane.event();
    const Launch *running = nullptr;
    launched(lane, places.data(), &running);
    {
        const Locked here(flights);
        lane.flying.push_back({&task, firing, this, start, lane.event()});
    }
    char **const made = places.data() + inputs.size();
    const auto copied = [&](size_t output, const Tokens &to) {
        if (made[output] != to.at)
            lane.copy(to.at, to.on_gpu, made[output], true, to.bytes);
        to_host |= !to.on_gpu;
    };
    size_t output = 0;
    for (const Tokens &one : outputs)
        copied(output++, one);
    for (const Copy &one : copies)
        copied(one.output, one.to);
    if (waits || to_host || flow::run.strict)
        lane.settle();
    else if (from_host)
        lane.did(driver.cuEventSynchronize(lane.uploaded));
    if (lane.error.empty())
        return 0;
    why = lane.error + named(running) + in_flight();
    return 1;
}

}  // namespace flow
