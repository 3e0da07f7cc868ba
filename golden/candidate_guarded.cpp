#include "golden/candidate_file.hpp"
#include "golden/candidate_wire.hpp"
#include "golden/child_process.hpp"

namespace plumbline::golden {

contract::Result<CandidateFile> read_candidate_guarded(const std::string& path, const contract::Problem& problem,
                                                       double memory_bytes, double seconds,
                                                       const std::function<bool()>& cancelled) {
  auto candidate =
      answer_of_child<CandidateFile>([&] { return read_candidate(path, problem, memory_bytes); }, send_candidate,
                                     [&](const ByteSource& source, bool& received) {
                                       return receive_candidate(source, problem, memory_bytes, received);
                                     },
                                     {memory_bytes, seconds, cancelled});
  if (!candidate) return in_file(path, candidate.error());
  return candidate;
}

}  // namespace plumbline::golden
