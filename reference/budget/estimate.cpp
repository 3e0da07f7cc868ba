#include "reference/budget/estimate.hpp"

#include "reference/hadamard.hpp"
#include "reference/rms_norm.hpp"

namespace plumbline::reference::budget {

namespace {

double norm_of(const double* x, Index n) { return std::sqrt(dot(x, x, n)); }

double norm_of_products(const double* x, const double* y, Index n) {
  double total = 0;
  for (Index i = 0; i < n; ++i) total += x[i] * y[i] * x[i] * y[i];
  return std::sqrt(total);
}

}  // namespace

Estimate Estimate::columns(Index first, Index count) const {
  Estimate part;
  part.value = value.middleCols(first, count);
  part.error = error.middleCols(first, count);
  return part;
}

void Estimate::set_columns(Index first, const Estimate& part) {
  value.middleCols(first, part.cols()) = part.value;
  error.middleCols(first, part.cols()) = part.error;
}

void Estimate::cast(const Rounding& rounding) {
  if (rounding.u > 0) error.array() += kCast * rounding.u * value.array().abs() + rounding.tiny;
}

void Estimate::scale(double factor) {
  value *= factor;
  error *= std::abs(factor);
}

Arithmetic::Arithmetic(const contract::PrecisionProfile& profile)
    : compute(contract::unit_roundoff(profile.compute)),
      sum(contract::unit_roundoff(profile.accumulation)),
      tiny(contract::smallest_subnormal(profile.compute)),
      rope(profile.cast(contract::CastPoint::kRopeFactors) == profile.compute
               ? 0
               : kCast * contract::unit_roundoff(profile.cast(contract::CastPoint::kRopeFactors))),
      angle(profile.exact_angles ? 0 : kAngleRoundings * contract::unit_roundoff(NumberFormat::kFp32)) {}

void norm(double* value, double* error, const double* gain, double eps, Index n, double normalized,
          const Arithmetic& a) {
  const double rho = inverse_rms(value, n, eps);
  const double shared = rho * rho / static_cast<double>(n) * kSpreadOfBudgets * norm_of_products(value, error, n);
  const double own = 4 * a.compute + 0.5 * positive_sum(a.compute, n) + kCast * normalized;
  for (Index i = 0; i < n; ++i) {
    const double g = gain ? gain[i] : 1, x = value[i];
    value[i] = g * (x * rho);
    error[i] = std::abs(value[i]) * own + std::abs(g) * rho * (error[i] + std::abs(x) * shared) + a.tiny;
  }
}

void norm_vjp(const double* x, const double* x_error, const double* gain, double eps, Index n, double* dy,
              double* dy_error, GainTerms* gain_terms, const Arithmetic& a) {
  const double rho = inverse_rms(x, n, eps), count = static_cast<double>(n);
  const double shared = rho * rho / count * kSpreadOfBudgets * norm_of_products(x, x_error, n);
  const double own = 4 * a.compute + 0.5 * positive_sum(a.compute, n);
  double along = 0, l1 = 0, l2 = 0, from_dy = 0, from_x = 0;
  for (Index i = 0; i < n; ++i) {
    const double g = (gain ? gain[i] : 1) * dy[i], e = (gain ? std::abs(gain[i]) : 1) * dy_error[i];
    along += g * x[i];
    l1 += std::abs(g * x[i]);
    l2 += g * x[i] * g * x[i];
    from_dy += e * x[i] * e * x[i];
    from_x += g * x_error[i] * g * x_error[i];
  }
  const double sum_error = accumulation(a.compute, n, along, l1, std::sqrt(l2), 0) + a.compute * std::sqrt(l2) * 2 +
                           kSpreadOfBudgets * std::sqrt(from_dy + from_x);
  const double s = rho * rho * along / count;
  const double s_error = rho * rho / count * sum_error + std::abs(s) * (2 * own + 2 * shared);
  for (Index i = 0; i < n; ++i) {
    if (gain_terms) {
      const auto at = static_cast<std::size_t>(i);
      gain_terms->value[at] = dy[i] * (x[i] * rho);
      gain_terms->alike[at] = rho * dy[i] * x_error[i];
      gain_terms->error[at] = std::abs(gain_terms->value[at]) * (own + shared) + rho * std::abs(x[i]) * dy_error[i] +
                              std::abs(gain_terms->alike[at]);
    }
    const double g = (gain ? gain[i] : 1) * dy[i], e = (gain ? std::abs(gain[i]) : 1) * dy_error[i];
    dy_error[i] = rho * (e + std::abs(x[i]) * s_error + std::abs(s) * x_error[i]) +
                  rho * (own + shared) * (std::abs(g) + std::abs(x[i] * s)) + a.tiny;
    dy[i] = rho * (g - x[i] * s);
  }
}

Rotation::Rotation(const contract::LayerConfig& config, const Arithmetic& arithmetic)
    : a_(arithmetic), frequencies_(rope_frequencies<double>(config)) {}

void Rotation::operator()(double* value, double* error, Index width, Index t, double sign) const {
  const Index first = width - 2 * frequencies_.size();
  for (Index j = 0; j < frequencies_.size(); ++j) {
    const double angle = static_cast<double>(t) * frequencies_[j];
    const double c = std::cos(angle), s = sign * std::sin(angle), angle_error = a_.angle * angle;
    double &u = value[first + 2 * j], &v = value[first + 2 * j + 1];
    double &eu = error[first + 2 * j], &ev = error[first + 2 * j + 1];
    const double own = 2 * a_.compute + a_.rope;
    const double ru = u * c - v * s, rv = u * s + v * c;
    const double ru_error =
        std::abs(c) * eu + std::abs(s) * ev + own * (std::abs(u * c) + std::abs(v * s)) + angle_error * std::abs(rv);
    const double rv_error =
        std::abs(s) * eu + std::abs(c) * ev + own * (std::abs(u * s) + std::abs(v * c)) + angle_error * std::abs(ru);
    u = ru;
    v = rv;
    eu = ru_error;
    ev = rv_error;
  }
}

void hadamard_estimate(double* value, double* error, Index n, const Arithmetic& a) {
  const double length = norm_of(value, n), root = std::sqrt(static_cast<double>(n));
  const double shared = length > 0 ? norm_of(error, n) / length : 0;
  const double mixed = kSpreadOfBudgets * norm_of(error, n) / root +
                       kSpread * a.compute * std::sqrt(std::log2(static_cast<double>(n)) + 1) * length / root;
  hadamard(value, n);
  for (Index i = 0; i < n; ++i) error[i] = mixed + shared * std::abs(value[i]) + a.tiny;
}

}  // namespace plumbline::reference::budget
