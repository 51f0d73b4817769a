/* An ONNX Runtime whose CUDA provider works on a CPU: the library that FLOWC_STAND_IN_ONNXRUNTIME names, but
   for four functions of its table. It says on standard error how often networks were put on the GPU. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace {

enum { APPEND_V2 = 204, CREATE = 205, UPDATE = 206, RELEASE = 208, SLOTS = 210 };
const void *table[SLOTS];
int living, options_of_provider, put;
bool in_tf32 = true;

void *append(void *session_options, const void *given)
{
    if (!session_options || given != &options_of_provider || in_tf32)
        abort();
    fprintf(stderr, "stand-in: %d on the GPU\n", ++put);
    return nullptr;
}
void *create(void **made)
{
    living++;
    *made = &options_of_provider;
    return nullptr;
}
void *update(void *given, const char *const *keys, const char *const *values, size_t count)
{
    if (given != &options_of_provider)
        abort();
    for (size_t i = 0; i < count; i++)
        if (!strcmp(keys[i], "use_tf32"))
            in_tf32 = strcmp(values[i], "0") != 0;
    return nullptr;
}
void release(void *given)
{
    if (given != &options_of_provider || --living < 0)
        abort();
}

struct Base {
    const void *const *(*get_api)(uint32_t version);
    const char *(*version)();
};

const Base &real()
{
    static const Base *base = nullptr;
    if (!base) {
        void *const library = dlopen(getenv("FLOWC_STAND_IN_ONNXRUNTIME"), RTLD_NOW | RTLD_LOCAL);
        if (!library)
            abort();
        base = ((const Base *(*)())dlsym(library, "OrtGetApiBase"))();
    }
    return *base;
}

const void *const *get_api(uint32_t version)
{
    const void *const *const api = real().get_api(version);
    if (!api || version < 11)
        return api;
    memcpy(table, api, sizeof table);
    table[APPEND_V2] = (const void *)append;
    table[CREATE] = (const void *)create;
    table[UPDATE] = (const void *)update;
    table[RELEASE] = (const void *)release;
    return table;
}

}  // namespace

extern "C" const Base *OrtGetApiBase()
{
    static const Base base = {get_api, real().version};
    return &base;
}
