#include "golden/wire.hpp"

#include <cstdint>
#include <utility>

#include "golden/layout.hpp"
#include "golden/sketch_values.hpp"

namespace plumbline::golden {
namespace {

using contract::ConfigField;
using contract::DatasetId;
using contract::Index;
using contract::LayerConfig;
using contract::Result;
using contract::Shape;
using contract::Tensor;
using contract::WeightInfo;

contract::SketchShape shape_of_sketch(DatasetId id, const contract::Problem& problem) {
  return contract::sketch_shape(shape_of(id.axes(), problem.config, problem.packing));
}

void send_golden(Sender& out, GoldenFile& golden) {
  out.value(golden.contents);
  out.text(golden.case_text);
  out.text(golden.producer);
  auto& problem = golden.problem;
  for (const ConfigField& field : contract::kConfigFields)
    std::visit([&](auto member) { out.value(problem.config.*member); }, field.member);
  out.vector(problem.packing.offsets);
  out.vector(problem.packing.lengths);
  out.vector(problem.packing.row_valid);
  if (golden.contents == Contents::kStored) {
    out.tensor(problem.hidden);
    out.tensor(problem.grad_out);
    for (const WeightInfo& weight : contract::kWeights)
      if (present(weight.presence, problem.config)) out.tensor(problem.weight(weight.id));
  } else {
    for (const NamedFingerprint& item : named_fingerprints(golden.fingerprints, problem.config)) out.text(*item.sha256);
  }
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    Tensor* tensor = golden.results.find(DatasetId::from_index(i));
    out.value(static_cast<std::uint8_t>(tensor != nullptr));
    if (tensor != nullptr) out.tensor(*tensor);
    const auto& sketch = golden.sketches[i];
    out.value(static_cast<std::uint8_t>(sketch.has_value()));
    if (sketch) out.vector(to_values(*sketch, shape_of_sketch(DatasetId::from_index(i), problem)));
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
  const auto contents = in.value<std::underlying_type_t<Contents>>();
  if (contents >= kContentsNames.size()) return false;
  golden.contents = static_cast<Contents>(contents);
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
  if (!in.good() || !validate(config) || !validate(packing)) return false;
  if (golden.contents == Contents::kStored) {
    const Shape rows{packing.tokens(), config.hidden};
    problem.hidden = in.tensor(rows);
    problem.grad_out = in.tensor(rows);
    for (const WeightInfo& weight : contract::kWeights)
      if (present(weight.presence, config))
        problem.weight(weight.id) = in.tensor(shape_of(weight.axes, config, packing));
  } else {
    for (const NamedFingerprint& item : named_fingerprints(golden.fingerprints, config)) *item.sha256 = in.text();
  }
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    if (in.value<std::uint8_t>() != 0) {
      if (!in.good() || !id.exists(config)) return false;
      golden.results.set(id, in.tensor(shape_of(id.axes(), config, packing)));
    }
    if (in.value<std::uint8_t>() != 0) {
      if (!in.good() || !id.exists(config)) return false;
      const contract::SketchShape shape = shape_of_sketch(id, problem);
      const auto size = in.value<std::uint64_t>();
      if (size != static_cast<std::uint64_t>(sketch_values(shape))) return false;
      const std::vector<double> values = in.vector<double>(size);
      if (!in.good()) return false;
      golden.sketches[i] = from_values(values, shape);
    }
  }
  return in.good();
}

}  // namespace

bool send(Result<GoldenFile> answer, const ByteSink& sink) {
  return send_answer<GoldenFile>(std::move(answer), sink, send_golden);
}

Result<GoldenFile> receive(const ByteSource& source, double memory_bytes, bool& received) {
  return receive_answer<GoldenFile>(source, memory_bytes, received, receive_golden);
}

}  // namespace plumbline::golden
