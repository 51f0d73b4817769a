#include "../SDL.h"
