// Copies of this image in the process that has loaded it: each program that runs there is one, with
// all variables of its own, those of tasks included.
#pragma once
#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

#include "own_image.hpp"

namespace flow
{

class Image
{
    // It stays open: while it does, no other one has its number, which is the name of the image.
    int file = -1;
    void *handle = nullptr;

    std::string name() const { return "/proc/self/fd/" + std::to_string(file); }

    // A copy in a file without a name; at its end the folder that has its files.
    std::string copied(const std::string &home)
    {
        struct stat about;
        const std::string path = own_path();
        const int from = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        file = memfd_create("flowc", MFD_CLOEXEC);
        bool good = from >= 0 && file >= 0 && fstat(from, &about) == 0;
        char piece[1 << 16];
        for (ssize_t size; good && (size = read(from, piece, sizeof piece)) != 0;)
            good = size > 0 && write(file, piece, size) == size;
        const std::string last = std::string(1, '\0') + home + HOME_OF_COPY;
        good = good && write(file, last.data(), last.size()) == ssize_t(last.size());
        const std::string why = good ? "" : path + " cannot be copied: " + strerror(errno);
        if (from >= 0)
            ::close(from);
        return why;
    }

public:
    // Why it cannot be loaded; empty where it is. A `home` that is empty is the folder of this one.
    std::string load(const std::string &home)
    {
        const std::string own = own_path();
        const std::string why = copied(home.empty() ? own.substr(0, own.rfind('/')) : home);
        if (!why.empty())
            return why;
        handle = dlopen(name().c_str(), RTLD_NOW | RTLD_LOCAL);
        return handle ? "" : dlerror();
    }
    // What has that name in it.
    template <typename T> const T *find(const char *what) const
    {
        return static_cast<const T *>(dlsym(handle, what));
    }
    // None of its threads is left. Where another thread has objects of it, which a task calls
    // `thread_local`, it stays until that thread ends, and so does its name.
    void unload()
    {
        if (handle)
            dlclose(handle);
        void *const stays = handle ? dlopen(name().c_str(), RTLD_LAZY | RTLD_NOLOAD) : nullptr;
        if (stays)
            dlclose(stays);
        else if (file >= 0)
            ::close(file);
        handle = nullptr;
        file = -1;
    }
    bool loaded() const { return handle; }
};

}  // namespace flow
