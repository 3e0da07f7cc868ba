#include "reference/isolate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/contract/index_math.hpp"
#include "reference/run_layer.hpp"

namespace plumbline::reference {

namespace {

using contract::Results;
using contract::Tensor;

class IsolatedPolicy : public ExactPolicy<double> {
 public:
  /// `truth` holds a tensor for each dataset to record, with its fill values.
  IsolatedPolicy(const contract::Problem& problem, const Results& candidate, Results& truth)
      : candidate_(candidate), truth_(truth), visible_(static_cast<std::size_t>(problem.packing.tokens())) {
    const contract::Packing& packing = problem.packing;
    const Index ratio = problem.config.ratio;
    for (Index b = 0; b < packing.segments(); ++b)
      for (Index t = 0; t < packing.lengths[b]; ++t)
        visible_[packing.offsets[b] + t] =
            contract::visible_entries(t, ratio, contract::group_count(packing.lengths[b], ratio));
  }

  void on_stage(StageId id, const std::vector<Index>& rows, Out block) const {
    exchange(DatasetId::forward(id), rows, block);
  }
  void on_gradient(StageId id, const std::vector<Index>& rows, Out block) const {
    exchange(DatasetId::gradient(id), rows, block);
  }
  void on_selection(Index row, std::vector<Index>& entries) const {
    const Tensor* picks = candidate_.find(DatasetId::forward(StageId::kTopk));
    if (!picks) return;
    entries.clear();
    for (Index k = 0; k < picks->row_size(); ++k)
      if (const double pick = picks->row(row)[k]; pick >= 0 && pick < static_cast<double>(visible_[row]))
        entries.push_back(static_cast<Index>(pick));
    std::sort(entries.begin(), entries.end());
    entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  }

 private:
  void exchange(DatasetId id, const std::vector<Index>& rows, Out block) const {
    Tensor* truth = truth_.find(id);
    const Tensor* given = candidate_.find(id);
    const bool bounded = id == DatasetId::forward(StageId::kIndexScores);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      double* row = block.data() + static_cast<Index>(r) * block.outerStride();
      if (truth) std::copy(row, row + block.cols(), truth->row(rows[r]));
      if (!given) continue;
      const double* from = given->row(rows[r]);
      for (Index c = 0; c < block.cols(); ++c)
        if (!bounded || row[c] != -std::numeric_limits<double>::infinity()) row[c] = from[c];
    }
  }

  const Results& candidate_;
  Results& truth_;
  std::vector<Index> visible_;
};

}  // namespace

contract::Result<Isolated> run_isolated(const contract::Problem& problem, const Results& candidate,
                                        const contract::Request& request) {
  if (auto status = contract::validate(problem); !status) return status.error();
  Isolated run;
  // The same fill values as a run's own, for rows that nobody computes.
  run.truth = std::move(Taps<double>(request, problem.config, problem.packing).results());
  auto values = run_layer(problem, request, IsolatedPolicy(problem, candidate, run.truth));
  if (!values) return values.error();
  run.values = std::move(*values);
  // The body hands these to nobody: no later stage reads them, so the values are the truth.
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    if (run.values.has(id) &&
        (id.weight() || id == DatasetId::hidden_gradient() || id == DatasetId::forward(StageId::kTopk)))
      run.truth.set(id, run.values.at(id));
  }
  return run;
}

}  // namespace plumbline::reference
