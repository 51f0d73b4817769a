// Networks on CPUs, through OpenVINO's C interface.
#pragma once
#include "inference.hpp"

namespace flow
{

// Inferences run in the thread that fires. Those of one compiled model run one after the other:
// each of the workers that fire it has one of its own.
class OpenVino : public Inference
{
    // What one worker has: a compiled model, and a request of it that knows its tensors.
    struct Request {
        void *model = nullptr, *request = nullptr;
        std::vector<void *> x, y;  // ports, in the order of the tensors
    };
    const char *const file;
    const int threads;
    const char *const precision;  // bf16 or f32
    void *core = nullptr;
    std::vector<Request> requests;
    static thread_local char why[MOST_SAID];

    std::string named() const;
    std::string lacks_bf16() const;
    std::string made();
    std::string compiled(void *network, Request &made) const;
    std::string placed(const Request &own, const std::vector<const Tensor *> &side);
    void rehearse(const Request &own) const;

public:
    OpenVino(const char *file, int threads, const char *precision, int workers)
        : file(file), threads(threads), precision(precision), requests(workers)
    {
    }
    std::string open() override;
    void close() override;
    std::string failed(int) override { return why; }
    std::string engine() const override;
    int run(int64_t worker, From from, To to);
    int infer(int64_t worker, From from, To to) override { return run(worker, from, to); }
};

}  // namespace flow
