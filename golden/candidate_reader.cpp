#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "golden/candidate_file.hpp"
#include "golden/candidate_tensor.hpp"
#include "golden/layout.hpp"
#include "golden/layout_input.hpp"
#include "golden/same_case.hpp"

namespace plumbline::golden {
namespace {

using contract::DatasetId;
using contract::Error;
using contract::ErrorCode;
using contract::file_error;
using contract::Problem;
using contract::Result;
using contract::Shape;
using contract::Status;

/// A dataset that was checked, and where its values go.
struct Planned {
  DatasetId id;
  EncodedTensor encoded;
};

class CandidateReader {
 public:
  CandidateReader(InputFile file, const Problem& problem, double memory_bytes)
      : file_(std::move(file)), problem_(problem), budget_(memory_bytes) {}

  Result<CandidateFile> run() {
    if (auto s = read_root(); !s) return s.error();
    if (auto s = check_same_case(file_, groups_, problem_, budget_); !s) return s.error();
    if (auto s = plan(); !s) return s.error();
    if (auto s = read_planned(); !s) return s.error();
    return std::move(candidate_);
  }

 private:
  Status read_root() {
    const hid_t root = file_.handle.id();
    auto contents = read_root_attributes(root, {kCandidateFormatName, kFormatName});
    if (!contents) return contents.error();
    if (*contents == Contents::kSketch || *contents == Contents::kSeed)
      return Error{ErrorCode::kNothing,
                   "holds nothing to judge, as its contents are '" + std::string(to_string(*contents)) +
                       "'; a candidate has datasets in forward/ or grad/",
                   ""};
    for (auto [name, text] : {std::pair{"case", &candidate_.case_text}, {"producer", &candidate_.producer}}) {
      if (!has_attribute(root, name)) continue;
      auto value = read_text_attribute(root, "", name);
      if (!value) return value.error();
      *text = std::move(*value);
    }
    auto groups = open_groups(root, *contents);
    if (!groups) return groups.error();
    groups_ = std::move(*groups);
    return {};
  }

  Status plan() {
    const auto plan_one = [&](hid_t group, const Member& member, DatasetId id) -> Status {
      auto encoded = stored_as_int64(id) ? open_integers(file_, group, member) : open_floats(file_, group, member);
      if (!encoded) return encoded.error();
      const Shape want = shape_of(id.axes(), problem_.config, problem_.packing);
      if (encoded->dataset.shape != want)
        return file_error(member.where, "has shape " + contract::to_string(encoded->dataset.shape) + ", need " +
                                            contract::to_string(want) + " for the golden's case");
      if (auto s = budget_.charge(encoded->value_bytes()); !s) return s;
      temporary_bytes_ = std::max(temporary_bytes_, encoded->temporary_bytes());
      planned_.push_back({id, std::move(*encoded)});
      return {};
    };
    if (auto s = visit_results(groups_, problem_.config, plan_one); !s) return s;
    if (planned_.empty())
      return Error{ErrorCode::kNothing,
                   "holds nothing to judge, no dataset of forward/ or grad/; write at least one of them", ""};
    return budget_.allows(temporary_bytes_);
  }

  Status read_planned() {
    for (Planned& item : planned_) {
      auto tensor = read_tensor(item.encoded);
      if (!tensor) return tensor.error();
      candidate_.results.set(item.id, std::move(*tensor));
      candidate_.formats[item.id.index()] = item.encoded.format;
      item.encoded.dataset.handle.reset();
    }
    return {};
  }

  InputFile file_;
  const Problem& problem_;
  MemoryBudget budget_;
  double temporary_bytes_ = 0;
  Groups groups_;
  std::vector<Planned> planned_;
  CandidateFile candidate_;
};

}  // namespace

Result<CandidateFile> read_candidate(const std::string& path, const Problem& problem, double memory_bytes) {
  if (auto s = validate(problem); !s) return s.error();
  const LibraryLock lock;
  try {
    auto file = open_input(path, "candidate file");
    if (!file) return in_file(path, file.error());
    auto candidate = CandidateReader(std::move(*file), problem, memory_bytes).run();
    if (!candidate) return in_file(path, candidate.error());
    return candidate;
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kMemory, "its values do not fit the memory allowed for them", path};
  }
}

}  // namespace plumbline::golden
