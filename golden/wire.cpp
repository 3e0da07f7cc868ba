#include "golden/wire.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "golden/layout.hpp"

namespace plumbline::golden {
namespace {

using contract::ConfigField;
using contract::DatasetId;
using contract::Error;
using contract::ErrorCode;
using contract::Index;
using contract::LayerConfig;
using contract::Result;
using contract::Shape;
using contract::Tensor;
using contract::WeightInfo;

constexpr std::uint32_t kAnswer = 0x504C0001, kRefusal = 0x504C0002, kEnd = 0x504C0003;
// Longer than any message, case or producer that `read` lets through.
constexpr std::uint64_t kLongestTextBytes = std::uint64_t{1} << 20;
// Received vectors grow by this much at a time, so that a false length meets the end of the stream, not the allocator.
constexpr std::size_t kStepBytes = std::size_t{16} << 20;

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
  void tensor(Tensor& t) {
    bytes(t.data(), t.values().size() * sizeof(double));
    t = Tensor();
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
  Tensor tensor(const Shape& shape) {
    double count = 1;
    for (Index extent : shape) count *= static_cast<double>(extent);
    good_ = good_ && count * sizeof(double) <= memory_bytes_;
    if (!good_) return Tensor();
    return Tensor(shape, vector<double>(static_cast<std::uint64_t>(contract::element_count(shape))));
  }

 private:
  void bytes(void* data, std::size_t size) {
    good_ = good_ && (size == 0 || source_({static_cast<std::byte*>(data), size}));
  }
  const ByteSource& source_;
  double memory_bytes_;
  bool good_ = true;
};

void send_golden(Sender& out, GoldenFile& golden) {
  out.value(golden.format_version);
  out.text(golden.case_text);
  out.text(golden.producer);
  auto& problem = golden.problem;
  for (const ConfigField& field : contract::kConfigFields)
    std::visit([&](auto member) { out.value(problem.config.*member); }, field.member);
  out.vector(problem.packing.offsets);
  out.vector(problem.packing.lengths);
  out.vector(problem.packing.row_valid);
  out.tensor(problem.hidden);
  out.tensor(problem.grad_out);
  for (const WeightInfo& weight : contract::kWeights)
    if (present(weight.presence, problem.config)) out.tensor(problem.weight(weight.id));
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    Tensor* tensor = golden.results.find(DatasetId::from_index(i));
    out.value(static_cast<std::uint8_t>(tensor != nullptr));
    if (tensor != nullptr) out.tensor(*tensor);
  }
}

/// One byte of 0 or 1, and an enumerator that exists: anything else would be undefined behaviour to copy in.
void receive_field(Receiver& in, bool& field) { field = in.value<std::uint8_t>() != 0; }
void receive_field(Receiver& in, contract::Teacher& field) {
  using Code = std::underlying_type_t<contract::Teacher>;
  const auto full = static_cast<Code>(contract::Teacher::kFull);
  field = in.value<Code>() == full ? contract::Teacher::kFull : contract::Teacher::kCompressedOnly;
}
template <typename Value>
void receive_field(Receiver& in, Value& field) {
  field = in.value<Value>();
}

bool receive_golden(Receiver& in, GoldenFile& golden) {
  golden.format_version = in.value<int>();
  golden.case_text = in.text();
  golden.producer = in.text();
  auto& problem = golden.problem;
  LayerConfig& config = problem.config;
  for (const ConfigField& field : contract::kConfigFields)
    std::visit([&](auto member) { receive_field(in, config.*member); }, field.member);
  auto& packing = problem.packing;
  packing.offsets = in.vector<Index>(in.value<std::uint64_t>());
  packing.lengths = in.vector<Index>(in.value<std::uint64_t>());
  packing.row_valid = in.vector<std::uint8_t>(in.value<std::uint64_t>());
  if (!in.good() || golden.format_version != kFormatVersion || !validate(config) || !validate(packing)) return false;
  const Shape rows{packing.tokens(), config.hidden};
  problem.hidden = in.tensor(rows);
  problem.grad_out = in.tensor(rows);
  for (const WeightInfo& weight : contract::kWeights)
    if (present(weight.presence, config)) problem.weight(weight.id) = in.tensor(shape_of(weight.axes, config, packing));
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    if (in.value<std::uint8_t>() == 0) continue;
    if (!in.good() || !id.exists(config)) return false;
    golden.results.set(id, in.tensor(shape_of(id.axes(), config, packing)));
  }
  return in.good();
}

}  // namespace

bool send(Result<GoldenFile> answer, const ByteSink& sink) {
  Sender out(sink);
  if (answer) {
    out.value(kAnswer);
    send_golden(out, *answer);
  } else {
    out.value(kRefusal);
    out.value(static_cast<std::int32_t>(answer.error().code));
    out.text(answer.error().message);
    out.text(answer.error().where);
  }
  out.value(kEnd);
  return out.good();
}

Result<GoldenFile> receive(const ByteSource& source, double memory_bytes, bool& received) {
  Receiver in(source, memory_bytes);
  GoldenFile golden;
  Error error;
  const auto kind = in.value<std::uint32_t>();
  received = in.good();
  if (kind == kAnswer) {
    received = received && receive_golden(in, golden);
  } else {
    const auto code = in.value<std::int32_t>();
    received = received && kind == kRefusal && code >= 0 && code <= static_cast<std::int32_t>(ErrorCode::kInternal);
    if (received) error.code = static_cast<ErrorCode>(code);
    error.message = in.text();
    error.where = in.text();
  }
  received = received && in.value<std::uint32_t>() == kEnd && in.good();
  if (received && kind == kAnswer) return golden;
  return error;
}

}  // namespace plumbline::golden
