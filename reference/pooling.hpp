#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/matrix.hpp"

namespace plumbline::reference {

/// One slot of a group in softmax pooling: pointers to `width` channels of its values, its logits (position bias not
/// included) and its position bias.
template <typename Scalar>
struct PoolSlot {
  const Scalar* value;
  const Scalar* logit;
  const Scalar* bias;
};

/// Softmax weights of a group, per channel over its slots: weight[slot, c] = softmax_slot(logit + bias)[slot, c].
/// [slots, width]; slots >= 1.
template <typename Scalar>
void pooling_weights(const std::vector<PoolSlot<Scalar>>& slots, Index width, Matrix<Scalar>& weight) {
  using std::exp;
  const Index n = static_cast<Index>(slots.size());
  weight.resize(n, width);
  for (Index k = 0; k < n; ++k)
    for (Index c = 0; c < width; ++c) weight(k, c) = slots[k].logit[c] + slots[k].bias[c];
  Vector<Scalar> top = weight.colwise().maxCoeff().transpose();
  Vector<Scalar> total = Vector<Scalar>::Zero(width);
  for (Index k = 0; k < n; ++k)
    for (Index c = 0; c < width; ++c) {
      weight(k, c) = exp(weight(k, c) - top[c]);
      total[c] += weight(k, c);
    }
  for (Index k = 0; k < n; ++k)
    for (Index c = 0; c < width; ++c) weight(k, c) /= total[c];
}

/// pooled[c] = sum_slot weight[slot, c] * value[slot, c].
template <typename Scalar>
void pool(const std::vector<PoolSlot<Scalar>>& slots, const Matrix<Scalar>& weight, Index width, Scalar* pooled) {
  std::fill(pooled, pooled + width, Scalar(0));
  for (std::size_t k = 0; k < slots.size(); ++k)
    for (Index c = 0; c < width; ++c) pooled[c] += weight(static_cast<Index>(k), c) * slots[k].value[c];
}

/// vjp for one slot, given the cotangent of pooled:
///   dvalue = weight * dpooled      dlogit = dbias = weight * (value - pooled) * dpooled
template <typename Scalar>
void pool_vjp(const Scalar* weight, const Scalar* value, const Scalar* pooled, const Scalar* dpooled, Index width,
              Scalar* dvalue, Scalar* dlogit) {
  for (Index c = 0; c < width; ++c) {
    dvalue[c] = weight[c] * dpooled[c];
    dlogit[c] = weight[c] * (value[c] - pooled[c]) * dpooled[c];
  }
}

/// Dense Jacobian with respect to the values [slots, width], then the logits [slots, width] (bias included):
/// [width, 2 * slots * width], dpooled[c]/dvalue[k,c] = w[k,c], dpooled[c]/dlogit[k,c] = w[k,c] (value[k,c] -
/// pooled[c]), zero between different channels.
template <typename Scalar>
Matrix<Scalar> pooling_jacobian(ConstMatrixMap<Scalar> value, ConstMatrixMap<Scalar> logit) {
  const Index slots = value.rows(), width = value.cols();
  Matrix<Scalar> jacobian = Matrix<Scalar>::Zero(width, 2 * slots * width);
  for (Index c = 0; c < width; ++c) {
    Vector<Scalar> weight = (logit.col(c).array() - logit.col(c).maxCoeff()).exp();
    weight /= weight.sum();
    const Scalar pooled = weight.dot(value.col(c));
    for (Index k = 0; k < slots; ++k) {
      jacobian(c, k * width + c) = weight[k];
      jacobian(c, (slots + k) * width + c) = weight[k] * (value(k, c) - pooled);
    }
  }
  return jacobian;
}

}  // namespace plumbline::reference
