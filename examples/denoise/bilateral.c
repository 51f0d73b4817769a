/* A bilateral filter: each pixel becomes the mean of its neighbours, weighted by distance and by likeness.
   Prototype and parameters come from the text: `flowc headers denoise.flow` writes them to bilateral.flow.h. */
#include <math.h>

#define WIDEST 15

static int inside(int at, int size)
{
    return at < 0 ? 0 : at >= size ? size - 1 : at;
}

int bilateral(void *state, const uint8_t *noisy, uint8_t *clean, const bilateral_params *p)
{
    const int height = (int)p->height, width = (int)p->width, radius = (int)p->radius;
    const float space = -0.5f / (float)(p->sigma_space * p->sigma_space);
    const float value = -0.5f / (float)(p->sigma_value * p->sigma_value);
    float near[(2 * WIDEST + 1) * (2 * WIDEST + 1)], alike[256];

    if (radius < 0 || radius > WIDEST)
        return 1;
    for (int dy = -radius, k = 0; dy <= radius; dy++)
        for (int dx = -radius; dx <= radius; dx++)
            near[k++] = expf(space * (float)(dx * dx + dy * dy));
    for (int d = 0; d < 256; d++)
        alike[d] = expf(value * (float)(d * d));
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            const int here = noisy[y * width + x];
            float sum = 0.0f, weights = 0.0f;
            for (int dy = -radius, k = 0; dy <= radius; dy++) {
                const uint8_t *row = noisy + inside(y + dy, height) * width;
                for (int dx = -radius; dx <= radius; dx++) {
                    const int there = row[inside(x + dx, width)];
                    const float weight = near[k++] * alike[here > there ? here - there : there - here];
                    sum += weight * (float)there;
                    weights += weight;
                }
            }
            clean[y * width + x] = (uint8_t)(sum / weights + 0.5f);
        }
    }
    return 0;
}
