#include "bench/stage_timer.hpp"

#include <chrono>

#include "reference/run_layer.hpp"

namespace plumbline::bench {
namespace {

using contract::Index;
using contract::StageId;
using Clock = std::chrono::steady_clock;

/// The exact arithmetic; every stage's value and cotangent passes by, and takes the time since the last one.
class TimedPolicy : public reference::ExactPolicy<double> {
 public:
  explicit TimedPolicy(StageSeconds& seconds) : seconds_(seconds) {}

  void on_stage(StageId id, const std::vector<Index>&, Out) const {
    seconds_.forward[static_cast<std::size_t>(id)] += lap();
  }
  void on_gradient(StageId id, const std::vector<Index>&, Out) const {
    seconds_.backward[static_cast<std::size_t>(id)] += lap();
  }

 private:
  double lap() const {
    const Clock::time_point now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

  StageSeconds& seconds_;
  mutable Clock::time_point last_ = Clock::now();
};

}  // namespace

StageSeconds time_stages(const contract::Problem& problem) {
  contract::Request request;
  for (const contract::WeightInfo& weight : contract::kWeights)
    request.wanted.set(contract::DatasetId::gradient(weight.id).index());
  request.wanted.set(contract::DatasetId::hidden_gradient().index());
  StageSeconds seconds;
  const TimedPolicy policy(seconds);
  (void)reference::run_layer(problem, request, policy).ok();
  return seconds;
}

}  // namespace plumbline::bench
