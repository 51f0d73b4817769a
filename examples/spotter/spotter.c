/* The tasks of native.flow: those of spotter.py in C. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 512, FRAME = 400, POINTS = 512, BINS = POINTS / 2 + 1, FRAMES = 49, MELS = 40, WORDS = 5 };

/* -- microphone: plays a file of 16,000 samples a second, `loops` times ------------------------- */
struct sound {
    int16_t *samples;
    int64_t chunks, fired;
};

/* The samples of a WAV file, which is a list of named chunks. */
static int read_wav(FILE *file, struct sound *sound)
{
    char name[4];
    uint32_t size;
    if (fseek(file, 12, SEEK_SET))
        return -1;
    while (fread(name, 4, 1, file) == 1 && fread(&size, 4, 1, file) == 1) {
        if (memcmp(name, "data", 4) == 0) {
            sound->chunks = size / sizeof(int16_t) / CHUNK;
            sound->samples = malloc(size);
            return sound->samples && fread(sound->samples, 1, size, file) == size ? 0 : -1;
        }
        if (fseek(file, size + size % 2, SEEK_CUR))
            return -1;
    }
    return -1;
}

void *microphone_init(const microphone_params *p)
{
    struct sound *sound = calloc(1, sizeof *sound);
    FILE *file = fopen(p->sound, "rb");
    if (!sound || !file || read_wav(file, sound))
        return NULL;
    fclose(file);
    return sound;
}

int microphone(void *state, float *x, const microphone_params *p)
{
    struct sound *sound = state;
    if (sound->fired == p->loops * sound->chunks)
        return FLOWC_END;
    const int16_t *chunk = sound->samples + sound->fired++ % sound->chunks * CHUNK;
    for (int i = 0; i < CHUNK; i++)
        x[i] = chunk[i] / 32768.0f;
    return 0;
}

void microphone_exit(void *state)
{
    struct sound *sound = state;
    free(sound->samples);
    free(sound);
}

/* -- spectrum: the last 400 samples, 160 of them new -------------------------------------------- */
struct tables {
    float window[FRAME], cosine[POINTS / 2], sine[POINTS / 2];
    uint16_t place[POINTS];
};

void *spectrum_init(const void *p)
{
    (void)p;
    struct tables *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    for (int i = 0; i < FRAME; i++)
        t->window[i] = 0.5 - 0.5 * cos(2 * M_PI * i / (FRAME - 1));
    for (int i = 0; i < POINTS / 2; i++) {
        t->cosine[i] = cos(2 * M_PI * i / POINTS);
        t->sine[i] = -sin(2 * M_PI * i / POINTS);
    }
    for (int i = 0; i < POINTS; i++)
        t->place[i] = t->place[i / 2] / 2 + i % 2 * POINTS / 2;
    return t;
}

int spectrum(void *state, const float *x, float *power, const void *p)
{
    (void)p;
    const struct tables *t = state;
    float real[POINTS] = {0}, imaginary[POINTS] = {0};
    for (int i = 0; i < FRAME; i++)
        real[t->place[i]] = x[i] * t->window[i];
    for (int half = 1; half < POINTS; half *= 2)
        for (int first = 0; first < POINTS; first += 2 * half)
            for (int i = 0; i < half; i++) {
                const int a = first + i, b = a + half, turn = i * (POINTS / 2 / half);
                const float re = real[b] * t->cosine[turn] - imaginary[b] * t->sine[turn];
                const float im = real[b] * t->sine[turn] + imaginary[b] * t->cosine[turn];
                real[b] = real[a] - re, imaginary[b] = imaginary[a] - im;
                real[a] += re, imaginary[a] += im;
            }
    for (int i = 0; i < BINS; i++)
        power[i] = real[i] * real[i] + imaginary[i] * imaginary[i];
    return 0;
}

void spectrum_exit(void *state) { free(state); }

/* -- picture: the last 49 frames, 8 of them new ------------------------------------------------- */
int picture(void *state, const float *mel, float *picture, const void *p)
{
    (void)state, (void)p;
    float sum = 0;
    for (int i = 0; i < FRAMES * MELS; i++)
        sum += mel[i];
    for (int i = 0; i < FRAMES * MELS; i++)
        picture[i] = (mel[i] - sum / (FRAMES * MELS)) * 0.5f;
    return 0;
}

/* -- smooth and events -------------------------------------------------------------------------- */
int smooth(void *state, const float *scores, const float *before, float *sure, const smooth_params *p)
{
    (void)state;
    for (int i = 0; i < WORDS; i++)
        sure[i] = (float)p->weight * scores[i] + (float)(1 - p->weight) * before[i];
    return 0;
}

int events(void *state, const float *sure, const events_params *p)
{
    static const char *const NAMES[] = {"-", "up", "down", "tone", "hiss"};
    events_state *s = state;
    int64_t word = 0;
    s->decisions++;
    for (int i = 1; i < WORDS; i++)
        if (sure[i] > sure[word])
            word = i;
    if (sure[word] <= p->threshold || word == s->word)
        return 0;
    s->word = word;
    if (word) {
        s->events++;
        printf("%6.2f s: %-4s (%.2f)\n", s->decisions * 0.08, NAMES[word], sure[word]);
        fflush(stdout);
    }
    return 0;
}

void events_exit(void *state)
{
    const events_state *s = state;
    printf("%lld events in %lld decisions\n", (long long)s->events, (long long)s->decisions);
    fflush(stdout);
}
