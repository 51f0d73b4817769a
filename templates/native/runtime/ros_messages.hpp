// Tokens as messages of ROS 2, as runtime/ros_messages.py has them: pictures as sensor_msgs/Image,
// other arrays as std_msgs/Float32MultiArray and its like. Bytes are those of CDR, little-endian.
#pragma once
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "graph.hpp"

namespace flow
{

constexpr const char *IMAGE = "sensor_msgs/msg/Image", *STRING = "std_msgs/msg/String";
// The stamp of a picture stands there in its message.
constexpr size_t STAMP_AT = 4;

// A type of elements: its bytes, and that of the messages that have them. Those that ROS 2 has no
// numbers for travel as bytes, which the last axis counts.
struct Element {
    const char *dtype;
    int64_t bytes;
    const char *message, *field;
    bool as_bytes = false;
};

inline const Element &element_of(const char *dtype)
{
    static const Element known[] = {
        {"bool", 1, "UInt8", "uint8"},
        {"int8", 1, "Int8", "int8"},
        {"int16", 2, "Int16", "int16"},
        {"int32", 4, "Int32", "int32"},
        {"int64", 8, "Int64", "int64"},
        {"uint8", 1, "UInt8", "uint8"},
        {"uint16", 2, "UInt16", "uint16"},
        {"uint32", 4, "UInt32", "uint32"},
        {"uint64", 8, "UInt64", "uint64"},
        {"float32", 4, "Float32", "float32"},
        {"float64", 8, "Float64", "float64"},
        {"float16", 2, "UInt8", "uint8", true},
        {"complex64", 8, "UInt8", "uint8", true},
        {"complex128", 16, "UInt8", "uint8", true},
    };
    for (const Element &one : known)
        if (!strcmp(one.dtype, dtype))
            return one;
    abort();
}

// How the pixels of a picture are called: one, three or four channels of 8 or 16 bits; nullptr where
// tokens are no pictures.
inline const char *encoding_of(const OutputPort &port)
{
    static const struct {
        const char *dtype;
        int64_t channels;
        const char *name;
    } known[] = {{"uint8", 1, "mono8"},   {"uint8", 3, "rgb8"},   {"uint8", 4, "rgba8"},
                 {"uint16", 1, "mono16"}, {"uint16", 3, "rgb16"}, {"uint16", 4, "rgba16"}};
    const std::vector<int64_t> &shape = port.shape;
    if (shape.size() < 2 || shape.size() > 3 || !port.elements())
        return nullptr;
    for (const auto &one : known)
        if (!strcmp(one.dtype, port.dtype) && one.channels == (shape.size() > 2 ? shape[2] : 1))
            return one.name;
    return nullptr;
}

inline std::string message_of(const OutputPort &port)
{
    if (encoding_of(port))
        return IMAGE;
    return std::string("std_msgs/msg/") + element_of(port.dtype).message + "MultiArray";
}

// The fields of the messages of a port (nullptr: of texts), as .msg files say them.
inline std::string definition_of(const OutputPort *port)
{
    const std::string rule = std::string(80, '=') + "\n";
    if (!port)
        return "string data\n";
    if (encoding_of(*port))
        return "std_msgs/Header header\nuint32 height\nuint32 width\nstring encoding\n"
               "uint8 is_bigendian\nuint32 step\nuint8[] data\n" +
               rule + "MSG: std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id\n" +
               rule + "MSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n";
    return std::string("std_msgs/MultiArrayLayout layout\n") + element_of(port->dtype).field +
           "[] data\n" + rule +
           "MSG: std_msgs/MultiArrayLayout\nstd_msgs/MultiArrayDimension[] dim\n"
           "uint32 data_offset\n" +
           rule + "MSG: std_msgs/MultiArrayDimension\nstring label\nuint32 size\nuint32 stride\n";
}

// Writes a message; numbers are aligned to their size.
class Cdr
{
    static constexpr size_t HEAD = 4;

public:
    std::string made{"\0\1\0\0", HEAD};

    void align(size_t bytes) { made.append((HEAD - made.size()) & (bytes - 1), '\0'); }
    void number(uint32_t value)
    {
        align(sizeof value);
        made.append(reinterpret_cast<const char *>(&value), sizeof value);
    }
    void text(const std::string &value)
    {
        number(static_cast<uint32_t>(value.size() + 1));
        made += value;
        made += '\0';
    }
};

// What stands before the bytes of a token; a picture has its stamp there, which is 0.
inline std::string before_token(const OutputPort &port)
{
    Cdr cdr;
    const Element &element = element_of(port.dtype);
    const int64_t bytes = port.elements() * element.bytes;
    if (const char *const encoding = encoding_of(port)) {
        cdr.number(0);
        cdr.number(0);
        cdr.text("");
        cdr.number(static_cast<uint32_t>(port.shape[0]));
        cdr.number(static_cast<uint32_t>(port.shape[1]));
        cdr.text(encoding);
        cdr.made += '\0';  // is_bigendian
        cdr.number(static_cast<uint32_t>(bytes / port.shape[0]));
        cdr.number(static_cast<uint32_t>(bytes));
        return cdr.made;
    }
    std::vector<int64_t> sizes = port.shape;
    if (element.as_bytes)
        sizes.push_back(element.bytes);
    const int64_t elements = port.elements() * (element.as_bytes ? element.bytes : 1);
    int64_t stride = elements;
    cdr.number(static_cast<uint32_t>(sizes.size()));
    for (size_t axis = 0; axis < sizes.size(); axis++) {
        cdr.text("axis" + std::to_string(axis));
        cdr.number(static_cast<uint32_t>(sizes[axis]));
        cdr.number(static_cast<uint32_t>(stride));
        stride /= std::max<int64_t>(1, sizes[axis]);
    }
    cdr.number(0);
    cdr.number(static_cast<uint32_t>(elements));
    if (elements)
        cdr.align(static_cast<size_t>(bytes / elements));
    return cdr.made;
}

inline std::string text_message(const std::string &text)
{
    Cdr cdr;
    cdr.text(text);
    return cdr.made;
}

}  // namespace flow
