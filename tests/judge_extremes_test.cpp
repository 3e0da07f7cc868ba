// The judge where numbers are extreme: correct code raises no alarm, wrong code is named at its stage. Large logits,
// heads that underflow beside their sink, divergences that cancel, sums of one and of four terms.
#include <gmock/gmock.h>

#include <bitset>

#include "compare/judge.hpp"
#include "reference/contract/number_format.hpp"
#include "reference/emulate.hpp"
#include "tests/attended_query.hpp"
#include "tests/layer_runs.hpp"

namespace plumbline::tests {
namespace {

constexpr DatasetId fwd(StageId id) { return DatasetId::forward(id); }
constexpr DatasetId grad(StageId id) { return DatasetId::gradient(id); }
constexpr DatasetId grad(WeightId id) { return DatasetId::gradient(id); }

/// One problem and profile, with a correct run of it.
struct Bench {
  PrecisionProfile profile;
  compare::Truth truth;
  Results correct;

  Bench(const Problem& problem, const char* profile_name) : profile(*find_precision_profile(profile_name)) {
    auto made = compare::make_truth(problem, profile, {});
    if (!made) throw std::runtime_error(made.error().text());
    truth = std::move(*made);
    correct = emulate(reference::draw_variant(1u << 20));
  }

  Results emulate(const reference::EmulationVariant& variant) const {
    auto run = reference::run_emulated(truth.problem, truth.request, profile, variant);
    if (!run) throw std::runtime_error(run.error().text());
    return std::move(*run);
  }
  std::string judge(const Results& results) const {
    auto judgement = compare::judge(truth, profile, results);
    if (!judgement) throw std::runtime_error(judgement.error().text());
    return judgement->first_wrong ? judgement->first_wrong->path() : "none";
  }
  const Tensor& true_value(DatasetId id) const { return truth.values.at(id); }
  double stored(DatasetId id, double value) const { return round_to(profile.stored(id), value); }
  AttendedQuery query(Index row) const { return attended_query(truth.problem, correct, row); }
  Index tokens() const { return truth.problem.packing.tokens(); }

  /// The correct run with other values in one row of a stage.
  Results with_row(DatasetId id, Index row, const std::vector<double>& values) const {
    Results got = correct;
    for (std::size_t c = 0; c < values.size(); ++c) got.at(id).row(row)[c] = stored(id, values[c]);
    return got;
  }
};

/// Correct implementations with orders, tilings and cast lists of their own.
void expect_no_alarm(const Bench& bench) {
  for (std::uint64_t seed = 100; seed < 112; ++seed) {
    reference::EmulationVariant variant = reference::draw_variant(seed);
    if (seed % 3 == 1) variant.casts = std::bitset<kCastPointCount>(seed * 0x9e3779b97f4a7c15u >> 40);
    if (seed % 3 == 2) variant.store_rounded = !variant.store_rounded;
    EXPECT_EQ(bench.judge(bench.emulate(variant)), "none") << bench.profile.name << " seed " << seed;
  }
}

constexpr const char* kProfiles[] = {"fp32", "bf16-fused", "bf16-eager"};

// Large logits.

double largest_logit(const Results& results) {
  const Tensor& of_heads = results.at(fwd(StageId::kMaxLogits));
  return *std::max_element(of_heads.values().begin(), of_heads.values().end());
}

/// The problem with its keys scaled so that the largest logit is `largest`: logits are linear in the keys' gains.
Problem with_largest_logit(Problem problem, double largest) {
  Request only;
  only.wanted.set(fwd(StageId::kMaxLogits).index());
  const double factor = largest / largest_logit(run(problem, only));
  for (const WeightId gain : {WeightId::kKvNorm, WeightId::kCompressorNorm})
    for (double& value : problem.weight(gain).values()) value *= factor;
  return problem;
}

TEST(JudgeExtremes, LargeLogits) {
  for (const char* data : {"peaky", "heavy", "outliers"})
    for (const char* profile : kProfiles) {
      SCOPED_TRACE(std::string(data) + " " + profile);
      const Bench bench(with_largest_logit(case_problem(std::string("csa,seq=64,seed=3,data=") + data), 350), profile);
      EXPECT_GT(largest_logit(bench.truth.values), 340);
      expect_no_alarm(bench);

      const Index row = bench.tokens() - 1;
      const AttendedQuery query = bench.query(row);
      // The key that one head looks at most.
      const auto p = query.probabilities();
      const auto most = std::max_element(p[0].begin(), p[0].end()) - p[0].begin();
      const AttendedQuery rest = query.without_key(most);
      Results dropped = bench.with_row(fwd(StageId::kAttnOut), row, rest.out());
      std::ranges::copy(rest.all_lse(), dropped.at(fwd(StageId::kAttnLse)).row(row));
      EXPECT_EQ(bench.judge(dropped), "forward/attn_out") << "dropped key";
      EXPECT_EQ(bench.judge(bench.with_row(fwd(StageId::kAttnLse), row, rest.all_lse())), "forward/attn_lse");

      AttendedQuery unscaled = query;
      for (std::vector<double>& logits : unscaled.z)
        for (double& z : logits) z *= std::sqrt(static_cast<double>(unscaled.dim));
      EXPECT_EQ(bench.judge(bench.with_row(fwd(StageId::kAttnLse), row, unscaled.all_lse())), "forward/attn_lse");

      // Some query has its largest logit in a later tile of 4 keys.
      Index rescaled = row;
      while (bench.query(rescaled).out_without_rescale(4) == bench.query(rescaled).out()) --rescaled;
      EXPECT_EQ(
          bench.judge(bench.with_row(fwd(StageId::kAttnOut), rescaled, bench.query(rescaled).out_without_rescale(4))),
          "forward/attn_out")
          << "missed rescale in row " << rescaled;

      Results unscaled_maximum = bench.correct;
      unscaled_maximum.at(fwd(StageId::kMaxLogits))[2] *= std::sqrt(static_cast<double>(query.dim));
      EXPECT_EQ(bench.judge(unscaled_maximum), "forward/max_logits");
    }
}

// Heads that underflow.

TEST(JudgeExtremes, HeadsUnderflowBesideTheirSink) {
  for (const char* profile : kProfiles) {
    SCOPED_TRACE(profile);
    const Bench bench(case_problem("csa,seq=48,seed=5,sink=700"), profile);
    const Tensor& out = bench.true_value(fwd(StageId::kAttnOut));
    for (Index e = 0; e < out.size(); ++e) ASSERT_LT(std::abs(out[e]), 1e-290);
    ASSERT_FALSE(all_zero(out));
    ASSERT_TRUE(all_zero(bench.correct.at(fwd(StageId::kAttnOut)))) << "p is no number of fp32";
    const Tensor& teacher = bench.true_value(fwd(StageId::kTeacher));
    const Index row = bench.tokens() - 1;
    ASSERT_NEAR(std::accumulate(teacher.row(row), teacher.row(row) + teacher.row_size(), 0.0), 1, 1e-12);
    expect_no_alarm(bench);

    AttendedQuery no_sink = bench.query(row);
    for (double& sink : no_sink.sink) sink = -kInfinity;
    EXPECT_EQ(bench.judge(bench.with_row(fwd(StageId::kAttnLse), row, no_sink.all_lse())), "forward/attn_lse");
    EXPECT_EQ(bench.judge(bench.with_row(fwd(StageId::kAttnOut), row, no_sink.out())), "forward/attn_out");
    // A teacher whose mass underflows as it is not divided by its largest share.
    EXPECT_EQ(bench.judge(bench.with_row(fwd(StageId::kTeacher), row,
                                         std::vector<double>(static_cast<std::size_t>(teacher.row_size()), 0.0))),
              "forward/teacher");
    Results not_a_number = bench.correct;
    not_a_number.at(fwd(StageId::kTeacher)).row(row)[0] = std::nan("");
    EXPECT_EQ(bench.judge(not_a_number), "forward/teacher");
    Results sink = bench.correct;
    for (double& value : sink.at(grad(WeightId::kAttnSink)).values()) value = 1e-3;
    EXPECT_EQ(bench.judge(sink), "grad/weights/attn_sink") << "delta that lacks exp(-lse)";
  }
}

/// Logits up to the sink's 700: some queries underflow, others share with the sink.
TEST(JudgeExtremes, LogitsAsLargeAsTheirSink) {
  for (const char* profile : kProfiles) {
    SCOPED_TRACE(profile);
    const Bench bench(with_largest_logit(case_problem("csa,seq=48,seed=5,sink=700,data=peaky"), 701), profile);
    const Tensor& lse = bench.true_value(fwd(StageId::kAttnLse));
    EXPECT_TRUE(std::ranges::any_of(lse.values(), [](double v) { return v > 700.05; }));
    EXPECT_TRUE(std::ranges::any_of(lse.values(), [](double v) { return v == 700; }));
    expect_no_alarm(bench);
    Results got = bench.correct;
    for (double& value : got.at(grad(WeightId::kAttnSink)).values()) value = -value;
    EXPECT_EQ(bench.judge(got), "grad/weights/attn_sink") << "wrong sign";
    const Index row =
        static_cast<Index>(std::max_element(lse.values().begin(), lse.values().end()) - lse.values().begin()) /
        lse.row_size();
    AttendedQuery no_sink = bench.query(row);
    for (double& sink : no_sink.sink) sink = -kInfinity;
    EXPECT_EQ(bench.judge(bench.with_row(fwd(StageId::kAttnLse), row, no_sink.all_lse())), "forward/attn_lse");
    EXPECT_EQ(bench.judge(bench.with_row(fwd(StageId::kAttnOut), row, no_sink.out())), "forward/attn_out");
  }
}

// Divergences that cancel.

/// sum of teacher (|ln teacher| + |ln predict|) over kl: how many of the terms' digits the sum loses.
double cancellation(const Bench& bench, Index row) {
  const Tensor &teacher = bench.true_value(fwd(StageId::kTeacher)), &predict = bench.true_value(fwd(StageId::kPredict));
  double size = 0;
  for (Index g = 0; g < teacher.row_size(); ++g)
    if (const double t = teacher.row(row)[g]; t > 0) size += t * std::abs(std::log(t) + std::log(predict.row(row)[g]));
  return size / bench.true_value(fwd(StageId::kKlRows))[row];
}

/// Flat keys make the teacher nearly uniform, small weights of the indexer's heads the prediction.
Problem nearly_uniform(const char* text, double index_weight) {
  Problem problem = case_problem(text);
  for (double& value : problem.weight(WeightId::kIndexerWeightsProj).values()) value *= index_weight;
  return problem;
}

TEST(JudgeExtremes, DivergenceThatCancels) {
  const DatasetId kl = fwd(StageId::kKlRows);
  for (const char* text : {"csa,seq=64,data=flat,seed=2", "csa,seq=64,data=flat,loss=dense,seed=2"}) {
    SCOPED_TRACE(text);
    for (const char* profile : kProfiles) expect_no_alarm(Bench(nearly_uniform(text, 0.5), profile));
    const Bench bench(nearly_uniform(text, 0.5), "fp32");
    const Tensor& truth = bench.true_value(kl);
    Index row = -1;  // the largest that cancels so much
    for (Index r = 0; r < bench.tokens(); ++r)
      if (truth[r] > 0 && cancellation(bench, r) > 300 && (row < 0 || truth[r] > truth[row])) row = r;
    ASSERT_GE(row, 0);
    Results got = bench.correct;
    got.at(kl)[row] *= 1.001;
    EXPECT_EQ(bench.judge(got), "forward/kl_rows") << "relative 1e-3 at " << truth[row];

    got = bench.correct;
    const Tensor &teacher = bench.correct.at(fwd(StageId::kTeacher)),
                 &predict = bench.correct.at(fwd(StageId::kPredict));
    for (Index r = 0; r < bench.tokens(); ++r) {
      double sum = 0;
      for (Index g = 0; g < teacher.row_size(); ++g) {
        const auto bf16 = [](double x) { return round_to(NumberFormat::kBf16, x); };
        const double t = teacher.row(r)[g];
        if (t > 0) sum = bf16(sum + bf16(t * bf16(bf16(std::log(t)) - bf16(std::log(predict.row(r)[g])))));
      }
      got.at(kl)[r] = sum;
    }
    EXPECT_EQ(bench.judge(got), "forward/kl_rows") << "bf16";
  }
}

/// Teacher and prediction so near each other that little of the divergence is left in fp32.
TEST(JudgeExtremes, DivergenceThatNearlyVanishes) {
  const DatasetId kl = fwd(StageId::kKlRows);
  for (const char* profile : kProfiles) {
    SCOPED_TRACE(profile);
    const Bench bench(nearly_uniform("csa,seq=64,data=flat,loss=dense,seed=2", 0), profile);
    Index worst = 16;
    for (Index row = 16; row < bench.tokens(); ++row)
      if (cancellation(bench, row) > cancellation(bench, worst)) worst = row;
    EXPECT_GT(cancellation(bench, worst), 3e4);
    expect_no_alarm(bench);
    Results got = bench.correct;
    got.at(kl)[worst] += 1e-4;
    EXPECT_EQ(bench.judge(got), "forward/kl_rows");
  }
}

// Sums of one term and of four.

/// A product whose sums have few terms: y[r, c] = sum_k left(r, k) right(k, c), of what the correct run holds.
struct Product {
  DatasetId made;
  Index rows, columns, terms;
  std::function<double(Index, Index)> left, right;
};

std::vector<Product> products(const Bench& bench) {
  const Problem& problem = bench.truth.problem;
  const LayerConfig& c = problem.config;
  const Index tokens = bench.tokens();
  const auto rows_of = [](const Tensor& t) { return [&t](Index r, Index k) { return t.row(r)[k]; }; };
  const auto turned = [](const Tensor& t) { return [&t](Index r, Index k) { return t.row(k)[r]; }; };
  const auto weight = [&](WeightId id) -> const Tensor& { return problem.weight(id); };
  const auto held = [&](DatasetId id) -> const Tensor& { return bench.correct.at(id); };
  return {
      {fwd(StageId::kQDown), tokens, c.q_lora_rank, c.hidden, rows_of(problem.hidden), turned(weight(WeightId::kWqA))},
      {fwd(StageId::kQUp), tokens, c.heads * c.head_dim, c.q_lora_rank, rows_of(held(fwd(StageId::kQLatent))),
       turned(weight(WeightId::kWqB))},
      {fwd(StageId::kKvProj), tokens, c.head_dim, c.hidden, rows_of(problem.hidden), turned(weight(WeightId::kWkv))},
      {fwd(StageId::kOut), tokens, c.hidden, c.o_groups * c.o_lora_rank, rows_of(held(fwd(StageId::kOLatent))),
       turned(weight(WeightId::kWoB))},
      {grad(StageId::kOLatent), tokens, c.o_groups * c.o_lora_rank, c.hidden, rows_of(problem.grad_out),
       rows_of(weight(WeightId::kWoB))},
      {grad(WeightId::kWoB), c.hidden, c.o_groups * c.o_lora_rank, tokens, turned(problem.grad_out),
       rows_of(held(fwd(StageId::kOLatent)))},
      {grad(WeightId::kWqB), c.heads * c.head_dim, c.q_lora_rank, tokens, turned(held(grad(StageId::kQUp))),
       rows_of(held(fwd(StageId::kQLatent)))},
      {grad(WeightId::kWkv), c.head_dim, c.hidden, tokens, turned(held(grad(StageId::kKvProj))),
       rows_of(problem.hidden)},
  };
}

/// The largest term of a product, missing from its sum or there twice.
void expect_wrong_terms_are_named(const Bench& bench, Index terms) {
  int tried = 0;
  for (const Product& product : products(bench)) {
    if (product.terms != terms) continue;
    ++tried;
    Index row = 0, column = 0;
    double term = 0;
    for (Index r = 0; r < product.rows; ++r)
      for (Index c = 0; c < product.columns; ++c)
        for (Index k = 0; k < terms; ++k)
          if (const double value = product.left(r, k) * product.right(k, c); std::abs(value) > std::abs(term))
            row = r, column = c, term = value;
    for (const double times : {-1.0, 1.0}) {
      Results got = bench.correct;
      double& element = got.at(product.made).row(row)[column];
      element = bench.stored(product.made, element + times * term);
      EXPECT_EQ(bench.judge(got), product.made.path()) << (times < 0 ? "dropped" : "doubled");
    }
  }
  EXPECT_GT(tried, 0);
}

/// x / (sqrt(mean x^2) + eps) where 1 / sqrt(mean x^2 + eps) is meant.
void expect_misplaced_epsilon_is_named(const Bench& bench) {
  const LayerConfig& c = bench.truth.problem.config;
  const Tensor &x = bench.correct.at(fwd(StageId::kQDown)), &gain = bench.truth.problem.weight(WeightId::kQNorm);
  Results got = bench.correct;
  for (Index row = 0; row < bench.tokens(); ++row) {
    double squares = 0;
    for (Index i = 0; i < c.q_lora_rank; ++i) squares += x.row(row)[i] * x.row(row)[i];
    const double root = std::sqrt(squares / static_cast<double>(c.q_lora_rank)) + c.eps;
    for (Index i = 0; i < c.q_lora_rank; ++i)
      got.at(fwd(StageId::kQLatent)).row(row)[i] = bench.stored(fwd(StageId::kQLatent), gain[i] * x.row(row)[i] / root);
  }
  EXPECT_EQ(bench.judge(got), "forward/q_latent");
}

/// A query of one key or a few, one of which is dropped.
void expect_dropped_keys_are_named(const Bench& bench) {
  for (const Index row : {Index{0}, bench.tokens() - 1}) {
    const AttendedQuery query = bench.query(row);
    std::vector<double> out(static_cast<std::size_t>(query.heads * query.dim), 0.0);
    if (query.keys.size() > 1) out = query.without_key(0).out();
    EXPECT_EQ(bench.judge(bench.with_row(fwd(StageId::kAttnOut), row, out)), "forward/attn_out") << query.keys.size();
  }
}

/// A group's pooling with one slot missing from what is pooled, by what the slot's own projections say.
void expect_dropped_slot_is_named(const Bench& bench) {
  const Problem& problem = bench.truth.problem;
  const LayerConfig& c = problem.config;
  ASSERT_FALSE(c.overlap);
  const auto project = [&](WeightId id, Index token, Index channel) {
    double sum = 0;
    for (Index i = 0; i < c.hidden; ++i) sum += problem.hidden.row(token)[i] * problem.weight(id).row(channel)[i];
    return sum;
  };
  const DatasetId pooled = fwd(StageId::kCompressedPooled);
  Results got = bench.correct;
  for (Index d = 0; d < c.head_dim; ++d) {
    double total = 0, value = 0;
    for (Index slot = 0; slot < c.ratio; ++slot) {
      const double weight = std::exp(project(WeightId::kCompressorWgate, slot, d) +
                                     problem.weight(WeightId::kCompressorApe).row(slot)[d]);
      total += weight;
      if (slot > 0) value += weight * project(WeightId::kCompressorWkv, slot, d);
    }
    got.at(pooled).row(0)[d] = bench.stored(pooled, value / total);
  }
  EXPECT_EQ(bench.judge(got), pooled.path());
}

std::string small_layer(Index n, Index tokens, const std::string& more) {
  const std::string width = std::to_string(n);
  return "csa,heads=" + width + ",o_groups=" + width + ",index_heads=" + width + ",q_lora_rank=" + width +
         ",o_lora_rank=1,window=" + width + ",index_topk=" + width + ",seq=" + std::to_string(tokens) + more;
}

TEST(JudgeExtremes, SumsOfOneAndOfFourTerms) {
  for (const Index n : {1, 4})
    for (const char* profile : kProfiles) {
      // Ranks and heads of n, a stream of n, and n tokens in all.
      for (const std::string& text :
           {small_layer(n, 40, ",eps=0.25,seed=1"), small_layer(n, 40, ",hidden=" + std::to_string(n) + ",eps=0.25"),
            small_layer(n, n, ",eps=0.25"), small_layer(4, 37, ",ratio=4,overlap=off,eps=0.25")}) {
        SCOPED_TRACE(text + " " + profile);
        const Bench bench(case_problem(text), profile);
        expect_no_alarm(bench);
        if (text.find("overlap=off") != std::string::npos) {
          expect_dropped_slot_is_named(bench);
          continue;
        }
        expect_wrong_terms_are_named(bench, n);
        if (bench.tokens() > 1) expect_misplaced_epsilon_is_named(bench);
        expect_dropped_keys_are_named(bench);
      }
    }
}

}  // namespace
}  // namespace plumbline::tests
