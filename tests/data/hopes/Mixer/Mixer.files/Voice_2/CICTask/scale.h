#define SCALE 1000
