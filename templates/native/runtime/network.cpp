// ONNX Runtime is opened when the program starts, not linked: so it is not needed where the program
// is compiled, and any release will do. No registry ships the header of its library; of its table
// of functions (OrtApi), which only ever grows at its end, the places of those that are called here
// are named below.
#include "network.hpp"

#include <dlfcn.h>

#include <map>

#include "about.hpp"

namespace flow
{

namespace
{

enum Slot {
    GetErrorMessage = 2,
    CreateEnv = 3,
    CreateSession = 7,
    Run = 9,
    CreateSessionOptions = 10,
    SetSessionLogSeverityLevel = 22,
    SetIntraOpNumThreads = 24,
    SetInterOpNumThreads = 25,
    CreateRunOptions = 39,
    RunOptionsSetRunLogSeverityLevel = 41,
    RunOptionsSetTerminate = 46,
    RunOptionsUnsetTerminate = 47,
    CreateTensorWithDataAsOrtValue = 49,
    CreateCpuMemoryInfo = 69,
    ReleaseEnv = 92,
    ReleaseStatus = 93,
    ReleaseMemoryInfo = 94,
    ReleaseSession = 95,
    ReleaseValue = 96,
    ReleaseRunOptions = 97,
    ReleaseSessionOptions = 100,
    AddSessionConfigEntry = 130,
    SessionOptionsAppendExecutionProvider_CUDA_V2 = 204,
    CreateCUDAProviderOptions = 205,
    UpdateCUDAProviderOptions = 206,
    ReleaseCUDAProviderOptions = 208,
};
// The least version of the interface that has all of these, and that which has those for CUDA.
constexpr uint32_t VERSION = 6, WITH_CUDA = 11;
constexpr int ERRORS = 3;        // what it logs: errors, and worse
constexpr int FATAL = 4;         // nothing of a run that was broken off

struct Base {
    const void *const *(*get_api)(uint32_t version);
    const char *(*version)();
};

const void *const *api = nullptr;
bool knows_cuda = false;

template <typename Result, typename... Given> Result raw(Slot slot, Given... given)
{
    return reinterpret_cast<Result (*)(Given...)>(const_cast<void *>(api[slot]))(given...);
}

// What went wrong; empty where nothing did.
std::string words(void *status)
{
    if (!status)
        return "";
    const std::string text = raw<const char *>(GetErrorMessage, static_cast<const void *>(status));
    raw<void>(ReleaseStatus, status);
    return text.empty() ? "it does not say why" : text;
}

template <typename... Given> std::string call(Slot slot, Given... given)
{
    return words(raw<void *>(slot, given...));
}

// Open the library: FLOWC_ONNXRUNTIME, or lib/ beside the program, or where the system has it.
std::string opened()
{
    if (api)
        return "";
    setenv("ORT_DISABLE_TELEMETRY", "1", 0);
    const char *const named = getenv("FLOWC_ONNXRUNTIME");
    std::string reasons;
    for (const char *place :
         {named ? named : in_build("lib/libonnxruntime.so.1"), "libonnxruntime.so.1"}) {
        void *const library = dlopen(place, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            reasons += (reasons.empty() ? "" : "; ") + std::string(dlerror());
            if (named)
                break;
            continue;
        }
        void *const symbol = dlsym(library, "OrtGetApiBase");
        const Base *const base = symbol ? reinterpret_cast<const Base *(*)()>(symbol)() : nullptr;
        api = base ? base->get_api(WITH_CUDA) : nullptr;
        knows_cuda = api != nullptr;
        if (base && !api)
            api = base->get_api(VERSION);
        return api ? "" : std::string(place) + " is no ONNX Runtime of version 1.6 or later";
    }
    return "ONNX Runtime is missing (" + reasons +
           "): put libonnxruntime.so.1 into lib/ beside the "
           "program, or name it in FLOWC_ONNXRUNTIME";
}

void give_back(Slot release, void *&made)
{
    if (made)
        raw<void>(release, made);
    made = nullptr;
}

// What instances of a network share: its session, by its file and how it runs.
void *environment = nullptr, *cpu_memory = nullptr;
std::map<std::string, void *> sessions;

std::string wrapped(const Tensor &tensor, void *memory, void **value)
{
    return call(CreateTensorWithDataAsOrtValue, static_cast<const void *>(cpu_memory), memory,
                static_cast<size_t>(tensor.bytes * tensor.batch), tensor.dimensions.data(),
                tensor.dimensions.size(), tensor.element, value);
}

void *inferred(void *session, const std::vector<const char *> &x_names, const void *const *x,
               const std::vector<const char *> &y_names, void **y, const void *options = nullptr)
{
    return raw<void *>(Run, session, options, x_names.data(), x, x_names.size(), y_names.data(),
                       y_names.size(), y);
}

// Have all nodes run on the GPU that can; in fp32 instead of TF32, which has ten bits of a product.
std::string put_on_gpu(void *options)
{
    if (!knows_cuda)
        return "its version is older than 1.11, which a GPU needs";
    void *cuda = nullptr;
    const char *const keys[] = {"use_tf32"}, *const values[] = {"0"};
    std::string why = call(CreateCUDAProviderOptions, &cuda);
    if (why.empty())
        why = call(UpdateCUDAProviderOptions, cuda, static_cast<const char *const *>(keys),
                   static_cast<const char *const *>(values), size_t{1});
    if (why.empty())
        why = call(SessionOptionsAppendExecutionProvider_CUDA_V2, options,
                   static_cast<const void *>(cuda));
    if (cuda)
        raw<void>(ReleaseCUDAProviderOptions, cuda);
    return why;
}

// A session, `exact` in 8 bits also on x86-64 without VNNI, where sums of two products saturate
// else: this mode of ONNX Runtime refuses weights that several layers have in common.
std::string opened(const std::string &path, void *options, bool exact, void **session)
{
    std::string why = call(SetSessionLogSeverityLevel, options, exact ? FATAL : ERRORS);
    if (why.empty())
        why = call(AddSessionConfigEntry, options, "session.x64quantprecision", exact ? "1" : "0");
    return !why.empty() ? why
                        : call(CreateSession, static_cast<const void *>(environment), path.c_str(),
                               static_cast<const void *>(options), session);
}

// The session of a file.
std::string session_of(const char *file, int threads, bool spin, bool on_gpu, void **session)
{
    const std::string path = in_build(file),
                      key = path + (on_gpu ? "+" : "") + (spin ? "*" : "") + std::to_string(threads);
    if ((*session = sessions[key]))
        return "";
    std::string why = environment ? "" : call(CreateEnv, ERRORS, "flowc", &environment);
    if (why.empty() && !cpu_memory)
        why = call(CreateCpuMemoryInfo, 1 /* of an arena */, 0 /* the default */, &cpu_memory);
    void *options = nullptr;
    if (why.empty())
        why = call(CreateSessionOptions, &options);
    if (!why.empty())
        return why;
    for (const std::string &one :
         {call(SetIntraOpNumThreads, options, threads), call(SetInterOpNumThreads, options, 1),
          call(SetSessionLogSeverityLevel, options, ERRORS),
          call(AddSessionConfigEntry, options, "session.intra_op.allow_spinning",
               spin ? "1" : "0")})
        why = why.empty() ? one : why;
    if (why.empty() && on_gpu)
        why = put_on_gpu(options);
    if (why.empty() && !opened(path, options, true, session).empty())
        why = opened(path, options, false, session);
    raw<void>(ReleaseSessionOptions, options);
    sessions[key] = *session;
    return why;
}

}  // namespace

std::string Network::open()
{
    if (session)
        return "";  // it begins anew: nothing of it is another than before
    const std::string missing = opened();
    if (!missing.empty())
        return missing;
    const std::string refused = session_of(file, threads, spin, on_gpu, &session);
    if (!refused.empty()) {
        const std::string path = file;
        return "ONNX Runtime refuses " + path.substr(path.rfind('/') + 1) + ": " + refused;
    }
    for (const Tensor *tensor : inputs)
        x_names.push_back(tensor->name);
    for (const Tensor *tensor : outputs)
        y_names.push_back(tensor->name);
    for (const auto *side : {&inputs, &outputs})
        for (const Tensor *first : *side)
            for (const Tensor *tensor = first; tensor; tensor = tensor->elsewhere)
                for (size_t i = 0; i < tensor->values.size(); i++) {
                    const std::string wrong =
                        wrapped(*tensor, tensor->memory + i * tensor->bytes, &tensor->values[i]);
                    if (!wrong.empty())
                        return wrong;
                }
    const std::string wrong = made_stoppable();
    return wrong.empty() ? rehearsed() : wrong;
}

std::string Network::made_stoppable()
{
    std::string wrong;
    for (void *&stop : stops) {
        wrong = wrong.empty() ? call(CreateRunOptions, &stop) : wrong;
        if (wrong.empty())
            wrong = call(RunOptionsSetRunLogSeverityLevel, stop, FATAL);
    }
    return wrong;
}

void Network::break_off(int64_t worker) { call(RunOptionsSetTerminate, stops[worker]); }
void Network::make_ready(int64_t worker) { call(RunOptionsUnsetTerminate, stops[worker]); }

// One inference in memory of its own, so that the first frame is like all others.
std::string Network::rehearsed()
{
    std::vector<std::vector<char>> memory;
    std::vector<void *> values;
    std::string why;
    for (const auto *side : {&inputs, &outputs})
        for (const Tensor *tensor : *side) {
            memory.emplace_back(tensor->bytes * tensor->batch);
            values.push_back(nullptr);
            why = why.empty() ? wrapped(*tensor, memory.back().data(), &values.back()) : why;
        }
    if (why.empty())
        why = words(inferred(session, x_names, values.data(), y_names,
                             values.data() + inputs.size()));
    for (void *value : values)
        if (value)
            raw<void>(ReleaseValue, value);
    return why;
}

// The first one that gives back what all share does so for all.
void Network::release()
{
    for (const auto *side : {&inputs, &outputs})
        for (const Tensor *first : *side)
            for (const Tensor *tensor = first; tensor; tensor = tensor->elsewhere)
                for (void *&value : tensor->values)
                    give_back(ReleaseValue, value);
    for (void *&stop : stops)
        give_back(ReleaseRunOptions, stop);
    for (auto &[key, shared] : sessions)
        give_back(ReleaseSession, shared);
    sessions.clear();
    give_back(ReleaseMemoryInfo, cpu_memory);
    give_back(ReleaseEnv, environment);
    session = nullptr;
}

thread_local char Network::why[MOST_SAID];

int Network::run(From from, To to, const void *stop)
{
    const void *x[from.size()];
    void *y[to.size()];
    size_t i = 0;
    for (const void *token : from) {
        x[i] = inputs[i]->at(token);
        i++;
    }
    i = 0;
    for (void *token : to) {
        y[i] = outputs[i]->at(token);
        i++;
    }
    void *const status = inferred(session, x_names, x, y_names, y, stop);
    if (!status)
        return 0;
    snprintf(why, sizeof why, "ONNX Runtime: %s", words(status).c_str());
    return 1;
}

}  // namespace flow
