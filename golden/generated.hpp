#pragma once
#include "golden/golden_file.hpp"

// Version-2 files: the case generates the problem.
namespace plumbline::golden {

/// Whether the file's case generates its configuration and packing. Errors: kFile, naming the case or what differs.
contract::Status check_generator(const GoldenFile& golden);

/// Reads what is in the file; inputs and weights of a version-2 file are still missing.
contract::Result<GoldenFile> read_layout(const std::string& path, double memory_bytes);

/// Makes whole what `read_layout` gave.
contract::Status complete(GoldenFile& golden, double memory_bytes);

/// Generates inputs and weights. Errors: kMemory if they need more than `memory_bytes`, kCheckFailed if they are not
/// the numbers whose fingerprints the file holds.
contract::Status generate(GoldenFile& golden, double memory_bytes);

}  // namespace plumbline::golden
