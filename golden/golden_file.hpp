#pragma once
#include <functional>
#include <string>

#include "reference/contract/problem.hpp"
#include "reference/contract/result.hpp"
#include "reference/contract/results.hpp"

namespace plumbline::golden {

/// Memory that reading a file may take unless the caller says otherwise.
inline constexpr double kDefaultMemoryBytes = 16e9;
/// Time that reading a file may take unless the caller says otherwise.
inline constexpr double kDefaultSeconds = 120;

/// A golden file in memory: the problem it states and whatever results it holds.
struct GoldenFile {
  int format_version = 1;
  std::string case_text;  ///< attribute `case`
  std::string producer;   ///< attribute `producer`
  contract::Problem problem;
  contract::Results results;
};

/// Reads a file of the version-1 layout, strictly: format and version, every attribute's type, every dataset's shape
/// and dtype, unknown and missing names, packing, finiteness, selections in range. Nothing is allocated before the
/// sizes that the file declares were checked. In this process: see `read_guarded` for files from outside.
///
/// Errors: kFile for the bytes and the layout, kNonFinite for NaN or Inf where none may be, kUsage for an impossible
/// configuration or packing, kMemory for values of more than `memory_bytes`. `where` is the path, the message names
/// the object.
contract::Result<GoldenFile> read(const std::string& path, double memory_bytes = kDefaultMemoryBytes);

/// `read` in a child process with a memory and a time limit, since the HDF5 library itself can crash or hang on
/// hostile bytes; a death or a hang there is the error "unreadable file" (kFile). What the child hands over is checked
/// again here. At its peak parent and child together hold the file's values twice. `cancelled`, which may be empty, is
/// asked while waiting; true ends the call with kInterrupted.
contract::Result<GoldenFile> read_guarded(const std::string& path, double memory_bytes = kDefaultMemoryBytes,
                                          double seconds = kDefaultSeconds,
                                          const std::function<bool()>& cancelled = {});

/// Writes the version-1 layout, byte-deterministically (no times, fixed order, fixed filters), after the checks that
/// `read` makes: what is written can be read. The file appears whole under `path` or not at all: it is put together
/// in memory, written beside its final place and renamed, and an error leaves nothing behind. `cancelled`, which may be
/// empty, is asked before each dataset; true ends the call with kInterrupted.
contract::Status write(const std::string& path, const GoldenFile& golden, const std::function<bool()>& cancelled = {});

/// The error with `path` as its place and its own place in the message.
contract::Error in_file(const std::string& path, const contract::Error& error);

}  // namespace plumbline::golden
