#define SCALE 100
