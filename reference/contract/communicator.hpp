#pragma once
#include "reference/contract/types.hpp"

namespace plumbline::contract {

/// The collectives of the contract's communication tables, by the names used there.
enum class Collective : unsigned char {
  kF1Out,            ///< sum of partial `out`
  kF2aTeacherShift,  ///< max of the teacher's shift, one a row
  kF2bTeacherSum,    ///< sum over heads of the teacher's shifted mass
  kB1QLatent,        ///< sum of d q_latent
  kB2Kv,             ///< sum of d kv
  kB3CompressedKv,   ///< sum of d compressed_kv
};

/// What one rank of a sharded run says to the others. The body calls it at every place where the contract's tables
/// name a collective; the identity communicator makes each a no-op. Calls come in the same order on every rank,
/// outside any parallel region, and must return bit-identical values on all ranks.
template <typename Scalar>
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual Index rank() const { return 0; }
  virtual Index size() const { return 1; }
  virtual void all_reduce_sum(Collective, Scalar* values, Index count) = 0;
  virtual void all_reduce_max(Collective, Scalar* values, Index count) = 0;
};

/// One rank alone.
template <typename Scalar>
class IdentityCommunicator final : public Communicator<Scalar> {
 public:
  void all_reduce_sum(Collective, Scalar*, Index) override {}
  void all_reduce_max(Collective, Scalar*, Index) override {}
};

}  // namespace plumbline::contract
