#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "golden/check.hpp"
#include "golden/generated.hpp"
#include "golden/golden_file.hpp"
#include "golden/hdf5_input.hpp"
#include "golden/layout.hpp"
#include "golden/layout_input.hpp"
#include "golden/sketch_values.hpp"
#include "golden/text.hpp"

namespace plumbline::golden {
namespace {

using contract::ConfigField;
using contract::DatasetId;
using contract::Error;
using contract::ErrorCode;
using contract::file_error;
using contract::Index;
using contract::LayerConfig;
using contract::Packing;
using contract::Result;
using contract::Shape;
using contract::Status;
using contract::Teacher;
using contract::Tensor;
using contract::WeightInfo;

/// A dataset that was checked, and the tensor its values go to.
struct Planned {
  InputDataset dataset;
  Tensor* target;
};

class Reader {
 public:
  Reader(InputFile file, double memory_bytes) : file_(std::move(file)), budget_(memory_bytes) {}

  Result<GoldenFile> run() {
    for (auto step : {&Reader::read_root, &Reader::read_config, &Reader::read_packing, &Reader::plan_problem,
                      &Reader::plan_results, &Reader::read_planned, &Reader::read_sketches})
      if (auto s = (this->*step)(); !s) return s.error();
    if (auto s = check(golden_); !s) return s.error();
    return std::move(golden_);
  }

 private:
  Status read_root() {
    const hid_t root = file_.handle.id();
    auto contents = read_root_attributes(root, {kFormatName});
    if (!contents) return contents.error();
    golden_.contents = *contents;
    for (auto [name, text] : {std::pair{"case", &golden_.case_text}, {"producer", &golden_.producer}}) {
      auto value = read_text_attribute(root, "", name);
      if (!value) return value.error();
      *text = std::move(*value);
    }
    auto groups = open_groups(root, *contents);
    if (!groups) return groups.error();
    groups_ = std::move(*groups);
    const std::vector<Group> needed =
        *contents == Contents::kStored ? std::vector{Group::kConfig, Group::kPacking, Group::kInputs, Group::kWeights}
                                       : std::vector{Group::kConfig, Group::kPacking, Group::kChecksums};
    for (const Group group : needed)
      if (!groups_.has(group))
        return file_error(std::string(kGroupNames[static_cast<std::size_t>(group)]),
                          "missing; every golden file of its version has this group");
    return {};
  }

  Status read_config() {
    const hid_t group = groups_[Group::kConfig].id();
    if (auto s = check_config_names(group); !s) return s;
    LayerConfig& config = golden_.problem.config;
    for (const ConfigField& field : contract::kConfigFields) {
      if (has_attribute(group, field.name)) {
        if (auto s = std::visit([&](auto member) { return read_field(group, field, config.*member); }, field.member);
            !s)
          return s;
      } else if (field.required) {
        return file_error(member_path("config", field.name), "missing attribute (" + std::string(field.meaning) + ")");
      }
    }
    for (std::string_view name : {"beta_fast", "beta_slow"})
      if (config.yarn() && !has_attribute(group, name))
        return file_error(member_path("config", name), "missing attribute; needed because YaRN is on");
    return validate(config);
  }

  static Status read_field(hid_t group, const ConfigField& field, Index& value) {
    return assign(read_int_attribute(group, "config", field.name), value);
  }
  static Status read_field(hid_t group, const ConfigField& field, double& value) {
    return assign(read_real_attribute(group, "config", field.name), value);
  }
  static Status read_field(hid_t group, const ConfigField& field, bool& value) {
    return assign(read_bool_attribute(group, "config", field.name), value);
  }
  static Status read_field(hid_t group, const ConfigField& field, Teacher& value) {
    const auto text = read_text_attribute(group, "config", field.name);
    if (!text) return text.error();
    for (Teacher teacher : {Teacher::kFull, Teacher::kCompressedOnly})
      if (*text == to_string(teacher)) return assign(Result<Teacher>(teacher), value);
    return contract::usage_error("config/teacher",
                                 "got '" + printable(*text) + "', allowed: " + std::string(field.meaning));
  }

  template <typename Value>
  static Status assign(const Result<Value>& from, Value& to) {
    if (!from) return from.error();
    to = *from;
    return {};
  }

  Status read_packing() {
    static constexpr std::array<std::string_view, 3> kNames = {"offsets", "lengths", "row_valid"};
    std::array<InputDataset, 3> datasets;
    auto members = packing_members(groups_);
    if (!members) return members.error();
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      const Member* member = find(*members, kNames[i]);
      if (member == nullptr) return missing("packing", kNames[i]);
      auto dataset = open_dataset(file_, groups_[Group::kPacking].id(), *member,
                                  exactly(i == 2 ? Element::kUint8 : Element::kInt64));
      if (!dataset) return dataset.error();
      if (dataset->shape.size() != 1)
        return file_error(member->where, "has shape " + contract::to_string(dataset->shape) + ", need one axis");
      if (auto s = budget_.charge(static_cast<double>(dataset->bytes)); !s) return s;
      datasets[i] = std::move(*dataset);
    }
    Packing& packing = golden_.problem.packing;
    packing.offsets.resize(static_cast<std::size_t>(datasets[0].shape[0]));
    packing.lengths.resize(static_cast<std::size_t>(datasets[1].shape[0]));
    packing.row_valid.resize(static_cast<std::size_t>(datasets[2].shape[0]));
    if (auto s = read_values(datasets[0], packing.offsets.data()); !s) return s;
    if (auto s = read_values(datasets[1], packing.lengths.data()); !s) return s;
    if (auto s = read_values(datasets[2], packing.row_valid.data()); !s) return s;
    return validate(packing);
  }

  /// What stands for inputs and weights.
  Status plan_problem() {
    if (golden_.contents == Contents::kStored) {
      if (auto s = plan_inputs(); !s) return s;
      return plan_weights();
    }
    auto fingerprints = read_fingerprints(groups_, config());
    if (!fingerprints) return fingerprints.error();
    golden_.fingerprints = std::move(*fingerprints);
    return check_generator(golden_);
  }

  Status plan_inputs() {
    static constexpr std::array<std::string_view, 2> kNames = {"hidden", "grad_out"};
    auto members = input_members(groups_);
    if (!members) return members.error();
    const Shape shape{golden_.problem.packing.tokens(), golden_.problem.config.hidden};
    for (auto [name, tensor] :
         {std::pair{kNames[0], &golden_.problem.hidden}, {kNames[1], &golden_.problem.grad_out}}) {
      const Member* member = find(*members, name);
      if (member == nullptr) return missing("inputs", name);
      if (auto s = plan(groups_[Group::kInputs].id(), *member, Element::kFloat64, shape, *tensor); !s) return s;
    }
    return {};
  }

  Status plan_weights() {
    auto members = weight_members(groups_, config());
    if (!members) return members.error();
    for (const WeightInfo& weight : contract::kWeights) {
      if (!present(weight.presence, config())) continue;
      const Member* member = find(*members, weight.name);
      if (member == nullptr) return missing("weights", weight.name);
      const Shape shape = shape_of(weight.axes, config(), golden_.problem.packing);
      if (auto s =
              plan(groups_[Group::kWeights].id(), *member, Element::kFloat64, shape, golden_.problem.weight(weight.id));
          !s)
        return s;
    }
    return {};
  }

  Status plan_results() {
    return visit_results(groups_, config(), [&](hid_t group, const Member& member, DatasetId id) {
      const Shape shape = shape_of(id.axes(), config(), golden_.problem.packing);
      const Element element = stored_as_int64(id) ? Element::kInt64 : Element::kFloat64;
      return plan(group, member, element, shape, golden_.results.set(id, Tensor()));
    });
  }

  Status read_sketches() {
    return visit_sketches(groups_, config(), [&](hid_t group, const Member& member, DatasetId id) -> Status {
      auto dataset = open_dataset(file_, group, member, exactly(Element::kFloat64));
      if (!dataset) return dataset.error();
      const contract::SketchShape shape =
          contract::sketch_shape(shape_of(id.axes(), config(), golden_.problem.packing));
      if (dataset->shape != Shape{sketch_values(shape)})
        return file_error(member.where, "has shape " + contract::to_string(dataset->shape) + ", need " +
                                            contract::to_string(Shape{sketch_values(shape)}));
      if (auto s = budget_.charge(static_cast<double>(dataset->bytes)); !s) return s;
      std::vector<double> values(static_cast<std::size_t>(sketch_values(shape)));
      if (auto s = read_values(*dataset, values.data()); !s) return s;
      golden_.sketches[id.index()] = from_values(values, shape);
      return {};
    });
  }

  Status plan(hid_t group, const Member& member, Element element, const Shape& shape, Tensor& target) {
    auto dataset = open_dataset(file_, group, member, exactly(element));
    if (!dataset) return dataset.error();
    if (dataset->shape != shape)
      return file_error(member.where,
                        "has shape " + contract::to_string(dataset->shape) + ", need " + contract::to_string(shape));
    if (auto s = budget_.charge(static_cast<double>(dataset->bytes)); !s) return s;
    planned_.push_back({std::move(*dataset), &target});
    return {};
  }

  Status read_planned() {
    for (Planned& item : planned_) {
      Tensor tensor{item.dataset.shape};
      if (item.dataset.element == Element::kInt64) {
        std::vector<Index> values(static_cast<std::size_t>(tensor.size()));
        if (auto s = read_values(item.dataset, values.data()); !s) return s;
        std::copy(values.begin(), values.end(), tensor.data());
      } else if (auto s = read_values(item.dataset, tensor.data()); !s) {
        return s;
      }
      *item.target = std::move(tensor);
      item.dataset.handle.reset();
    }
    return {};
  }

  const LayerConfig& config() const { return golden_.problem.config; }

  static Error missing(std::string_view group, std::string_view name) {
    return file_error(member_path(group, name), "missing dataset; a golden file of this layer needs it");
  }

  InputFile file_;
  MemoryBudget budget_;
  Groups groups_;
  std::vector<Planned> planned_;
  GoldenFile golden_;
};

}  // namespace

Error in_file(const std::string& path, const Error& error) {
  return error.where == path ? error : Error{error.code, error.text(), path};
}

contract::DatasetSet GoldenFile::available() const {
  contract::DatasetSet set = results.available();
  for (std::size_t i = 0; i < sketches.size(); ++i)
    if (sketches[i]) set.set(i);
  return set;
}

Result<GoldenFile> read_layout(const std::string& path, double memory_bytes) {
  const LibraryLock lock;
  try {
    auto file = open_input(path);
    if (!file) return in_file(path, file.error());
    auto golden = Reader(std::move(*file), memory_bytes).run();
    if (!golden) return in_file(path, golden.error());
    return golden;
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kMemory, "its values do not fit the memory allowed for them", path};
  }
}

Result<GoldenFile> read(const std::string& path, double memory_bytes) {
  auto golden = read_layout(path, memory_bytes);
  if (golden)
    if (auto s = complete(*golden, memory_bytes); !s) return in_file(path, s.error());
  return golden;
}

}  // namespace plumbline::golden
