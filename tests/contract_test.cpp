// Every refusal of the contract's checks, and the sanity of its registries.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "reference/contract/problem.hpp"
#include "tests/problems.hpp"

namespace plumbline::contract {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

void expect_refused(const Status& status, ErrorCode code, const std::string& where, const std::string& text) {
  ASSERT_FALSE(status.ok()) << where;
  EXPECT_EQ(status.error().code, code) << status.error().text();
  EXPECT_EQ(status.error().where, where);
  EXPECT_NE(status.error().message.find(text), std::string::npos) << status.error().text();
}

struct ConfigFault {
  const char* field;
  std::function<void(LayerConfig&)> spoil;
  const char* text;
};

TEST(Config, RefusesEveryImpossibleField) {
  const std::vector<ConfigFault> faults = {
      {"hidden", [](LayerConfig& c) { c.hidden = 0; }, "got 0"},
      {"hidden", [](LayerConfig& c) { c.hidden = kMaxExtent + 1; }, "allowed: 1.."},
      {"heads", [](LayerConfig& c) { c.heads = -4; }, "got -4"},
      {"head_dim", [](LayerConfig& c) { c.head_dim = 0; }, "got 0"},
      {"rope_dim", [](LayerConfig& c) { c.rope_dim = 0; }, "got 0"},
      {"rope_dim", [](LayerConfig& c) { c.rope_dim = 7; }, "even"},
      {"rope_dim", [](LayerConfig& c) { c.rope_dim = 34; }, "<= head_dim (32)"},
      {"q_lora_rank", [](LayerConfig& c) { c.q_lora_rank = 0; }, "got 0"},
      {"o_groups", [](LayerConfig& c) { c.o_groups = 4; }, "a divisor of heads (6)"},
      {"o_lora_rank", [](LayerConfig& c) { c.o_lora_rank = 0; }, "got 0"},
      {"window", [](LayerConfig& c) { c.window = 0; }, "got 0"},
      {"ratio", [](LayerConfig& c) { c.ratio = -1; }, "got -1"},
      {"indexer",
       [](LayerConfig& c) {
         c.ratio = 1;
         c.overlap = false;
       },
       "needs ratio >= 2"},
      {"overlap",
       [](LayerConfig& c) {
         c.ratio = 0;
         c.indexer = false;
       },
       "needs ratio >= 2"},
      {"index_heads", [](LayerConfig& c) { c.index_heads = 0; }, "got 0"},
      {"index_dim", [](LayerConfig& c) { c.index_dim = 24; }, "power of two"},
      {"index_dim", [](LayerConfig& c) { c.index_dim = 4; }, ">= rope_dim (8)"},
      {"index_topk", [](LayerConfig& c) { c.index_topk = 0; }, "got 0"},
      {"rope_base", [](LayerConfig& c) { c.rope_base = 0; }, "> 0"},
      {"rope_base", [](LayerConfig& c) { c.rope_base = kNan; }, "got NaN"},
      {"rope_base", [](LayerConfig& c) { c.rope_base = 1; }, "> 1 when YaRN is on"},
      {"eps", [](LayerConfig& c) { c.eps = -1e-6; }, "> 0"},
      {"eps", [](LayerConfig& c) { c.eps = kInf; }, "got Inf"},
      {"yarn_factor", [](LayerConfig& c) { c.yarn_factor = 0; }, "> 0"},
      {"yarn_orig", [](LayerConfig& c) { c.yarn_orig = -1; }, "got -1"},
      {"yarn_orig",
       [](LayerConfig& c) {
         c.yarn_orig = 1;
         c.rope_base = 2;
       },
       "ramp"},
      {"beta_fast", [](LayerConfig& c) { c.beta_fast = 0; }, "> 0"},
      {"beta_slow", [](LayerConfig& c) { c.beta_slow = -1; }, "> 0"},
      {"loss_coeff", [](LayerConfig& c) { c.loss_coeff = kInf; }, "finite"},
      {"loss_scale", [](LayerConfig& c) { c.loss_scale = kNan; }, "finite"},
  };
  for (const ConfigFault& fault : faults) {
    LayerConfig config = tests::small_config(4, true, true);
    ASSERT_TRUE(validate(config).ok());
    fault.spoil(config);
    expect_refused(validate(config), ErrorCode::kUsage, std::string("config/") + fault.field, fault.text);
  }
}

TEST(Config, RefusesTensorsThatNoMemoryHolds) {
  LayerConfig config = tests::small_config(4, true, true);
  config.heads = config.o_groups = kMaxExtent;
  config.head_dim = kMaxExtent;
  expect_refused(validate(config), ErrorCode::kUsage, "config", "2^44 elements");
}

TEST(Config, RatioZeroAndOneBothMeanNoCompression) {
  for (const Index ratio : {0, 1}) {
    LayerConfig config = tests::small_config(ratio, false, false);
    EXPECT_TRUE(validate(config).ok());
    EXPECT_FALSE(config.compressed());
    EXPECT_FALSE(config.yarn()) << "layers without compression ignore YaRN";
  }
}

TEST(Packing, RefusesEveryInconsistency) {
  const auto refused = [](const std::function<void(Packing&)>& spoil, const char* where, const char* text) {
    Packing packing = make_packing({5, 0, 3}, 4);
    ASSERT_TRUE(validate(packing).ok());
    spoil(packing);
    expect_refused(validate(packing), ErrorCode::kUsage, where, text);
  };
  refused([](Packing& p) { p.lengths.pop_back(); }, "packing/offsets", "has 4 entries");
  refused([](Packing& p) { p.offsets[0] = 1; }, "packing/offsets", "must start at 0");
  refused([](Packing& p) { p.offsets[1] = 9; }, "packing/offsets", "go down");
  refused([](Packing& p) { p.lengths[0] = 9; }, "packing/lengths", "allowed 0..8");
  refused([](Packing& p) { p.lengths[2] = -1; }, "packing/lengths", "-1");
  refused([](Packing& p) { p.row_valid.pop_back(); }, "packing/row_valid", "has 11 rows");
  refused([](Packing& p) { p.row_valid[2] = 2; }, "packing/row_valid", "row 2 holds 2");
  refused([](Packing& p) { p.row_valid[6] = 1; }, "packing/row_valid", "padding of segment 0");
}

TEST(Packing, CountsRowsGroupsAndSegments) {
  Packing packing = make_packing({9, 0, 3}, 4);
  packing.row_valid[1] = 0;
  EXPECT_EQ(packing.tokens(), 16);
  EXPECT_EQ(packing.real_tokens(), 12);
  EXPECT_EQ(packing.valid_rows(), 11);
  EXPECT_EQ(packing.total_groups(4), 4);
  EXPECT_EQ(packing.max_groups(4), 3);
  EXPECT_EQ(packing.total_groups(1), 0);
  EXPECT_EQ(packing.segment_of(11), 0);
  EXPECT_EQ(packing.segment_of(12), 2);
  EXPECT_TRUE(packing.is_padding(9));
  EXPECT_FALSE(packing.is_padding(14));
}

class ProblemTest : public testing::Test {
 protected:
  void SetUp() override {
    Packing packing = make_packing({5, 6}, 8);
    packing.row_valid[1] = 0;
    problem_ = tests::random_problem(tests::small_config(4, true, true), packing, 1);
    ASSERT_TRUE(validate(problem_).ok());
  }
  Problem problem_;
};

TEST_F(ProblemTest, RefusesWrongShapes) {
  problem_.hidden = Tensor({16, 41});
  expect_refused(validate(problem_), ErrorCode::kUsage, "inputs/hidden", "[16, 41], want [16, 40]");
  SetUp();
  problem_.grad_out = Tensor({15, 40});
  expect_refused(validate(problem_), ErrorCode::kUsage, "inputs/grad_out", "[15, 40]");
  for (const WeightInfo& weight : kWeights) {
    SetUp();
    problem_.weight(weight.id) = Tensor({3});
    expect_refused(validate(problem_), ErrorCode::kUsage, "weights/" + std::string(weight.name), "has shape [3]");
  }
}

TEST_F(ProblemTest, RefusesNonFiniteNumbersWhereTheyCount) {
  for (const double bad : {kNan, kInf, -kInf}) {
    for (const WeightInfo& weight : kWeights) {
      SetUp();
      problem_.weight(weight.id)[1] = bad;
      if (weight.may_be_infinite && !std::isnan(bad))
        EXPECT_TRUE(validate(problem_).ok());
      else
        expect_refused(validate(problem_), ErrorCode::kNonFinite, "weights/" + std::string(weight.name), "element 1");
    }
    SetUp();
    problem_.hidden.row(1)[7] = bad;  // a masked token is a key like any other
    expect_refused(validate(problem_), ErrorCode::kNonFinite, "inputs/hidden", "row 1, channel 7");
    SetUp();
    problem_.grad_out.row(9)[2] = bad;
    expect_refused(validate(problem_), ErrorCode::kNonFinite, "inputs/grad_out", "row 9, channel 2");
    SetUp();
    problem_.grad_out.row(1)[0] = bad;  // no query role
    problem_.hidden.row(15)[0] = bad;   // padding
    EXPECT_TRUE(validate(problem_).ok());
  }
}

TEST(Registry, NamesAreUniqueAndFound) {
  std::set<std::string> paths;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    EXPECT_TRUE(paths.insert(id.path()).second) << id.path();
    ASSERT_TRUE(find_dataset(id.path()));
    EXPECT_EQ(find_dataset(id.path())->index(), i);
  }
  for (const StageInfo& stage : kStages) EXPECT_EQ(find_stage(stage.name), stage.id);
  for (const WeightInfo& weight : kWeights) EXPECT_EQ(find_weight(weight.name), weight.id);
  EXPECT_FALSE(find_dataset("forward/nothing"));
}

TEST(Registry, LayersHaveTheStagesOfTheirKind) {
  const auto count = [](Index ratio, bool overlap, bool indexer) {
    return all_datasets(tests::small_config(ratio, overlap, indexer)).count();
  };
  // 61, 43 and 35 datasets: what the oracle files of the three kinds hold.
  EXPECT_EQ(count(4, true, true), 61u);
  EXPECT_EQ(count(4, true, false), 43u);
  EXPECT_EQ(count(0, false, false), 35u);
}

TEST(Registry, EveryInputOfAStageExists) {
  for (const StageInfo& stage : kStages) {
    std::string inputs(stage.inputs);
    for (std::size_t begin = 0; begin < inputs.size();) {
      const std::size_t end = std::min(inputs.find(' ', begin), inputs.size());
      const std::string name = inputs.substr(begin, end - begin);
      const auto input = find_stage(name);
      EXPECT_TRUE(input || find_weight(name) || name == "hidden") << stage.name << " <- " << name;
      EXPECT_TRUE(!input || *input < stage.id) << stage.name << " is computed before its input " << name;
      begin = end + 1;
    }
  }
}

TEST(ExitCodes, AreThoseOfTheTable) {
  EXPECT_EQ(exit_code(ErrorCode::kCheckFailed), 1);
  EXPECT_EQ(exit_code(ErrorCode::kUsage), 2);
  EXPECT_EQ(exit_code(ErrorCode::kMemory), 2);
  EXPECT_EQ(exit_code(ErrorCode::kNothing), 3);
  EXPECT_EQ(exit_code(ErrorCode::kFile), 4);
  EXPECT_EQ(exit_code(ErrorCode::kNonFinite), 4);
  EXPECT_EQ(exit_code(ErrorCode::kCandidate), 5);
  EXPECT_EQ(exit_code(ErrorCode::kDeclined), 6);
  EXPECT_EQ(exit_code(ErrorCode::kInternal), 70);
  EXPECT_EQ(exit_code(ErrorCode::kInterrupted), 130);
}

}  // namespace
}  // namespace plumbline::contract
