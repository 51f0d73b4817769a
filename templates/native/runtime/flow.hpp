// What main.cpp needs of the runtime; the rest of it is in program.cpp.
#pragma once
#include "about.hpp"
#include "age.hpp"
#include "c_code.hpp"
#include "channel.hpp"
#include "gate.hpp"
#include "link.hpp"
