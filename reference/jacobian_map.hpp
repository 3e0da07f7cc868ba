#pragma once
#include <functional>
#include <string>
#include <vector>

#include "reference/jacobian.hpp"
#include "reference/matrix.hpp"

// The maps of the layer that are not matrix products, one by one: the function itself, its dense Jacobian and its vjp,
// each from the code that the layer runs, at one point.
namespace plumbline::reference {

/// A map R^inputs -> R^outputs at the point `x`, with everything that the reference knows of its derivative.
struct JacobianMap {
  std::string name, at, formula;
  std::vector<double> x;  ///< all inputs, one after another
  double length = 1;      ///< change of an input over which it bends
  Matrix<double> dense;   ///< [outputs, inputs]
  double scale = 0;       ///< largest |element| of it, the terms of its formula by absolute value: what rounds
  std::function<std::vector<double>(const std::vector<double>&)> vjp;  ///< cotangent of outputs -> of inputs
  std::function<std::vector<long double>(const std::vector<long double>&)> value;
};

/// Rotation at position t of a vector of x.size() channels, or with `inverse` its inverse.
JacobianMap rope_map(const contract::LayerConfig& config, std::vector<double> x, Index t, bool inverse, std::string at);

/// Root-mean-square norm. Inputs: x, then the gain; an empty gain stands for the weightless norm.
JacobianMap rms_norm_map(double eps, const std::vector<double>& x, const std::vector<double>& gain, std::string at);

/// Hadamard transform of x.size() channels, a power of two.
JacobianMap hadamard_map(std::vector<double> x, std::string at);

/// Probabilities of attention logits beside a sink, which may be infinite. Inputs: the logits, then the sink.
JacobianMap sink_softmax_map(std::vector<double> logits, double sink, std::string at);

/// Softmax pooling of one group, `width` channels. Inputs: values [slots, width], then logits [slots, width] with the
/// position bias included.
JacobianMap pooling_map(const std::vector<double>& values, const std::vector<double>& logits, Index width,
                        std::string at);

/// Compares the dense Jacobian with the vjp and with the function's differences. An error that is not finite is
/// reported as +inf.
JacobianReport check(const JacobianMap& map);

}  // namespace plumbline::reference
