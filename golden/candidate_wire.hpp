#pragma once
#include "golden/byte_stream.hpp"
#include "golden/candidate_file.hpp"

// A CandidateFile or an error as a stream of bytes between two processes of the same program.
namespace plumbline::golden {

/// Sends the answer, freeing each tensor once it is sent; false if the sink fails.
bool send_candidate(contract::Result<CandidateFile> answer, const ByteSink& sink);

/// Receives what `send_candidate` sent, a candidate for `problem`, which gives the shapes. `received` tells whether
/// that worked and makes sense (datasets that the layer has, at least one, each with a format that files have): if
/// not, the result is an unspecified error.
contract::Result<CandidateFile> receive_candidate(const ByteSource& source, const contract::Problem& problem,
                                                  double memory_bytes, bool& received);

}  // namespace plumbline::golden
