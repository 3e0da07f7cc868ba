#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "reference/contract/result.hpp"

namespace plumbline::golden {

/// What identifies the bytes of a file.
struct Checksum {
  std::string sha256;  ///< 64 lower-case hexadecimal digits
  std::int64_t size_bytes = 0;
  bool operator==(const Checksum&) const = default;
};

/// Of a regular file, read in blocks. Errors (kFile): absent, not a regular file, unreadable.
contract::Result<Checksum> checksum_file(const std::string& path);

/// Of bytes in memory, as `Checksum::sha256`.
std::string sha256_of(std::span<const std::byte> bytes);

/// Whether the text is a SHA-256 as `checksum_file` writes it.
bool is_sha256(const std::string& text);

}  // namespace plumbline::golden
