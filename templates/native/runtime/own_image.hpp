// Where the program lies: an executable, a library, or a copy of a library in a file without a name.
#pragma once
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <climits>
#include <string>

namespace flow
{

// What stands in a copy behind the folder of the library, at its end.
constexpr char HOME_OF_COPY[] = "\n<- the folder of the library";

// The file that this code is in, as it was loaded; the executable's where it is no library.
inline std::string own_path()
{
    Dl_info own, whole;
    char path[PATH_MAX];
    const bool known = dladdr(reinterpret_cast<void *>(&own_path), &own) &&
                       dladdr(reinterpret_cast<void *>(getauxval(AT_ENTRY)), &whole);
    if (known && own.dli_fbase != whole.dli_fbase)
        return realpath(own.dli_fname, path) && path[0] == '/' && access(path, F_OK) == 0
                   ? path
                   : own.dli_fname;
    const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
    return std::string(path, size < 0 ? 0 : size);
}

// The folder that it is in.
inline std::string own_folder()
{
    const std::string path = own_path(), mark = HOME_OF_COPY;
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    char end[PATH_MAX + sizeof HOME_OF_COPY];
    const off_t size = file < 0 ? 0 : lseek(file, 0, SEEK_END);
    const ssize_t count =
        size < off_t(sizeof end) ? 0 : pread(file, end, sizeof end, size - sizeof end);
    if (file >= 0)
        ::close(file);
    const std::string last(end, count < 0 ? 0 : count);
    if (last.size() > mark.size() && !last.compare(last.size() - mark.size(), mark.size(), mark)) {
        const std::string folder = last.substr(0, last.size() - mark.size());
        return folder.substr(folder.rfind('\0') + 1);
    }
    return path.substr(0, path.rfind('/'));
}

}  // namespace flow
