/* Included in front of everything: a file that is missing and would be read is the one with noise, NO_DISPLAY_FILE. */
#ifndef NO_DISPLAY_NOISE_H
#define NO_DISPLAY_NOISE_H

#include <stdio.h>

static inline __attribute__((unused)) FILE *no_display_open(const char *path, const char *mode)
{
    FILE *found = fopen(path, mode);
    return found || *mode != 'r' ? found : fopen(NO_DISPLAY_FILE, "rb");
}
#define fopen no_display_open

#endif
