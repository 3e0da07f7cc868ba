// Double precision against the same body in long double, over many layers, batches and distributions.
#include <array>
#include <random>

#include "compare/golden_rule.hpp"
#include "tests/layer_runs.hpp"

namespace plumbline::tests {
namespace {

/// A random legal case, as its string.
class CaseDraw {
 public:
  explicit CaseDraw(std::uint64_t seed) : engine_(seed), seed_(seed) {}

  std::string draw(const char* regime) {
    text_ = pick<const char*>({"swa", "csa", "csa", "csa", "hca"});
    const bool swa = text_ == "swa";
    set("data", regime);
    if (!swa) {
      set("ratio", between(2, 9));
      set("overlap", pick<const char*>({"on", "off"}));
      if (between(0, 3) > 0)
        draw_indexer();
      else
        set("indexer", "off");
    }
    draw_sizes();
    draw_batch();
    return text_ + ",seed=" + std::to_string(seed_);
  }

 private:
  void draw_indexer() {
    set("indexer", "on");
    set("index_heads", between(1, 9));
    set("index_dim", pick<Index>({8, 16, 32}));
    set("index_topk", pick<Index>({1, 2, 3, 5, 8, 100}));
    set("loss", pick<const char*>({"sparse", "dense"}));
    set("per_token_loss", pick<const char*>({"on", "off"}));
    set("loss_scale", pick<const char*>({"1", "128", "0.5"}));
    if (between(0, 3) == 0) set("teacher", "compressed_only");
  }
  void draw_sizes() {
    const Index groups = between(1, 3);
    set("o_groups", groups);
    set("heads", groups * between(1, 4));
    set("rope_dim", pick<Index>({2, 6, 8}));
    set("head_dim", between(8, 40));
    set("hidden", between(3, 50));
    set("q_lora_rank", between(2, 30));
    set("o_lora_rank", between(1, 12));
    set("window", between(2, 20));
    set("yarn_orig", pick<Index>({0, 64, 256, 3000}));
    set("eps", pick<const char*>({"1e-6", "1e-5", "0.01"}));
  }
  void draw_batch() {
    const std::string sink = pick<const char*>({"normal", "normal", "-inf", "inf:0", "30", "-700"});
    set("sink", sink.c_str());
    // Without a sink, a query that sees one key has no gradient but rounding: some rows must see more.
    std::string lengths = sink[0] == '-' ? "20" : "";
    for (Index segments = between(1, 4); segments > 0; --segments)
      lengths += (lengths.empty() ? "" : "+") + std::to_string(pick<Index>({0, 1, between(2, 20), between(20, 80)}));
    set("seq", lengths.c_str());
    set("pad", between(1, 9));
    set("mask", pick<const char*>({"none", "random:0.3", "prefix:4"}));
  }

  Index between(Index low, Index high) { return low + static_cast<Index>(engine_() % std::uint64_t(high - low + 1)); }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[engine_() % values.size()];
  }
  void set(const char* key, const char* value) { text_ += std::string(",") + key + "=" + value; }
  void set(const char* key, Index value) { set(key, std::to_string(value).c_str()); }

  std::mt19937_64 engine_;
  std::uint64_t seed_;
  std::string text_;
};

class WideProperty : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Regimes, WideProperty,
                         testing::Values("ints", "normal", "peaky", "negative", "flat", "ties", "outliers", "heavy"),
                         [](const auto& test) { return std::string(test.param); });

/// Keys that all point the same way have nearly the same dp: dz = p (dp - delta) then is a difference of numbers ten
/// times larger, and more.
compare::Limits limits_of(std::string_view regime) {
  return {.gradient = regime == "negative" ? 1e-11 : 1e-12, .kl_by_condition = true};
}

TEST_P(WideProperty, DoubleAgreesWithLongDouble) {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const std::string text = CaseDraw(seed).draw(GetParam());
    const auto parsed = parse_case(text);
    ASSERT_TRUE(parsed.ok()) << parsed.error().text();
    const auto problem = make_problem(*parsed);
    ASSERT_TRUE(problem.ok());
    const Results wide = convert<double>(run<long double>(*problem));
    for (const auto& v : compare::compare_by_golden_rule(*problem, wide, run(*problem), limits_of(GetParam())))
      EXPECT_NE(v.verdict, compare::Verdict::kFail) << v.id.path() << " error " << v.error << " limit " << v.limit
                                                    << " got " << v.got << " want " << v.want << "\n  " << text;
  }
}

/// What the comparison above would see: a rounding to single precision anywhere.
TEST(Wide, SinglePrecisionIsSeen) {
  const Problem problem = case_problem("csa,seq=37+9,pad=4,seed=1");
  const Results wide = convert<double>(run<long double>(problem)), exact = run(problem);
  for_each_dataset(exact, [&](DatasetId id, const Tensor& tensor) {
    Results rounded = exact;
    for (Index e = 0; e < tensor.size(); ++e) rounded.at(id)[e] = double(float(tensor[e]));
    if (same_values(exact, rounded)) return;  // small integers, and grad_out as it is drawn, are floats
    for (const auto& v : compare::compare_by_golden_rule(problem, wide, rounded, {.kl_by_condition = true}))
      EXPECT_EQ(v.verdict == compare::Verdict::kFail, v.id == id) << v.id.path();
  });
}

}  // namespace
}  // namespace plumbline::tests
