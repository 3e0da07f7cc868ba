#pragma once
#include <cstddef>
#include <functional>
#include <span>

#include "golden/golden_file.hpp"

// A GoldenFile or an error as a stream of bytes between two processes of the same program. The receiver trusts
// nothing: it takes shapes from the configuration and the packing, not from the sender, and bounds what it allocates.
namespace plumbline::golden {

using ByteSink = std::function<bool(std::span<const std::byte>)>;
using ByteSource = std::function<bool(std::span<std::byte>)>;  ///< fills all of it or fails

/// Sends the answer, freeing each tensor once it is sent; false if the sink fails.
bool send(contract::Result<GoldenFile> answer, const ByteSink& sink);

/// Receives what `send` sent. `received` tells whether that worked: if not, the result is an unspecified error.
contract::Result<GoldenFile> receive(const ByteSource& source, double memory_bytes, bool& received);

}  // namespace plumbline::golden
