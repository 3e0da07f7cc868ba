#pragma once
#include <array>
#include <optional>
#include <utility>

#include "reference/contract/dataset.hpp"

namespace plumbline::contract {

/// The tensors that a run produced (or a file holds), by dataset. What was not produced is absent, never zero.
template <typename Scalar>
class BasicResults {
 public:
  bool has(DatasetId id) const { return tensors_[id.index()].has_value(); }
  BasicTensor<Scalar>& at(DatasetId id) { return *tensors_[id.index()]; }
  const BasicTensor<Scalar>& at(DatasetId id) const { return *tensors_[id.index()]; }
  const BasicTensor<Scalar>* find(DatasetId id) const { return has(id) ? &at(id) : nullptr; }
  BasicTensor<Scalar>* find(DatasetId id) { return has(id) ? &at(id) : nullptr; }
  BasicTensor<Scalar>& set(DatasetId id, BasicTensor<Scalar> tensor) {
    return tensors_[id.index()].emplace(std::move(tensor));
  }
  void erase(DatasetId id) { tensors_[id.index()].reset(); }
  DatasetSet available() const {
    DatasetSet set;
    for (std::size_t i = 0; i < DatasetId::kCount; ++i) set.set(i, tensors_[i].has_value());
    return set;
  }

 private:
  std::array<std::optional<BasicTensor<Scalar>>, DatasetId::kCount> tensors_;
};

using Results = BasicResults<double>;

template <typename To, typename From>
BasicResults<To> convert(const BasicResults<From>& from) {
  BasicResults<To> to;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (const auto* tensor = from.find(DatasetId::from_index(i)))
      to.set(DatasetId::from_index(i), convert<To>(*tensor));
  return to;
}

}  // namespace plumbline::contract
