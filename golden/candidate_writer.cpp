#include <algorithm>
#include <cmath>
#include <vector>

#include "golden/candidate_file.hpp"
#include "golden/float_bits.hpp"
#include "golden/layout.hpp"
#include "golden/layout_output.hpp"
#include "golden/message.hpp"

namespace plumbline::golden {
namespace {

using contract::DatasetId;
using contract::Error;
using contract::ErrorCode;
using contract::Index;
using contract::NumberFormat;
using contract::Status;
using contract::Tensor;

NumberFormat format_of(const CandidateFile& candidate, DatasetId id) {
  return candidate.formats[id.index()].value_or(NumberFormat::kFp64);
}

Status check_selection(const std::string& where, const Tensor& selection) {
  for (double pick : selection.values())
    if (!(std::abs(pick) < 0x1p63 && pick == std::floor(pick)))
      return contract::usage_error(where, "holds " + number_text(pick) + ", allowed: integers of 64 bits");
  return {};
}

Status check(const CandidateFile& candidate) {
  if (auto s = check_text("case", candidate.case_text); !s) return s;
  if (auto s = check_text("producer", candidate.producer); !s) return s;
  if (candidate.results.available().none())
    return Error{ErrorCode::kNothing, "there are no results to write; nothing was written", ""};
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    const Tensor* tensor = candidate.results.find(id);
    if (tensor == nullptr) continue;
    if (stored_as_int64(id)) {
      if (candidate.formats[i])
        return contract::usage_error(id.path(), "has the format " + std::string(info(*candidate.formats[i]).name) +
                                                    ", need none: selections are stored as int64");
      if (auto s = check_selection(id.path(), *tensor); !s) return s;
    } else if (const NumberFormat format = format_of(candidate, id); !storable(format)) {
      return contract::usage_error(
          id.path(), "has the format " + std::string(info(format).name) + ", allowed: fp64, fp32, fp16, bf16");
    }
  }
  return {};
}

/// Writes the values after a conversion of each.
template <typename Stored, typename Convert>
Handle write_converted(OutputFile& file, hid_t group, std::string_view name, Element element, const Tensor& tensor,
                       Convert convert) {
  std::vector<Stored> values(tensor.values().size());
  std::transform(tensor.values().begin(), tensor.values().end(), values.begin(), convert);
  return file.write_dataset(group, name, element, tensor.shape(), values.data());
}

void write_result(OutputFile& file, hid_t group, std::string_view name, DatasetId id, const CandidateFile& candidate) {
  const Tensor& tensor = candidate.results.at(id);
  if (stored_as_int64(id)) {
    write_converted<Index>(file, group, name, Element::kInt64, tensor, [](double x) { return static_cast<Index>(x); });
    return;
  }
  switch (format_of(candidate, id)) {
    case NumberFormat::kFp32:
      write_converted<float>(file, group, name, Element::kFloat32, tensor,
                             [](double x) { return static_cast<float>(x); });
      return;
    case NumberFormat::kFp16:
      write_converted<std::uint16_t>(file, group, name, Element::kFloat16, tensor, to_fp16_bits);
      return;
    case NumberFormat::kBf16: {
      const Handle dataset = write_converted<std::uint16_t>(file, group, name, Element::kUint16, tensor, to_bf16_bits);
      file.write_attribute(dataset.id(), kStorageAttribute, kStorageBf16);
      return;
    }
    default: file.write_dataset(group, name, Element::kFloat64, tensor.shape(), tensor.data());
  }
}

void write_all(OutputFile& file, const CandidateFile& candidate) {
  file.write_attribute(file.root(), "format", kCandidateFormatName);
  file.write_attribute(file.root(), "format_version", kStoredVersion);
  if (!candidate.case_text.empty()) file.write_attribute(file.root(), "case", std::string_view(candidate.case_text));
  if (!candidate.producer.empty()) file.write_attribute(file.root(), "producer", std::string_view(candidate.producer));
  write_results(
      file, file.root(), candidate.results.available(),
      [&](hid_t group, std::string_view name, DatasetId id) { write_result(file, group, name, id, candidate); });
}

}  // namespace

Status write_candidate(const std::string& path, const CandidateFile& candidate,
                       const std::function<bool()>& cancelled) {
  if (auto s = check(candidate); !s) return in_file(path, s.error());
  return write_output(path, cancelled, [&](OutputFile& file) { write_all(file, candidate); });
}

}  // namespace plumbline::golden
