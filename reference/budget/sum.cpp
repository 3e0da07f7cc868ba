#include "reference/budget/sum.hpp"

namespace plumbline::reference::budget {

Sum::Sum(Index rows, Index cols)
    : value_(Matrix<double>::Zero(rows, cols)),
      l1_(value_),
      squares_(value_),
      partial_(value_),
      errors_(value_),
      alike_(value_) {}

void Sum::add_outer(const Estimate& dy, const Estimate& x) {
  const Index n = dy.rows(), chunk = std::max<Index>(32, (n + 15) / 16);
  for (Index first = 0; first < n; first += chunk) {
    const Index count = std::min(chunk, n - first);
    value_.noalias() += dy.value.middleRows(first, count).transpose() * x.value.middleRows(first, count);
    partial_ = partial_.cwiseMax(value_.cwiseAbs());
  }
  if (terms_ + n <= kFewTerms) l1_.noalias() += dy.value.cwiseAbs().transpose() * x.value.cwiseAbs();
  squares_.noalias() += dy.value.cwiseAbs2().transpose() * x.value.cwiseAbs2();
  if (!dy.exact()) errors_.noalias() += dy.error.cwiseAbs2().transpose() * x.value.cwiseAbs2();
  if (!x.exact()) errors_.noalias() += dy.value.cwiseAbs2().transpose() * x.error.cwiseAbs2();
  terms_ += n;
}

void Sum::add_outer_at(Index row, Index first_column, const Estimate& left, const Estimate& right) {
  const Index rows = left.cols(), cols = right.cols();
  value_.block(row, first_column, rows, cols).noalias() += left.value.transpose() * right.value;
  l1_.block(row, first_column, rows, cols).noalias() += left.value.cwiseAbs().transpose() * right.value.cwiseAbs();
  squares_.block(row, first_column, rows, cols).noalias() +=
      left.value.cwiseAbs2().transpose() * right.value.cwiseAbs2();
  errors_.block(row, first_column, rows, cols).noalias() +=
      left.error.cwiseAbs2().transpose() * right.value.cwiseAbs2();
  if (!right.exact())
    errors_.block(row, first_column, rows, cols).noalias() +=
        left.value.cwiseAbs2().transpose() * right.error.cwiseAbs2();
}

void Sum::add(Index row, const double* value, const double* error, const double* alike) {
  for (Index c = 0; c < value_.cols(); ++c) {
    value_(row, c) += value[c];
    l1_(row, c) += std::abs(value[c]);
    squares_(row, c) += value[c] * value[c];
    partial_(row, c) = std::max(partial_(row, c), std::abs(value_(row, c)));
    errors_(row, c) += error[c] * error[c];
    if (alike) alike_(row, c) += alike[c];
  }
}

Estimate Sum::finish_row(Index row, double u, double tiny, Index terms) const {
  Estimate result(1, value_.cols());
  result.value = value_.row(row);
  for (Index c = 0; c < value_.cols(); ++c)
    result.error(0, c) =
        accumulation(u, terms, value_(row, c), l1_(row, c), std::sqrt(squares_(row, c)), partial_(row, c)) +
        kSpreadOfBudgets * std::sqrt(errors_(row, c)) + std::abs(alike_(row, c)) + static_cast<double>(terms) * tiny;
  return result;
}

Estimate Sum::finish(double u, double tiny) const {
  Estimate result(value_.rows(), value_.cols());
  for (Index r = 0; r < value_.rows(); ++r) {
    const Estimate row = finish_row(r, u, tiny, terms_);
    result.value.row(r) = row.value;
    result.error.row(r) = row.error;
  }
  return result;
}

}  // namespace plumbline::reference::budget
