int button(void *state, bool *pressed, const void *p) { return 0; }
int sensor(void *state, float *near, const void *p) { return 0; }
int show(void *state, const void *frame, const void *p) { return 0; }
int beep(void *state, const bool *pressed, float *sound, const void *p) { return 0; }
int play(void *state, const float *sound, const void *p) { return 0; }
int best(void *state, const float *y, const void *p) { return 0; }
