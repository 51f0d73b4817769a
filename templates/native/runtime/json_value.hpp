// JSON that is read: of reports, whose stays a program with states can repeat.
#pragma once
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace flow
{

// Raises std::runtime_error for what is no JSON, and for members that are missing or of another kind.
class JsonValue
{
    enum Kind { OTHER, NUMBER, STRING, ARRAY, OBJECT } kind = OTHER;
    std::string text;  // of a string, or of a number as it was written
    std::vector<JsonValue> values;
    std::vector<std::string> names;

    static constexpr int DEEPEST = 100;

    const JsonValue &of(Kind wanted, const char *word) const
    {
        if (kind != wanted)
            throw std::runtime_error(std::string("there is no ") + word + " where it needs one");
        return *this;
    }

    class Parser
    {
        const char *at, *const end;

        [[noreturn]] static void fail() { throw std::runtime_error("it is no JSON"); }
        char next()
        {
            while (at < end && strchr(" \t\r\n", *at))
                at++;
            return at < end ? *at : '\0';
        }
        void take(char wanted)
        {
            if (next() != wanted)
                fail();
            at++;
        }
        std::string string()
        {
            take('"');
            std::string found;
            while (at < end && *at != '"') {
                if (*at == '\\' && ++at < end)
                    escaped(found);
                else
                    found += *at++;
            }
            take('"');
            return found;
        }
        void escaped(std::string &found)
        {
            static const char *const words = "bfnrt", *const meant = "\b\f\n\r\t";
            const char letter = *at++;
            const char *const known = strchr(words, letter);
            if (letter == 'u' && end - at >= 4) {
                const long code = strtol(std::string(at, 4).c_str(), nullptr, 16);
                at += 4;
                found += code < 0x80 ? static_cast<char>(code) : '?';  // no name has others
            } else {
                found += known && letter ? meant[known - words] : letter;
            }
        }

    public:
        explicit Parser(const std::string &text) : at(text.data()), end(at + text.size()) {}
        JsonValue value(int depth = 0)
        {
            JsonValue made;
            const char first = next();
            if (depth > DEEPEST)
                fail();
            if (first == '{' || first == '[') {
                const char last = first == '{' ? '}' : ']';
                made.kind = first == '{' ? OBJECT : ARRAY;
                at++;
                for (bool any = false; next() != last; any = true) {
                    if (any)
                        take(',');
                    if (first == '{') {
                        next();
                        made.names.push_back(string());
                        take(':');
                    }
                    made.values.push_back(value(depth + 1));
                }
                take(last);
            } else if (first == '"') {
                made.kind = STRING;
                made.text = string();
            } else {
                const char *const begin = at;
                while (at < end && (isalnum(static_cast<unsigned char>(*at)) || strchr("+-.", *at)))
                    at++;
                made.text.assign(begin, at);
                made.kind = strchr("-0123456789", first) ? NUMBER : OTHER;
                if (begin == at)
                    fail();
            }
            return made;
        }
        void over()
        {
            if (next())
                fail();
        }
    };

public:
    static JsonValue parsed(const std::string &text)
    {
        Parser parser(text);
        JsonValue found = parser.value();
        parser.over();
        return found;
    }
    const std::string &string() const { return of(STRING, "string").text; }
    int64_t number() const { return atoll(of(NUMBER, "number").text.c_str()); }
    const std::vector<JsonValue> &array() const { return of(ARRAY, "list").values; }
    std::vector<std::pair<std::string, const JsonValue *>> members() const
    {
        std::vector<std::pair<std::string, const JsonValue *>> found;
        for (size_t i = 0; i < of(OBJECT, "object").names.size(); i++)
            found.emplace_back(names[i], &values[i]);
        return found;
    }
    // A member of an object; nullptr where it has none of that name.
    const JsonValue *find(const std::string &name) const
    {
        for (size_t i = 0; i < of(OBJECT, "object").names.size(); i++)
            if (names[i] == name)
                return &values[i];
        return nullptr;
    }
    const JsonValue &operator[](const std::string &name) const
    {
        const JsonValue *const found = find(name);
        if (!found)
            throw std::runtime_error("it has no `" + name + "`");
        return *found;
    }
};

}  // namespace flow
