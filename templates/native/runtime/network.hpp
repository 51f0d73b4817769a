// Networks, through ONNX Runtime's C interface.
#pragma once
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "graph.hpp"

namespace flow
{

struct Tensor;

// A network of one file; a firing is one inference, from where its inputs lie to where its outputs
// are read. Several workers may have it run at once.
class Network : public Code
{
    const char *const file;
    const int threads;
    const bool spin;
    void *session = nullptr;
    std::vector<const char *> x_names, y_names;
    static thread_local std::string why;

    std::string rehearsed();

public:
    std::vector<const Tensor *> inputs, outputs;

    // `threads` share an inference; they `spin` while they wait for their next part.
    Network(const char *file, int threads, bool spin) : file(file), threads(threads), spin(spin) {}
    std::string open() override;
    std::string failed(int) override { return why; }
    int run(std::initializer_list<const void *> from, std::initializer_list<void *> to);
};

// A tensor of a network, with the memory in which it may lie: one value of ONNX Runtime for each
// place of a batch of tokens is made before the start. In other states it may lie elsewhere, too.
struct Tensor {
    enum Side { IN, OUT };
    const char *const name;
    const int element;  // as in ONNXTensorElementDataType
    const std::vector<int64_t> dimensions;
    char *const memory;
    const int64_t bytes, batch;  // of one token; tokens
    std::vector<void *> values;
    const Tensor *elsewhere = nullptr;

    Tensor(Network &network, Side side, const char *name, int element,
           std::vector<int64_t> dimensions, void *memory, int64_t tokens, int64_t bytes,
           int64_t batch)
        : name(name), element(element), dimensions(std::move(dimensions)),
          memory(static_cast<char *>(memory)), bytes(bytes), batch(batch),
          values(tokens - batch + 1)
    {
        auto &known = side == IN ? network.inputs : network.outputs;
        for (const Tensor *&tensor : known)
            if (!strcmp(tensor->name, name)) {
                elsewhere = tensor;
                tensor = this;
                return;
            }
        known.push_back(this);
    }
    void *at(const void *token) const
    {
        const ptrdiff_t offset = static_cast<const char *>(token) - memory;
        const bool here = offset >= 0 && offset < static_cast<ptrdiff_t>(values.size()) * bytes;
        return here || !elsewhere ? values[offset / bytes] : elsewhere->at(token);
    }
    Tensor(const Tensor &) = delete;
};

}  // namespace flow
