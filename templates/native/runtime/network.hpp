// Networks, through ONNX Runtime's C interface.
#pragma once
#include "inference.hpp"

namespace flow
{

// Several workers may have it run at once.
class Network : public Inference
{
    const char *const file;
    const int threads;
    const bool spin, on_gpu;
    void *session = nullptr;
    std::vector<const char *> x_names, y_names;
    static thread_local char why[MOST_SAID];

    std::string rehearsed();

public:
    // `threads` share an inference; they `spin` while they wait for their next part. On a GPU, ONNX
    // Runtime copies what it reads to the GPU, and what it makes back.
    Network(const char *file, int threads, bool spin, bool on_gpu = false)
        : file(file), threads(threads), spin(spin), on_gpu(on_gpu)
    {
    }
    std::string open() override;
    void release() override;
    std::string failed(int) override { return why; }
    int run(std::initializer_list<const void *> from, std::initializer_list<void *> to);
};

}  // namespace flow
