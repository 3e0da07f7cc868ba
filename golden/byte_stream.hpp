#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "reference/contract/result.hpp"
#include "reference/contract/tensor.hpp"

// Values as a stream of bytes between two processes of the same program. The receiver trusts nothing: it bounds what it
// allocates, and takes the shapes of tensors from what it knows.
namespace plumbline::golden {

using ByteSink = std::function<bool(std::span<const std::byte>)>;
using ByteSource = std::function<bool(std::span<std::byte>)>;  ///< fills all of it or fails

class Sender {
 public:
  explicit Sender(const ByteSink& sink) : sink_(sink) {}

  bool good() const { return good_; }

  template <typename Value>
  void value(const Value& v) {
    static_assert(std::is_trivially_copyable_v<Value>);
    bytes(&v, sizeof v);
  }
  void text(std::string_view t) {
    value(static_cast<std::uint64_t>(t.size()));
    bytes(t.data(), t.size());
  }
  template <typename Value>
  void vector(const std::vector<Value>& v) {
    value(static_cast<std::uint64_t>(v.size()));
    bytes(v.data(), v.size() * sizeof(Value));
  }
  /// Frees the tensor once it is sent.
  void tensor(contract::Tensor& t) {
    bytes(t.data(), t.values().size() * sizeof(double));
    t = contract::Tensor();
  }

 private:
  void bytes(const void* data, std::size_t size) {
    good_ = good_ && (size == 0 || sink_({static_cast<const std::byte*>(data), size}));
  }
  const ByteSink& sink_;
  bool good_ = true;
};

class Receiver {
 public:
  Receiver(const ByteSource& source, double memory_bytes) : source_(source), memory_bytes_(memory_bytes) {}

  bool good() const { return good_; }

  template <typename Value>
  Value value() {
    static_assert(std::is_trivially_copyable_v<Value>);
    Value v{};
    bytes(&v, sizeof v);
    return v;
  }
  std::string text() {
    const auto size = value<std::uint64_t>();
    good_ = good_ && size <= kLongestTextBytes;
    std::string t(good_ ? static_cast<std::size_t>(size) : 0, '\0');
    bytes(t.data(), t.size());
    return t;
  }
  template <typename Value>
  std::vector<Value> vector(std::uint64_t size) {
    std::vector<Value> v;
    good_ = good_ && static_cast<double>(size) * sizeof(Value) <= memory_bytes_;
    if (good_) memory_bytes_ -= static_cast<double>(size) * sizeof(Value);
    while (good_ && v.size() < size) {
      const auto step = std::min<std::uint64_t>(size - v.size(), kStepBytes / sizeof(Value));
      const std::size_t old = v.size();
      v.resize(old + static_cast<std::size_t>(step));
      bytes(v.data() + old, static_cast<std::size_t>(step) * sizeof(Value));
    }
    return v;
  }
  /// Its shape is known here; only its values come from the other side.
  contract::Tensor tensor(const contract::Shape& shape) {
    double count = 1;
    for (contract::Index extent : shape) count *= static_cast<double>(extent);
    good_ = good_ && count * sizeof(double) <= memory_bytes_;
    if (!good_) return contract::Tensor();
    return contract::Tensor(shape, vector<double>(static_cast<std::uint64_t>(contract::element_count(shape))));
  }

 private:
  // Longer than any message, case or producer that a reader lets through.
  static constexpr std::uint64_t kLongestTextBytes = std::uint64_t{1} << 20;
  // Received vectors grow by this much at a time, so that a false length meets the end of the stream, not the
  // allocator.
  static constexpr std::size_t kStepBytes = std::size_t{16} << 20;

  void bytes(void* data, std::size_t size) {
    good_ = good_ && (size == 0 || source_({static_cast<std::byte*>(data), size}));
  }
  const ByteSource& source_;
  double memory_bytes_;
  bool good_ = true;
};

inline constexpr std::uint32_t kAnswer = 0x504C0001, kRefusal = 0x504C0002, kEnd = 0x504C0003;

/// Sends a value, written by `body(Sender&, Value&)`, or an error; false if the sink fails.
template <typename Value, typename Body>
bool send_answer(contract::Result<Value> answer, const ByteSink& sink, Body body) {
  Sender out(sink);
  if (answer) {
    out.value(kAnswer);
    body(out, *answer);
  } else {
    out.value(kRefusal);
    out.value(static_cast<std::int32_t>(answer.error().code));
    out.text(answer.error().message);
    out.text(answer.error().where);
  }
  out.value(kEnd);
  return out.good();
}

/// Receives what `send_answer` sent, the value with `body(Receiver&, Value&)`, which returns whether it makes sense.
/// `received` tells whether all of that worked: if not, the result is an unspecified error.
template <typename Value, typename Body>
contract::Result<Value> receive_answer(const ByteSource& source, double memory_bytes, bool& received, Body body) {
  Receiver in(source, memory_bytes);
  Value value;
  contract::Error error;
  const auto kind = in.value<std::uint32_t>();
  received = in.good();
  if (kind == kAnswer) {
    received = received && body(in, value);
  } else {
    const auto code = in.value<std::int32_t>();
    received =
        received && kind == kRefusal && code >= 0 && code <= static_cast<std::int32_t>(contract::ErrorCode::kInternal);
    if (received) error.code = static_cast<contract::ErrorCode>(code);
    error.message = in.text();
    error.where = in.text();
  }
  received = received && in.value<std::uint32_t>() == kEnd && in.good();
  if (received && kind == kAnswer) return value;
  return error;
}

}  // namespace plumbline::golden
