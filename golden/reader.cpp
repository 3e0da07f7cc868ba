#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <set>
#include <utility>

#include "golden/check.hpp"
#include "golden/golden_file.hpp"
#include "golden/hdf5_input.hpp"
#include "golden/layout.hpp"
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
  Reader(InputFile file, double memory_bytes) : file_(std::move(file)), memory_bytes_(memory_bytes) {}

  Result<GoldenFile> run() {
    for (auto step : {&Reader::read_root, &Reader::read_config, &Reader::read_packing, &Reader::plan_inputs,
                      &Reader::plan_weights, &Reader::plan_forward, &Reader::plan_gradients, &Reader::read_planned})
      if (auto s = (this->*step)(); !s) return s.error();
    if (auto s = check(golden_); !s) return s.error();
    return std::move(golden_);
  }

 private:
  static constexpr std::array<std::string_view, 6> kGroups = {"config",  "packing", "inputs",
                                                              "weights", "forward", "grad"};
  static constexpr std::array<std::string_view, 4> kRootAttributes = {"format", "format_version", "case", "producer"};

  Status read_root() {
    const hid_t root = file_.handle.id();
    const auto format = read_text_attribute(root, "", "format");
    if (!format) return format.error();
    if (*format != kFormatName)
      return file_error("root attribute 'format'",
                        "is '" + printable(*format) + "', need '" + std::string(kFormatName) + "'");
    const auto version = read_int_attribute(root, "", "format_version");
    if (!version) return version.error();
    if (*version != kFormatVersion)
      return file_error(
          "root attribute 'format_version'",
          "is " + std::to_string(*version) + ", this program reads version " + std::to_string(kFormatVersion));
    for (auto [name, text] : {std::pair{"case", &golden_.case_text}, {"producer", &golden_.producer}}) {
      auto value = read_text_attribute(root, "", name);
      if (!value) return value.error();
      *text = std::move(*value);
    }
    if (auto s = only_attributes(root, "", kRootAttributes); !s) return s;
    auto members = list_members(root, "");
    if (!members) return members.error();
    for (const Member& member : *members) {
      const auto known = std::find(kGroups.begin(), kGroups.end(), member.name);
      if (known == kGroups.end())
        return file_error(member.where, "unknown name in the root group; version 1 has " + listed(kGroups));
      auto group = open_group(root, member);
      if (!group) return group.error();
      const auto slot = static_cast<std::size_t>(known - kGroups.begin());
      groups_[slot] = std::move(*group);
      if (slot == 0) continue;  // the attributes of config are its contents
      if (auto s = only_attributes(groups_[slot].id(), member.where, {}); !s) return s;
    }
    for (std::size_t slot = 0; slot < 4; ++slot)
      if (!groups_[slot].valid())
        return file_error(std::string(kGroups[slot]), "missing; every golden file has this group");
    return {};
  }

  Status read_config() {
    const hid_t group = groups_[0].id();
    auto members = list_members(group, "config");
    if (!members) return members.error();
    if (!members->empty()) return file_error(members->front().where, "unknown name; config has attributes only");
    auto names = list_attributes(group, "config");
    if (!names) return names.error();
    for (const std::string& name : *names)
      if (std::none_of(contract::kConfigFields.begin(), contract::kConfigFields.end(),
                       [&](const ConfigField& field) { return field.name == name; }))
        return file_error(member_path("config", name), "unknown attribute; version 1 has no such field");
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
    auto members = list_members(groups_[1].id(), "packing");
    if (!members) return members.error();
    if (auto s = only_names(*members, "packing", kNames); !s) return s;
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      const Member* member = find(*members, kNames[i]);
      if (member == nullptr) return missing("packing", kNames[i]);
      auto dataset = open_dataset(file_, groups_[1].id(), *member, i == 2 ? Element::kUint8 : Element::kInt64);
      if (!dataset) return dataset.error();
      if (dataset->shape.size() != 1)
        return file_error(member->where, "has shape " + contract::to_string(dataset->shape) + ", need one axis");
      if (auto s = charge(dataset->bytes); !s) return s;
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

  Status plan_inputs() {
    static constexpr std::array<std::string_view, 2> kNames = {"hidden", "grad_out"};
    auto members = list_members(groups_[2].id(), "inputs");
    if (!members) return members.error();
    if (auto s = only_names(*members, "inputs", kNames); !s) return s;
    const Shape shape{golden_.problem.packing.tokens(), golden_.problem.config.hidden};
    for (auto [name, tensor] :
         {std::pair{kNames[0], &golden_.problem.hidden}, {kNames[1], &golden_.problem.grad_out}}) {
      const Member* member = find(*members, name);
      if (member == nullptr) return missing("inputs", name);
      if (auto s = plan(groups_[2].id(), *member, Element::kFloat64, shape, *tensor); !s) return s;
    }
    return {};
  }

  Status plan_weights() {
    auto members = list_members(groups_[3].id(), "weights");
    if (!members) return members.error();
    for (const Member& member : *members) {
      const auto id = contract::find_weight(member.name);
      if (!id) return file_error(member.where, "unknown weight");
      if (!present(info(*id).presence, config())) return not_of_this_layer(member.where);
    }
    for (const WeightInfo& weight : contract::kWeights) {
      if (!present(weight.presence, config())) continue;
      const Member* member = find(*members, weight.name);
      if (member == nullptr) return missing("weights", weight.name);
      const Shape shape = shape_of(weight.axes, config(), golden_.problem.packing);
      if (auto s = plan(groups_[3].id(), *member, Element::kFloat64, shape, golden_.problem.weight(weight.id)); !s)
        return s;
    }
    return {};
  }

  Status plan_forward() { return groups_[4].valid() ? plan_results(groups_[4].id(), "forward") : Status(); }

  Status plan_gradients() {
    static constexpr std::array<std::string_view, 3> kNames = {"inputs", "weights", "forward"};
    const Handle& grad = groups_[5];
    if (!grad.valid()) return {};
    auto members = list_members(grad.id(), "grad");
    if (!members) return members.error();
    if (auto s = only_names(*members, "grad", kNames); !s) return s;
    for (const Member& member : *members) {
      auto group = open_group(grad.id(), member);
      if (!group) return group.error();
      if (auto s = only_attributes(group->id(), member.where, {}); !s) return s;
      if (auto s = plan_results(group->id(), member.where); !s) return s;
    }
    return {};
  }

  Status plan_results(hid_t group, const std::string& where) {
    auto members = list_members(group, where);
    if (!members) return members.error();
    for (const Member& member : *members) {
      const auto id = contract::find_dataset(where + "/" + member.name);
      if (!id || (id->is_gradient() && id->stage() && !info(*id->stage()).has_gradient))
        return file_error(member.where, "unknown dataset");
      if (!id->exists(config())) return not_of_this_layer(member.where);
      const Shape shape = shape_of(id->axes(), config(), golden_.problem.packing);
      const Element element = stored_as_int64(*id) ? Element::kInt64 : Element::kFloat64;
      if (auto s = plan(group, member, element, shape, golden_.results.set(*id, Tensor())); !s) return s;
    }
    return {};
  }

  Status plan(hid_t group, const Member& member, Element element, const Shape& shape, Tensor& target) {
    auto dataset = open_dataset(file_, group, member, element);
    if (!dataset) return dataset.error();
    if (dataset->shape != shape)
      return file_error(member.where,
                        "has shape " + contract::to_string(dataset->shape) + ", need " + contract::to_string(shape));
    if (auto s = charge(dataset->bytes); !s) return s;
    planned_.push_back({std::move(*dataset), &target});
    return {};
  }

  Status charge(std::uint64_t bytes) {
    charged_bytes_ += static_cast<double>(bytes);
    if (charged_bytes_ <= memory_bytes_) return {};
    return Error{ErrorCode::kMemory,
                 "holds more values than the " + std::to_string(static_cast<Index>(memory_bytes_ / 1e6)) +
                     " MB of memory allowed for it; allow more or use a smaller case",
                 ""};
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

  template <typename Names>
  static std::string listed(const Names& names) {
    std::string text;
    for (std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
    return text;
  }

  static const Member* find(const std::vector<Member>& members, std::string_view name) {
    const auto found = std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.name == name; });
    return found == members.end() ? nullptr : &*found;
  }

  static Error missing(std::string_view group, std::string_view name) {
    return file_error(member_path(group, name), "missing dataset; a golden file of this layer needs it");
  }

  Error not_of_this_layer(const std::string& where) const {
    return file_error(where, std::string("a layer with ratio ") + std::to_string(config().ratio) + " and the indexer " +
                                 (config().indexer ? "on" : "off") + " has no such dataset");
  }

  template <typename Names>
  static Status only_names(const std::vector<Member>& members, std::string_view group, const Names& names) {
    for (const Member& member : members)
      if (std::find(names.begin(), names.end(), member.name) == names.end())
        return file_error(member.where, "unknown name in " + std::string(group) + "; version 1 has " + listed(names));
    return {};
  }

  static Status only_attributes(hid_t object, std::string_view where, std::initializer_list<std::string_view> names) {
    return only_attributes(object, where, std::vector<std::string_view>(names));
  }
  template <typename Names>
  static Status only_attributes(hid_t object, std::string_view where, const Names& names) {
    const auto present_names = list_attributes(object, where);
    if (!present_names) return present_names.error();
    for (const std::string& name : *present_names)
      if (std::find(names.begin(), names.end(), name) == names.end())
        return file_error(where.empty() ? "root group" : std::string(where),
                          "unknown attribute '" + printable(name) + "'");
    return {};
  }

  InputFile file_;
  double memory_bytes_;
  double charged_bytes_ = 0;
  std::array<Handle, kGroups.size()> groups_;
  std::vector<Planned> planned_;
  GoldenFile golden_;
};

}  // namespace

Error in_file(const std::string& path, const Error& error) {
  return error.where == path ? error : Error{error.code, error.text(), path};
}

Result<GoldenFile> read(const std::string& path, double memory_bytes) {
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

}  // namespace plumbline::golden
