#pragma once
#include "reference/budget/estimate.hpp"

namespace plumbline::reference::budget {

/// A matrix that collects a sum of many terms an element: gradients of weights, of keys, of the sink.
///   B = accumulation(terms) + spread of the terms' own errors + |sum of errors alike|
class Sum {
 public:
  Sum() = default;
  Sum(Index rows, Index cols);

  /// += dy^T x, dy [rows of a token block, rows], x [same, cols]; one term a token.
  void add_outer(const Estimate& dy, const Estimate& x);
  /// Row `row` += one term. `alike`, which may be null: the part of its error that other terms may share in size and
  /// sign, with its sign (values that lie within one ulp of each other are rounded alike).
  void add(Index row, const double* value, const double* error, const double* alike = nullptr);
  /// Rows [row, row + n) += left^T right + left2^T right2 in the manner of add_outer, without probing partial sums.
  void add_outer_at(Index row, Index first_column, const Estimate& left, const Estimate& right);

  /// Rows [row, ...) also err by `errors`, independently of all else: for errors that several terms share.
  void add_errors(Index row, const Matrix<double>& errors) {
    errors_.middleRows(row, errors.rows()) += errors.cwiseAbs2();
  }
  /// As `alike` of `add`.
  void add_alike(Index row, const Matrix<double>& errors) { alike_.middleRows(row, errors.rows()) += errors; }

  bool empty() const { return value_.size() == 0; }
  Index terms() const { return terms_; }
  void set_terms(Index terms) { terms_ = terms; }
  /// The sum with its error; `u` of one addition.
  Estimate finish(double u, double tiny) const;
  Estimate finish_row(Index row, double u, double tiny, Index terms) const;

 private:
  Matrix<double> value_, l1_, squares_, partial_, errors_, alike_;
  Index terms_ = 0;
};

}  // namespace plumbline::reference::budget
