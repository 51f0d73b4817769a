// The command line, and parameters with other values than in the text: --set and FLOWC_SET.
#pragma once
#include <cmath>

#include "about.hpp"
#include "graph.hpp"
#include "text.hpp"

namespace flow
{

struct Options {
    int64_t frames = -1;  // -1: until the stream ends
    bool full_speed = false, fail_on_miss = false, quiet = false, real_time = false, reserve = false;
    bool strict = false;
    std::vector<std::string> settings;
    std::string trace, trace_frames, report, table, record, channels;
    std::string start, events, control, replay, clocks = "model";  // of programs with states
    double watchdog = 60, seconds = -1;  // -1: as long as it takes
};

inline const char *kind_name(Setting::Kind kind)
{
    static const char *const names[] = {"int", "float", "bool", "string", "file"};
    return names[kind];
}

// Why a parameter cannot have that value; empty where it has it now.
inline std::string give(const Setting &setting, const std::string &text)
{
    char *end = nullptr;
    errno = 0;
    switch (setting.kind) {
    case Setting::INT: {
        const long long value = strtoll(text.c_str(), &end, 10);
        if (text.empty() || *end || isspace(static_cast<unsigned char>(text[0])))
            return "an int is needed, such as 3";
        if (errno == ERANGE)
            return "too large for C's int64_t";
        *static_cast<int64_t *>(setting.value) = value;
        return "";
    }
    case Setting::FLOAT: {
        const double value = strtod(text.c_str(), &end);
        if (text.empty() || *end || !std::isfinite(value))
            return "a float is needed, such as 0.5";
        *static_cast<double *>(setting.value) = value;
        return "";
    }
    case Setting::BOOL:
        if (text != "true" && text != "false")
            return "a bool is needed: true or false";
        *static_cast<bool *>(setting.value) = text == "true";
        return "";
    case Setting::FILE_: {
        char folder[PATH_MAX];
        const bool whole = !text.empty() && text[0] == '/';
        const std::string path =
            whole || !getcwd(folder, sizeof folder) ? text : folder + ("/" + text);
        struct stat known;
        if (text.empty() || stat(path.c_str(), &known) || !S_ISREG(known.st_mode))
            return "there is no file " + path;
        *static_cast<const char **>(setting.value) = keep(path);
        return "";
    }
    case Setting::STRING:
        *static_cast<const char **>(setting.value) = keep(text);
        return "";
    case Setting::FIXED:
        break;
    }
    return "it is fixed when the program is built: change it in the .flow";
}

// Which part of a name is wrong.
inline std::string unknown(const std::string &path)
{
    const size_t dot = path.rfind('.');
    const std::string task = dot == std::string::npos ? "" : path.substr(0, dot);
    const std::string name = dot == std::string::npos ? path : path.substr(dot + 1);
    for (const Task *known : Task::all)
        if (task == known->name)
            return "task " + task + " has no parameter " + name;
    const std::string app = path.substr(0, path.find('.'));
    for (const App *known : App::all)
        if (app == known->name)
            return "app " + app + " has no task " +
                   (task.size() > app.size() ? task.substr(app.size() + 1) : name);
    return "there is no app " + app;
}

// What is set, behind the place that says so.
using Given = std::vector<std::pair<std::string, std::string>>;

// What the variable FLOWC_SET says.
inline Given of_variable()
{
    Given given;
    const char *variable = getenv("FLOWC_SET");
    for (std::string rest = variable ? variable : ""; !rest.empty();) {
        const size_t end = rest.find(';');
        const std::string one = rest.substr(0, end);
        if (one.find_first_not_of(' ') != std::string::npos)
            given.emplace_back("FLOWC_SET", one.substr(one.find_first_not_of(' ')));
        rest = end == std::string::npos ? "" : rest.substr(end + 1);
    }
    return given;
}

// Give tasks these values; later ones count. All mistakes: then nothing may start.
inline std::vector<std::string> give_all(const std::vector<Setting> &known, const Given &given)
{
    std::vector<std::string> mistakes;
    bool lost = false;
    for (const auto &[place, text] : given) {
        const size_t equals = text.find('=');
        const std::string path = text.substr(0, equals);
        const Setting *found = nullptr;
        for (const Setting &one : known)
            if (one.path() == path)
                found = &one;
        std::string why;
        if (equals == std::string::npos)
            why = "write App.task.parameter=value";
        else if (!found)
            why = unknown(path), lost = true;
        else
            why = give(*found, text.substr(equals + 1));
        if (!why.empty())
            mistakes.push_back(place + " " + text + ": " + why);
    }
    if (lost) {
        std::string list;
        for (const Setting &one : known)
            if (one.kind != Setting::FIXED)
                list += (list.empty() ? "" : ", ") + one.path() + " (" + kind_name(one.kind) +
                        ", " + one.shown + ")";
        mistakes.push_back(list.empty() ? "no parameter of this program can be set"
                                        : "parameters that can be set: " + list);
    }
    return mistakes;
}

inline const char *const USAGE =
    "usage: main [-h] [--frames N] [--seconds S] [--full-speed] [--fail-on-miss]\n"
    "            [--set APP.TASK.NAME=VALUE]\n"
    "            [--trace FILE] [--trace-frames A:B] [--report FILE] [--table FILE]\n"
    "            [--quiet] [--watchdog S] [--strict] [--real-time] [--reserve]\n"
    "            [--start STATE] [--events FILE] [--control PATH] [--record FILE]\n"
    "            [--channels NAMES] [--replay FILE] [--clocks HOW]\n";
inline const char *const ABOUT =
    "\nRun this program.\n\noptions:\n"
    "  -h, --help            show this help message and exit\n"
    "  --frames N            stop after N iterations of each app\n"
    "  --seconds S           begin no frames after S seconds, and finish those that have begun\n"
    "  --full-speed          ignore periods: run as fast as data allows\n"
    "  --fail-on-miss        exit with status 1 if a deadline was missed, or a frame of an app\n"
    "                        with deadlines was left out after an error: it is late for ever\n"
    "  --set APP.TASK.NAME=VALUE\n"
    "                        start with another value of a parameter; may be repeated\n"
    "                        (FLOWC_SET has several, with `;` between)\n"
    "  --trace FILE          write a trace for ui.perfetto.dev\n"
    "  --trace-frames A:B    only frames A to B - 1 of each app are in the trace\n"
    "  --report FILE         write the measurements as JSON\n"
    "  --table FILE          write the table to FILE instead of standard output\n"
    "  --quiet               no progress and no table\n"
    "  --watchdog S          stop when a firing (not of a source that waits for data), a start\n"
    "                        or a close takes longer than S seconds; 0 = never (default 60)\n"
    "  --strict              wait after each kernel on a GPU: failures name it\n"
    "  --real-time           threads under SCHED_FIFO, on a core each; memory stays where it is\n"
    "  --reserve             the same, and threads whose work the text bounds under\n"
    "                        SCHED_DEADLINE, on any core\n"
    "  --start STATE         begin in that state\n"
    "  --events FILE         raise the events of a file: lines `2.5 s EVENT`, or `120 APP EVENT`\n"
    "  --control PATH        raise the events that come in at a Unix datagram socket\n"
    "  --record FILE         write what channels carry, and what was decided, to an MCAP file\n"
    "  --channels NAMES      record only these channels: `cam.image,plan.*`\n"
    "  --replay FILE         change states as a report says\n"
    "  --clocks HOW          `set` the clock rates that the mapping has chosen for states, leave\n"
    "                        them as they are (`model`), or wait after each firing as long as it\n"
    "                        would take (`emulate`)\n";

// A whole number that is not negative; -1 where it is none.
inline int64_t count_of(const std::string &text)
{
    char *end = nullptr;
    errno = 0;
    const long long value = strtoll(text.c_str(), &end, 10);
    return text.empty() || *end || errno || value < 0 ||
                   isspace(static_cast<unsigned char>(text[0]))
               ? -1
               : value;
}

[[noreturn]] inline void refuse(const std::string &why)
{
    fprintf(stderr, "%smain: error: %s\n", USAGE, why.c_str());
    exit(2);
}

// The options of a command line. Says what is wrong with it, and exits with status 2.
inline Options parsed(int count, char **words)
{
    Options options;
    for (int i = 1; i < count; i++) {
        std::string word = words[i], value;
        const size_t equals = word.find('=');
        const bool has_value = word.rfind("--", 0) == 0 && equals != std::string::npos;
        if (has_value) {
            value = word.substr(equals + 1);
            word.resize(equals);
        }
        const auto is = [&](const char *flag) { return word == flag; };
        if (is("-h") || is("--help")) {
            printf("%s%s", USAGE, ABOUT);
            exit(0);
        }
        bool *const flag = is("--full-speed")     ? &options.full_speed
                           : is("--fail-on-miss") ? &options.fail_on_miss
                           : is("--quiet")        ? &options.quiet
                           : is("--strict")       ? &options.strict
                           : is("--real-time")    ? &options.real_time
                           : is("--reserve")      ? &options.reserve
                                                  : nullptr;
        if (flag) {
            *flag = true;
            continue;
        }
        std::string *const text = is("--trace")          ? &options.trace
                                  : is("--report")       ? &options.report
                                  : is("--table")        ? &options.table
                                  : is("--trace-frames") ? &options.trace_frames
                                  : is("--start")        ? &options.start
                                  : is("--events")       ? &options.events
                                  : is("--control")      ? &options.control
                                  : is("--record")       ? &options.record
                                  : is("--channels")     ? &options.channels
                                  : is("--replay")       ? &options.replay
                                  : is("--clocks")       ? &options.clocks
                                                         : nullptr;
        double *const seconds = is("--watchdog")  ? &options.watchdog
                                : is("--seconds") ? &options.seconds
                                                  : nullptr;
        if (!text && !seconds && !is("--frames") && !is("--set"))
            refuse("unrecognized arguments: " + word);
        if (!has_value) {
            if (i + 1 == count)
                refuse("argument " + word + ": expected one argument");
            value = words[++i];
        }
        if (is("--set"))
            options.settings.push_back(value);
        else if (is("--clocks") && value != "set" && value != "model" && value != "emulate")
            refuse("argument --clocks: invalid choice: '" + value +
                   "' (choose from 'set', 'model', 'emulate')");
        else if (text)
            *text = value;
        else if (!seconds) {
            options.frames = count_of(value);
            if (options.frames < 0)
                refuse("argument --frames: must be a number, 0 or more");
        } else {
            char *end = nullptr;
            *seconds = strtod(value.c_str(), &end);
            if (value.empty() || *end || !std::isfinite(*seconds) || *seconds < 0)
                refuse("argument " + word + ": must be a number of seconds, 0 or more");
        }
    }
    return options;
}

}  // namespace flow
