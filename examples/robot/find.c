/* The ball is brighter than everything else: where its middle is, and how many pixels it has. */

#include <stdint.h>
#include <string.h>

enum { WIDTH = 128, HEIGHT = 96, BRIGHT = 180, LEAST = 20 };

int find(void *state, const uint8_t *frame, float *target, const void *p)
{
    (void)state, (void)p;
    const uint8_t *pixels = frame + WIDTH;
    int32_t number, count = 0;
    int64_t x = 0, y = 0;

    memcpy(&number, frame, sizeof number);
    for (int row = 0; row < HEIGHT; row++)
        for (int column = 0; column < WIDTH; column++)
            if (pixels[row * WIDTH + column] > BRIGHT) {
                count++;
                x += column;
                y += row;
            }
    target[0] = (float)number;
    if (count >= LEAST) {
        target[1] = (float)x / count;
        target[2] = (float)y / count;
        target[3] = (float)count;
    }
    return 0;
}
