#include "reference/operation_count.hpp"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "reference/contract/case.hpp"

namespace plumbline::reference {
namespace {

using namespace contract;

StageOperations of(const std::string& text, StageId stage) {
  const Case c = *parse_case(text);
  for (const StageOperations& count : operation_counts(c.config, make_packing(c)))
    if (count.stage == stage) return count;
  return {stage, -1, -1};
}

// Three tokens, window 2: the queries see 1, 2 and 2 keys.
TEST(OperationCount, ByHandForThreeTokens) {
  const std::string text = "swa,seq=3,window=2";
  EXPECT_EQ(of(text, StageId::kQDown).forward, 2.0 * 3 * 40 * 24);
  EXPECT_EQ(of(text, StageId::kQDown).backward, 4.0 * 3 * 40 * 24);
  EXPECT_EQ(of(text, StageId::kAttnOut).forward, 4.0 * 6 * 48 * 5);
  EXPECT_EQ(of(text, StageId::kAttnOut).backward, 8.0 * 6 * 48 * 5);
  EXPECT_EQ(of(text, StageId::kIndexScores).forward, -1) << "no indexer";
}

// Nine tokens in groups of four: 0 0 0 1 1 1 1 2 2 entries are visible; one is picked at most.
TEST(OperationCount, ByHandForTheIndexer) {
  const std::string text = "csa,seq=9,index_topk=1";
  EXPECT_EQ(of(text, StageId::kIndexScores).forward, 2.0 * 5 * 16 * 8);
  EXPECT_EQ(of(text, StageId::kIndexScores).backward, 4.0 * 5 * 16 * 6);
  EXPECT_EQ(of(text + ",loss=dense", StageId::kIndexScores).backward, 4.0 * 5 * 16 * 8);
  EXPECT_EQ(of(text + ",loss=dense", StageId::kTeacher).forward, 2.0 * 6 * 48 * 8);
  EXPECT_EQ(of(text, StageId::kIndexQ).backward, of(text, StageId::kIndexQ).forward) << "the input is detached";
}

// Segments of 5 and 1 real tokens in 6 and 3 physical rows, position 1 of the first masked: 5 query rows, 6 key rows.
// Window keys 1, 2, 2, 2 and 1; visible entries 0, 1, 2, 2 and 0, of which 0, 1, 1, 1 and 0 are picked.
TEST(OperationCount, ByHandForAPackedBatchWithAMask) {
  Case c = *parse_case("csa,ratio=2,window=2,index_topk=1,seq=5+1,pad=3");
  Packing packing = make_packing(c);
  packing.row_valid[1] = 0;
  const double h = 40, heads = 6 * 48, rank = 24, o_latent = 2 * 10, index = 5 * 16;
  const std::map<StageId, std::pair<double, double>> want = {
      {StageId::kQDown, {2 * 5 * h * rank, 4 * 5 * h * rank}},
      {StageId::kQUp, {2 * 5 * rank * heads, 4 * 5 * rank * heads}},
      {StageId::kKvProj, {2 * 6 * h * 48, 4 * 6 * h * 48}},
      {StageId::kCompressedPooled, {2 * 6 * h * 2 * 96, 4 * 6 * h * 2 * 96}},
      {StageId::kIndexQ, {2 * 5 * rank * index, 2 * 5 * rank * index}},
      {StageId::kIndexPooled, {2 * 6 * h * 2 * 32, 2 * 6 * h * 2 * 32}},
      {StageId::kIndexW, {2 * 5 * h * 5, 2 * 5 * h * 5}},
      {StageId::kIndexScores, {2 * index * 5, 4 * index * 3}},
      {StageId::kAttnOut, {4 * heads * (8 + 3), 8 * heads * (8 + 3)}},
      {StageId::kOLatent, {2 * 5 * heads * 10, 4 * 5 * heads * 10}},
      {StageId::kOut, {2 * 5 * o_latent * h, 4 * 5 * o_latent * h}}};
  double forward = 0, both = 0;
  const std::vector<StageOperations> counts = operation_counts(c.config, packing);
  EXPECT_EQ(counts.size(), want.size());
  for (const StageOperations& count : counts) {
    ASSERT_TRUE(want.contains(count.stage)) << info(count.stage).name;
    EXPECT_EQ(count.forward, want.at(count.stage).first) << info(count.stage).name;
    EXPECT_EQ(count.backward, want.at(count.stage).second) << info(count.stage).name;
    forward += want.at(count.stage).first;
    both += want.at(count.stage).first + want.at(count.stage).second;
  }
  EXPECT_EQ(total_operations(c.config, packing, false), forward);
  EXPECT_EQ(total_operations(c.config, packing, true), both);
}

TEST(OperationCount, MaskedRowsAreKeysOnly) {
  EXPECT_EQ(of("csa,seq=9,mask=prefix:9", StageId::kQDown).forward, 0);
  EXPECT_EQ(of("csa,seq=9,mask=prefix:9", StageId::kKvProj).forward, 2.0 * 9 * 40 * 48);
}

// What is known of the released shape: forward 2.82 TFLOP at 8192 tokens, 2.06 of it projections, 0.62 attention, 0.14
// scores.
TEST(OperationCount, FlashAt8192) {
  const Case c = *parse_case("csa,model=flash,seq=8192");
  const Packing packing = make_packing(c);
  double projections = 0;
  for (const StageOperations& count : operation_counts(c.config, packing))
    if (count.stage != StageId::kAttnOut && count.stage != StageId::kIndexScores) projections += count.forward;
  EXPECT_NEAR(projections * 1e-12, 2.06, 0.01);
  EXPECT_NEAR(of("csa,model=flash,seq=8192", StageId::kAttnOut).forward * 1e-12, 0.62, 0.01);
  EXPECT_NEAR(of("csa,model=flash,seq=8192", StageId::kIndexScores).forward * 1e-12, 0.14, 0.01);
  EXPECT_NEAR(total_operations(c.config, packing, false) * 1e-12, 2.82, 0.01);

  // A backward pass of about 5.9 TFLOP is often quoted. It takes both vjps of every projection, though the indexer's
  // input has none, and computes the logits and the products under the ReLU again.
  const auto forward_of = [](StageId stage) { return of("csa,model=flash,seq=8192", stage).forward; };
  const double detached =
      forward_of(StageId::kIndexQ) + forward_of(StageId::kIndexPooled) + forward_of(StageId::kIndexW);
  const double again =
      forward_of(StageId::kAttnOut) / 2 + of("csa,model=flash,seq=8192", StageId::kIndexScores).backward / 2;
  const double backward = total_operations(c.config, packing, true) - total_operations(c.config, packing, false);
  EXPECT_NEAR(backward * 1e-12, 5.31, 0.01);
  EXPECT_NEAR((backward + detached + again) * 1e-12, 5.86, 0.03);
}

}  // namespace
}  // namespace plumbline::reference
