#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reference/contract/problem.hpp"
#include "reference/contract/results.hpp"

namespace plumbline::contract {

/// What is asked of one run.
struct Request {
  DatasetSet wanted;  ///< stages and gradients to return; the backward pass runs if any gradient is among them
  std::vector<Index> query_rows;         ///< physical rows whose query role is computed; empty: all valid rows
  std::function<void(double)> progress;  ///< called with a fraction in [0, 1]; may be empty
  std::function<bool()> cancelled;       ///< asked between blocks; true ends the run with kInterrupted; may be empty

  bool wants(DatasetId id) const { return wanted.test(id.index()); }
  bool wants_gradients() const {
    for (std::size_t i = 0; i < DatasetId::kCount; ++i)
      if (wanted.test(i) && DatasetId::from_index(i).is_gradient()) return true;
    return false;
  }
};

/// What an implementation says of itself; each promise is checked, a promise not made is reported as such.
struct Promises {
  bool deterministic = false;              ///< same bits from run to run
  bool thread_invariant = false;           ///< same bits for any thread count
  bool padding_invariant = false;          ///< same bits for any amount and content of padding
  DatasetSet stages = DatasetSet().set();  ///< datasets it can return
};

/// Something that computes the layer: built in, a file of outputs, a command, a shared library.
class Implementation {
 public:
  virtual ~Implementation() = default;
  virtual std::string name() const = 0;
  virtual std::string description() const = 0;
  /// The precision profile that it follows where a case names none.
  virtual std::string profile() const { return "fp64"; }
  virtual Promises promises() const = 0;
  /// OK, or kDeclined with the reason why this legal problem is not supported. Never a silent fallback.
  virtual Status supports(const LayerConfig& config, const Packing& packing) const = 0;
  /// Estimated peak memory of `run` in bytes, inputs and results included.
  virtual double memory_bytes(const LayerConfig& config, const Packing& packing, const Request& request) const = 0;
  virtual Result<Results> run(const Problem& problem, const Request& request) const = 0;
};

/// All implementations linked into this program, in order of registration.
std::vector<const Implementation*> implementations();
const Implementation* find_implementation(const std::string& name);
void register_implementation(std::unique_ptr<Implementation> implementation);

}  // namespace plumbline::contract
