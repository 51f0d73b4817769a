// Kernels that do nothing of interest.
extern "C" __global__ void scale(const float *__restrict__ x, float *__restrict__ y, int n, float factor)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = factor * x[i];
}

extern "C" __global__ void greedy(float *x, float *y)
{
    y[threadIdx.x] = x[threadIdx.x]++;
}

__global__ void mangled(const float *x, float *y)
{
    y[threadIdx.x] = x[threadIdx.x];
}

typedef float real;
extern "C" __global__ void typed(const float *x, float *y, real factor)
{
    y[threadIdx.x] = factor * x[threadIdx.x];
}
