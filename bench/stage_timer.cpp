#include "bench/stage_timer.hpp"

#include <numeric>
#include <ranges>
#include <string>
#include <string_view>

#include "bench/layer_request.hpp"
#include "bench/machine.hpp"
#include "reference/run_layer.hpp"

namespace plumbline::bench {
namespace {

using contract::DatasetId, contract::Index, contract::StageId;

/// The first stage computed from an input, weight or other stage of that name: the one whose vjp makes its cotangent.
std::size_t first_reader(std::string_view name) {
  for (const contract::StageInfo& stage : contract::kStages)
    for (const auto word : std::views::split(stage.inputs, ' '))
      if (std::string_view(word.begin(), word.end()) == name) return static_cast<std::size_t>(stage.id);
  return 0;
}

/// The exact arithmetic with a clock around every product, filed by the stage that the product belongs to.
class TimedPolicy : public reference::ExactPolicy<double> {
 public:
  TimedPolicy(const contract::Problem& problem, StageSeconds& seconds) : problem_(problem), seconds_(seconds) {
    for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
      const DatasetId id = DatasetId::from_index(i);
      if (id.is_forward())
        reader_[i] = i;
      else if (id.stage())
        reader_[i] = first_reader(info(*id.stage()).name);
      else if (id.weight())
        reader_[i] = first_reader(info(*id.weight()).name);
    }
  }

  void product_nt(DatasetId id, Out c, In a, In b, bool accumulate) const {
    timed(id, b, [&] { ExactPolicy::product_nt(id, c, a, b, accumulate); });
  }
  void product_nn(DatasetId id, Out c, In a, In b, bool accumulate) const {
    timed(id, b, [&] { ExactPolicy::product_nn(id, c, a, b, accumulate); });
  }
  void product_tn(DatasetId id, Out c, In a, In b, bool accumulate) const {
    timed(id, b, [&] { ExactPolicy::product_tn(id, c, a, b, accumulate); });
  }

 private:
  template <typename Product>
  void timed(DatasetId id, In b, Product product) const {
    const double start = thread_cpu_seconds();
    product();
    const double taken = thread_cpu_seconds() - start;
    double& sum = id.is_forward() ? seconds_.forward[id.index()] : seconds_.backward[stage_of(id, b)];
#pragma omp atomic
    sum += taken;
  }

  /// hidden's cotangent comes from several stages: told apart by the weight that they multiply it with.
  std::size_t stage_of(DatasetId id, In b) const {
    if (!(id == DatasetId::hidden_gradient())) return reader_[id.index()];
    for (const contract::WeightInfo& weight : contract::kWeights) {
      const contract::Tensor& tensor = problem_.weight(weight.id);
      if (b.data() >= tensor.data() && b.data() < tensor.data() + tensor.size())
        return reader_[DatasetId::gradient(weight.id).index()];
    }
    return static_cast<std::size_t>(StageId::kQDown);
  }

  const contract::Problem& problem_;
  StageSeconds& seconds_;
  std::array<std::size_t, DatasetId::kCount> reader_{};
};

}  // namespace

double StageSeconds::total() const {
  return std::accumulate(backward.begin(), backward.end(), std::accumulate(forward.begin(), forward.end(), rest));
}

contract::Result<StageSeconds> time_stages(const contract::Problem& problem) {
  StageSeconds seconds;
  const TimedPolicy policy(problem, seconds);
  const Seconds start = now();
  const auto results = reference::run_layer(problem, layer_request(true), policy);
  if (!results) return results.error();
  seconds.rest = (now() - start).cpu - seconds.total();
  return seconds;
}

}  // namespace plumbline::bench
