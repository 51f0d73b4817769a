// Where and when a program runs, and who built it: what a report says of its own origin.
#pragma once
#include <sys/utsname.h>

#include "text.hpp"

namespace flow
{

// The CPU in words.
inline std::string processor_in_words(const std::string &cpuinfo)
{
    for (const char *key : {"\nmodel name", "\nModel", "\nHardware"}) {
        const size_t at = cpuinfo.find(key), colon = cpuinfo.find(": ", at);
        if (at != std::string::npos && colon != std::string::npos)
            return cpuinfo.substr(colon + 2, cpuinfo.find('\n', colon) - colon - 2);
    }
    return "unknown";
}

// The machine by its name and its processor, its kernel, the compiler, the version of flowc that
// has built the program (as JSON), and the time of the start in UTC.
inline std::string where_json(const std::string &cpuinfo, const std::string &flowc, time_t started)
{
    utsname system = {};
    uname(&system);
    char time[sizeof "2026-01-01T00:00:00Z"] = "";
    tm utc = {};
    strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&started, &utc));
    return "{\"machine\": " + json(system.nodename) +
           ", \"processor\": " + json(processor_in_words(cpuinfo) + " (" + system.machine + ")") +
           ", \"kernel\": " + json(std::string(system.sysname) + " " + system.release) +
           ", \"compiler\": " + json(__VERSION__) + ", \"flowc\": " + flowc +
           ", \"started\": " + json(time) + "}";
}

}  // namespace flow
