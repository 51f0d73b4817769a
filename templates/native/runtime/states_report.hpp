// What the report of a program says of its states: how long it was in each, what changes took, what
// it all cost by the model. As data, and as tables of the same.
#pragma once
#include "control.hpp"
#include "text.hpp"

namespace flow
{

// What was counted; null where the process that counted it is gone.
inline std::string counted(const std::string &number) { return run.uncounted ? "null" : number; }

inline std::string in_ms(ns time) { return format("%.3f", double(time) / 1e6); }

inline bool takes_power(const Control &control)
{
    const auto &states = control.scenario.states;
    return std::any_of(states.begin(), states.end(),
                       [](const State *state) { return state->energy_mw >= 0 && state->entered; });
}

// Joules of a state by the model; empty where nothing is known.
inline std::string joules_of(const State &state, const char *how)
{
    if (state.energy_mw < 0 || !state.entered)
        return "";
    return format(how, double(state.spent) / 1e9 * state.energy_mw / 1e3);
}

inline const char *name_of(Protocol protocol)
{
    static const char *const names[] = {"idle", "next", "at once"};
    return names[static_cast<int>(protocol)];
}

inline std::string bound_of(const Control &control, const Change &change)
{
    for (const Transition &one : control.scenario.transitions)
        if (&one.source == change.source && &one.target == change.target && one.bound >= 0)
            return in_ms(one.bound);
    return "";
}

inline std::string states_json(const Control &control)
{
    std::string text;
    for (const State *state : control.scenario.states) {
        const std::string joules = joules_of(*state, "%.6f");
        text += (text.empty() ? "\n    " : ",\n    ") + json(state->name) +
                ": {\"seconds\": " + counted(format("%.6f", double(state->spent) / 1e9)) +
                ", \"entered\": " + counted(std::to_string(state->entered)) + ", \"joules\": " +
                (joules.empty() ? "null" : joules) + "}";
    }
    return "{" + text + "}";
}

inline std::string switches_json(const Control &control)
{
    std::string text;
    for (const Change &change : control.changes) {
        const std::string bound = bound_of(control, change);
        text += (text.empty() ? "\n    " : ",\n    ") + std::string("{\"from\": ") +
                json(change.source->name) + ", \"to\": " + json(change.target->name) +
                ", \"event\": " + json(change.event) + ", \"protocol\": " +
                json(name_of(change.protocol)) + ", \"drain_ms\": " +
                in_ms(change.drained - change.asked) + ", \"first_ms\": " +
                (change.first ? in_ms(change.first - change.asked) : "null") + ", \"bound_ms\": " +
                (bound.empty() ? "null" : bound) + ", \"control_ms\": " +
                (change.entered ? in_ms(change.control()) : "null") + "}";
    }
    return "[" + text + "]";
}

inline std::string stays_json(const Control &control)
{
    std::string text;
    for (const Stay &stay : control.stays) {
        std::string frames;
        for (const auto &[app, count] : stay.frames)
            frames += (frames.empty() ? "" : ", ") + json(app) + ": " + std::to_string(count);
        text += (text.empty() ? "\n    " : ",\n    ") + std::string("{\"state\": ") +
                json(stay.state->name) + ", \"frames\": {" + frames + "}}";
    }
    return "[" + text + "]";
}

// The members of the document that are about states.
inline std::vector<std::pair<std::string, std::string>> of_states(const Control &control)
{
    const auto &states = control.scenario.states;
    const bool has_clocks = std::any_of(states.begin(), states.end(),
                                        [](const State *state) { return !state->clocks.empty(); });
    std::string ignored;
    for (const auto &[event, count] : control.ignored)
        ignored += (ignored.empty() ? "" : ", ") + json(event) + ": " + std::to_string(count);
    return {
        {"states", states_json(control)},
        {"energy_from", takes_power(control) ? "\"model\"" : "null"},
        {"clocks", has_clocks ? json(control.rates ? control.rates->name : "model") : "null"},
        {"switches", switches_json(control)},
        {"stays", stays_json(control)},
        {"events", "{\"ignored\": {" + ignored + "}}"},
    };
}

// The changes from one state to another together.
inline std::vector<std::string> row_of_changes(const Control &control,
                                               const std::vector<const Change *> &changes)
{
    ns drains = 0, longest = 0, firsts = 0, latest = 0;
    int64_t count = 0;
    for (const Change *change : changes) {
        const ns drain = change->drained - change->asked;
        drains += drain;
        longest = std::max(longest, drain);
        if (!change->first)
            continue;
        count++;
        firsts += change->first - change->asked;
        latest = std::max(latest, change->first - change->asked);
    }
    const std::string bound = bound_of(control, *changes[0]);
    return {changes[0]->source->name,
            changes[0]->target->name,
            name_of(changes[0]->protocol),
            std::to_string(changes.size()),
            in_ms(drains / static_cast<ns>(changes.size())),
            in_ms(longest),
            count ? in_ms(firsts / count) : "-",
            count ? in_ms(latest) : "-",
            bound.empty() ? "-" : bound};
}

inline std::string table_of_states(const Control &control)
{
    Rows states{{"state", "entered", "seconds"}};
    const bool power = takes_power(control);
    if (power)
        states[0].push_back("joules (model)");
    for (const State *state : control.scenario.states) {
        states.push_back({state->name, std::to_string(state->entered),
                          format("%.3f", double(state->spent) / 1e9)});
        const std::string joules = joules_of(*state, "%.3f");
        if (power)
            states.back().push_back(joules.empty() ? "-" : joules);
    }
    Rows rows{{"from", "to", "protocol", "times", "frames ended ms: mean", "max",
               "first frames ms: mean", "max", "bound"}};
    std::vector<std::vector<const Change *>> kinds;
    for (const Change &change : control.changes) {
        const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto &kind) {
            return kind[0]->source == change.source && kind[0]->target == change.target;
        });
        if (known == kinds.end())
            kinds.push_back({&change});
        else
            known->push_back(&change);
    }
    for (const auto &kind : kinds)
        rows.push_back(row_of_changes(control, kind));
    return columns(states) + "\n" + (rows.size() > 1 ? columns(rows, 3) + "\n" : "");
}

}  // namespace flow
