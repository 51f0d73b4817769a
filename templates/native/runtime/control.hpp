// The controller of a program with states: which state it is in, what leads to another one, and the
// change itself.
//
// A change disturbs no frame: apps begin no others, those that have begun end, and the apps of the
// next state begin together (the protocol `idle`). Where states differ in variants of networks alone,
// nothing has to wait: frames that begin from then on take those of the next state (`next`), or an
// inference is broken off, and its frame done again with them (`at once`). What lies on channels
// between two frames goes on to the same app in the next state. Events wait until every app has begun
// a frame, and then count together, so that no storm of them can keep a state from doing something.
#pragma once
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <set>

#include "clocks.hpp"
#include "near.hpp"
#include "run.hpp"
#include "states.hpp"

namespace flow
{

// The event that comes with a rate, and chooses among levels of states.
constexpr const char *PACE_EVENT = "pace";
constexpr double PATIENCE_OF_CHANGE = 2.0;  // seconds after which it is said whom it waits for
constexpr ns LOOK_AT_FRAMES = 1000000;      // between two looks at the frames that apps have begun

// Being in a state, with the frames of each app once it is left.
struct Stay {
    const State *state;
    std::vector<std::pair<std::string, int64_t>> frames;

    int64_t of(const std::string &app) const
    {
        for (const auto &[name, count] : frames)
            if (name == app)
                return count;
        return 0;
    }
};

// States that follow each other without a pause, since apps began anew: which of the stays, the change
// that led there (-1: none), and the first frame of each app.
struct Stretch {
    size_t stay;
    int64_t change;
    std::vector<int64_t> firsts;
};

// From one state to another. `asked`: when the event came, or the state began; `drained`: its last
// frame has ended, and `first`: every app of the next state has ended a frame (0: none has).
//
// From `ready` on nothing kept it waiting but the controller, who stopped the apps (`stopped`);
// after their last frame (`ended`) it `entered` the next state.
struct Change {
    State *source, *target;
    Protocol protocol;
    std::string event;
    ns asked, drained = 0, first = 0, ready = 0, stopped = 0, ended = 0, entered = 0;

    ns control() const { return stopped - ready + entered - ended; }
};

class Control
{
    struct Raised {
        std::string event;
        ns when;
        double rate;  // of `pace`; below 0: none
    };
    pthread_mutex_t lock;
    std::deque<Raised> queue;
    std::atomic<int64_t> news{0};  // events, and workers that park
    Bell changed;
    std::atomic<bool> over{false};
    pthread_t thread{};
    bool started = false;
    double pace = -1;  // the frames per second that were asked for
    ns early = 0;      // when it last saw that some app of the state had not begun
    std::map<std::string, App *> last;
    Counts fired;
    std::vector<Stretch> stretches;
    bool slower = false;  // are slower rates to be set once the frames of the state before have ended?
    std::set<std::string> ended;
    // Of each app its frames in earlier stays, which others ask for.
    std::map<std::string, std::atomic<int64_t>> had_before;
    std::map<std::string, std::atomic<App *>> now_of;

public:
    const Scenario &scenario;
    State *initial;
    int64_t frames = -1;  // of each app at most; -1: as many as its stream has
    bool repeats = false;
    std::vector<Stay> script;  // what is repeated, if it is
    std::vector<Stay> stays;
    std::vector<Change> changes;
    std::map<std::string, int64_t> ignored;  // events that led nowhere
    std::function<bool()> raise_due = [] { return false; };
    std::unique_ptr<Rates> rates;  // what sets clock rates, if something does

    explicit Control(const Scenario &scenario) : scenario(scenario), initial(&scenario.initial)
    {
        lock_with_inheritance(lock);
        for (const State *state : scenario.states)
            for (App *app : state->apps) {
                had_before[app->name] = 0;
                now_of[app->name] = nullptr;
                app->running = false;
                app->have(0);  // until its state is entered
            }
        for (Worker *worker : run.workers)
            worker->parked = true;
    }
    State *named(const std::string &name) const
    {
        for (State *state : scenario.states)
            if (state->name == name)
                return state;
        return nullptr;
    }
    std::vector<std::string> events() const
    {
        return {scenario.events.begin(), scenario.events.end()};
    }
    // Frames that an app has finished, in whatever state.
    int64_t had(const std::string &app) const
    {
        const App *const running = now_of.at(app);
        return had_before.at(app) + (running ? running->done() : 0);
    }

    // The same without the stays since it has begun anew.
    int64_t had_earlier(const std::string &app) const { return had_before.at(app); }
    // All stays, and the first one of those under way, with the frames that have begun in them.
    std::pair<std::vector<Stay>, size_t> so_far()
    {
        std::vector<Stay> all;
        std::vector<Stretch> under_way;
        {
            const Locked here(lock);
            all = stays;
            under_way = stretches;
        }
        const size_t first = under_way.empty() ? all.size() : under_way[0].stay;
        if (first < all.size()) {
            const std::vector<App *> &apps = all[first].state->apps;
            for (size_t a = 0; a < apps.size(); a++)
                for (size_t i = 0; i < under_way.size(); i++)
                    all[under_way[i].stay].frames.emplace_back(
                        apps[a]->name, frames_in(under_way, i, a, apps[a]->frames_begun()));
        }
        return {all, first};
    }

    // -- from outside ------------------------------------------------------------------------------
    // It counts as soon as every app of the state has begun a frame. `pace 20` asks for 20 frames
    // per second. Why there is no such event; empty where there is.
    std::string raise(const std::string &text)
    {
        Raised event{"", now(), -1};
        const std::string why = parsed(text, event.event, event.rate);
        if (why.empty()) {
            {
                const Locked here(lock);
                queue.push_back(event);
            }
            wake();
        }
        return why;
    }
    // An event in its two parts; why it is none, or empty.
    std::string parsed(const std::string &text, std::string &word, double &rate) const
    {
        word = text.substr(0, text.find(' '));
        const std::string rest = word.size() < text.size() ? text.substr(word.size() + 1) : "";
        const std::vector<std::string> known = events();
        const bool there = std::find(known.begin(), known.end(), word) != known.end();
        if (!there || (!rest.empty() && word != PACE_EVENT))
            return "there is no event `" + text + "`";
        if (word != PACE_EVENT || !has_levels())
            return "";
        char *end = nullptr;
        rate = strtod(rest.c_str(), &end);
        if (rest.empty() || *end || !(rate > 0) || !std::isfinite(rate))
            return "`" + text + "` needs a number of frames per second: `" + PACE_EVENT + " 20`";
        return "";
    }
    void ignore(const std::string &event)
    {
        const Locked here(lock);
        ignored[event]++;
    }

    // Clock rates of states are `set`, or played. Throws RatesRefused where the machine cannot, or no
    // mapping has any.
    void give_rates(bool set)
    {
        if (std::all_of(scenario.states.begin(), scenario.states.end(),
                        [](const State *state) { return state->clocks.empty(); }))
            throw RatesRefused("no stored mapping has chosen any (see `flowc map`)");
        if (set)
            rates = std::make_unique<SetRates>(scenario.states);
        else
            rates = std::make_unique<EmulatedRates>();
    }

    // -- workers -----------------------------------------------------------------------------------
    // The rounds of a worker: those of each stay in its state.
    void stays_of(Worker &worker)
    {
        for (;;) {
            worker.stirred.wait([&] { return !worker.parked || over || run.stopping; });
            if (worker.parked || run.stopping)
                return;
            worker.began = now();
            worker.work();
            worker.parked = true;
            wake();
        }
    }

    // -- its thread --------------------------------------------------------------------------------
    // False where there is no thread for it.
    bool start()
    {
        started = pthread_create(&thread, nullptr, thread_of, this) == 0;
        return started;
    }
    void join()
    {
        if (started)
            pthread_join(thread, nullptr);
    }

    // One app for each name, with what it did in all states: once everything is over.
    static void total()
    {
        std::map<std::string, App *> known;
        std::vector<App *> apps;
        for (App *app : App::all) {
            std::vector<Task *> apart;
            for (Task *task : std::vector<Task *>(app->tasks))
                for (Task *made : task->code.apart(*task))
                    apart.push_back(made);
            app->tasks = apart;
            App *&first = known[app->name];
            if (first)
                first->add(*app);
            else
                apps.push_back(first = app);
        }
        App::all = apps;
        Task::all.clear();
        for (const App *app : apps)
            Task::all.insert(Task::all.end(), app->tasks.begin(), app->tasks.end());
    }

private:
    static void *thread_of(void *given)
    {
        Control &control = *static_cast<Control *>(given);
        if (control.repeats)
            control.repeat();
        else
            control.go_on();
        control.over = true;
        Run::stir();
        return nullptr;
    }
    void wake()
    {
        news++;
        changed.ring();
    }
    bool has_levels() const
    {
        return std::any_of(scenario.states.begin(), scenario.states.end(),
                           [](const State *state) { return *state->level_of; });
    }

    void go_on()
    {
        State *state = initial;
        enter(*state, {});
        Change change{};
        while (next(*state, change)) {
            if (change.protocol != Protocol::IDLE) {
                follow(change);
                state = change.target;
                continue;
            }
            if (!drained(change))
                break;
            leave(*state);
            changes.push_back(change);
            state = change.target;
            enter(*state, {});
            changes.back().entered = state->since;
        }
        leave(*state);
    }
    // Stay in states as they are given, those without a pause between them together.
    void repeat()
    {
        for (size_t i = 0; i < script.size();) {
            std::vector<Stay> given{script[i++]};
            while (i < script.size() &&
                   protocol_of(*given.back().state, *script[i].state) != Protocol::IDLE)
                given.push_back(script[i++]);
            State &state = *named(given[0].state->name);
            if (!stays.empty())
                changes.push_back(given_change(stays.back(), given[0]));
            enter(state, given);
            const bool good = until_parked(state, nullptr);
            leave(state);
            if (!good)
                return;
        }
    }
    // A change without an event.
    Change given_change(const Stay &before, const Stay &after) const
    {
        State &source = *named(before.state->name), &target = *named(after.state->name);
        const ns at = now();
        return {&source, &target, protocol_of(source, target), "", at, at};
    }
    Protocol protocol_of(const State &source, const State &target) const
    {
        for (const Transition &one : scenario.transitions)
            if (&one.source == &source && &one.target == &target)
                return one.protocol;
        return Protocol::IDLE;
    }
    // The rates of a state: slower ones only when no frame is under way that counts on the old ones.
    void set_rates(const State &state, bool down)
    {
        if (!rates)
            return;
        try {
            down ? rates->lower(state.clocks) : rates->reach(state.clocks);
        } catch (const RatesRefused &why) {
            rates->restore();
            rates.reset();
            run.say(std::string("clock rates are left alone: ") + why.what());
        }
    }
    // The next state goes on with the frames of this one, at the faster ones of the clock rates of
    // both.
    void follow(Change &change)
    {
        set_rates(*change.target, false);
        Stretch stretch{stays.size(), static_cast<int64_t>(changes.size()), {}};
        for (App *app : change.source->apps)
            stretch.firsts.push_back(
                app->follow(change.target->number, change.protocol == Protocol::AT_ONCE));
        const ns time = change.drained = now();
        change.source->spent += time - change.source->since;
        begins(*change.target, time);
        add(*change.target, stretch);
        changes.push_back(change);
        slower = rates != nullptr;
    }
    void add(const State &state, const Stretch &stretch)
    {
        const Locked here(lock);
        stretches.push_back(stretch);
        stays.push_back({&state, {}});
    }
    // The frames of an app in one of the states that follow each other, when so many have been done
    // since it has begun anew.
    static int64_t frames_in(const std::vector<Stretch> &all, size_t i, size_t app, int64_t done)
    {
        const bool is_last = i + 1 == all.size();
        const int64_t end = is_last ? done : std::min(done, all[i + 1].firsts[app]);
        return std::max<int64_t>(0, end - all[i].firsts[app]);
    }
    static void begins(State &state, ns time)
    {
        state.entered++;
        state.since = state.timer = time;
    }

    // Wait for the next change; false where there is nothing left to do.
    bool next(State &state, Change &change)
    {
        while (!run.stopping) {
            const int64_t seen = news;
            const bool ending = run.ending(), parked = state.parked();
            if (ending && parked)
                return false;
            const ns at = now();
            const bool asked = any_event() || at >= due(state);
            if (asked && !ending && (parked || state.begun())) {
                if (advanced(state, at, change)) {
                    change.ready = std::max(change.asked, early);
                    return true;
                }
                continue;
            }
            early = asked ? at : 0;
            if (parked) {
                if (!raise_due())
                    return false;  // the streams of all its apps have ended
                continue;
            }
            slow_down(state);
            changed.wait([&] { return news != seen || run.stopping || run.ending() != ending; },
                         next_look(state, asked, at));
        }
        return false;
    }
    // Slower clock rates, once no frame is left that counts on the old ones.
    void slow_down(const State &state)
    {
        if (slower && std::none_of(state.apps.begin(), state.apps.end(),
                                   [](App *app) { return app->awaits(); })) {
            slower = false;
            set_rates(state, true);
        }
    }
    // When to look again, also for what workers do without a word where something was asked; -1: when
    // an event comes.
    ns next_look(const State &state, bool asked, ns at) const
    {
        if (asked || slower)
            return at + LOOK_AT_FRAMES;
        return due(state) < FOREVER ? std::max(due(state), at) : -1;
    }
    bool any_event()
    {
        const Locked here(lock);
        return !queue.empty();
    }
    const Transition *timer_of(const State &state) const
    {
        for (const Transition &one : scenario.transitions)
            if (&one.source == &state && one.after >= 0)
                return &one;
        return nullptr;
    }
    // When a state is left without an event; FOREVER: it waits for one.
    ns due(const State &state) const
    {
        const Transition *const timed = timer_of(state);
        return timed ? state.timer + timed->after : FOREVER;
    }
    // Of several levels that it may lead to, the fastest one, which comes first.
    State *lead(const State &state, const std::string &event) const
    {
        for (const Transition &one : scenario.transitions)
            if (&one.source == &state)
                for (const char *each : one.events)
                    if (event == each)
                        return &one.target;
        return nullptr;
    }
    // Let all events count that have come; false where they lead back to where it is, or nowhere.
    bool advanced(State &state, ns time, Change &change)
    {
        State *at = &state;
        std::string cause;
        ns since = 0;
        const Locked here(lock);
        const ns end = due(state);
        if (time >= end && (queue.empty() || queue.front().when >= end)) {
            at = paced(timer_of(state)->target);
            cause = "after";
            since = end;
        }
        for (; !queue.empty(); queue.pop_front()) {
            const Raised &event = queue.front();
            pace = event.rate > 0 ? event.rate : pace;
            State *const following =
                event.rate > 0 && *at->level_of ? at : lead(*at, event.event);
            if (!following) {
                ignored[event.event]++;
                continue;
            }
            at = paced(*following);
            cause = event.event;
            since = since ? since : event.when;
        }
        if (at == &state) {
            if (!cause.empty())  // there and back again: its time begins anew
                state.timer = time;
            return false;
        }
        change = {&state, at, protocol_of(state, *at), cause, std::max(since, state.since)};
        return true;
    }
    // The slowest level of a state that is fast enough; the fastest one where none is, or no rate
    // was asked for.
    State *paced(State &state) const
    {
        if (!*state.level_of)
            return &state;
        State *fastest = nullptr, *found = nullptr;
        for (State *level : scenario.states) {
            if (strcmp(level->level_of, state.level_of))
                continue;
            fastest = fastest ? fastest : level;
            if (pace >= 0 && level->rate >= pace && (!found || level->rate < found->rate))
                found = level;
        }
        return found ? found : fastest;
    }

    // No new frames, and wait for those that have begun. False where the program ends instead.
    bool drained(Change &change)
    {
        set_rates(*change.target, false);
        change.stopped = change.ended = now();
        for (App *app : change.source->apps)
            app->drain();
        Run::stir();
        const bool good = until_parked(*change.source, change.target);
        change.drained = now();
        for (const App *app : change.source->apps)
            change.ended = std::max(change.ended, app->last_end);
        return good && !run.ending();
    }
    bool until_parked(const State &state, const State *target)
    {
        const ns begin = now();
        while (!state.parked()) {
            const int64_t seen = news;
            if (run.stopping)
                return false;
            const ns patience = now() + static_cast<ns>(PATIENCE_OF_CHANGE * 1e9);
            changed.wait([&] { return news != seen || state.parked() || run.stopping; }, patience);
            if (target && !state.parked() && double(now() - begin) > PATIENCE_OF_CHANGE * 1e9)
                run.say(std::string("the change from ") + state.name + " to " + target->name +
                        " waits; " + who_waits());
        }
        return !run.stopping;
    }

    // Its apps begin anew. `given` are stays with their frames, which follow each other without a
    // pause.
    void enter(State &state, const std::vector<Stay> &given)
    {
        set_rates(state, true);
        slower = false;
        const ns time = now();
        std::vector<Stretch> next{{stays.size(), static_cast<int64_t>(changes.size()) - 1,
                                   std::vector<int64_t>(state.apps.size())}};
        begins(state, time);
        for (size_t i = 1; i < given.size(); i++) {
            next.push_back({stays.size() + i, static_cast<int64_t>(changes.size()), {}});
            for (size_t a = 0; a < state.apps.size(); a++)
                next[i].firsts.push_back(next[i - 1].firsts[a] +
                                         given[i - 1].of(state.apps[a]->name));
            changes.push_back(given_change(given[i - 1], given[i]));
            begins(*changes.back().target, time);
        }
        for (size_t a = 0; a < state.channels.size(); a++)
            begin_anew(state.channels[a], a, state, given, next, time);
        {
            const Locked here(lock);
            stays.push_back({&state, {}});
            for (size_t i = 1; i < given.size(); i++)
                stays.push_back({given[i].state, {}});
            stretches = std::move(next);
        }
        if (run.ending())  // it may have been ended before the apps of this state were ready
            for (App *app : state.apps)
                app->drain();
        if (run.stopping)
            for (App *app : state.apps)
                app->until = 0;
        for (Worker *worker : state.workers)  // all of them, before one waits for another
            worker->parked = false;
        for (Worker *worker : state.workers)
            worker->stirred.ring();
    }
    // An app goes on where it was in the state in which it last ran, through states that follow each
    // other without a pause.
    void begin_anew(const Channels &channels, size_t number, const State &state,
                    const std::vector<Stay> &given, const std::vector<Stretch> &next, ns time)
    {
        App &app = channels.app;
        const bool is_over = ended.count(app.name);
        const int64_t had = had_before[app.name];
        int64_t most = frames < 0 ? FOREVER : std::max<int64_t>(0, frames - had), first = 0;
        if (app.pick)
            app.pick->begin(state.number);
        for (size_t i = 1; i < given.size(); i++) {
            first = next[i].firsts[number];
            if (app.pick)
                app.pick->add(given[i].state->number, first);
        }
        if (!given.empty())
            most = first + given.back().of(app.name);
        App *const before = last[app.name];
        std::vector<Saved> saved;
        if (before && !is_over)
            saved = what_lies(*before);
        app.enter(is_over ? 0 : most, time);
        app.exhausted = is_over;
        app.before = had;
        if (before && !is_over)
            put_back(channels, saved);
        for (Task *task : app.tasks) {
            task->code.go_on(*task, fired);
            task->code.enter(app);
        }
        last[app.name] = &app;
        now_of[app.name] = &app;
        app.running = true;
    }

    // Tokens of a channel, with a byte each for one that is missing.
    struct Saved {
        const char *key;
        int64_t tokens;
        std::vector<char> bytes;
        std::vector<uint8_t> missing;
    };
    std::vector<Saved> what_lies(const App &app) const
    {
        std::vector<Saved> found;
        for (const Kept &kept : channels_of(app).kept) {
            Saved one{kept.key, kept.tokens, {}, std::vector<uint8_t>(kept.tokens)};
            one.bytes.resize(kept.tokens * kept.place.bytes());
            kept.place.save(kept.tokens, one.bytes.data(), one.missing.data());
            found.push_back(std::move(one));
        }
        return found;
    }
    static void put_back(const Channels &channels, const std::vector<Saved> &saved)
    {
        for (Place *place : channels.places)
            place->clear();
        for (const Kept &kept : channels.kept)
            for (const Saved &one : saved)
                if (!strcmp(kept.key, one.key))
                    kept.place.load(one.tokens, one.bytes.data(), one.missing.data());
    }
    const Channels &channels_of(const App &app) const
    {
        for (const State *state : scenario.states)
            for (const Channels &channels : state->channels)
                if (&channels.app == &app)
                    return channels;
        abort();
    }

    // Count what was done since the apps began anew.
    void leave(State &state)
    {
        state.spent += now() - state.since;
        std::vector<Stay> over = stays;
        for (size_t a = 0; a < state.apps.size(); a++) {
            App *const app = state.apps[a];
            const int64_t done = app->done();
            for (size_t i = 0; i < stretches.size(); i++) {
                over[stretches[i].stay].frames.emplace_back(app->name, frames_in(stretches, i, a, done));
                if (stretches[i].change >= 0 && i < app->awaited.size()) {
                    ns &first = changes[stretches[i].change].first;
                    first = std::max(first, app->awaited[i].ended);
                }
            }
            now_of[app->name] = nullptr;
            had_before[app->name] += done;
            app->running = false;
            if (app->exhausted)
                ended.insert(app->name);
            for (const Task *task : app->tasks)
                task->code.leave(*task, done, fired);
        }
        const Locked here(lock);
        stays = std::move(over);
        stretches.clear();
    }
};

}  // namespace flow
