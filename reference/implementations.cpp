#include "reference/implementations.hpp"

#include <memory>
#include <type_traits>

#include "reference/emulate.hpp"
#include "reference/exact.hpp"
#include "reference/memory.hpp"

namespace plumbline::reference {
namespace {

template <typename Scalar>
class ReferenceImplementation final : public contract::Implementation {
 public:
  ReferenceImplementation(std::string name, std::string description)
      : name_(std::move(name)), description_(std::move(description)) {}

  std::string name() const override { return name_; }
  std::string description() const override { return description_; }
  contract::Promises promises() const override {
    return {.deterministic = true, .thread_invariant = true, .padding_invariant = true};
  }
  contract::Status supports(const contract::LayerConfig&, const contract::Packing&) const override { return {}; }
  double memory_bytes(const contract::LayerConfig& config, const contract::Packing& packing,
                      const contract::Request& request) const override {
    return reference::memory_bytes(config, packing, request, sizeof(Scalar));
  }
  contract::Result<contract::Results> run(const contract::Problem& problem,
                                          const contract::Request& request) const override {
    auto results = run_exact<Scalar>(problem, request);
    if constexpr (std::is_same_v<Scalar, double>) {
      return results;
    } else {
      if (!results) return results.error();
      return contract::convert<double>(*results);
    }
  }

 private:
  std::string name_, description_;
};

/// A correct implementation of a lower precision: the body in fp32, summing in natural order, with every other of the
/// profile's casts.
class EmulatedImplementation final : public contract::Implementation {
 public:
  EmulatedImplementation(std::string name, std::string profile, std::string description)
      : name_(std::move(name)), profile_(std::move(profile)), description_(std::move(description)) {}

  std::string name() const override { return name_; }
  std::string description() const override { return description_; }
  std::string profile() const override { return profile_; }
  contract::Promises promises() const override {
    return {.deterministic = true, .thread_invariant = true, .padding_invariant = true};
  }
  contract::Status supports(const contract::LayerConfig&, const contract::Packing&) const override { return {}; }
  double memory_bytes(const contract::LayerConfig& config, const contract::Packing& packing,
                      const contract::Request& request) const override {
    // Inputs are rounded into a copy, results converted into another.
    return 2 * reference::memory_bytes(config, packing, request, sizeof(double));
  }
  contract::Result<contract::Results> run(const contract::Problem& problem,
                                          const contract::Request& request) const override {
    EmulationVariant variant;
    variant.shuffled = false;
    variant.store_rounded = false;
    variant.casts = std::bitset<contract::kCastPointCount>(0x1555);
    return run_emulated(problem, request, *contract::find_precision_profile(profile_), variant);
  }

 private:
  std::string name_, profile_, description_;
};

}  // namespace

void register_reference_implementations() {
  contract::register_implementation(
      std::make_unique<ReferenceImplementation<double>>("reference", "the layer in double precision"));
  contract::register_implementation(std::make_unique<ReferenceImplementation<long double>>(
      "reference-wide", "the same body in 80-bit long double: the check of double precision itself"));
  contract::register_implementation(std::make_unique<EmulatedImplementation>(
      "reference-fp32", "fp32", "the same body in single precision: a correct fp32 implementation, emulated"));
  contract::register_implementation(std::make_unique<EmulatedImplementation>(
      "reference-bf16", "bf16-fused",
      "the same body with bf16 storage and casts: a correct bf16 implementation, emulated"));
}

}  // namespace plumbline::reference
