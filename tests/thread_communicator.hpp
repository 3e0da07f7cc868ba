#pragma once
#include <algorithm>
#include <barrier>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "reference/contract/communicator.hpp"

namespace plumbline::tests {

using contract::Collective;
using contract::Index;
using contract::RowShare;

/// What the ranks of a group share between them.
enum class Sharing { kHeads, kTokens };

/// Ranks as threads of this process, sharing heads or tokens: collectives of the other kind are no-ops, as for a group
/// of one. Every reduction adds up in rank order, so all ranks get the same bits. Collectives named in `broken` do
/// nothing: a test's proof that it would see them missing.
template <typename Scalar>
class ThreadGroup {
 public:
  ThreadGroup(Index ranks, Sharing sharing, std::set<Collective> broken = {})
      : sharing_(sharing),
        barrier_(ranks),
        parts_(static_cast<std::size_t>(ranks)),
        shares_(parts_.size()),
        broken_(std::move(broken)) {}

  /// Calls body(rank, communicator) on one thread a rank and waits for all.
  void run(const std::function<void(Index, contract::Communicator<Scalar>&)>& body) {
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < parts_.size(); ++rank)
      threads.emplace_back([this, rank, &body] {
        Member member(*this, rank);
        body(static_cast<Index>(rank), member);
      });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  class Member final : public contract::Communicator<Scalar> {
   public:
    Member(ThreadGroup& group, std::size_t rank) : group_(group), rank_(rank) {}

    void all_reduce_sum(Collective c, Scalar* values, Index count) override {
      reduce(c, values, count, [](Scalar a, Scalar b) { return a + b; });
    }
    void all_reduce_max(Collective c, Scalar* values, Index count) override {
      reduce(c, values, count, [](Scalar a, Scalar b) { return std::max(a, b); });
    }
    void all_gather_rows(Collective c, Scalar* rows, RowShare own) override {
      if (!group_.serves(c)) return;
      publish(rows, own);
      for (std::size_t r = 0; r < group_.parts_.size(); ++r) {
        const RowShare& share = group_.shares_[r];
        if (r != rank_)
          std::copy(group_.parts_[r] + share.begin * share.row_size, group_.parts_[r] + share.end * share.row_size,
                    rows + share.begin * share.row_size);
      }
      group_.barrier_.arrive_and_wait();
    }
    void reduce_scatter_rows(Collective c, Scalar* rows, RowShare own) override {
      if (!group_.serves(c)) return;
      publish(rows, own);
      std::vector<Scalar> total(static_cast<std::size_t>((own.end - own.begin) * own.row_size), Scalar(0));
      for (Scalar* part : group_.parts_)
        for (std::size_t i = 0; i < total.size(); ++i)
          total[i] += part[own.begin * own.row_size + static_cast<Index>(i)];
      group_.barrier_.arrive_and_wait();
      std::copy(total.begin(), total.end(), rows + own.begin * own.row_size);
    }

   private:
    template <typename Combine>
    void reduce(Collective c, Scalar* values, Index count, Combine combine) {
      if (!group_.serves(c)) return;
      publish(values, {});
      std::vector<Scalar> total(group_.parts_[0], group_.parts_[0] + count);
      for (std::size_t r = 1; r < group_.parts_.size(); ++r)
        for (Index i = 0; i < count; ++i)
          total[static_cast<std::size_t>(i)] = combine(total[static_cast<std::size_t>(i)], group_.parts_[r][i]);
      group_.barrier_.arrive_and_wait();
      std::copy(total.begin(), total.end(), values);
    }
    void publish(Scalar* values, RowShare own) {
      group_.parts_[rank_] = values;
      group_.shares_[rank_] = own;
      group_.barrier_.arrive_and_wait();
    }

    ThreadGroup& group_;
    std::size_t rank_;
  };

  bool serves(Collective c) const {
    return contract::is_over_heads(c) == (sharing_ == Sharing::kHeads) && broken_.count(c) == 0;
  }

  Sharing sharing_;
  std::barrier<> barrier_;
  std::vector<Scalar*> parts_;
  std::vector<RowShare> shares_;
  std::set<Collective> broken_;
};

}  // namespace plumbline::tests
