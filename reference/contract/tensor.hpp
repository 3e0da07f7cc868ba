#pragma once
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "reference/contract/types.hpp"

namespace plumbline::contract {

/// Extents of a row-major tensor, outermost axis first. An empty shape is a scalar (one element).
using Shape = std::vector<Index>;

inline Index element_count(const Shape& shape) {
  Index count = 1;
  for (Index extent : shape) count *= extent;
  return count;
}

/// "[3, 4]", as it appears in messages.
inline std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(shape[axis]);
  }
  return text + "]";
}

/// An owning, dense, row-major host tensor. Selections (`topk`) are held as exact small integers in the same
/// scalar; files store them as int64.
template <typename Scalar>
class BasicTensor {
 public:
  BasicTensor() : shape_{0} {}
  explicit BasicTensor(Shape shape, Scalar fill = Scalar(0))
      : shape_(std::move(shape)), values_(static_cast<std::size_t>(element_count(shape_)), fill) {}
  BasicTensor(Shape shape, std::vector<Scalar> values) : shape_(std::move(shape)), values_(std::move(values)) {}

  const Shape& shape() const { return shape_; }
  Index rank() const { return static_cast<Index>(shape_.size()); }
  Index size() const { return static_cast<Index>(values_.size()); }
  bool empty() const { return values_.empty(); }
  /// Elements behind one index of axis 0 (the row length of a [rows, ...] tensor); 1 for a scalar.
  Index row_size() const {
    Index count = 1;
    for (std::size_t axis = 1; axis < shape_.size(); ++axis) count *= shape_[axis];
    return count;
  }

  Scalar* data() { return values_.data(); }
  const Scalar* data() const { return values_.data(); }
  Scalar& operator[](Index i) { return values_[static_cast<std::size_t>(i)]; }
  const Scalar& operator[](Index i) const { return values_[static_cast<std::size_t>(i)]; }
  std::vector<Scalar>& values() { return values_; }
  const std::vector<Scalar>& values() const { return values_; }
  Scalar* row(Index i) { return data() + i * row_size(); }
  const Scalar* row(Index i) const { return data() + i * row_size(); }

 private:
  Shape shape_;
  std::vector<Scalar> values_;
};

using Tensor = BasicTensor<double>;

/// Whether shapes and every bit agree: a NaN equals the same NaN, +0 and -0 differ.
inline bool equal_bits(const Tensor& a, const Tensor& b) {
  // The standard allows memcmp no null pointer, not even for no bytes.
  return a.shape() == b.shape() &&
         (a.size() == 0 || std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(double)) == 0);
}

/// Element-wise conversion, rounding to nearest where To is narrower.
template <typename To, typename From>
BasicTensor<To> convert(const BasicTensor<From>& from) {
  std::vector<To> values(from.values().begin(), from.values().end());
  return BasicTensor<To>(from.shape(), std::move(values));
}

}  // namespace plumbline::contract
