#pragma once
#include "reference/contract/types.hpp"

namespace plumbline::contract {

/// The collectives of the contract's communication tables. F and B: over the ranks that share a batch's heads (tensor
/// parallel); C: over the ranks that share its tokens (context parallel).
enum class Collective : unsigned char {
  kF1Out,            ///< sum of partial `out`
  kF2aTeacherShift,  ///< max of the teacher's shift, one a row
  kF2bTeacherSum,    ///< sum over heads of the teacher's shifted mass
  kB1QLatent,        ///< sum of d q_latent
  kB2Kv,             ///< sum of d kv
  kB3CompressedKv,   ///< sum of d compressed_kv
  kCCompressedKv,    ///< gather of compressed_kv
  kCIndexK,          ///< gather of index_k
  kCDCompressedKv,   ///< sum of d compressed_kv, each rank keeping its own entries
  kCDIndexK,         ///< sum of d index_k, likewise
  kCKlSum,           ///< sum of kl_rows
  kCMaxLogits,       ///< max of max_logits
};

/// Whether the collective is among the ranks that share heads; the others are among those that share tokens.
constexpr bool is_over_heads(Collective c) { return c <= Collective::kB3CompressedKv; }

/// The rows of a matrix, [total, row_size], that one rank holds: [begin, end). Ranks' rows follow one another.
struct RowShare {
  Index begin = 0;
  Index end = 0;
  Index total = 0;
  Index row_size = 0;
};

/// What one rank of a sharded run says to the others. The body calls it at every place where the contract's tables
/// name a collective; the identity communicator makes each a no-op. Calls come in the same order on every rank,
/// outside any parallel region, and must return bit-identical values on all ranks.
template <typename Scalar>
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual void all_reduce_sum(Collective, Scalar* values, Index count) = 0;
  virtual void all_reduce_max(Collective, Scalar* values, Index count) = 0;
  /// `rows` is the whole matrix; on return the other ranks' rows are filled in.
  virtual void all_gather_rows(Collective, Scalar* rows, RowShare own) = 0;
  /// `rows` is the whole matrix of this rank's contributions; on return its own rows hold the sum over ranks.
  virtual void reduce_scatter_rows(Collective, Scalar* rows, RowShare own) = 0;
};

/// One rank alone.
template <typename Scalar>
class IdentityCommunicator final : public Communicator<Scalar> {
 public:
  void all_reduce_sum(Collective, Scalar*, Index) override {}
  void all_reduce_max(Collective, Scalar*, Index) override {}
  void all_gather_rows(Collective, Scalar*, RowShare) override {}
  void reduce_scatter_rows(Collective, Scalar*, RowShare) override {}
};

}  // namespace plumbline::contract
