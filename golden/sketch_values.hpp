#pragma once
#include <vector>

#include "reference/contract/sketch.hpp"

// A sketch as the values of its dataset: counted, largest, norm, the projections, the samples, the norms.
namespace plumbline::golden {

/// How many there are.
contract::Index sketch_values(const contract::SketchShape& shape);

/// Empty if the sketch is not one of that shape.
std::vector<double> to_values(const contract::Sketch& sketch, const contract::SketchShape& shape);

/// `values` has `sketch_values(shape)` of them.
contract::Sketch from_values(const std::vector<double>& values, const contract::SketchShape& shape);

}  // namespace plumbline::golden
