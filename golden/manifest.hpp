#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "golden/checksum.hpp"
#include "reference/contract/result.hpp"

// The manifest of a folder of golden files: which files there are, what case each is, its checksum, which bugs it is
// for, and why it was made and changed. Goldens change only together with it.
namespace plumbline::golden {

inline constexpr std::string_view kManifestName = "manifest.json";

/// One change of a file.
struct Change {
  std::string date;    ///< YYYY-MM-DD
  std::string sha256;  ///< of the file after the change
  std::string reason;  ///< one line, never empty
  bool operator==(const Change&) const = default;
};

struct ManifestEntry {
  std::string name;       ///< file name within the folder
  std::string case_text;  ///< case string that makes it
  Checksum checksum;
  std::vector<std::string> bugs;  ///< slugs of the bugs it is for; may be empty
  std::vector<Change> history;    ///< oldest first; the last one's checksum is the file's
  bool operator==(const ManifestEntry&) const = default;
};

/// Entries in order of their names, each once.
struct Manifest {
  std::vector<ManifestEntry> entries;
  const ManifestEntry* find(std::string_view name) const;
  bool operator==(const Manifest&) const = default;
};

/// Whether a reason and bugs can be recorded: one line of text, slugs. Usage errors.
contract::Status check_record(const std::string& reason, const std::vector<std::string>& bugs);

/// Reads `<folder>/manifest.json`, strictly: schema and version, unknown or missing keys, types, names that leave the
/// folder, malformed checksums and dates, entries that repeat or whose history does not end with their checksum.
/// Errors are kFile and name entry and key. An absent manifest is an error here; `make` starts from an empty one.
contract::Result<Manifest> load_manifest(const std::string& folder);

/// Writes it, byte-deterministically and whole or not at all, after the checks that loading makes.
contract::Status save_manifest(const std::string& folder, const Manifest& manifest);

/// Records that `<folder>/<name>` now has the bytes it has: a new entry, or a new line in the history of an old one
/// (none if the bytes are the same; case and bugs are updated all the same). `reason` says why, in one line, and must
/// not be empty (kUsage).
contract::Status update_entry(Manifest& manifest, const std::string& folder, const std::string& name,
                              const std::string& case_text, const std::vector<std::string>& bugs,
                              const std::string& date, const std::string& reason);

/// What is wrong with one file of the folder.
struct ManifestFault {
  enum class Kind : unsigned char {
    kMissing,   ///< listed, but not there (or not readable)
    kChanged,   ///< its bytes are not those recorded
    kUnlisted,  ///< an .h5 file that no entry lists
  };
  Kind kind = Kind::kMissing;
  std::string name;
  std::string message;  ///< one line
};

/// Compares the folder with its manifest; empty: all files are there, unchanged, and listed. In order of names.
contract::Result<std::vector<ManifestFault>> verify_checksums(const Manifest& manifest, const std::string& folder);

/// Today in UTC, YYYY-MM-DD; the day of SOURCE_DATE_EPOCH if that is set (reproducible builds).
std::string today();

}  // namespace plumbline::golden
