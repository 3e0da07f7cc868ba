#pragma once
#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "golden/fingerprint.hpp"
#include "reference/contract/problem.hpp"
#include "reference/contract/result.hpp"
#include "reference/contract/results.hpp"
#include "reference/contract/sketch.hpp"

namespace plumbline::golden {

/// Memory that reading a file may take unless the caller says otherwise.
inline constexpr double kDefaultMemoryBytes = 16e9;
/// Time that reading a file may take unless the caller says otherwise.
inline constexpr double kDefaultSeconds = 120;

/// How much of a case a file holds. All but kStored are version 2: inputs and weights are generated from the case when
/// the file is read, and must have the fingerprints that it holds.
enum class Contents : unsigned char {
  kStored,  ///< version 1: inputs, weights and results
  kFull,    ///< results
  kSketch,  ///< sketches of the results
  kSeed,    ///< the case alone
};
inline constexpr std::array<std::string_view, 4> kContentsNames = {"stored", "full", "sketch", "seed"};
inline constexpr std::string_view to_string(Contents contents) {
  return kContentsNames[static_cast<std::size_t>(contents)];
}

/// A golden file in memory: the problem it states and whatever results it holds.
struct GoldenFile {
  Contents contents = Contents::kStored;
  std::string case_text;  ///< attribute `case`; of version 2 the case that generates the problem
  std::string producer;   ///< attribute `producer`
  contract::Problem problem;
  Fingerprints fingerprints;  ///< of the problem, as it was when the file was made; empty in version 1
  contract::Results results;
  contract::Sketches sketches;

  int format_version() const { return contents == Contents::kStored ? 1 : 2; }
  /// The datasets that it says something of, as results or sketches.
  contract::DatasetSet available() const;
};

/// Reads a file of version 1 or 2, strictly: format and version, every attribute's type, every dataset's shape and
/// dtype, unknown and missing names, packing, finiteness, selections in range; that a version-2 file's case gives its
/// configuration and packing. Nothing is allocated before the sizes that the file declares were checked. In this
/// process: see `read_guarded` for files from outside.
///
/// Errors: kFile for the bytes and the layout, kNonFinite for NaN or Inf where none may be, kUsage for an impossible
/// configuration or packing, kMemory for values of more than `memory_bytes`, kCheckFailed if the generator no longer
/// gives the numbers that a version-2 file was made with. `where` is the path, the message names the object.
contract::Result<GoldenFile> read(const std::string& path, double memory_bytes = kDefaultMemoryBytes);

/// `read` in a child process with a memory and a time limit, since the HDF5 library itself can crash or hang on
/// hostile bytes; a death or a hang there is the error "unreadable file" (kFile). What the child hands over is checked
/// again here. At its peak parent and child together hold the file's values twice. `cancelled`, which may be empty, is
/// asked while waiting; true ends the call with kInterrupted.
contract::Result<GoldenFile> read_guarded(const std::string& path, double memory_bytes = kDefaultMemoryBytes,
                                          double seconds = kDefaultSeconds,
                                          const std::function<bool()>& cancelled = {});

/// What a file holds, whatever the generator gives today; in a child process as `read_guarded`.
contract::Result<Contents> read_contents_guarded(const std::string& path, double memory_bytes = kDefaultMemoryBytes,
                                                 double seconds = kDefaultSeconds,
                                                 const std::function<bool()>& cancelled = {});

/// Writes the layout of its contents, byte-deterministically (no times, fixed order, fixed filters), after the checks
/// that `read` makes: what is written can be read. The file appears whole under `path` or not at all: it is put
/// together in memory, written beside its final place and renamed, and an error leaves nothing behind. `cancelled`,
/// which may be empty, is asked before each dataset; true ends the call with kInterrupted.
contract::Status write(const std::string& path, const GoldenFile& golden, const std::function<bool()>& cancelled = {});

/// The error with `path` as its place and its own place in the message.
contract::Error in_file(const std::string& path, const contract::Error& error);

}  // namespace plumbline::golden
