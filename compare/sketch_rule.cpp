#include "compare/sketch_rule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compare/unravel.hpp"

namespace plumbline::compare {

using namespace contract;

namespace {

/// Keeps the part that uses most of what it may.
class Parts {
 public:
  explicit Parts(DatasetVerdict& verdict) : verdict_(verdict) {}

  /// `allowed`: of |got - want|; `what` and `index` say where.
  void check(double want, double got, double allowed, const char* what, std::vector<Index> index) {
    ++verdict_.compared;
    const double error = std::abs(got - want);
    // NaN exceeds everything.
    const double share = got == want ? 0 : allowed > 0 && error == error ? error / allowed : kInfinity;
    if (!(share <= 1)) ++verdict_.wrong;
    if (share > share_ || share_ < 0) {
      share_ = share;
      verdict_.error = share * verdict_.limit;
      verdict_.got = got;
      verdict_.want = want;
      verdict_.worst = std::move(index);
      what_ = what;
    }
  }
  void finish() {
    verdict_.verdict = verdict_.wrong > 0      ? Verdict::kFail
                       : verdict_.compared > 0 ? Verdict::kPass
                                               : Verdict::kNotCompared;
    if (verdict_.wrong > 0) verdict_.reason = std::string(what_) + " differs by more than the limit";
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  DatasetVerdict& verdict_;
  double share_ = -1;
  const char* what_ = "";
};

}  // namespace

DatasetVerdict compare_sketches(DatasetId id, const Problem& problem, const Sketch& want, const Sketch& got,
                                double loss_unit, const Limits& limits) {
  DatasetVerdict v{.id = id};
  v.limit = id.is_forward() ? limits.forward : limits.gradient;
  const Shape shape = shape_of(id.axes(), problem.config, problem.packing);
  const SketchShape matrix = sketch_shape(shape);
  if (want.counted == 0 && got.counted == 0) {
    v.reason = "has no specified entry";
    return v;
  }
  double unit = v.limit * (want.largest > 0 ? want.largest : 1);
  if (id == DatasetId::forward(StageId::kTopk)) unit = 0;
  if (id == DatasetId::forward(StageId::kIndexerLoss)) {
    v.limit = limits.loss;
    unit = limits.loss * (loss_unit > 0 ? loss_unit : want.largest);
  }
  const auto root = [](Index n) { return std::sqrt(static_cast<double>(std::max<Index>(n, 0))); };
  Parts parts(v);
  parts.check(static_cast<double>(want.counted), static_cast<double>(got.counted), 0, "the number of finite entries",
              {});
  std::size_t sample = 0;
  for (const Index r : sample_places(matrix.rows, Sketch::kSampleRows))
    for (const Index c : sample_places(matrix.columns, Sketch::kSampleColumns)) {
      parts.check(want.samples[sample], got.samples[sample], unit, "an entry", unravel(r * matrix.columns + c, shape));
      ++sample;
    }
  for (std::size_t b = 0; b < want.norms.size(); ++b) {
    const Index first = static_cast<Index>(b) * matrix.rows_per_norm();
    const Index rows = std::min(matrix.rows_per_norm(), matrix.rows - first);
    parts.check(want.norms[b], got.norms[b], unit * root(rows * matrix.columns) + 0x1p-23 * want.norms[b],
                "the norm of rows from here on", {first});
  }
  for (std::size_t k = 0; k < want.projections.size(); ++k)
    parts.check(want.projections[k], got.projections[k], unit * root(want.counted), "a projection on signs", {});
  parts.check(want.norm, got.norm, unit * root(want.counted), "the norm", {});
  parts.check(want.largest, got.largest, unit, "the largest entry", {});
  parts.finish();
  return v;
}

std::vector<DatasetVerdict> compare_by_sketch_rule(const Problem& problem, const Sketches& want, const Results& got,
                                                   const Limits& limits) {
  std::vector<DatasetVerdict> verdicts;
  const double loss_unit = loss_condition(problem, got);
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    if (!want[i]) continue;
    const Tensor* tensor = got.find(id);
    DatasetVerdict v{.id = id};
    if (tensor == nullptr) {
      v.reason = "not among the results";
    } else if (tensor->shape() != shape_of(id.axes(), problem.config, problem.packing)) {
      v.verdict = Verdict::kFail;
      v.error = std::numeric_limits<double>::infinity();
      v.reason = "has shape " + to_string(tensor->shape()) + ", want " +
                 to_string(shape_of(id.axes(), problem.config, problem.packing));
    } else {
      v = compare_sketches(id, problem, *want[i], make_sketch(id, *tensor, problem), loss_unit, limits);
    }
    verdicts.push_back(std::move(v));
  }
  return verdicts;
}

}  // namespace plumbline::compare
