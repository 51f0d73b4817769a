// Texts: numbers, JSON, tables, and files that are complete or as they were.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace flow
{

__attribute__((format(printf, 1, 2))) inline std::string format(const char *how, ...)
{
    char text[512];
    va_list given;
    va_start(given, how);
    vsnprintf(text, sizeof text, how, given);
    va_end(given);
    return text;
}

// A number with at least so many decimals, and below 1 with as many as three significant digits
// need, six at most.
inline std::string decimals(double value, int least)
{
    if (value > 0 && value < 1)
        least = std::max(least, std::min(6, 2 - static_cast<int>(std::floor(std::log10(value)))));
    return format("%.*f", least, value);
}

// A number with three decimals, or three significant digits, without zeros at its end.
inline std::string plain(double value)
{
    std::string text = decimals(value, 3);
    text.erase(text.find_last_not_of('0') + 1);
    return text.back() == '.' ? text.substr(0, text.size() - 1) : text;
}

// A time in whole seconds, or, below one, with two significant digits.
inline std::string seconds(double value) { return format(value >= 1 ? "%.0f" : "%.2g", value); }

// Bytes of a character that UTF-8 begins there; 0 where it is none.
inline size_t utf8(const std::string &text, size_t at)
{
    const unsigned char first = text[at];
    const size_t size = first < 0x80       ? 1
                        : first >> 5 == 6  ? 2
                        : first >> 4 == 14 ? 3
                        : first >> 3 == 30 ? 4
                                           : 0;
    for (size_t i = 1; i < size; i++)
        if (at + i >= text.size() || (static_cast<unsigned char>(text[at + i]) >> 6) != 2)
            return 0;
    return size;
}

inline std::string json(const std::string &text)
{
    std::string made = "\"";
    for (size_t at = 0; at < text.size();) {
        const size_t size = utf8(text, at);
        const unsigned char c = text[at];
        if (size == 0)
            made += "\\ufffd";
        else if (c < 0x20 || c == '"' || c == '\\')
            made += format("\\u%04x", c);
        else
            made += text.substr(at, size);
        at += size ? size : 1;
    }
    return made + "\"";
}

// Lines of cells, the first of them a heading; all columns but the first ones are aligned to the
// right.
using Rows = std::vector<std::vector<std::string>>;

inline size_t wide(const std::string &text)
{
    size_t columns = 0;
    for (const char c : text)
        columns += (static_cast<unsigned char>(c) >> 6) != 2;
    return columns;
}

inline std::string columns(Rows rows, size_t left = 1)
{
    std::vector<size_t> widths(rows[0].size());
    for (const auto &row : rows)
        for (size_t i = 0; i < row.size(); i++)
            widths[i] = std::max(widths[i], wide(row[i]));
    std::vector<std::string> line_below;
    for (const size_t width : widths)
        line_below.push_back(std::string(width, '-'));
    rows.insert(rows.begin() + 1, line_below);
    std::string text;
    for (const auto &row : rows) {
        std::string line;
        for (size_t i = 0; i < row.size(); i++) {
            const std::string space(widths[i] - wide(row[i]), ' ');
            line += (i ? "  " : "") + (i < left ? row[i] + space : space + row[i]);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

// The process that was started; the program itself is a child of it.
inline const pid_t started_as = getpid();

// A file that is written at the end: beside the old one, which it then replaces. Pipes and devices
// are written into.
class Output
{
    std::string name, target, fresh;
    FILE *file = nullptr;

public:
    // Why it cannot be written; empty where it can.
    std::string open(const std::string &path)
    {
        name = target = path;
        char whole[PATH_MAX];
        if (realpath(path.c_str(), whole))
            target = whole;
        struct stat known, own;
        const bool exists = stat(target.c_str(), &known) == 0;
        // where this process writes as well, such as /dev/stderr, a new file would take its place
        for (int fd = 1; fd <= 2 && exists && !file; fd++)
            if (fstat(fd, &own) == 0 && own.st_dev == known.st_dev && own.st_ino == known.st_ino)
                file = fdopen(dup(fd), "w");
        if (file)
            return "";
        if (exists && !S_ISREG(known.st_mode)) {
            file = fopen(target.c_str(), "w");
        } else {
            fresh = target + ".flowc-" + std::to_string(started_as);
            file = fopen(fresh.c_str(), "w");
        }
        return file ? "" : reason();
    }
    // Write it and let it take its place; why it could not, or empty.
    std::string written(const std::string &content)
    {
        const bool good = fwrite(content.data(), 1, content.size(), file) == content.size();
        const bool closed = fclose(file) == 0;
        file = nullptr;
        const std::string why = good && closed ? "" : reason();
        if (why.empty() && !fresh.empty() && rename(fresh.c_str(), target.c_str()))
            return reason();
        if (!why.empty() && !fresh.empty())
            unlink(fresh.c_str());
        return why;
    }
    void forget()
    {
        if (file && !fresh.empty())
            unlink(fresh.c_str());
    }

private:
    std::string reason() const { return "cannot write " + name + ": " + strerror(errno); }
};

}  // namespace flow
