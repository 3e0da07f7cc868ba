#include <vector>

#include "golden/check.hpp"
#include "golden/golden_file.hpp"
#include "golden/layout.hpp"
#include "golden/layout_output.hpp"
#include "golden/sketch_values.hpp"

namespace plumbline::golden {
namespace {

using contract::DatasetId;
using contract::Index;
using contract::LayerConfig;
using contract::Problem;
using contract::Shape;
using contract::Status;
using contract::Tensor;

void write_config(OutputFile& file, const LayerConfig& config) {
  const Handle group = file.create_group(file.root(), "config");
  for (const contract::ConfigField& field : contract::kConfigFields)
    std::visit(
        [&](auto member) {
          if constexpr (std::is_same_v<decltype(member), contract::Teacher LayerConfig::*>)
            file.write_attribute(group.id(), field.name, to_string(config.*member));
          else
            file.write_attribute(group.id(), field.name, config.*member);
        },
        field.member);
}

void write_tensor(OutputFile& file, hid_t group, std::string_view name, const Tensor& tensor) {
  file.write_dataset(group, name, Element::kFloat64, tensor.shape(), tensor.data());
}

void write_packing(OutputFile& file, const contract::Packing& packing) {
  const auto extent = [](const auto& values) { return Shape{static_cast<Index>(values.size())}; };
  const Handle packing_group = file.create_group(file.root(), "packing");
  file.write_dataset(packing_group.id(), "offsets", Element::kInt64, extent(packing.offsets), packing.offsets.data());
  file.write_dataset(packing_group.id(), "lengths", Element::kInt64, extent(packing.lengths), packing.lengths.data());
  file.write_dataset(packing_group.id(), "row_valid", Element::kUint8, extent(packing.row_valid),
                     packing.row_valid.data());
}

void write_values(OutputFile& file, const Problem& problem) {
  const Handle inputs = file.create_group(file.root(), "inputs");
  write_tensor(file, inputs.id(), "hidden", problem.hidden);
  write_tensor(file, inputs.id(), "grad_out", problem.grad_out);
  const Handle weights = file.create_group(file.root(), "weights");
  for (const contract::WeightInfo& weight : contract::kWeights)
    if (present(weight.presence, problem.config))
      write_tensor(file, weights.id(), weight.name, problem.weight(weight.id));
}

void write_fingerprints(OutputFile& file, Fingerprints fingerprints, const LayerConfig& config) {
  const Handle checksums = file.create_group(file.root(), "checksums");
  for (const std::string name : {"inputs", "weights"}) {
    const Handle group = file.create_group(checksums.id(), name);
    for (const NamedFingerprint& item : named_fingerprints(fingerprints, config))
      if (item.group == name) file.write_attribute(group.id(), item.name, *item.sha256);
  }
}

void write_sketches(OutputFile& file, const GoldenFile& golden) {
  contract::DatasetSet available;
  for (std::size_t i = 0; i < golden.sketches.size(); ++i) available.set(i, golden.sketches[i].has_value());
  if (available.none()) return;
  const Handle group = file.create_group(file.root(), "sketch");
  write_results(file, group.id(), available, [&](hid_t parent, std::string_view name, DatasetId id) {
    const std::vector<double> values =
        to_values(*golden.sketches[id.index()],
                  contract::sketch_shape(shape_of(id.axes(), golden.problem.config, golden.problem.packing)));
    file.write_dataset(parent, name, Element::kFloat64, {static_cast<Index>(values.size())}, values.data());
  });
}

void write_result(OutputFile& file, hid_t group, std::string_view name, DatasetId id, const Tensor& tensor) {
  if (!stored_as_int64(id)) return write_tensor(file, group, name, tensor);
  const std::vector<Index> selection(tensor.values().begin(), tensor.values().end());
  file.write_dataset(group, name, Element::kInt64, tensor.shape(), selection.data());
}

Status check_texts(const GoldenFile& golden) {
  if (auto s = check_text("case", golden.case_text); !s) return s;
  if (auto s = check_text("producer", golden.producer); !s) return s;
  return {};
}

void write_all(OutputFile& file, const GoldenFile& golden) {
  file.write_attribute(file.root(), "format", kFormatName);
  file.write_attribute(file.root(), "format_version", Index{golden.format_version()});
  file.write_attribute(file.root(), "case", golden.case_text);
  file.write_attribute(file.root(), "producer", golden.producer);
  if (golden.contents != Contents::kStored) file.write_attribute(file.root(), "contents", to_string(golden.contents));
  write_config(file, golden.problem.config);
  write_packing(file, golden.problem.packing);
  if (golden.contents == Contents::kStored)
    write_values(file, golden.problem);
  else
    write_fingerprints(file, golden.fingerprints, golden.problem.config);
  write_sketches(file, golden);
  write_results(file, file.root(), golden.results.available(), [&](hid_t group, std::string_view name, DatasetId id) {
    write_result(file, group, name, id, golden.results.at(id));
  });
}

}  // namespace

Status write(const std::string& path, const GoldenFile& golden, const std::function<bool()>& cancelled) {
  if (auto s = check_texts(golden); !s) return in_file(path, s.error());
  if (auto s = check(golden); !s) return in_file(path, s.error());
  return write_output(path, cancelled, [&](OutputFile& file) { write_all(file, golden); });
}

}  // namespace plumbline::golden
