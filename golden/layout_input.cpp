#include "golden/layout_input.hpp"

#include <algorithm>

#include "golden/checksum.hpp"
#include "golden/layout.hpp"
#include "golden/message.hpp"
#include "golden/text.hpp"

namespace plumbline::golden {
namespace {

using contract::ConfigField;
using contract::DatasetId;
using contract::Error;
using contract::file_error;
using contract::Index;
using contract::LayerConfig;
using contract::Result;
using contract::Status;
using contract::WeightInfo;

bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Status only_attributes(hid_t object, std::string_view where, const Names& names) {
  const auto found = list_attributes(object, where);
  if (!found) return found.error();
  for (const std::string& name : *found)
    if (!contains(names, name))
      return file_error(where.empty() ? "root group" : std::string(where),
                        "unknown attribute '" + printable(name) + "'" + did_you_mean(name, names));
  return {};
}

Status only_names(const std::vector<Member>& members, std::string_view group, const Names& names) {
  for (const Member& member : members)
    if (!contains(names, member.name))
      return file_error(member.where, "unknown name in " + std::string(group) + ", which has " + listed(names) +
                                          did_you_mean(member.name, names));
  return {};
}

/// Checks that a group has members of these names only.
Result<std::vector<Member>> members_of(hid_t group, const std::string& where, const Names& names) {
  auto members = list_members(group, where);
  if (members)
    if (auto s = only_names(*members, where, names); !s) return s.error();
  return members;
}

Result<std::vector<Member>> members_named(const Groups& groups, Group group, const Names& names) {
  return members_of(groups[group].id(), std::string(kGroupNames[static_cast<std::size_t>(group)]), names);
}

Error not_of_this_layer(const std::string& where, const LayerConfig& config) {
  return file_error(where, "a layer with ratio " + std::to_string(config.ratio) + " and the indexer " +
                               (config.indexer ? "on" : "off") + " has no such dataset; leave it out");
}

Names weight_names(const LayerConfig& config) {
  Names names;
  for (const WeightInfo& weight : contract::kWeights)
    if (present(weight.presence, config)) names.push_back(weight.name);
  return names;
}

/// Names of the datasets that a layer of this configuration has in a group.
std::vector<std::string> result_names(const std::string& where, const LayerConfig& config) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const std::string path = DatasetId::from_index(i).path();
    const std::size_t slash = path.rfind('/');
    if (path.substr(0, slash) == where && DatasetId::from_index(i).exists(config))
      names.push_back(path.substr(slash + 1));
  }
  return names;
}

/// `above`: what stands before the datasets' own paths, "" or "sketch/".
Status visit_group(hid_t group, const std::string& where, const std::string& above, const LayerConfig& config,
                   const ResultVisitor& visit) {
  auto members = list_members(group, where);
  if (!members) return members.error();
  const std::string folder = where.substr(above.size());
  for (const Member& member : *members) {
    const auto id = contract::find_dataset(folder + "/" + member.name);
    if (!id || (id->is_gradient() && id->stage() && !info(*id->stage()).has_gradient)) {
      const auto names = result_names(folder, config);
      return file_error(member.where, "unknown dataset" + did_you_mean(member.name, Names(names.begin(), names.end())));
    }
    if (!id->exists(config)) return not_of_this_layer(member.where, config);
    if (auto s = visit(group, member, *id); !s) return s;
  }
  return {};
}

Status visit_gradients(hid_t grad, const std::string& above, const LayerConfig& config, const ResultVisitor& visit) {
  auto members = members_of(grad, above + "grad", {"inputs", "weights", "forward"});
  if (!members) return members.error();
  for (const Member& member : *members) {
    auto group = open_group(grad, member);
    if (!group) return group.error();
    if (auto s = only_attributes(group->id(), member.where, {}); !s) return s;
    if (auto s = visit_group(group->id(), member.where, above, config, visit); !s) return s;
  }
  return {};
}

Names groups_of(Contents contents) {
  switch (contents) {
    case Contents::kStored: return {"config", "packing", "inputs", "weights", "forward", "grad"};
    case Contents::kFull: return {"config", "packing", "checksums", "forward", "grad"};
    case Contents::kSketch: return {"config", "packing", "checksums", "sketch"};
    case Contents::kSeed: break;
  }
  return {"config", "packing", "checksums"};
}

Result<Contents> read_contents(hid_t root) {
  const auto contents = read_text_attribute(root, "", "contents");
  if (!contents) return contents.error();
  for (const Contents known : {Contents::kFull, Contents::kSketch, Contents::kSeed})
    if (*contents == to_string(known)) return known;
  return file_error("root attribute 'contents'", "is '" + printable(*contents) + "', need 'full', 'sketch' or 'seed'");
}

}  // namespace

Result<Contents> read_root_attributes(hid_t root, const Names& formats) {
  const auto format = read_text_attribute(root, "", "format");
  if (!format) return format.error();
  if (!contains(formats, *format)) {
    std::string need;
    for (std::string_view name : formats) need += (need.empty() ? "'" : " or '") + std::string(name) + "'";
    return file_error("root attribute 'format'", "is '" + printable(*format) + "', need " + need);
  }
  const auto version = read_int_attribute(root, "", "format_version");
  if (!version) return version.error();
  if (*version == kStoredVersion) {
    if (auto s = only_attributes(root, "", {"format", "format_version", "case", "producer"}); !s) return s.error();
    return Contents::kStored;
  }
  if (*version != kGeneratedVersion)
    return file_error("root attribute 'format_version'",
                      "is " + std::to_string(*version) + ", this program reads versions " +
                          std::to_string(kStoredVersion) + " and " + std::to_string(kGeneratedVersion));
  if (auto s = only_attributes(root, "", {"format", "format_version", "case", "producer", "contents"}); !s)
    return s.error();
  return read_contents(root);
}

Result<Groups> open_groups(hid_t root, Contents contents) {
  auto members = list_members(root, "");
  if (!members) return members.error();
  if (auto s = only_names(*members, "the root group", groups_of(contents)); !s) return s.error();
  Groups groups;
  for (const Member& member : *members) {
    auto handle = open_group(root, member);
    if (!handle) return handle.error();
    const auto group =
        static_cast<Group>(std::find(kGroupNames.begin(), kGroupNames.end(), member.name) - kGroupNames.begin());
    // The attributes of config are its contents.
    if (group != Group::kConfig)
      if (auto s = only_attributes(handle->id(), member.where, {}); !s) return s.error();
    groups[group] = std::move(*handle);
  }
  return groups;
}

Result<Fingerprints> read_fingerprints(const Groups& groups, const LayerConfig& config) {
  auto members = members_named(groups, Group::kChecksums, {"inputs", "weights"});
  if (!members) return members.error();
  Fingerprints fingerprints;
  const auto named = named_fingerprints(fingerprints, config);
  for (const std::string_view name : {"inputs", "weights"}) {
    const std::string where = member_path("checksums", name);
    const Member* member = find(*members, name);
    if (member == nullptr) return file_error(where, "missing; files that generate their inputs have this group");
    auto group = open_group(groups[Group::kChecksums].id(), *member);
    if (!group) return group.error();
    auto inside = list_members(group->id(), where);
    if (!inside) return inside.error();
    if (!inside->empty()) return file_error(inside->front().where, "unknown name; checksums are attributes");
    Names names;
    for (const NamedFingerprint& item : named)
      if (item.group == name) names.push_back(item.name);
    if (auto s = only_attributes(group->id(), where, names); !s) return s.error();
    for (const NamedFingerprint& item : named) {
      if (item.group != name) continue;
      auto text = read_text_attribute(group->id(), where, item.name);
      if (!text) return text.error();
      if (!is_sha256(*text))
        return file_error(member_path(where, item.name),
                          "is '" + printable(*text) + "', need a SHA-256 of 64 lower-case hexadecimal digits");
      *item.sha256 = std::move(*text);
    }
  }
  return fingerprints;
}

Status check_config_names(hid_t config) {
  auto members = list_members(config, "config");
  if (!members) return members.error();
  if (!members->empty()) return file_error(members->front().where, "unknown name; config has attributes only");
  auto attributes = list_attributes(config, "config");
  if (!attributes) return attributes.error();
  Names names;
  for (const ConfigField& field : contract::kConfigFields) names.push_back(field.name);
  for (const std::string& name : *attributes)
    if (!contains(names, name))
      return file_error(member_path("config", name),
                        "unknown attribute; there is no such field" + did_you_mean(name, names));
  return {};
}

Result<std::vector<Member>> packing_members(const Groups& groups) {
  return members_named(groups, Group::kPacking, {"offsets", "lengths", "row_valid"});
}

Result<std::vector<Member>> input_members(const Groups& groups) {
  return members_named(groups, Group::kInputs, {"hidden", "grad_out"});
}

Result<std::vector<Member>> weight_members(const Groups& groups, const LayerConfig& config) {
  auto members = list_members(groups[Group::kWeights].id(), "weights");
  if (!members) return members.error();
  for (const Member& member : *members) {
    const auto id = contract::find_weight(member.name);
    if (!id) return file_error(member.where, "unknown weight" + did_you_mean(member.name, weight_names(config)));
    if (!present(info(*id).presence, config)) return not_of_this_layer(member.where, config);
  }
  return members;
}

Status visit_results(const Groups& groups, const LayerConfig& config, const ResultVisitor& visit) {
  if (groups.has(Group::kForward))
    if (auto s = visit_group(groups[Group::kForward].id(), "forward", "", config, visit); !s) return s;
  return groups.has(Group::kGrad) ? visit_gradients(groups[Group::kGrad].id(), "", config, visit) : Status();
}

Status visit_sketches(const Groups& groups, const LayerConfig& config, const ResultVisitor& visit) {
  const std::string above = "sketch/";
  if (!groups.has(Group::kSketch)) return {};
  auto members = members_named(groups, Group::kSketch, {"forward", "grad"});
  if (!members) return members.error();
  for (const Member& member : *members) {
    auto group = open_group(groups[Group::kSketch].id(), member);
    if (!group) return group.error();
    if (auto s = only_attributes(group->id(), member.where, {}); !s) return s;
    if (auto s = member.name == "forward" ? visit_group(group->id(), member.where, above, config, visit)
                                          : visit_gradients(group->id(), above, config, visit);
        !s)
      return s;
  }
  return {};
}

const Member* find(const std::vector<Member>& members, std::string_view name) {
  const auto found = std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.name == name; });
  return found == members.end() ? nullptr : &*found;
}

Status MemoryBudget::allows(double bytes) const {
  if (charged_bytes_ + bytes <= memory_bytes_) return {};
  return Error{contract::ErrorCode::kMemory,
               "holds more values than the " + std::to_string(static_cast<Index>(memory_bytes_ / 1e6)) +
                   " MB of memory allowed for it; allow more or use a smaller case",
               ""};
}

Status MemoryBudget::charge(double bytes) {
  if (auto s = allows(bytes); !s) return s;
  charged_bytes_ += bytes;
  return {};
}

}  // namespace plumbline::golden
