// What runs a network: its tensors lie where the tokens of channels do.
#pragma once
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "graph.hpp"

namespace flow
{

struct Tensor;
// The tokens of a firing.
using From = std::initializer_list<const void *>;
using To = std::initializer_list<void *>;

// Bytes of a thread for what an engine says of a firing that has failed. Nothing of a thread is an
// object with a destructor: it would keep the image of a program that is stepped.
constexpr size_t MOST_SAID = 512;

// A network of one file in an inference engine. A firing is one inference, from where its inputs
// lie to where its outputs are read.
struct Inference : Code {
    std::vector<const Tensor *> inputs, outputs;

    // A firing of a worker; each that fires it has a number.
    virtual int infer(int64_t worker, From from, To to) = 0;
    // The inference of each of so many workers can be broken off: it fails, as all others of that
    // worker until that is made ready.
    virtual void let_break_off(int64_t) {}
    virtual void break_off(int64_t) {}
    virtual void make_ready(int64_t) {}
};

// A tensor of a network, with the memory in which it may lie: one value of the engine for each
// place of a batch of tokens is made before the start. In other states it may lie elsewhere, too.
struct Tensor {
    enum Side { IN, OUT };
    const char *const name;
    const int element;  // as in ONNX's TensorProto
    const std::vector<int64_t> dimensions;
    char *const memory;
    const int64_t bytes, batch;  // of one token; tokens
    mutable std::vector<void *> values;
    const Tensor *elsewhere = nullptr;

    Tensor(Inference &network, Side side, const char *name, int element,
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
