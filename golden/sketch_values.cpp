#include "golden/sketch_values.hpp"

#include <algorithm>

namespace plumbline::golden {

using contract::Index;
using contract::Sketch;
using contract::SketchShape;

namespace {
constexpr Index kHead = 3 + Sketch::kProjections;
}  // namespace

Index sketch_values(const SketchShape& shape) { return kHead + shape.samples() + shape.norms(); }

std::vector<double> to_values(const Sketch& sketch, const SketchShape& shape) {
  std::vector<double> values = {static_cast<double>(sketch.counted), sketch.largest, sketch.norm};
  values.insert(values.end(), sketch.projections.begin(), sketch.projections.end());
  values.insert(values.end(), sketch.samples.begin(), sketch.samples.end());
  values.insert(values.end(), sketch.norms.begin(), sketch.norms.end());
  if (static_cast<Index>(sketch.samples.size()) != shape.samples() ||
      static_cast<Index>(sketch.norms.size()) != shape.norms())
    return {};
  return values;
}

Sketch from_values(const std::vector<double>& values, const SketchShape& shape) {
  Sketch sketch;
  // A count that is none is refused with the other values that are not finite, or compares as different.
  const double counted = values[0];
  sketch.counted = counted >= 0 && counted < 0x1p53 ? static_cast<Index>(counted) : -1;
  sketch.largest = values[1];
  sketch.norm = values[2];
  const auto projections = values.begin() + 3, samples = values.begin() + kHead, norms = samples + shape.samples();
  std::copy(projections, samples, sketch.projections.begin());
  sketch.samples.assign(samples, norms);
  sketch.norms.assign(norms, values.end());
  return sketch;
}

}  // namespace plumbline::golden
