#include "golden/manifest.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <system_error>

#include "golden/atomic_file.hpp"
#include "golden/text.hpp"

namespace plumbline::golden {
namespace {

using contract::Error;
using contract::file_error;
using contract::Result;
using contract::Status;
using contract::usage_error;
using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "plumbline-golden-manifest";
constexpr int kSchemaVersion = 1;
constexpr std::int64_t kLargestManifestBytes = std::int64_t{16} << 20;

std::string manifest_path(const std::string& folder) { return folder + "/" + std::string(kManifestName); }

bool is_one_line(const std::string& text) {
  return is_utf8(text) &&
         std::none_of(text.begin(), text.end(),
                      [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; }) &&
         std::any_of(text.begin(), text.end(), [](char c) { return c != ' '; });
}

bool is_plain_name(const std::string& name) {
  return is_one_line(name) && name.find('/') == std::string::npos && name.front() != '.';
}

/// Lower-case words joined by dashes.
bool is_slug(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

bool is_date(const std::string& text) {
  int year = 0, month = 0, day = 0, end = 0;
  const bool parsed =
      text.size() == 10 && std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &end) == 3 && end == 10;
  return parsed && year >= 1970 && month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

Status check_entry(const ManifestEntry& entry) {
  const std::string where = "entry '" + printable(entry.name) + "'";
  if (!is_plain_name(entry.name)) return file_error(where, "its name is not that of a file in the manifest's folder");
  if (!is_one_line(entry.case_text)) return file_error(where, "case must be one line and not empty");
  if (!is_sha256(entry.checksum.sha256)) return file_error(where, "sha256 must be 64 lower-case hexadecimal digits");
  if (entry.checksum.size_bytes < 0) return file_error(where, "size_bytes must not be negative");
  for (const std::string& bug : entry.bugs)
    if (!is_slug(bug)) return file_error(where, "bug '" + printable(bug) + "' is not a slug (a-z, 0-9, dashes)");
  if (entry.history.empty()) return file_error(where, "history is empty; it must say why the file was made");
  for (const Change& change : entry.history) {
    if (!is_date(change.date)) return file_error(where, "date '" + printable(change.date) + "' is not YYYY-MM-DD");
    if (!is_sha256(change.sha256))
      return file_error(where, "sha256 in its history must be 64 lower-case hexadecimal digits");
    if (!is_one_line(change.reason)) return file_error(where, "every change needs a reason, in one line");
  }
  if (entry.history.back().sha256 != entry.checksum.sha256)
    return file_error(where, "its history ends with another sha256 than the file's: changed by hand");
  return {};
}

Status check_manifest(const Manifest& manifest) {
  for (const ManifestEntry& entry : manifest.entries)
    if (auto s = check_entry(entry); !s) return s;
  for (std::size_t i = 1; i < manifest.entries.size(); ++i) {
    const std::string& name = manifest.entries[i].name;
    if (name == manifest.entries[i - 1].name) return file_error("entry '" + name + "'", "is listed twice");
    if (name < manifest.entries[i - 1].name)
      return file_error("entry '" + name + "'", "is out of order; entries are sorted by name");
  }
  return {};
}

/// Takes exactly the named members out of a JSON object.
class Members {
 public:
  Members(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  Status only(std::initializer_list<std::string_view> names) const {
    if (!object_.is_object()) return file_error(where_, "must be a JSON object");
    for (const auto& item : object_.items())
      if (std::find(names.begin(), names.end(), item.key()) == names.end())
        return file_error(where_, "unknown key '" + printable(item.key()) + "'");
    for (std::string_view name : names)
      if (!object_.contains(name)) return file_error(where_, "missing key '" + std::string(name) + "'");
    return {};
  }
  Status take(std::string_view name, std::string& to) const {
    const Json& value = at(name);
    if (!value.is_string()) return file_error(where_, std::string(name) + " must be a string");
    to = value.get<std::string>();
    return {};
  }
  Status take(std::string_view name, std::int64_t& to) const {
    const Json& value = at(name);
    const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= INT64_MAX : value.is_number_integer();
    if (!fits) return file_error(where_, std::string(name) + " must be an integer");
    to = value.get<std::int64_t>();
    return {};
  }
  Result<const Json*> list(std::string_view name) const {
    const Json& value = at(name);
    if (!value.is_array()) return file_error(where_, std::string(name) + " must be a list");
    return &value;
  }

 private:
  const Json& at(std::string_view name) const { return *object_.find(std::string(name)); }
  const Json& object_;
  std::string where_;
};

Result<Change> parse_change(const Json& json, const std::string& where) {
  const Members members(json, where);
  Change change;
  if (auto s = members.only({"date", "sha256", "reason"}); !s) return s.error();
  for (auto [name, text] : {std::pair{"date", &change.date}, {"sha256", &change.sha256}, {"reason", &change.reason}})
    if (auto s = members.take(name, *text); !s) return s.error();
  return change;
}

Result<ManifestEntry> parse_entry(const Json& json, const std::string& position) {
  const Members members(json, position);
  ManifestEntry entry;
  if (auto s = members.only({"name", "case", "sha256", "size_bytes", "bugs", "history"}); !s) return s.error();
  for (auto [name, text] :
       {std::pair{"name", &entry.name}, {"case", &entry.case_text}, {"sha256", &entry.checksum.sha256}})
    if (auto s = members.take(name, *text); !s) return s.error();
  if (auto s = members.take("size_bytes", entry.checksum.size_bytes); !s) return s.error();
  const auto bugs = members.list("bugs");
  if (!bugs) return bugs.error();
  for (const Json& bug : **bugs) {
    if (!bug.is_string()) return file_error(position, "bugs must be strings");
    entry.bugs.push_back(bug.get<std::string>());
  }
  const auto history = members.list("history");
  if (!history) return history.error();
  for (const Json& item : **history) {
    auto change = parse_change(item, position + ", history");
    if (!change) return change.error();
    entry.history.push_back(std::move(*change));
  }
  return entry;
}

Result<Manifest> parse_manifest(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return file_error("", "is not JSON");
  const Members members(json, "manifest");
  std::string schema;
  std::int64_t version = 0;
  if (!json.is_object() || !json.contains("schema") || !json.contains("schema_version"))
    return file_error("manifest", "needs the keys schema and schema_version");
  if (auto s = members.take("schema", schema); !s) return s.error();
  if (schema != kSchema)
    return file_error("manifest", "schema is '" + printable(schema) + "', need '" + std::string(kSchema) + "'");
  if (auto s = members.take("schema_version", version); !s) return s.error();
  if (version != kSchemaVersion)
    return file_error("manifest", "schema_version is " + std::to_string(version) + ", this program reads " +
                                      std::to_string(kSchemaVersion));
  if (auto s = members.only({"schema", "schema_version", "files"}); !s) return s.error();
  const auto files = members.list("files");
  if (!files) return files.error();
  Manifest manifest;
  for (const Json& file : **files) {
    auto entry = parse_entry(file, "files[" + std::to_string(manifest.entries.size()) + "]");
    if (!entry) return entry.error();
    manifest.entries.push_back(std::move(*entry));
  }
  if (auto s = check_manifest(manifest); !s) return s.error();
  return manifest;
}

Json to_json(const ManifestEntry& entry) {
  Json history = Json::array();
  for (const Change& change : entry.history)
    history.push_back({{"date", change.date}, {"sha256", change.sha256}, {"reason", change.reason}});
  return {{"name", entry.name},
          {"case", entry.case_text},
          {"sha256", entry.checksum.sha256},
          {"size_bytes", entry.checksum.size_bytes},
          {"bugs", entry.bugs},
          {"history", std::move(history)}};
}

Error in_manifest(const std::string& path, const Error& error) { return Error{error.code, error.text(), path}; }

std::string describe(const Checksum& checksum) {
  return std::to_string(checksum.size_bytes) + " bytes, sha256 " + checksum.sha256.substr(0, 12) + "...";
}

}  // namespace

const ManifestEntry* Manifest::find(std::string_view name) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const ManifestEntry& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

Status check_record(const std::string& reason, const std::vector<std::string>& bugs) {
  if (!is_one_line(reason)) return usage_error("reason", "must say in one line why the golden is made or changed");
  for (const std::string& bug : bugs)
    if (!is_slug(bug))
      return usage_error("bug", "got '" + printable(bug) + "', allowed: a slug of a-z, 0-9 and dashes");
  return {};
}

Result<Manifest> load_manifest(const std::string& folder) {
  const std::string path = manifest_path(folder);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    return file_error(path,
                      errno == ENOENT ? "no such file" : std::string("cannot be opened: ") + std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return file_error(path, "is not a regular file");
  if (status.st_size > kLargestManifestBytes) return file_error(path, "is larger than any manifest");
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return file_error(path, "cannot be read");
  auto manifest = parse_manifest(text.str());
  if (!manifest) return in_manifest(path, manifest.error());
  return manifest;
}

Status save_manifest(const std::string& folder, const Manifest& manifest) {
  const std::string path = manifest_path(folder);
  if (auto s = check_manifest(manifest); !s) return in_manifest(path, s.error());
  Json files = Json::array();
  for (const ManifestEntry& entry : manifest.entries) files.push_back(to_json(entry));
  const Json json = {{"schema", kSchema}, {"schema_version", kSchemaVersion}, {"files", std::move(files)}};
  return write_file(path, json.dump(2) + "\n");
}

Status update_entry(Manifest& manifest, const std::string& folder, const std::string& name,
                    const std::string& case_text, const std::vector<std::string>& bugs, const std::string& date,
                    const std::string& reason) {
  if (auto s = check_record(reason, bugs); !s) return s;
  if (!is_plain_name(name))
    return usage_error("name", "'" + printable(name) + "' is not the name of a file in the folder");
  const auto checksum = checksum_file(folder + "/" + name);
  if (!checksum) return checksum.error();
  auto place = std::lower_bound(manifest.entries.begin(), manifest.entries.end(), name,
                                [](const ManifestEntry& entry, const std::string& n) { return entry.name < n; });
  const bool known = place != manifest.entries.end() && place->name == name;
  ManifestEntry entry = known ? *place : ManifestEntry{name, "", {}, {}, {}};
  entry.case_text = case_text;
  entry.bugs = bugs;
  if (entry.checksum != *checksum) entry.history.push_back({date, checksum->sha256, reason});
  entry.checksum = *checksum;
  if (auto s = check_entry(entry); !s) return usage_error(s.error().where, s.error().message);
  if (known)
    *place = std::move(entry);
  else
    manifest.entries.insert(place, std::move(entry));
  return {};
}

Result<std::vector<ManifestFault>> verify_checksums(const Manifest& manifest, const std::string& folder) {
  std::vector<ManifestFault> faults;
  for (const ManifestEntry& entry : manifest.entries) {
    const auto checksum = checksum_file(folder + "/" + entry.name);
    if (!checksum)
      faults.push_back({ManifestFault::Kind::kMissing, entry.name, "cannot be checked: " + checksum.error().message});
    else if (*checksum != entry.checksum)
      faults.push_back({ManifestFault::Kind::kChanged, entry.name,
                        "has " + describe(*checksum) + "; the manifest records " + describe(entry.checksum)});
  }
  std::error_code error;
  for (std::filesystem::directory_iterator item(folder, error), end; !error && item != end; item.increment(error)) {
    const std::string name = item->path().filename().string();
    if (item->path().extension() == ".h5" && manifest.find(name) == nullptr)
      faults.push_back(
          {ManifestFault::Kind::kUnlisted, name, "is not in the manifest; record it with a reason or remove it"});
  }
  if (error) return file_error(folder, "cannot be listed: " + error.message());
  std::sort(faults.begin(), faults.end(),
            [](const ManifestFault& a, const ManifestFault& b) { return a.name < b.name; });
  return faults;
}

std::string today() {
  std::time_t now = std::time(nullptr);
  if (const char* fixed = std::getenv("SOURCE_DATE_EPOCH")) {
    char* end = nullptr;
    const long long seconds = std::strtoll(fixed, &end, 10);
    if (end != fixed && *end == '\0' && seconds >= 0) now = static_cast<std::time_t>(seconds);
  }
  std::tm day{};
  ::gmtime_r(&now, &day);
  char text[16];
  return std::strftime(text, sizeof text, "%Y-%m-%d", &day) > 0 ? text : "1970-01-01";
}

}  // namespace plumbline::golden
