#include "tools/plumbline/profile_file.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "reference/contract/nearest.hpp"

namespace plumbline::tools {

using namespace contract;
using nlohmann::json;

namespace {

std::string profile_names() {
  std::string names;
  for (const PrecisionProfile& profile : precision_profiles()) names += (names.empty() ? "" : ", ") + profile.name;
  return names;
}

Error bad(const std::string& path, const std::string& what) { return usage_error(path, what); }

Result<NumberFormat> format_of(const std::string& path, const std::string& key, const json& value) {
  std::string allowed;
  for (const FormatInfo& format : number_formats()) allowed += (allowed.empty() ? "" : ", ") + std::string(format.name);
  if (!value.is_string()) return bad(path, fmt::format("'{}' must be the name of a format: {}", key, allowed));
  if (const auto format = find_number_format(value.get<std::string>())) return *format;
  return bad(path, fmt::format("'{}': unknown format '{}', allowed: {}", key, value.get<std::string>(), allowed));
}

/// "forward/q", "grad/weights/wq_a", ...; "forward/*" and "grad/*" stand for all.
Status set_storage(const std::string& path, const json& table, PrecisionProfile& profile) {
  if (!table.is_object()) return bad(path, "'storage' must be an object of dataset: format");
  for (const auto& [name, value] : table.items()) {
    const auto format = format_of(path, name, value);
    if (!format) return format.error();
    if (name == "forward/*" || name == "grad/*") {
      for (std::size_t i = 0; i < DatasetId::kCount; ++i)
        if (DatasetId::from_index(i).is_forward() == (name == "forward/*")) profile.storage[i] = *format;
      continue;
    }
    const auto id = find_dataset(name);
    if (!id)
      return bad(path, fmt::format("'storage': unknown dataset '{}'; known ones: plumbline list datasets", name));
    profile.storage[id->index()] = *format;
  }
  return {};
}

Status set_casts(const std::string& path, const json& table, PrecisionProfile& profile) {
  if (!table.is_object()) return bad(path, "'casts' must be an object of cast point: format");
  for (const auto& [name, value] : table.items()) {
    const auto format = format_of(path, name, value);
    if (!format) return format.error();
    const auto point = find_cast_point(name);
    if (!point) {
      std::string known;
      for (const CastPointInfo& p : cast_points()) known += (known.empty() ? "" : ", ") + std::string(p.name);
      return bad(path, fmt::format("'casts': unknown cast point '{}', allowed: {}", name, known));
    }
    profile.casts[static_cast<std::size_t>(*point)] = *format;
  }
  return {};
}

Status apply(const std::string& path, const std::string& key, const json& value, PrecisionProfile& profile) {
  if (key == "base") return {};
  if (key == "name" || key == "meaning") {
    if (!value.is_string()) return bad(path, fmt::format("'{}' must be a text", key));
    (key == "name" ? profile.name : profile.meaning) = value.get<std::string>();
    return {};
  }
  if (key == "angles") {
    if (value != "exact" && value != "fp32") return bad(path, "'angles' must be \"exact\" or \"fp32\"");
    profile.exact_angles = value == "exact";
    return {};
  }
  if (key == "storage") return set_storage(path, value, profile);
  if (key == "casts") return set_casts(path, value, profile);
  NumberFormat* target = key == "inputs"         ? &profile.inputs
                         : key == "weights"      ? &profile.weights
                         : key == "compute"      ? &profile.compute
                         : key == "accumulation" ? &profile.accumulation
                                                 : nullptr;
  if (!target)
    return bad(path,
               fmt::format("unknown key '{}', allowed: name, base, meaning, inputs, weights, compute, accumulation, "
                           "angles, storage, casts",
                           key));
  const auto format = format_of(path, key, value);
  if (!format) return format.error();
  *target = *format;
  return {};
}

Result<PrecisionProfile> parse(const std::string& path, const std::string& text) {
  const json document = json::parse(text, nullptr, false);
  if (document.is_discarded() || !document.is_object())
    return file_error(path, "is not a JSON object; see plumbline explain profile");
  const auto base = document.find("base");
  if (base == document.end() || !base->is_string())
    return bad(path, "lacks \"base\", the profile that it changes: " + profile_names());
  const PrecisionProfile* known = find_precision_profile(base->get<std::string>());
  if (!known)
    return bad(path, fmt::format("unknown base '{}', allowed: {}", base->get<std::string>(), profile_names()));
  PrecisionProfile profile = *known;
  profile.name = path;
  for (const auto& [key, value] : document.items())
    if (auto status = apply(path, key, value, profile); !status) return status.error();
  return profile;
}

}  // namespace

Result<PrecisionProfile> load_profile(const std::string& text) {
  if (const PrecisionProfile* profile = find_precision_profile(text)) return *profile;
  if (!text.ends_with(".json"))
    return usage_error("--prec", fmt::format("unknown profile '{}', allowed: {}, or a file that ends in .json", text,
                                             profile_names()));
  std::ifstream file(text, std::ios::binary);
  std::ostringstream contents;
  if (!file || !(contents << file.rdbuf())) return file_error(text, "cannot be read");
  return parse(text, contents.str());
}

}  // namespace plumbline::tools
