// A file in the format MCAP (mcap.dev), with chunks that are not compressed, checksums, and the
// index at its end.
#pragma once
#include <errno.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace flow
{

// CRC-32 as zlib has it, eight bytes at a time.
class Checksum
{
    using Tables = std::array<std::array<uint32_t, 256>, 8>;

    static Tables made()
    {
        Tables tables{};
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t value = i;
            for (int bit = 0; bit < 8; bit++)
                value = (value >> 1) ^ (value & 1 ? 0xEDB88320 : 0);
            tables[0][i] = value;
        }
        for (size_t t = 1; t < 8; t++)
            for (size_t i = 0; i < 256; i++)
                tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 255];
        return tables;
    }

public:
    static uint32_t of(const std::string &data)
    {
        static const Tables tables = made();
        const auto *at = reinterpret_cast<const unsigned char *>(data.data());
        const auto *const end = at + data.size();
        uint32_t value = ~uint32_t{0};
        for (; end - at >= 8; at += 8) {
            const uint32_t low =
                value ^ (at[0] | at[1] << 8 | at[2] << 16 | static_cast<uint32_t>(at[3]) << 24);
            value = tables[7][low & 255] ^ tables[6][low >> 8 & 255] ^ tables[5][low >> 16 & 255] ^
                    tables[4][low >> 24] ^ tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^
                    tables[0][at[7]];
        }
        for (; at < end; at++)
            value = (value >> 8) ^ tables[0][(value ^ *at) & 255];
        return ~value;
    }
};

// Fields of a record, little-endian as all machines are that native programs run on.
class Fields
{
    std::string &to;

public:
    explicit Fields(std::string &to) : to(to) {}
    template <typename T> Fields &number(T value)
    {
        to.append(reinterpret_cast<const char *>(&value), sizeof value);
        return *this;
    }
    Fields &text(const std::string &value)
    {
        number(static_cast<uint32_t>(value.size()));
        to += value;
        return *this;
    }
    Fields &map(const std::vector<std::pair<std::string, std::string>> &pairs)
    {
        std::string inside;
        for (const auto &[key, value] : pairs)
            Fields(inside).text(key).text(value);
        return text(inside);
    }
};

class McapWriter
{
    enum Kind : uint8_t {
        HEADER = 1,
        FOOTER,
        SCHEMA,
        CHANNEL,
        MESSAGE,
        CHUNK,
        MESSAGE_INDEX,
        CHUNK_INDEX,
        STATISTICS = 11,
        METADATA,
        METADATA_INDEX,
        SUMMARY_OFFSET,
        DATA_END,
    };
    static constexpr size_t MOST_IN_CHUNK = size_t{1} << 20;
    static constexpr char MAGIC[] = "\x89MCAP0\r\n";

    const int file;
    uint64_t size = 0, messages = 0, in_chunk = 0;
    uint64_t first = 0, last = 0, first_in_chunk = 0, last_in_chunk = 0;
    uint32_t chunks = 0;
    std::string chunk, schemas, channels, chunk_index, metadata_index;
    std::vector<std::string> known;  // names of schemas
    uint16_t topics = 0;
    uint32_t about = 0;
    std::map<uint16_t, std::string> places;  // of messages in the chunk, by channel
    std::map<uint16_t, uint64_t> counts;

    static std::string record(Kind kind, const std::string &content)
    {
        std::string made;
        Fields(made).number(kind).number(static_cast<uint64_t>(content.size()));
        return made + content;
    }
    // Why it could not be written; empty where it was.
    std::string write(const std::string &data)
    {
        for (size_t at = 0; at < data.size();) {
            const ssize_t done = ::write(file, data.data() + at, data.size() - at);
            if (done < 0 && errno == EINTR)
                continue;
            if (done < 0)
                return strerror(errno);
            at += static_cast<size_t>(done);
        }
        size += data.size();
        return "";
    }

public:
    explicit McapWriter(int file) : file(file) {}

    // Every method says why the file could not be written; empty where it was.
    std::string start()
    {
        std::string header;
        Fields(header).text("ros2").text("flowc");
        return write(MAGIC + record(HEADER, header));
    }
    std::string add_metadata(const std::string &name,
                             const std::vector<std::pair<std::string, std::string>> &told)
    {
        std::string content, index;
        Fields(content).text(name).map(told);
        const std::string made = record(METADATA, content);
        Fields(index).number(size).number(static_cast<uint64_t>(made.size())).text(name);
        metadata_index += record(METADATA_INDEX, index);
        about++;
        return write(made);
    }
    // A topic, with messages of a type of ROS 2; its number.
    uint16_t add_channel(const std::string &topic, const std::string &type,
                         const std::string &definition,
                         const std::vector<std::pair<std::string, std::string>> &told)
    {
        uint16_t schema = 0;
        while (schema < known.size() && known[schema] != type)
            schema++;
        if (schema++ == known.size()) {
            known.push_back(type);
            std::string content;
            Fields(content).number(schema).text(type).text("ros2msg").text(definition);
            schemas += record(SCHEMA, content);
            chunk += record(SCHEMA, content);
        }
        std::string content;
        Fields(content).number(++topics).number(schema).text(topic).text("cdr").map(told);
        channels += record(CHANNEL, content);
        chunk += record(CHANNEL, content);
        return topics;
    }
    // The head of a message of `bytes`, which `message` gets; times are in ns since 1970.
    std::string &add_message(uint16_t channel, uint32_t sequence, uint64_t log, uint64_t publish,
                             size_t bytes)
    {
        first = messages++ ? std::min(first, log) : log;
        last = std::max(last, log);
        first_in_chunk = in_chunk++ ? std::min(first_in_chunk, log) : log;
        last_in_chunk = std::max(last_in_chunk, log);
        counts[channel]++;
        Fields(places[channel]).number(log).number(static_cast<uint64_t>(chunk.size()));
        constexpr size_t HEAD = 22;
        Fields(chunk)
            .number(MESSAGE)
            .number(static_cast<uint64_t>(HEAD + bytes))
            .number(channel)
            .number(sequence)
            .number(log)
            .number(publish);
        return chunk;
    }
    bool is_full() const { return chunk.size() > MOST_IN_CHUNK; }
    // Write what waits to be a chunk.
    std::string flush()
    {
        if (!in_chunk)
            return "";
        std::string head, offsets, indices, index;
        Fields(head)
            .number(CHUNK)
            .number(static_cast<uint64_t>(40 + chunk.size()))
            .number(first_in_chunk)
            .number(last_in_chunk)
            .number(static_cast<uint64_t>(chunk.size()))
            .number(Checksum::of(chunk))
            .text("")
            .number(static_cast<uint64_t>(chunk.size()));
        const uint64_t begin = size, whole = head.size() + chunk.size();
        for (const auto &[channel, found] : places) {
            Fields(offsets).number(channel).number(begin + whole + indices.size());
            std::string content;
            Fields(content).number(channel).text(found);
            indices += record(MESSAGE_INDEX, content);
        }
        Fields(index)
            .number(first_in_chunk)
            .number(last_in_chunk)
            .number(begin)
            .number(whole)
            .text(offsets)
            .number(static_cast<uint64_t>(indices.size()))
            .text("")
            .number(static_cast<uint64_t>(chunk.size()))
            .number(static_cast<uint64_t>(chunk.size()));
        chunk_index += record(CHUNK_INDEX, index);
        chunks++;
        std::string why = write(head);
        why = why.empty() ? write(chunk) : why;
        why = why.empty() ? write(indices) : why;
        chunk.clear();
        places.clear();
        in_chunk = first_in_chunk = last_in_chunk = 0;
        return why;
    }
    // Write what waits, and the index.
    std::string finish()
    {
        std::string why = flush(), none, numbers, told, summary, offsets;
        Fields(none).number(uint32_t{0});
        why = why.empty() ? write(record(DATA_END, none)) : why;
        for (const auto &[channel, count] : counts)
            Fields(numbers).number(channel).number(count);
        Fields(told)
            .number(messages)
            .number(static_cast<uint16_t>(known.size()))
            .number(static_cast<uint32_t>(topics))
            .number(uint32_t{0})
            .number(about)
            .number(chunks)
            .number(first)
            .number(last)
            .text(numbers);
        const std::pair<Kind, std::string> groups[] = {{SCHEMA, schemas},
                                                       {CHANNEL, channels},
                                                       {STATISTICS, record(STATISTICS, told)},
                                                       {CHUNK_INDEX, chunk_index},
                                                       {METADATA_INDEX, metadata_index}};
        for (const auto &[kind, group] : groups) {
            std::string offset;
            Fields(offset)
                .number(kind)
                .number(size + summary.size())
                .number(static_cast<uint64_t>(group.size()));
            offsets += record(SUMMARY_OFFSET, offset);
            summary += group;
        }
        const uint64_t behind = size + summary.size();
        std::string end = summary + offsets;
        Fields(end).number(FOOTER).number(uint64_t{20}).number(size).number(behind);
        Fields(end).number(Checksum::of(end));
        return why.empty() ? write(end + MAGIC) : why;
    }
    uint64_t bytes() const { return size; }
};

}  // namespace flow
