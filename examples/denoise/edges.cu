// Edges in two kernels: a 3 x 3 mean, then the length of the gradient. Between them lies the task's scratch memory.
#include <stdint.h>

__device__ static int inside(int at, int size)
{
    return at < 0 ? 0 : at >= size ? size - 1 : at;
}

extern "C" __global__ void soften(const uint8_t *__restrict__ grey, float *__restrict__ soft, int height, int width)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    int sum = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            sum += grey[inside(y + dy, height) * width + inside(x + dx, width)];
    soft[y * width + x] = (float)sum / 9.0f;
}

extern "C" __global__ void gradient(const float *__restrict__ soft, uint8_t *__restrict__ edges, int height, int width)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const float across = soft[y * width + inside(x + 1, width)] - soft[y * width + inside(x - 1, width)];
    const float down = soft[inside(y + 1, height) * width + x] - soft[inside(y - 1, height) * width + x];
    const float steep = sqrtf(across * across + down * down);
    edges[y * width + x] = (uint8_t)(steep > 255.0f ? 255.0f : steep);
}
