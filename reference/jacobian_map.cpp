#include "reference/jacobian_map.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/hadamard.hpp"
#include "reference/pooling.hpp"
#include "reference/rms_norm.hpp"
#include "reference/rope.hpp"
#include "reference/sink_softmax.hpp"

namespace plumbline::reference {

using namespace contract;

namespace {

template <typename Scalar>
using Values = std::vector<Scalar>;

std::size_t at_index(Index i) { return static_cast<std::size_t>(i); }

Values<double> zeros(Index n) { return Values<double>(at_index(n), 0.0); }

Values<double> joined(Values<double> a, const Values<double>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

double largest(const Values<double>& values) {
  double top = 0;
  for (const double value : values) top = std::max(top, std::abs(value));
  return top;
}

/// Largest of the errors seen; one that is not finite counts as +inf.
void raise(double& worst, double error) {
  worst = std::isfinite(error) ? std::max(worst, error) : std::numeric_limits<double>::infinity();
}

/// Cotangents to compare with: every unit vector, then `kRandomCotangents` vectors of random signs.
constexpr Index kRandomCotangents = 4;

Values<double> cotangent(Index which, Index outputs) {
  Values<double> g = zeros(outputs);
  if (which < outputs) {
    g[at_index(which)] = 1;
    return g;
  }
  // Signs from a linear congruential generator (Knuth's MMIX constants), its top bit.
  std::uint64_t state = static_cast<std::uint64_t>(which);
  for (double& value : g) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = state >> 63 ? 1 : -1;
  }
  return g;
}

double vjp_error(const JacobianMap& map) {
  const Index outputs = map.dense.rows(), inputs = map.dense.cols();
  double error = 0;
  for (Index which = 0; which < outputs + kRandomCotangents; ++which) {
    const Values<double> g = cotangent(which, outputs), vjp = map.vjp(g);
    const Vector<double> product = map.dense.transpose() * Eigen::Map<const Vector<double>>(g.data(), outputs);
    const double length = which < outputs ? 1 : std::sqrt(static_cast<double>(outputs));
    for (Index i = 0; i < inputs; ++i) raise(error, std::abs(product[i] - vjp[at_index(i)]) / length);
  }
  return error == 0 ? 0 : error / map.scale;
}

/// Inputs cut into sets of which no two reach the same output, by the dense Jacobian's zeros: one evaluation serves a
/// whole set. A dependence that the Jacobian misses still shows, at the output that it reaches.
Values<Values<Index>> independent_inputs(const Matrix<double>& dense) {
  Values<Values<Index>> sets;
  Values<Values<char>> reached;
  for (Index i = 0; i < dense.cols(); ++i) {
    const auto meets = [&](const Values<char>& outputs) {
      for (Index o = 0; o < dense.rows(); ++o)
        if (dense(o, i) != 0 && outputs[at_index(o)]) return true;
      return false;
    };
    std::size_t set = 0;
    while (set < sets.size() && meets(reached[set])) ++set;
    if (set == sets.size()) {
      sets.emplace_back();
      reached.emplace_back(at_index(dense.rows()), char{0});
    }
    sets[set].push_back(i);
    for (Index o = 0; o < dense.rows(); ++o)
      if (dense(o, i) != 0) reached[set][at_index(o)] = 1;
  }
  return sets;
}

/// (f(x + step) - f(x - step)) / (2 step), all inputs of a set moved at once.
Values<long double> central_difference(const JacobianMap& map, const Values<Index>& inputs, long double step) {
  Values<long double> up(map.x.begin(), map.x.end()), down = up;
  for (const Index i : inputs) {
    up[at_index(i)] += step;
    down[at_index(i)] -= step;
  }
  Values<long double> slope = map.value(up);
  const Values<long double> below = map.value(down);
  for (std::size_t o = 0; o < slope.size(); ++o) slope[o] = (slope[o] - below[o]) / (2 * step);
  return slope;
}

double difference_error(const JacobianMap& map) {
  const long double step = 0x1p-12L * static_cast<long double>(map.length);
  double error = 0;
  for (const Values<Index>& inputs : independent_inputs(map.dense)) {
    const Values<long double> wide = central_difference(map, inputs, step);
    const Values<long double> narrow = central_difference(map, inputs, step / 2);
    for (Index o = 0; o < map.dense.rows(); ++o) {
      const long double slope = (4 * narrow[at_index(o)] - wide[at_index(o)]) / 3;  // Richardson: O(step^4)
      long double dense = 0;
      for (const Index i : inputs) dense += static_cast<long double>(map.dense(o, i));
      raise(error, static_cast<double>(std::abs(slope - dense)));
    }
  }
  return error == 0 ? 0 : error / map.scale;
}

}  // namespace

JacobianMap rope_map(const LayerConfig& config, std::vector<double> x, Index t, bool inverse, std::string at) {
  const auto apply = [t]<typename Scalar>(const RopeTable<Scalar>& table, Values<Scalar> y, bool backwards) {
    const Index n = static_cast<Index>(y.size());
    if (backwards)
      table.rotate_back(y.data(), n, t);
    else
      table.rotate(y.data(), n, t);
    return y;
  };
  const RopeTable<double> table(config, t + 1);
  const RopeTable<long double> wide(config, t + 1);
  JacobianMap map{.name = inverse ? "inverse_rope" : "rope",
                  .at = std::move(at) + ", position " + std::to_string(t),
                  .formula = inverse ? "y = R(-t f) x on the last rope_dim channels; vjp R(+t f)"
                                     : "y = R(t f) x on the last rope_dim channels; vjp R(-t f)",
                  .x = std::move(x),
                  .dense = {},
                  .scale = 1,
                  .vjp = [=](const Values<double>& g) { return apply(table, g, !inverse); },
                  .value = [=](const Values<long double>& y) { return apply(wide, y, inverse); }};
  map.dense = table.jacobian(static_cast<Index>(map.x.size()), t, inverse);
  return map;
}

JacobianMap rms_norm_map(double eps, const std::vector<double>& x, const std::vector<double>& gain, std::string at) {
  const Index n = static_cast<Index>(x.size());
  const bool weighted = !gain.empty();
  JacobianMap map{.name = weighted ? "rms_norm" : "rms_norm_weightless",
                  .at = std::move(at),
                  .formula = weighted ? "y = g x rho, rho = 1/sqrt(mean(x^2) + eps); inputs x, then g"
                                      : "y = x rho, rho = 1/sqrt(mean(x^2) + eps)",
                  .x = joined(x, gain),
                  .length = 1 / inverse_rms(x.data(), n, eps),
                  .dense = rms_norm_jacobian(x.data(), weighted ? gain.data() : nullptr, eps, n),
                  .scale = inverse_rms(x.data(), n, eps) * (weighted ? largest(gain) : 1),
                  .vjp =
                      [=](const Values<double>& g) {
                        Values<double> d = zeros(weighted ? 2 * n : n);
                        rms_norm_vjp(x.data(), weighted ? gain.data() : nullptr, eps, n, g.data(), d.data(),
                                     weighted ? d.data() + n : nullptr);
                        return d;
                      },
                  .value =
                      [=](const Values<long double>& y) {
                        Values<long double> out(at_index(n));
                        rms_norm<long double>(y.data(), weighted ? y.data() + n : nullptr, eps, n, out.data());
                        return out;
                      }};
  if (weighted) {
    map.dense.conservativeResize(n, 2 * n);
    map.dense.rightCols(n) = rms_norm_gain_jacobian(x.data(), eps, n);
    map.scale = std::max(map.scale, largest(x) * inverse_rms(x.data(), n, eps));
  }
  return map;
}

JacobianMap hadamard_map(std::vector<double> x, std::string at) {
  const Index n = static_cast<Index>(x.size());
  const auto apply = []<typename Scalar>(Values<Scalar> y) {
    hadamard(y.data(), static_cast<Index>(y.size()));
    return y;
  };
  return {.name = "hadamard",
          .at = std::move(at),
          .formula = "y = H x / sqrt(n), H[a,b] = (-1)^popcount(a & b); its own inverse and vjp",
          .x = std::move(x),
          .dense = hadamard_jacobian<double>(n),
          .scale = 1 / std::sqrt(static_cast<double>(n)),
          .vjp = [=](const Values<double>& g) { return apply(g); },
          .value = [=](const Values<long double>& y) { return apply(y); }};
}

JacobianMap sink_softmax_map(std::vector<double> logits, double sink, std::string at) {
  const Index n = static_cast<Index>(logits.size());
  const double lse = sink_log_sum_exp(logits.data(), n, sink);
  Values<double> p = zeros(n);
  sink_softmax(logits.data(), n, lse, p.data());
  return {.name = "sink_softmax",
          .at = std::move(at),
          .formula = "p_j = exp(z_j - lse), lse = log(exp(sink) + sum exp(z)); inputs z, then the sink",
          .x = joined(logits, {sink}),
          .dense = sink_softmax_jacobian(logits.data(), n, sink),
          .scale = largest(p),
          .vjp =
              [=](const Values<double>& g) {
                Values<double> d = zeros(n + 1);
                const double delta = dot(p.data(), g.data(), n);
                sink_softmax_vjp(p.data(), n, g.data(), delta, d.data());
                d.back() = sink_vjp(sink, lse, delta);
                return d;
              },
          .value =
              [=](const Values<long double>& y) {
                Values<long double> out(at_index(n));
                sink_softmax(y.data(), n, sink_log_sum_exp(y.data(), n, y.back()), out.data());
                return out;
              }};
}

JacobianMap pooling_map(const std::vector<double>& values, const std::vector<double>& logits, Index width,
                        std::string at) {
  const Index slots = static_cast<Index>(values.size()) / width;
  const auto pooled_of = [=]<typename Scalar>(const Values<Scalar>& inputs, Matrix<Scalar>& weight) {
    const Values<Scalar> no_bias(at_index(width), Scalar(0));
    std::vector<PoolSlot<Scalar>> group;
    for (Index k = 0; k < slots; ++k)
      group.push_back({inputs.data() + k * width, inputs.data() + (slots + k) * width, no_bias.data()});
    pooling_weights(group, width, weight);
    Values<Scalar> pooled(at_index(width));
    pool(group, weight, width, pooled.data());
    return pooled;
  };
  const Values<double> x = joined(values, logits);
  Matrix<double> shares;
  const Values<double> center = pooled_of(x, shares);
  double scale = 0;
  for (Index k = 0; k < slots; ++k)
    for (Index c = 0; c < width; ++c)
      scale = std::max(scale,
                       shares(k, c) * (1 + std::abs(values[at_index(k * width + c)]) + std::abs(center[at_index(c)])));
  return {
      .name = "pooling",
      .at = std::move(at),
      .formula = "y[c] = sum_slot softmax_slot(s)[slot,c] a[slot,c]; inputs a [slots, width], then s [slots, width]",
      .x = x,
      .dense = pooling_jacobian(map(values.data(), slots, width), map(logits.data(), slots, width)),
      .scale = scale,
      .vjp =
          [=](const Values<double>& g) {
            Matrix<double> weight;
            const Values<double> pooled = pooled_of(x, weight);
            Values<double> d(x.size());
            for (Index k = 0; k < slots; ++k)
              pool_vjp(weight.row(k).data(), x.data() + k * width, pooled.data(), g.data(), width, d.data() + k * width,
                       d.data() + (slots + k) * width);
            return d;
          },
      .value =
          [=](const Values<long double>& y) {
            Matrix<long double> weight;
            return pooled_of(y, weight);
          }};
}

JacobianReport check(const JacobianMap& map) {
  const Matrix<double>& dense = map.dense;
  return {.map = map.name,
          .at = map.at,
          .formula = map.formula,
          .matrix = Tensor({dense.rows(), dense.cols()}, Values<double>(dense.data(), dense.data() + dense.size())),
          .vjp_error = vjp_error(map),
          .difference_error = difference_error(map)};
}

}  // namespace plumbline::reference
