// Clock rates of the machine, as states want them: set through sysfs, read back, and given back at the
// end; or played by workers, which wait after each firing for as long as it would have gone on.
#pragma once
#include <fcntl.h>
#include <glob.h>

#include <fstream>
#include <map>
#include <set>

#include "run.hpp"
#include "states.hpp"

namespace flow
{

// Where the clocks of the machine are.
#ifndef FLOWC_SYSFS
#define FLOWC_SYSFS "/sys"
#endif

// Rates cannot be had; the message says why.
struct RatesRefused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline std::string in_mhz(int64_t hz) { return format("%g", double(hz) / 1e6); }

// A file of a clock cannot be read or written.
struct NoNumber : RatesRefused {
    const int error;

    NoNumber(const std::string &file, int error)
        : RatesRefused(format("[Errno %d] %s: '%s'", error, strerror(error), file.c_str())),
          error(error)
    {
    }
};

// One clock: files with the least and the highest rate that it may take, `unit` Hz each, and the rates
// it knows.
class Knob
{
    std::string least_file, most_file;
    int64_t unit;

    static int64_t number_in(const std::string &file)
    {
        std::ifstream stream(file);
        int64_t number = 0;
        if (!(stream >> number))
            throw NoNumber(file, errno);
        return number;
    }
    void write(const std::string &file, int64_t hz) const
    {
        const std::string line = std::to_string(hz / unit) + "\n";
        const int opened = ::open(file.c_str(), O_WRONLY | O_TRUNC);
        const bool good = opened >= 0 && ::write(opened, line.data(), line.size()) ==
                                             static_cast<ssize_t>(line.size());
        const int error = errno;
        if (opened >= 0)
            ::close(opened);
        if (!good)
            throw NoNumber(file, error);
    }

public:
    std::vector<int64_t> known;  // empty: any between its limits
    std::pair<int64_t, int64_t> before;

    Knob(const std::string &folder, const char *least, const char *most, const char *rates,
         int64_t unit)
        : least_file(folder + "/" + least), most_file(folder + "/" + most), unit(unit)
    {
        before = limits();
        std::ifstream stream(folder + "/" + rates);
        for (int64_t rate; stream >> rate;)
            known.push_back(rate * unit);
    }
    // The least and the highest rate in Hz.
    std::pair<int64_t, int64_t> limits() const
    {
        return {number_in(least_file) * unit, number_in(most_file) * unit};
    }
    // Set both, in the order in which the least never passes the highest.
    void hold(int64_t least, int64_t most) const
    {
        const bool up = most > limits().second;
        if (up)
            write(most_file, most);
        write(least_file, least);
        if (!up)
            write(most_file, most);
    }
};

// How states get their clock rates.
class Rates
{
public:
    const char *const name;

    explicit Rates(const char *name) : name(name) {}
    virtual ~Rates() = default;
    // Make the clocks faster that are to be faster; all rates, slower ones too.
    virtual void reach(const std::vector<Clock> &wanted) = 0;
    virtual void lower(const std::vector<Clock> &wanted) = 0;
    // As everything was found.
    virtual void restore() {}
};

// The clocks of the pools that states want rates of. Nothing is written before the first of `reach`
// and `lower`.
class SetRates : public Rates
{
    std::map<std::string, std::vector<Knob>> knobs;
    std::map<std::string, int64_t> current;

    static std::vector<std::string> folders(const std::string &pattern)
    {
        glob_t matches;
        std::vector<std::string> found;
        if (glob((FLOWC_SYSFS + ("/" + pattern)).c_str(), 0, nullptr, &matches) == 0)
            found.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
        globfree(&matches);
        return found;
    }
    // Does a folder below `class/devfreq` belong to processors of that kind?
    static bool is_of(const std::string &folder, const std::string &kind)
    {
        static const std::map<std::string, std::vector<const char *>> words = {
            {"gpu", {"gv11b", "ga10b", "gp10b", "gpu"}}, {"dla", {"nvdla", "dla"}}};
        const auto own = words.find(kind);
        const std::string base = folder.substr(folder.rfind('/') + 1);
        return own != words.end() &&
               std::any_of(own->second.begin(), own->second.end(), [&](const char *word) {
                   return base.find(word) != std::string::npos;
               });
    }
    // The clocks of a pool. Several pools of CPUs are told apart by their highest rates.
    static std::vector<Knob> of_pool(const Clock &clock, bool several)
    {
        std::vector<Knob> found;
        if (strcmp(clock.kind, "cpu")) {
            for (const std::string &folder : folders("class/devfreq/*"))
                if (is_of(folder, clock.kind))
                    found.emplace_back(folder, "min_freq", "max_freq", "available_frequencies", 1);
            return found;
        }
        for (const std::string &folder : folders("devices/system/cpu/cpufreq/policy*")) {
            int64_t highest = 0;
            std::ifstream(folder + "/cpuinfo_max_freq") >> highest;
            if (!several || highest * 1000 == clock.highest)
                found.emplace_back(folder, "scaling_min_freq", "scaling_max_freq",
                                   "scaling_available_frequencies", 1000);
        }
        return found;
    }
    void set(const Clock &clock)
    {
        const std::string named = std::string("the clock of `") + clock.pool + "` ";
        for (const Knob &knob : knobs[clock.pool]) {
            std::pair<int64_t, int64_t> found;
            try {
                knob.hold(clock.hz, clock.hz);
                found = knob.limits();
            } catch (const NoNumber &why) {
                throw RatesRefused(named + "cannot be set: " + strerror(why.error));
            }
            if (found.first != clock.hz || found.second != clock.hz)
                throw RatesRefused(named + "stays between " + in_mhz(found.first) + " and " +
                                   in_mhz(found.second) + " MHz");
        }
        current[clock.pool] = clock.hz;
    }

public:
    explicit SetRates(const std::vector<State *> &states) : Rates("set")
    {
        std::set<std::string> cpus;
        for (const State *state : states)
            for (const Clock &clock : state->clocks)
                if (!strcmp(clock.kind, "cpu"))
                    cpus.insert(clock.pool);
        for (const State *state : states)
            for (const Clock &clock : state->clocks)
                if (!knobs.count(clock.pool))
                    knobs.emplace(clock.pool, of_pool(clock, cpus.size() > 1));
        for (const State *state : states)
            for (const Clock &clock : state->clocks) {
                const std::string named = std::string("of `") + clock.pool + "` ";
                if (knobs[clock.pool].empty())
                    throw RatesRefused("no clock " + named +
                                       "is to be found below " FLOWC_SYSFS);
                for (const Knob &knob : knobs[clock.pool])
                    if (!knob.known.empty() && std::find(knob.known.begin(), knob.known.end(),
                                                         clock.hz) == knob.known.end())
                        throw RatesRefused("a clock " + named + "has no rate of " +
                                           in_mhz(clock.hz) + " MHz");
            }
    }
    void reach(const std::vector<Clock> &wanted) override
    {
        for (const Clock &clock : wanted)
            if (clock.hz > current[clock.pool])
                set(clock);
    }
    void lower(const std::vector<Clock> &wanted) override
    {
        for (const Clock &clock : wanted)
            if (clock.hz != current[clock.pool])
                set(clock);
    }
    // Whatever cannot be set again stays.
    void restore() override
    {
        for (const auto &of_pool : knobs)
            for (const Knob &knob : of_pool.second)
                try {
                    if (knob.limits() != knob.before)
                        knob.hold(knob.before.first, knob.before.second);
                } catch (const RatesRefused &) {
                }
    }
};

// A worker that has computed at the highest rate waits for as long as a slower one takes. That shows
// which deadlines hold. A core is free meanwhile, and memory as fast as ever.
class EmulatedRates : public Rates
{
    std::map<std::string, double> factors;  // how many times as long work takes

    void apply() const
    {
        for (Worker *worker : run.workers) {
            const std::string processor = worker->processor;
            const auto found = factors.find(processor.substr(0, processor.find('[')));
            if (found != factors.end())
                worker->slower = found->second;
        }
    }
    static double factor_of(const Clock &clock)
    {
        return static_cast<double>(clock.highest) / static_cast<double>(clock.hz);
    }

public:
    EmulatedRates() : Rates("emulate") {}
    void reach(const std::vector<Clock> &wanted) override
    {
        for (const Clock &clock : wanted) {
            const double factor = factor_of(clock);
            const auto [known, is_new] = factors.emplace(clock.pool, factor);
            known->second = std::min(known->second, factor);
        }
        apply();
    }
    void lower(const std::vector<Clock> &wanted) override
    {
        for (const Clock &clock : wanted)
            factors[clock.pool] = factor_of(clock);
        apply();
    }
};

}  // namespace flow
