#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace torch_tpu::pjrt {

// Writes the protobuf wire format, for the few messages that plugins take.
class ProtoWriter {
 public:
  void add_int(int field, int64_t value) {
    tag(field, kVarint);
    varint(static_cast<uint64_t>(value));
  }
  void add_bool(int field, bool value) { add_int(field, value ? 1 : 0); }
  void add_float(int field, float value) {
    tag(field, kFixed32);
    fixed(std::bit_cast<uint32_t>(value), 4);
  }
  void add_double(int field, double value) {
    tag(field, kFixed64);
    fixed(std::bit_cast<uint64_t>(value), 8);
  }
  // A string, bytes or an encoded message.
  void add_bytes(int field, std::string_view value) {
    tag(field, kLengthDelimited);
    varint(value.size());
    bytes_.append(value);
  }
  void add_message(int field, const ProtoWriter& message) { add_bytes(field, message.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  enum WireType { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

  void tag(int field, WireType type) {
    varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
  }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  void fixed(uint64_t value, int num_bytes) {
    for (int i = 0; i < num_bytes; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }

  std::string bytes_;
};

}  // namespace torch_tpu::pjrt
