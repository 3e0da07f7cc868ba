#pragma once
#include "reference/budget/attention.hpp"
#include "reference/budget/indexer.hpp"
#include "reference/contract/config.hpp"

// Budgets of reference/loss.hpp, query by query.
namespace plumbline::reference::budget {

/// teacher over a query's candidates, [1, C]. `window` and `candidates`: logits of the window's keys and of the
/// candidates, [heads, ...].
///   M[g] = sum_h p: spread over heads of p (B_z + B_L);  teacher = M / sum M: B_M / sum + teacher * relative error of
///   the sum
inline Estimate teacher_estimate(const Ledger& ledger, const Estimate& window, const Estimate& candidates) {
  const Arithmetic& a = ledger.arithmetic;
  const Index heads = candidates.rows(), n = candidates.cols();
  const double u = a.compute, none = -std::numeric_limits<double>::infinity();
  const double* sink = ledger.vector(WeightId::kAttnSink);
  const bool full = ledger.config().teacher == contract::Teacher::kFull;
  std::vector<LogSumExp<double>> totals(static_cast<std::size_t>(heads));
  Vector<double> total_error(heads);
  double shift = none;
  for (Index h = 0; h < heads; ++h) {
    std::vector<double> z, error;
    if (full) {
      z.assign(window.value.row(h).data(), window.value.row(h).data() + window.cols());
      error.assign(window.error.row(h).data(), window.error.row(h).data() + window.cols());
    }
    z.insert(z.end(), candidates.value.row(h).data(), candidates.value.row(h).data() + n);
    error.insert(error.end(), candidates.error.row(h).data(), candidates.error.row(h).data() + n);
    const Index count = static_cast<Index>(z.size());
    LogSumExp<double>& total = totals[static_cast<std::size_t>(h)];
    total = split_log_sum_exp(z.data(), count, full ? sink[h] : none);
    LogSumError sum;
    for (std::size_t j = 0; j < z.size() && std::isfinite(total.top); ++j) {
      const double distance = (z[j] - total.top) - total.rest;
      sum.add(std::exp(distance), error[j] + u * (std::abs(distance) + 3));
    }
    total_error[h] = sum.bound() + positive_sum(u, count + 1) + u * std::abs(total.value()) + 3 * u;
    for (Index g = 0; g < n; ++g) shift = std::max(shift, candidates.value(h, g) - total.value());
  }
  Estimate teacher(1, n);
  if (shift == none) return teacher;
  double sum = 0, sum_moved1 = 0, sum_moved2 = 0;
  for (Index g = 0; g < n; ++g) {
    double mass = 0, moved1 = 0, moved2 = 0;
    for (Index h = 0; h < heads; ++h) {
      const LogSumExp<double>& total = totals[static_cast<std::size_t>(h)];
      const double distance = (candidates.value(h, g) - (total.top + shift)) - total.rest;
      const double p = std::exp(distance);
      const double moved = p * std::expm1(std::min(candidates.error(h, g) + total_error[h] +
                                                       u * (std::abs(distance) + std::abs(candidates.value(h, g)) + 4),
                                                   700.0));
      mass += p;
      moved1 += moved;
      moved2 += moved * moved;
    }
    teacher.value(0, g) = mass;
    teacher.error(0, g) = spread(heads, moved1, std::sqrt(moved2)) + positive_sum(u, heads) * mass;
    sum += mass;
    sum_moved1 += teacher.error(0, g);
    sum_moved2 += teacher.error(0, g) * teacher.error(0, g);
  }
  const double relative = spread(n, sum_moved1, std::sqrt(sum_moved2)) / sum + positive_sum(u, n) + 2 * u;
  for (Index g = 0; g < n; ++g) {
    teacher.value(0, g) /= sum;
    teacher.error(0, g) =
        std::min(1.0, teacher.error(0, g) / sum + teacher.value(0, g) * relative) + static_cast<double>(heads) * a.tiny;
  }
  return teacher;
}

/// predict, kl and the scores' cotangent of one query, from what is known of scores and teacher [1, C].
struct PredictionEstimate {
  Estimate predict, kl, dscores;
};

///   predict: p (B_s + spread of p B_s + the sum's relative error)
///   kl: sum of t (u (2 |ln t| + |ln p|) + B_lnp) + |ln t - ln p + 1 - kl| B_t + accumulation
///   dscores = weight (predict - teacher): weight (B_p + B_t + u (p + t))
inline PredictionEstimate prediction_estimate(const Ledger& ledger, const Estimate& scores, const Estimate& teacher,
                                              double weight, bool has_mass) {
  const Arithmetic& a = ledger.arithmetic;
  const Index n = scores.cols();
  const double u = a.compute;
  PredictionEstimate e{Estimate(1, n), Estimate(1, 1), Estimate(1, n)};
  if (n == 0) return e;
  const LogSumExp<double> total = split_log_sum_exp(scores.value.data(), n, -std::numeric_limits<double>::infinity());
  LogSumError sum;
  for (Index g = 0; g < n; ++g) {
    const double distance = scores.value(0, g) - total.value();
    sum.add(std::exp(distance), scores.error(0, g) + u * (std::abs(distance) + 3));
  }
  const double total_error = sum.bound() + positive_sum(u, n) + u * std::abs(total.value()) + 2 * u;
  double kl = 0, l1 = 0, l2 = 0, own = 0;
  for (Index g = 0; g < n; ++g) {
    const double log_p = scores.value(0, g) - total.value(), p = std::exp(log_p), t = teacher.value(0, g);
    const double log_error =
        scores.error(0, g) + total_error + u * (std::abs(scores.value(0, g)) + 2 * std::abs(log_p));
    e.predict.value(0, g) = p;
    e.predict.error(0, g) = std::min(1.0, moved_probability(p, log_error) + 2 * u * p) + a.tiny;
    if (has_mass && t > 0) {
      const double term = t * (std::log(t) - log_p);
      kl += term;
      l1 += std::abs(term);
      l2 += term * term;
      own += t * (u * (3 * std::abs(std::log(t)) + 2 * std::abs(log_p)) + log_error) +
             std::abs(std::log(t) - log_p) * teacher.error(0, g) + teacher.error(0, g);
    }
    if (!has_mass) continue;
    e.dscores.value(0, g) = weight * (p - t);
    e.dscores.error(0, g) = std::abs(weight) * (e.predict.error(0, g) + teacher.error(0, g) + 3 * u * (p + t));
  }
  e.kl.value(0, 0) = kl;
  e.kl.error(0, 0) = own + accumulation(u, n, kl, l1, std::sqrt(l2), 0) + static_cast<double>(n) * a.tiny;
  return e;
}

}  // namespace plumbline::reference::budget
