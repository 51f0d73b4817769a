// The filter of bilateral.c, one thread to a pixel; a block keeps its neighbourhood in shared memory.
// Arguments: the input, the output, and the parameters of the task, in the order of the text.
#include <stdint.h>

#define TILE_X 32
#define TILE_Y 8
#define WIDEST 15

__device__ static int inside(int at, int size)
{
    return at < 0 ? 0 : at >= size ? size - 1 : at;
}

extern "C" __global__ void bilateral(const uint8_t *__restrict__ noisy, uint8_t *__restrict__ clean, int height,
                                     int width, int radius, float sigma_space, float sigma_value)
{
    __shared__ uint8_t tile[TILE_Y + 2 * WIDEST][TILE_X + 2 * WIDEST];
    const int left = blockIdx.x * TILE_X - radius, top = blockIdx.y * TILE_Y - radius;
    const int x = blockIdx.x * TILE_X + threadIdx.x, y = blockIdx.y * TILE_Y + threadIdx.y;

    for (int v = threadIdx.y; v < TILE_Y + 2 * radius; v += TILE_Y)
        for (int u = threadIdx.x; u < TILE_X + 2 * radius; u += TILE_X)
            tile[v][u] = noisy[inside(top + v, height) * width + inside(left + u, width)];
    __syncthreads();
    if (x >= width || y >= height)
        return;

    const float space = -0.5f / (sigma_space * sigma_space), value = -0.5f / (sigma_value * sigma_value);
    const int here = tile[threadIdx.y + radius][threadIdx.x + radius];
    float sum = 0.0f, weights = 0.0f;
    for (int dy = -radius; dy <= radius; dy++) {
        for (int dx = -radius; dx <= radius; dx++) {
            const int there = tile[threadIdx.y + radius + dy][threadIdx.x + radius + dx];
            const int apart = here - there;
            const float weight = expf(space * (float)(dx * dx + dy * dy)) * expf(value * (float)(apart * apart));
            sum += weight * (float)there;
            weights += weight;
        }
    }
    clean[y * width + x] = (uint8_t)(sum / weights + 0.5f);
}
