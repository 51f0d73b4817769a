// OpenVINO is opened when the program starts, not linked: so it is not needed where the program is
// compiled. Its functions are found by their names; what they point to is known to it alone.
#include "openvino.hpp"

#include <dlfcn.h>
#include <glob.h>
#include <sched.h>

#include <cstring>

#include "about.hpp"

namespace flow
{

namespace
{

constexpr int LEAST_YEAR = 2025;  // of a version, YEAR.RELEASE.PATCH
constexpr char OLDEST[] = "2025.0";
constexpr char DEVICE[] = "CPU";

// Structures of its interface.
struct Version {
    const char *build, *description;
};
struct Range {
    int64_t least, most;
};
struct OpenShape {
    Range rank;
    Range *dimensions;
};
struct Shape {
    int64_t rank;
    int64_t *dimensions;
};

struct {
    const char *(*get_last_err_msg)();
    void (*free)(const char *text);
    int (*get_openvino_version)(Version *version);
    void (*version_free)(Version *version);
    int (*core_create)(void **core);
    void (*core_free)(void *core);
    int (*core_get_property)(const void *core, const char *device, const char *name, char **value);
    int (*core_read_model)(const void *core, const char *file, const char *weights, void **network);
    int (*core_compile_model)(const void *core, const void *network, const char *device,
                              size_t words, void **model, ...);
    int (*model_reshape)(const void *network, const char **names, const OpenShape *shapes,
                         size_t count);
    void (*model_free)(void *network);
    int (*compiled_model_get_property)(const void *model, const char *name, char **value);
    int (*compiled_model_input_by_name)(const void *model, const char *name, void **port);
    int (*compiled_model_output_by_name)(const void *model, const char *name, void **port);
    int (*compiled_model_create_infer_request)(const void *model, void **request);
    void (*compiled_model_free)(void *model);
    int (*port_get_element_type)(const void *port, int *element);
    void (*output_const_port_free)(void *port);
    int (*tensor_create_from_host_ptr)(int element, Shape shape, void *memory, void **tensor);
    int (*tensor_get_byte_size)(const void *tensor, size_t *bytes);
    void (*tensor_free)(void *tensor);
    int (*infer_request_set_tensor_by_const_port)(void *request, const void *port,
                                                  const void *tensor);
    int (*infer_request_infer)(void *request);
    void (*infer_request_free)(void *request);
} ov;

// Fill the table; false where a function is missing.
bool found_all(void *library)
{
    const auto find = [&](const char *name, auto &place) {
        using Function = std::remove_reference_t<decltype(place)>;
        place = reinterpret_cast<Function>(dlsym(library, (std::string("ov_") + name).c_str()));
        return place != nullptr;
    };
    return find("get_last_err_msg", ov.get_last_err_msg) &&
           find("free", ov.free) &&
           find("get_openvino_version", ov.get_openvino_version) &&
           find("version_free", ov.version_free) &&
           find("core_create", ov.core_create) &&
           find("core_free", ov.core_free) &&
           find("core_get_property", ov.core_get_property) &&
           find("core_read_model", ov.core_read_model) &&
           find("core_compile_model", ov.core_compile_model) &&
           find("model_reshape", ov.model_reshape) &&
           find("model_free", ov.model_free) &&
           find("compiled_model_get_property", ov.compiled_model_get_property) &&
           find("compiled_model_input_by_name", ov.compiled_model_input_by_name) &&
           find("compiled_model_output_by_name", ov.compiled_model_output_by_name) &&
           find("compiled_model_create_infer_request", ov.compiled_model_create_infer_request) &&
           find("compiled_model_free", ov.compiled_model_free) &&
           find("port_get_element_type", ov.port_get_element_type) &&
           find("output_const_port_free", ov.output_const_port_free) &&
           find("tensor_create_from_host_ptr", ov.tensor_create_from_host_ptr) &&
           find("tensor_get_byte_size", ov.tensor_get_byte_size) &&
           find("tensor_free", ov.tensor_free) &&
           find("infer_request_set_tensor_by_const_port",
                ov.infer_request_set_tensor_by_const_port) &&
           find("infer_request_infer", ov.infer_request_infer) &&
           find("infer_request_free", ov.infer_request_free);
}

std::string version;  // of what was opened; empty: nothing was

// The last line of what it says of its last error.
std::string words()
{
    const char *const said = ov.get_last_err_msg();
    std::string text = said ? said : "";
    if (said)
        ov.free(said);
    text.erase(text.find_last_not_of(" \n") + 1);
    text.erase(0, text.rfind('\n') + 1);
    return text.empty() ? "it does not say why" : text;
}

// Of a call that returned this status; empty where it went well.
std::string wrong(int status) { return status ? words() : ""; }

// Its library in the build: the name has its version at the end.
std::string in_this_build()
{
    std::string file = in_build("lib/openvino/libopenvino_c.so");
    glob_t matches;
    if (glob((file + "*").c_str(), 0, nullptr, &matches) == 0)
        file = matches.gl_pathv[0];
    globfree(&matches);
    return file;
}

std::string taken(const std::string &place, void *library)
{
    if (!found_all(library))
        return place + " is no OpenVINO of version " + OLDEST + " or later";
    Version known{};
    std::string why = wrong(ov.get_openvino_version(&known));
    if (!why.empty())
        return "OpenVINO: " + why;
    std::string found = known.build;
    found = found.substr(0, found.find('-'));
    ov.version_free(&known);
    if (atoi(found.c_str()) < LEAST_YEAR)
        return place + " is OpenVINO " + found + ": version " + OLDEST + " or later is needed";
    version = found;
    return "";
}

// Open the library: FLOWC_OPENVINO, or lib/openvino/ beside the program, or where the system has
// it.
std::string opened()
{
    if (!version.empty())
        return "";
    // TBB would ask hwloc for the cores of the machine, and while an inference runs give its thread
    // all of them: a worker with a core of its own would leave it.
    setenv("HWLOC_THISSYSTEM", "0", 0);
    const char *const named = getenv("FLOWC_OPENVINO");
    std::string reasons;
    for (const std::string &place :
         {named ? named : in_this_build(), std::string("libopenvino_c.so")}) {
        void *const library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library)
            return taken(place, library);
        reasons += (reasons.empty() ? "" : "; ") + std::string(dlerror());
        if (named)
            break;
    }
    return "OpenVINO is missing (" + reasons +
           "): put its libraries into lib/openvino/ beside the program, or name libopenvino_c.so "
           "in FLOWC_OPENVINO";
}

std::string property(int status, char *value)
{
    if (status || !value)
        return "";
    const std::string text = value;
    ov.free(value);
    return text;
}

std::string of_core(const void *core, const char *name)
{
    char *value = nullptr;
    const int status = ov.core_get_property(core, DEVICE, name, &value);
    return property(status, value);
}

std::string of_model(const void *model, const char *name)
{
    char *value = nullptr;
    const int status = ov.compiled_model_get_property(model, name, &value);
    return property(status, value);
}

// Give the inputs of a network that was read their sizes; numbers have none.
std::string reshaped(const void *network, const std::vector<const Tensor *> &inputs)
{
    std::vector<const char *> names;
    std::vector<std::vector<Range>> sizes;
    std::vector<OpenShape> shapes;
    for (const Tensor *tensor : inputs) {
        if (tensor->dimensions.empty())
            continue;
        names.push_back(tensor->name);
        sizes.emplace_back();
        for (const int64_t n : tensor->dimensions)
            sizes.back().push_back({n, n});
    }
    for (std::vector<Range> &each : sizes) {
        const int64_t rank = static_cast<int64_t>(each.size());
        shapes.push_back({{rank, rank}, each.data()});
    }
    if (names.empty())
        return "";
    return wrong(ov.model_reshape(network, names.data(), shapes.data(), names.size()));
}

// A tensor in memory of ours, with the element type that the model has for it.
std::string wrapped(const Tensor &tensor, const void *port, void *memory, void **value)
{
    int element = 0;
    std::string why = wrong(ov.port_get_element_type(port, &element));
    std::vector<int64_t> dimensions = tensor.dimensions;
    const Shape shape{static_cast<int64_t>(dimensions.size()), dimensions.data()};
    if (why.empty())
        why = wrong(ov.tensor_create_from_host_ptr(element, shape, memory, value));
    size_t bytes = 0;
    if (why.empty())
        why = wrong(ov.tensor_get_byte_size(*value, &bytes));
    if (why.empty() && static_cast<int64_t>(bytes) != tensor.bytes * tensor.batch)
        why = std::string("OpenVINO has another type for ") + tensor.name;
    return why;
}

int cores()
{
    cpu_set_t own;
    return sched_getaffinity(0, sizeof own, &own) ? 0 : CPU_COUNT(&own);
}

}  // namespace

std::string OpenVino::named() const
{
    const std::string path = file;
    return path.substr(path.rfind('/') + 1);
}

std::string OpenVino::engine() const
{
    return version.empty() ? "" : "OpenVINO " + version + ", " + precision;
}

std::string OpenVino::open()
{
    if (core)
        return "";  // with another task that has it
    std::string why = opened();
    if (why.empty() && ov.core_create(&core))
        why = "OpenVINO: " + words();
    if (why.empty() && !strcmp(precision, "bf16"))
        why = lacks_bf16();
    if (why.empty())
        why = made();
    if (!why.empty())
        close();
    return why;
}

std::string OpenVino::lacks_bf16() const
{
    const std::string able = of_core(core, "OPTIMIZATION_CAPABILITIES");
    const bool has = (" " + able + " ").find(" BF16 ") != std::string::npos;
    return has ? "" : "this CPU does not compute in bf16, but in " + able;
}

std::string OpenVino::made()
{
    void *network = nullptr;
    std::string why = wrong(ov.core_read_model(core, in_build(file), nullptr, &network));
    if (why.empty())
        why = reshaped(network, inputs);
    if (!why.empty())
        why = "OpenVINO refuses " + named() + ": " + why;
    for (Request &own : requests)
        if (why.empty())
            why = compiled(network, own);
    if (network)
        ov.model_free(network);
    for (const auto *side : {&inputs, &outputs})
        if (why.empty())
            why = placed(requests[0], *side);
    if (why.empty())
        for (const Request &own : requests)
            rehearse(own);
    return why;
}

std::string OpenVino::compiled(void *network, Request &made) const
{
    const std::string count = std::to_string(threads), refuses = "OpenVINO refuses " + named();
    std::string why = wrong(ov.core_compile_model(
        core, network, DEVICE, 10, &made.model, "INFERENCE_NUM_THREADS", count.c_str(),
        "NUM_STREAMS", "1", "PERFORMANCE_HINT", "LATENCY", "ENABLE_CPU_PINNING", "NO",
        "INFERENCE_PRECISION_HINT", precision));
    if (!why.empty())
        return refuses + ": " + why;
    const std::string got = of_model(made.model, "INFERENCE_NUM_THREADS"),
                      bits = of_model(made.model, "INFERENCE_PRECISION_HINT");
    if (got != count)
        return "OpenVINO gives " + named() + " " + got + " of " + count +
               " threads: this program may use " + std::to_string(cores()) + " cores";
    if (bits != precision)
        return "OpenVINO computes " + named() + " in " + bits + ", not in " + precision;
    why = wrong(ov.compiled_model_create_infer_request(made.model, &made.request));
    for (const Tensor *tensor : inputs) {
        made.x.push_back(nullptr);
        if (why.empty())
            why = wrong(
                ov.compiled_model_input_by_name(made.model, tensor->name, &made.x.back()));
    }
    for (const Tensor *tensor : outputs) {
        made.y.push_back(nullptr);
        if (why.empty())
            why = wrong(
                ov.compiled_model_output_by_name(made.model, tensor->name, &made.y.back()));
    }
    return why.empty() ? "" : refuses + ": " + why;
}

// The values of the tensors on one side, for each place that they may have.
std::string OpenVino::placed(const Request &own, const std::vector<const Tensor *> &side)
{
    const std::vector<void *> &ports = &side == &inputs ? own.x : own.y;
    for (size_t t = 0; t < side.size(); t++)
        for (const Tensor *tensor = side[t]; tensor; tensor = tensor->elsewhere)
            for (size_t i = 0; i < tensor->values.size(); i++) {
                char *const memory = tensor->memory + static_cast<int64_t>(i) * tensor->bytes;
                const std::string refused = wrapped(*tensor, ports[t], memory, &tensor->values[i]);
                if (!refused.empty())
                    return refused;
            }
    return "";
}

// One inference in memory of its own, so that the first frame is like all others. Zeros may be no
// data of this network: then it fails, and the first frame takes longer.
void OpenVino::rehearse(const Request &own) const
{
    std::vector<std::vector<char>> memory;
    std::vector<void *> values;
    bool all = true;
    for (const auto *side : {&inputs, &outputs})
        for (size_t t = 0; t < side->size(); t++) {
            const Tensor &tensor = *(*side)[t];
            const void *const port = (side == &inputs ? own.x : own.y)[t];
            memory.emplace_back(tensor.bytes * tensor.batch);
            values.push_back(nullptr);
            all = all && wrapped(tensor, port, memory.back().data(), &values.back()).empty() &&
                  !ov.infer_request_set_tensor_by_const_port(own.request, port, values.back());
        }
    if (all)
        ov.infer_request_infer(own.request);
    for (void *value : values)
        if (value)
            ov.tensor_free(value);
}

void OpenVino::close()
{
    for (Request &own : requests) {
        for (const auto *ports : {&own.x, &own.y})
            for (void *port : *ports)
                if (port)
                    ov.output_const_port_free(port);
        if (own.request)
            ov.infer_request_free(own.request);
        if (own.model)
            ov.compiled_model_free(own.model);
        own = Request();
    }
    for (const auto *side : {&inputs, &outputs})
        for (const Tensor *first : *side)
            for (const Tensor *tensor = first; tensor; tensor = tensor->elsewhere)
                for (void *&value : tensor->values) {
                    if (value)
                        ov.tensor_free(value);
                    value = nullptr;
                }
    if (core)
        ov.core_free(core);
    core = nullptr;
}

thread_local char OpenVino::why[MOST_SAID];

int OpenVino::run(int64_t worker, From from, To to)
{
    const Request &own = requests[worker];
    int status = 0;
    size_t i = 0;
    for (const void *token : from) {
        if (!status)
            status = ov.infer_request_set_tensor_by_const_port(own.request, own.x[i],
                                                               inputs[i]->at(token));
        i++;
    }
    i = 0;
    for (const void *token : to) {
        if (!status)
            status = ov.infer_request_set_tensor_by_const_port(own.request, own.y[i],
                                                               outputs[i]->at(token));
        i++;
    }
    if (!status)
        status = ov.infer_request_infer(own.request);
    if (!status)
        return 0;
    snprintf(why, sizeof why, "OpenVINO: %s", words().c_str());
    return 1;
}

}  // namespace flow
