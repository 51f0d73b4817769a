// A program as a library: it runs in threads of the process that has loaded it. Nothing is printed,
// no signal is handled and no process forked.
#include "library.hpp"

#include <signal.h>
#include <unistd.h>

#include <cmath>

#include "options.hpp"

namespace flow
{

// What program.cpp does.
void prepare(const Options &options);
int execute(const About &about, const Options &options);

namespace
{

// -- inside of the image whose program runs ------------------------------------------------------
constexpr double STUCK = 60.0;  // seconds without a sign of life

Options options;
const About *running;
pthread_t thread;
std::string mistakes;
pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

void *runs(void *)
{
    execute(*running, options);
    OpenEnd::finished = true;
    return nullptr;
}

// Start the thread that runs the program. Signals are for other threads of the process, but for
// those by which code crashes.
int started()
{
    sigset_t others, before;
    sigfillset(&others);
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
        sigdelset(&others, number);
    pthread_sigmask(SIG_SETMASK, &others, &before);
    const int error = pthread_create(&thread, nullptr, runs, nullptr);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return error;
}

// Wait until something is so; false where the program has shown no sign of life for too long.
template <typename So> bool comes(So so)
{
    int64_t beats = -1;
    for (ns since = now(); !so(); usleep(500)) {
        if (beats != run.cells->beats) {
            beats = run.cells->beats;
            since = now();
        }
        if (double(now() - since) / 1e9 > STUCK)
            return false;
    }
    return true;
}

Outcome stuck(const char *how)
{
    const int64_t task = run.cells->lines[0].task;
    run.fail({task ? Task::all[task - 1] : nullptr, -1,
              std::string(how) + format("did not return for %.0f s", STUCK)});
    return FAILED;
}

Outcome create_here(const About &about, const char *const *settings, Say say)
{
    run.inside = true;
    run.to_caller = say;
    running = &about;
    options.quiet = true;
    Given given;
    for (; settings && *settings; settings++)
        given.emplace_back("settings:", *settings);
    for (const std::string &mistake : give_all(about.settings, given))
        mistakes += (mistakes.empty() ? "" : "\n") + mistake;
    if (!mistakes.empty())
        return FAILED;
    prepare(options);
    pthread_atfork(nullptr, nullptr, [] { run.strayed = true; });
    for (OpenEnd *end : OpenEnd::all)
        for (const Task *task : Task::all)
            if (&task->code == end)
                end->attach(*task);
    const int error = started();
    if (error) {
        OpenEnd::finished = true;
        thread = {};
        run.fail({nullptr, -1, std::string("cannot start: ") + strerror(error)});
        return FAILED;
    }
    if (!comes([] { return run.gone || OpenEnd::finished; }))
        return stuck("cannot start: ");
    return run.failed ? FAILED : DONE;
}

ns patience(double seconds)
{
    const double most = 1e9;  // seconds: thirty years, which fit into whole ns
    return seconds < 0 ? -1 : static_cast<ns>(std::min(seconds, most) * 1e9);
}

// Can a token be put in or fetched: has the program begun, are there a token and a time?
bool served(const void *token, double seconds)
{
    return !run.strayed && mistakes.empty() && token && !std::isnan(seconds);
}

Outcome feed_here(size_t end, const void *token, double seconds)
{
    return served(token, seconds) ? OpenEnd::all[end]->feed(token, patience(seconds)) : FAILED;
}

Outcome fetch_here(size_t end, void *token, double seconds)
{
    return served(token, seconds) ? OpenEnd::all[end]->fetch(token, patience(seconds)) : FAILED;
}

Outcome end_here()
{
    if (run.strayed || !mistakes.empty())
        return FAILED;
    for (OpenEnd *end : OpenEnd::all)
        end->end();
    return run.failed ? FAILED : DONE;
}

// Finish what is under way; what waits to go in is lost. Without any thread left that could use it,
// the image may go: DONE or CLOSED, where the program has failed.
Outcome close_here()
{
    if (!mistakes.empty())
        return CLOSED;
    if (run.strayed)
        return FAILED;
    for (OpenEnd *end : OpenEnd::all)
        end->leave();
    run.cells->signal = SIGINT;
    run.cells->asked++;
    if (!comes([] { return OpenEnd::finished.load(); }))
        return stuck("close: ");
    if (thread)
        pthread_join(thread, nullptr);
    bool alive = run.sources > 0;
    for (const Worker *worker : run.workers)
        alive |= worker->alive;
    if (!alive) {
        for (const Task *task : Task::all)
            task->code.release();
        run.cells->release(run.lines);
    }
    return alive ? FAILED : run.failed ? CLOSED : DONE;
}

const char *error_here()
{
    static std::string text;
    const Locked here(asking);
    if (run.strayed)
        return "the program runs in the process that this one was forked from: create one in each"
               " process, after the fork";
    if (text.empty())
        text = run.failed ? run.why() : mistakes;
    return text.c_str();
}

}  // namespace

Face face(const About &about)
{
    return {about, create_here, feed_here, fetch_here, end_here, close_here, error_here};
}

// -- for the caller ------------------------------------------------------------------------------
Outcome create(Library **made, const char *const *settings, Say say)
{
    if (!made)
        return FAILED;
    *made = new Library;
    Image &image = (*made)->image;
    (*made)->why = image.load("");
    const Face *const face = image.loaded() ? image.find<Face>("flow_face") : nullptr;
    (*made)->face = face;
    return face ? face->create(face->about, settings, say) : FAILED;
}

Outcome feed(Library *library, size_t end, const void *token, double seconds)
{
    return library && library->face ? library->face->feed(end, token, seconds) : FAILED;
}

Outcome fetch(Library *library, size_t end, void *token, double seconds)
{
    return library && library->face ? library->face->fetch(end, token, seconds) : FAILED;
}

Outcome end(Library *library)
{
    return library && library->face ? library->face->end() : FAILED;
}

Outcome close(Library *library)
{
    if (!library)
        return DONE;
    const Outcome found = library->face ? library->face->close() : FAILED;
    // An image whose threads cannot be ended stays.
    if (found != FAILED || !library->face)
        library->image.unload();
    delete library;
    return found == DONE ? DONE : FAILED;
}

const char *error(const Library *library)
{
    if (!library)
        return "there is no program";
    return library->face ? library->face->error() : library->why.c_str();
}

}  // namespace flow
