#include <algorithm>
#include <limits>
#include <new>

#include "reference/contract/case.hpp"

namespace plumbline::contract {
namespace {

/// Fewer values than this are made by one thread.
constexpr Index kThreadedValues = 1 << 16;

void fill_rows(const Case& c, const Packing& packing, Problem& problem) {
  const Index width = c.config.hidden;
  const double poison = std::numeric_limits<double>::quiet_NaN();
  problem.hidden = Tensor({packing.tokens(), width}, poison);
  problem.grad_out = Tensor({packing.tokens(), width}, poison);
  for (Index b = 0; b < packing.segments(); ++b) {
#pragma omp parallel for schedule(static) if (packing.lengths[static_cast <std::size_t>(b)] * width > kThreadedValues)
    for (Index t = 0; t < packing.lengths[static_cast<std::size_t>(b)]; ++t) {
      const Index row = packing.offsets[static_cast<std::size_t>(b)] + t;
      for (Index i = 0; i < width; ++i) {
        problem.hidden.row(row)[i] = hidden_value(c.config, c.data, c.seed, b, t, i);
        if (packing.row_valid[static_cast<std::size_t>(row)])
          problem.grad_out.row(row)[i] = grad_out_value(c.config, c.data, c.seed, b, t, i);
      }
    }
  }
}

Tensor make_weight(const Case& c, const Packing& packing, const WeightInfo& weight) {
  Tensor tensor(shape_of(weight.axes, c.config, packing));
#pragma omp parallel for schedule(static) if (tensor.size() > kThreadedValues)
  for (Index i = 0; i < tensor.size(); ++i) tensor[i] = weight_value(c.config, c.data, c.seed, weight.id, i);
  if (weight.id == WeightId::kAttnSink && c.sink.value) {
    if (c.sink.head)
      tensor[*c.sink.head] = *c.sink.value;
    else
      std::fill(tensor.values().begin(), tensor.values().end(), *c.sink.value);
  }
  return tensor;
}

}  // namespace

Packing make_packing(const Case& c) {
  Packing packing = make_packing(c.lengths, c.pad);
  for (Index b = 0; b < packing.segments(); ++b) {
    const auto segment = static_cast<std::size_t>(b);
    for (Index t = 0; t < packing.lengths[segment]; ++t) {
      const bool masked = c.mask.kind == MaskSpec::Kind::kRandom   ? masked_at_random(c.seed, b, t, c.mask.probability)
                          : c.mask.kind == MaskSpec::Kind::kPrefix ? t < c.mask.prefix
                                                                   : false;
      if (masked) packing.row_valid[static_cast<std::size_t>(packing.offsets[segment] + t)] = 0;
    }
  }
  return packing;
}

double problem_bytes(const Case& c) {
  const LayerConfig& k = c.config;
  double tokens = 0;
  for (const Index length : c.lengths) tokens += double((length + c.pad - 1) / c.pad * c.pad);
  double elements = 2 * tokens * double(k.hidden);
  for (const WeightInfo& weight : kWeights) {
    if (!present(weight.presence, k)) continue;
    double size = 1;
    for (const Axis axis : weight.axes)
      if (axis != Axis::kNone) size *= double(extent(axis, k, Packing{}));
    elements += size;
  }
  return 8 * elements + tokens;
}

Result<Problem> make_problem(const Case& c) {
  if (!c.file.empty()) return usage_error("file", "a case 'file=" + c.file + "' is read from the file, not generated");
  try {
    Problem problem;
    problem.config = c.config;
    problem.packing = make_packing(c);
    fill_rows(c, problem.packing, problem);
    for (const WeightInfo& weight : kWeights)
      if (present(weight.presence, c.config)) problem.weight(weight.id) = make_weight(c, problem.packing, weight);
    return problem;
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kMemory, "the case's tensors do not fit the memory; shorten seq or choose a smaller model",
                 print(c)};
  }
}

}  // namespace plumbline::contract
