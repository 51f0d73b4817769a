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
    std::vector<void *> stops;  // what breaks off the inference of each worker, where one can
    static thread_local char why[MOST_SAID];

    std::string made_stoppable();
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
    int run(From from, To to, const void *stop = nullptr);
    int infer(int64_t worker, From from, To to) override
    {
        return run(from, to, stops.empty() ? nullptr : stops[worker]);
    }
    void let_break_off(int64_t workers) override
    {
        stops.resize(std::max(stops.size(), static_cast<size_t>(workers)));
    }
    void break_off(int64_t worker) override;
    void make_ready(int64_t worker) override;
};

}  // namespace flow
