#include "golden/same_case.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "golden/candidate_tensor.hpp"
#include "golden/message.hpp"
#include "golden/text.hpp"

namespace plumbline::golden {
namespace {

using contract::ConfigField;
using contract::Error;
using contract::file_error;
using contract::Index;
using contract::LayerConfig;
using contract::NumberFormat;
using contract::Packing;
using contract::Problem;
using contract::Result;
using contract::Shape;
using contract::Status;
using contract::Teacher;
using contract::Tensor;

Error another_case(const std::string& where, const std::string& got, const std::string& want) {
  return contract::usage_error(where, "of another case: got " + got + ", want " + want +
                                          " (the golden's); compare it with the golden of its own case");
}

template <typename Value>
Status same_value(const std::string& name, const Result<Value>& got, const Value& want,
                  const std::function<std::string(const Value&)>& text) {
  if (!got) return got.error();
  if (*got == want || (*got != *got && want != want)) return {};
  return another_case(member_path("config", name), text(*got), text(want));
}

Status same_field(hid_t group, const std::string& name, Index want) {
  return same_value<Index>(name, read_int_attribute(group, "config", name), want,
                           [](Index value) { return std::to_string(value); });
}
Status same_field(hid_t group, const std::string& name, double want) {
  return same_value<double>(name, read_real_attribute(group, "config", name), want, number_text);
}
Status same_field(hid_t group, const std::string& name, bool want) {
  return same_value<bool>(name, read_bool_attribute(group, "config", name), want,
                          [](bool value) { return std::string(value ? "true" : "false"); });
}
Status same_field(hid_t group, const std::string& name, Teacher want) {
  return same_value<std::string>(name, read_text_attribute(group, "config", name), std::string(to_string(want)),
                                 [](const std::string& text) { return "'" + printable(text) + "'"; });
}

Status same_config(const Groups& groups, const LayerConfig& config) {
  const hid_t group = groups[Group::kConfig].id();
  if (auto s = check_config_names(group); !s) return s;
  for (const ConfigField& field : contract::kConfigFields) {
    if (!has_attribute(group, field.name)) continue;
    const auto compare = [&](auto member) { return same_field(group, std::string(field.name), config.*member); };
    if (auto s = std::visit(compare, field.member); !s) return s;
  }
  return {};
}

Status same_shape(const InputDataset& dataset, const Shape& want) {
  if (dataset.shape == want) return {};
  return another_case(dataset.where, "shape " + contract::to_string(dataset.shape), contract::to_string(want));
}

template <typename Value>
Status same_list(const InputFile& file, hid_t group, const Member& member, Element element,
                 const std::vector<Value>& want, const MemoryBudget& budget) {
  const auto dataset = open_dataset(file, group, member, exactly(element));
  if (!dataset) return dataset.error();
  if (auto s = same_shape(*dataset, {static_cast<Index>(want.size())}); !s) return s;
  if (auto s = budget.allows(static_cast<double>(dataset->bytes)); !s) return s;
  std::vector<Value> got(want.size());
  if (auto s = read_values(*dataset, got.data()); !s) return s;
  for (std::size_t i = 0; i < want.size(); ++i)
    if (got[i] != want[i])
      return another_case(member.where, std::to_string(got[i]) + " at element " + std::to_string(i),
                          std::to_string(want[i]));
  return {};
}

Status same_packing(const InputFile& file, const Groups& groups, const Packing& packing, const MemoryBudget& budget) {
  const hid_t group = groups[Group::kPacking].id();
  const auto members = packing_members(groups);
  if (!members) return members.error();
  if (const Member* member = find(*members, "offsets"))
    if (auto s = same_list(file, group, *member, Element::kInt64, packing.offsets, budget); !s) return s;
  if (const Member* member = find(*members, "lengths"))
    if (auto s = same_list(file, group, *member, Element::kInt64, packing.lengths, budget); !s) return s;
  if (const Member* member = find(*members, "row_valid"))
    if (auto s = same_list(file, group, *member, Element::kUint8, packing.row_valid, budget); !s) return s;
  return {};
}

bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

/// Whether a value stored in a format is the golden's, rounded once or, as PyTorch rounds doubles, through fp32.
bool same_rounded(NumberFormat format, double got, double want) {
  return same_bits(got, contract::round_to(format, want)) ||
         (format != NumberFormat::kFp64 &&
          same_bits(got, contract::round_to(format, contract::round_to(NumberFormat::kFp32, want))));
}

/// Compares the rows that `specified` names.
Status same_tensor(const InputFile& file, hid_t group, const Member& member, const Tensor& want,
                   const std::function<bool(Index row)>& specified, const MemoryBudget& budget) {
  const auto encoded = open_floats(file, group, member);
  if (!encoded) return encoded.error();
  if (auto s = same_shape(encoded->dataset, want.shape()); !s) return s;
  if (auto s = budget.allows(encoded->value_bytes() + encoded->temporary_bytes()); !s) return s;
  const auto got = read_tensor(*encoded);
  if (!got) return got.error();
  const NumberFormat format = *encoded->format;
  for (Index i = 0; i < want.size(); ++i) {
    const Index row = i / want.row_size(), column = i % want.row_size();
    if (!specified(row) || same_rounded(format, (*got)[i], want[i])) continue;
    return another_case(member.where, number_text((*got)[i]) + " at " + place_text(row, column, false),
                        number_text(contract::round_to(format, want[i])) +
                            (format == NumberFormat::kFp64 ? "" : " (in " + std::string(info(format).name) + ")"));
  }
  return {};
}

Status same_inputs(const InputFile& file, const Groups& groups, const Problem& problem, const MemoryBudget& budget) {
  const hid_t group = groups[Group::kInputs].id();
  const Packing& packing = problem.packing;
  const auto members = input_members(groups);
  if (!members) return members.error();
  if (const Member* member = find(*members, "hidden")) {
    const auto real = [&](Index row) { return !packing.is_padding(row); };
    if (auto s = same_tensor(file, group, *member, problem.hidden, real, budget); !s) return s;
  }
  if (const Member* member = find(*members, "grad_out")) {
    const auto valid = [&](Index row) { return packing.row_valid[static_cast<std::size_t>(row)] != 0; };
    if (auto s = same_tensor(file, group, *member, problem.grad_out, valid, budget); !s) return s;
  }
  return {};
}

Status same_weights(const InputFile& file, const Groups& groups, const Problem& problem, const MemoryBudget& budget) {
  const auto members = weight_members(groups, problem.config);
  if (!members) return members.error();
  for (const Member& member : *members) {
    const Tensor& want = problem.weight(*contract::find_weight(member.name));
    const auto every = [](Index) { return true; };
    if (auto s = same_tensor(file, groups[Group::kWeights].id(), member, want, every, budget); !s) return s;
  }
  return {};
}

Status same_fingerprints(const Groups& groups, const Problem& problem) {
  auto got = read_fingerprints(groups, problem.config);
  if (!got) return got.error();
  Fingerprints want = make_fingerprints(problem), held = *got;
  const auto left = named_fingerprints(held, problem.config), right = named_fingerprints(want, problem.config);
  for (std::size_t i = 0; i < left.size(); ++i)
    if (*left[i].sha256 != *right[i].sha256)
      return another_case("checksums/" + left[i].group + "/" + left[i].name, *left[i].sha256, *right[i].sha256);
  return {};
}

}  // namespace

Status check_same_case(const InputFile& file, const Groups& groups, const Problem& problem,
                       const MemoryBudget& budget) {
  if (groups.has(Group::kConfig))
    if (auto s = same_config(groups, problem.config); !s) return s;
  if (groups.has(Group::kPacking))
    if (auto s = same_packing(file, groups, problem.packing, budget); !s) return s;
  if (groups.has(Group::kInputs))
    if (auto s = same_inputs(file, groups, problem, budget); !s) return s;
  if (groups.has(Group::kWeights))
    if (auto s = same_weights(file, groups, problem, budget); !s) return s;
  if (groups.has(Group::kChecksums)) return same_fingerprints(groups, problem);
  return {};
}

}  // namespace plumbline::golden
