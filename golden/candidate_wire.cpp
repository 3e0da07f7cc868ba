#include "golden/candidate_wire.hpp"

#include <cstdint>
#include <utility>

#include "golden/layout.hpp"

namespace plumbline::golden {
namespace {

using contract::DatasetId;
using contract::NumberFormat;
using contract::Problem;
using contract::Result;

// One byte for each dataset: absent, present without a format, or kFirstFormat + its format.
constexpr std::uint8_t kAbsent = 0, kNoFormat = 1, kFirstFormat = 2;

void send_body(Sender& out, CandidateFile& candidate) {
  out.text(candidate.case_text);
  out.text(candidate.producer);
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    contract::Tensor* tensor = candidate.results.find(DatasetId::from_index(i));
    const auto& format = candidate.formats[i];
    out.value(tensor == nullptr ? kAbsent
              : format          ? static_cast<std::uint8_t>(kFirstFormat + static_cast<std::uint8_t>(*format))
                                : kNoFormat);
    if (tensor != nullptr) out.tensor(*tensor);
  }
}

bool receive_body(Receiver& in, const Problem& problem, CandidateFile& candidate) {
  candidate.case_text = in.text();
  candidate.producer = in.text();
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    const auto mark = in.value<std::uint8_t>();
    if (mark == kAbsent) continue;
    if (!in.good() || !id.exists(problem.config) || (mark == kNoFormat) != stored_as_int64(id)) return false;
    if (mark != kNoFormat) {
      const auto format = static_cast<NumberFormat>(mark - kFirstFormat);
      if (!storable(format)) return false;
      candidate.formats[i] = format;
    }
    candidate.results.set(id, in.tensor(shape_of(id.axes(), problem.config, problem.packing)));
  }
  return in.good() && candidate.results.available().any();
}

}  // namespace

bool send_candidate(Result<CandidateFile> answer, const ByteSink& sink) {
  return send_answer<CandidateFile>(std::move(answer), sink, send_body);
}

Result<CandidateFile> receive_candidate(const ByteSource& source, const Problem& problem, double memory_bytes,
                                        bool& received) {
  return receive_answer<CandidateFile>(source, memory_bytes, received, [&](Receiver& in, CandidateFile& candidate) {
    return receive_body(in, problem, candidate);
  });
}

}  // namespace plumbline::golden
