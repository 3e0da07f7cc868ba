#pragma once
#include <optional>
#include <string>
#include <vector>

#include "reference/contract/problem.hpp"
#include "reference/contract/result.hpp"
#include "reference/contract/results.hpp"

namespace plumbline::golden {

/// A golden file in memory: the problem it states and whatever results it holds.
struct GoldenFile {
  int format_version = 1;
  std::string case_text;  ///< attribute `case`
  std::string producer;   ///< attribute `producer`
  contract::Problem problem;
  contract::Results results;
};

/// Reads a file of the version-1 layout, strictly: format and version, every attribute's type, every dataset's shape
/// and dtype, unknown and missing names, packing, finiteness, selections in range. In this process: see
/// `read_guarded` for files from outside.
contract::Result<GoldenFile> read(const std::string& path);

/// `read` in a child process with a memory and a time limit, since the HDF5 library itself can crash or hang on
/// hostile bytes; a death or a hang there is the error "unreadable file".
contract::Result<GoldenFile> read_guarded(const std::string& path, double memory_bytes = 16e9, double seconds = 120);

/// Writes the version-1 layout, byte-deterministically (no times, fixed order, fixed filters). The file appears whole
/// under `path` or not at all: it is written beside it and renamed, and an error leaves nothing behind.
contract::Status write(const std::string& path, const GoldenFile& golden);

}  // namespace plumbline::golden
