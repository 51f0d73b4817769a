#define GAIN 3
