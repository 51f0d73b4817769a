// Which of some words was meant.
#pragma once
#include <string>
#include <vector>

namespace flow
{

// Characters in the longest pieces that two texts have in common, one behind the other.
inline size_t in_common(const std::string &a, const std::string &b)
{
    size_t longest = 0, at_a = 0, at_b = 0;
    for (size_t i = 0; i < a.size(); i++)
        for (size_t j = 0; j < b.size(); j++) {
            size_t n = 0;
            while (i + n < a.size() && j + n < b.size() && a[i + n] == b[j + n])
                n++;
            if (n > longest)
                longest = n, at_a = i, at_b = j;
        }
    if (!longest)
        return 0;
    return longest + in_common(a.substr(0, at_a), b.substr(0, at_b)) +
           in_common(a.substr(at_a + longest), b.substr(at_b + longest));
}

// The nearest known word, if there is one that is near; else all of them.
inline std::string near(const std::string &word, const std::vector<std::string> &known)
{
    constexpr double NEAR = 0.6;
    const std::string *nearest = nullptr;
    double most = NEAR;
    for (const std::string &one : known) {
        const double alike = 2.0 * double(in_common(one, word)) / double(one.size() + word.size());
        if (alike > most || (alike == most && (!nearest || one > *nearest))) {
            most = alike;
            nearest = &one;
        }
    }
    if (nearest)
        return "; did you mean `" + *nearest + "`?";
    std::string list;
    for (const std::string &one : known)
        list += (list.empty() ? "; there is " : ", ") + one;
    return list;
}

}  // namespace flow
