#pragma once
#include "golden/byte_stream.hpp"
#include "golden/golden_file.hpp"

// A GoldenFile or an error as a stream of bytes between two processes of the same program. The receiver takes shapes
// from the configuration and the packing, not from the sender.
namespace plumbline::golden {

/// Sends the answer, freeing each tensor once it is sent; false if the sink fails.
bool send(contract::Result<GoldenFile> answer, const ByteSink& sink);

/// Receives what `send` sent. `received` tells whether that worked: if not, the result is an unspecified error.
contract::Result<GoldenFile> receive(const ByteSource& source, double memory_bytes, bool& received);

}  // namespace plumbline::golden
