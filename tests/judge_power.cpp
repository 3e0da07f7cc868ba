// Faults that the judge must see, and what whole-tensor gates would have said of them.
//
//   judge_power [REGIME...]
//
// Each fault is put into an emulation of a correct implementation. It must be seen wherever the thing itself moves an
// element by more than twice what the judge allows there ("visible"; the share of places where it does is printed).
// Exit code 1 if one that is visible is not seen at its own dataset.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "compare/judge.hpp"
#include "reference/budget/layer_budget.hpp"
#include "reference/contract/case.hpp"
#include "reference/contract/random.hpp"
#include "reference/contract/specified.hpp"
#include "reference/emulate.hpp"
#include "reference/isolate.hpp"
#include "tests/attended_query.hpp"

namespace {

using namespace plumbline;
using namespace plumbline::contract;

constexpr DatasetId fwd(StageId id) { return DatasetId::forward(id); }

[[noreturn]] void stop(const Error& error) {
  std::printf("%s\n", error.text().c_str());
  std::exit(70);
}
template <typename T>
T must(Result<T> result) {
  if (!result) stop(result.error());
  return std::move(*result);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

int unseen = 0;

/// What cosine and relative L2 say of a tensor.
struct Whole {
  double cosine = 0, l2 = 0;
};
Whole whole_tensor(const Tensor& truth, const Tensor& got) {
  double tt = 0, gg = 0, tg = 0, dd = 0;
  for (Index e = 0; e < truth.size(); ++e) {
    if (!std::isfinite(truth[e]) || !std::isfinite(got[e])) continue;
    tt += truth[e] * truth[e];
    gg += got[e] * got[e];
    tg += truth[e] * got[e];
    dd += (truth[e] - got[e]) * (truth[e] - got[e]);
  }
  if (tt == 0 || gg == 0) return {};
  return {1 - tg / std::sqrt(tt * gg), std::sqrt(dd / tt)};
}

/// One profile and problem, with a correct run and what is allowed at each element of it.
struct Bench {
  const PrecisionProfile& profile;
  std::string text;
  Problem raw;
  compare::Truth truth;
  reference::EmulationVariant variant;
  Results correct;
  reference::Isolated isolated;
  Results budgets;

  /// `stages`: forward stages that are judged; empty: everything.
  Bench(const PrecisionProfile& p, const std::string& case_text, int members = 16,
        std::initializer_list<StageId> stages = {})
      : profile(p),
        text(case_text),
        raw(must(make_problem(must(parse_case(case_text))))),
        truth(must(compare::make_truth(raw, p, options(members, stages)))),
        variant(reference::draw_variant(424242)),
        correct(run({})) {
    std::printf("\n%s  %s\n", profile.name.c_str(), text.c_str());
    isolated = must(reference::run_isolated(truth.problem, correct, truth.request));
    budgets = must(reference::run_budgets(truth.problem, profile, isolated.values, correct.available(), truth.request))
                  .budgets;
  }

  static compare::JudgeOptions options(int members, std::initializer_list<StageId> stages) {
    compare::JudgeOptions chosen;
    chosen.members = members;
    for (const StageId stage : stages) chosen.wanted.set(fwd(stage).index());
    return chosen;
  }

  Results run(const reference::EmulationFault& fault) const {
    return must(reference::run_emulated(truth.problem, truth.request, profile, variant, fault));
  }

  double allowed(DatasetId id, Index e) const {
    const compare::Kappa& kappa = truth.ensemble.isolated[id.index()];
    const double b = budgets.at(id)[e];
    return kappa.usable() ? std::min(b, kappa.element_limit() * b + ulp(profile.stored(id), isolated.truth.at(id)[e]))
                          : b;
  }

  /// Judges a faulty run; `visible`: whether the fault moves an element by more than twice what is allowed there.
  /// `beside`: made by the same computation, where the fault may be named as well.
  void report(const std::string& fault, DatasetId id, const Results& got, bool visible, const std::string& share,
              std::optional<DatasetId> beside = {}) const {
    const compare::Judgement verdict = must(compare::judge(truth, profile, got));
    const bool seen = verdict.first_wrong.has_value();
    const bool named = seen && (*verdict.first_wrong == id || (beside && *verdict.first_wrong == *beside));
    double margin = 0;
    for (const auto& j : verdict.datasets)
      if (j.id == id || (beside && j.id == *beside)) margin = std::max(margin, j.isolated);
    const Whole w = whole_tensor(truth.values.at(id), got.at(id));
    const bool failed = visible && !named;
    unseen += failed;
    const auto says = [](double value, double limit) { return value > limit ? "sees" : "misses"; };
    std::printf("  %-38s %-20s %-8s margin %-8.3g %-18s cosine %.1e (1e-3 %s, 5e-6 %s), L2 %.1e (1e-2 %s, 1e-3 %s)%s\n",
                fault.c_str(), id.path().c_str(),
                named  ? "seen"
                : seen ? ("AT " + verdict.first_wrong->path()).c_str()
                       : "-",
                margin, share.c_str(), w.cosine, says(w.cosine, 1e-3), says(w.cosine, 5e-6), w.l2, says(w.l2, 1e-2),
                says(w.l2, 1e-3), failed ? "  <-- UNSEEN" : "");
  }
};

double share_of(Index part, Index whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}
std::string percent(Index part, Index whole) {
  char text[64];
  std::snprintf(text, sizeof text, "visible %.1f %%", share_of(part, whole));
  return text;
}

/// One element of each dataset off by 2.1 times what is allowed.
void single_elements(const Bench& bench) {
  std::size_t tried = 0, seen = 0;
  for (const DatasetId id : compare::computation_order()) {
    if (!bench.correct.has(id) || id == fwd(StageId::kTopk) || bench.correct.at(id).size() == 0) continue;
    const std::vector<bool> rows = specified_rows(id, bench.truth.problem);
    const Tensor& truth = bench.isolated.truth.at(id);
    for (std::uint64_t n = 0; n < 4; ++n) {
      const Index e =
          static_cast<Index>(philox(5, 0xa1, n * 1000 + id.index())[0] % static_cast<std::uint64_t>(truth.size()));
      if (!rows[static_cast<std::size_t>(truth.shape().empty() ? 0 : e / truth.row_size())] || !std::isfinite(truth[e]))
        continue;
      Results got = bench.correct;
      const double b = bench.budgets.at(id)[e];
      // Beyond the budget on the far side of the truth, whatever the correct error is.
      got.at(id)[e] = truth[e] + (b > 0 ? 1.1 * b : 1e-30);
      const compare::Judgement verdict = must(compare::judge(bench.truth, bench.profile, got));
      ++tried;
      const bool ok = verdict.first_wrong && *verdict.first_wrong == id;
      seen += ok;
      if (!ok) {
        ++unseen;
        std::printf("  UNSEEN one element of %s\n", id.path().c_str());
      }
    }
  }
  std::printf("  one element beyond its budget: %zu of %zu seen at their dataset\n", seen, tried);
}

/// The last query, from what the correct run holds.
tests::AttendedQuery last_query(const Bench& bench) {
  return tests::attended_query(bench.truth.problem, bench.correct, bench.truth.problem.packing.tokens() - 1);
}

/// The run with another attn_out (and lse) in one row.
Results with_row(const Bench& bench, const tests::AttendedQuery& query, const std::vector<double>& out,
                 const std::vector<double>& lse) {
  reference::EmulationFault fault;
  fault.tamper = [&](DatasetId id, const std::vector<Index>& rows, float* values, Index cols, Index stride) {
    const bool is_out = id == fwd(StageId::kAttnOut), is_lse = id == fwd(StageId::kAttnLse);
    if (!is_out && !is_lse) return;
    for (std::size_t r = 0; r < rows.size(); ++r)
      if (rows[r] == query.row)
        for (Index c = 0; c < cols; ++c)
          values[static_cast<Index>(r) * stride + c] =
              static_cast<float>((is_out ? out : lse)[static_cast<std::size_t>(c)]);
  };
  return bench.run(fault);
}

/// One key of one query dropped, for all heads. Each key in turn says where it is visible; those that move the outputs
/// least among the visible ones are tried: with all outputs held, and with attn_out alone.
void dropped_key(const Bench& bench) {
  constexpr DatasetId out_id = fwd(StageId::kAttnOut), lse_id = fwd(StageId::kAttnLse);
  const tests::AttendedQuery query = last_query(bench);
  const Index keys = static_cast<Index>(query.keys.size());
  const double* row = bench.isolated.truth.at(out_id).row(query.row);
  const auto probabilities = query.probabilities();
  const auto p = [&](Index j, Index h) {
    return probabilities[static_cast<std::size_t>(h)][static_cast<std::size_t>(j)];
  };
  const auto moved = [&](Index j, Index h, Index d) {
    const double o = row[h * query.dim + d];
    return (o - p(j, h) * query.keys[static_cast<std::size_t>(j)][d]) / (1 - p(j, h)) - o;
  };
  std::vector<double> allowed_out, allowed_lse;
  for (Index e = 0; e < query.heads * query.dim; ++e)
    allowed_out.push_back(bench.allowed(out_id, query.row * query.heads * query.dim + e));
  for (Index h = 0; h < query.heads; ++h) allowed_lse.push_back(bench.allowed(lse_id, query.row * query.heads + h));
  // By how many times what is allowed the key's loss moves what it moves most.
  const auto largest = [](double so_far, double change, double allowed) {
    return std::isfinite(change) ? std::max(so_far, std::abs(change) / allowed) : kInfinity;
  };
  Index in_out = 0, in_lse = 0, in_either = 0;
  Index least_out = -1, least_either = -1;
  double least_out_by = kInfinity, least_either_by = kInfinity;
  for (Index j = 0; j < keys; ++j) {
    double by_out = 0, by_lse = 0;
    for (Index h = 0; h < query.heads; ++h) {
      by_lse = largest(by_lse, std::log1p(-p(j, h)), allowed_lse[static_cast<std::size_t>(h)]);
      for (Index d = 0; d < query.dim; ++d)
        by_out = largest(by_out, moved(j, h, d), allowed_out[static_cast<std::size_t>(h * query.dim + d)]);
    }
    const double by_either = std::max(by_out, by_lse);
    in_out += by_out > 2;
    in_lse += by_lse > 2;
    in_either += by_either > 2;
    if (by_out > 2 && (least_out < 0 || by_out < least_out_by)) least_out = j, least_out_by = by_out;
    if (by_either > 2 && (least_either < 0 || by_either < least_either_by))
      least_either = j, least_either_by = by_either;
  }
  std::printf(
      "  keys whose loss is visible, of %lld: %.1f %% in attn_out or attn_lse, %.1f %% in attn_lse, %.1f %% in "
      "attn_out\n",
      static_cast<long long>(keys), share_of(in_either, keys), share_of(in_lse, keys), share_of(in_out, keys));
  const auto without = [&](Index j) {
    const tests::AttendedQuery rest = query.without_key(j);
    return with_row(bench, query, rest.out(), rest.all_lse());
  };
  const std::string of = " of " + std::to_string(keys) + " dropped";
  if (least_either >= 0)
    bench.report("key " + std::to_string(least_either) + of, out_id, without(least_either), true,
                 percent(in_either, keys), lse_id);
  if (least_out >= 0) {
    Results got = without(least_out);
    got.erase(lse_id);
    bench.report("key " + std::to_string(least_out) + of + ", no attn_lse", out_id, got, true, percent(in_out, keys));
  }
}

/// An online softmax that does not rescale what it has when a later tile of 64 keys raises the maximum; one row.
void missed_rescale(const Bench& bench) {
  const tests::AttendedQuery query = last_query(bench);
  const std::vector<double> right = query.out(), out = query.out_without_rescale(64);
  bool visible = false;
  for (Index e = 0; e < query.heads * query.dim; ++e)
    visible = visible || std::abs(out[static_cast<std::size_t>(e)] - right[static_cast<std::size_t>(e)]) >
                             2 * bench.allowed(fwd(StageId::kAttnOut), query.row * query.heads * query.dim + e);
  bench.report("missed rescale", fwd(StageId::kAttnOut), with_row(bench, query, out, query.all_lse()), visible,
               visible ? "visible" : "not visible");
}

/// One token missing from the sum over all tokens of a weight's gradient.
void lost_token(const Bench& bench) {
  const DatasetId id = DatasetId::gradient(WeightId::kWqB);
  const Tensor &dy = bench.correct.at(DatasetId::gradient(StageId::kQUp)),
               &x = bench.correct.at(fwd(StageId::kQLatent));
  const Index tokens = dy.shape()[0], outputs = dy.row_size(), inputs = x.row_size();
  Index visible = 0, tried = -1;
  for (Index t = 0; t < tokens; ++t) {
    bool any = false;
    for (Index o = 0; o < outputs && !any; ++o)
      for (Index i = 0; i < inputs && !any; ++i)
        any = std::abs(dy.row(t)[o] * x.row(t)[i]) > 2 * bench.allowed(id, o * inputs + i);
    visible += any;
    if (any && (tried < 0 || t % 1000 == 777)) tried = t;
  }
  const std::string share = percent(visible, tokens);
  if (tried < 0) {
    std::printf("  lost token: %s\n", share.c_str());
    return;
  }
  Results got = bench.correct;
  Tensor& dw = got.at(id);
  for (Index o = 0; o < outputs; ++o)
    for (Index i = 0; i < inputs; ++i)
      dw[o * inputs + i] = round_to(bench.profile.stored(id), dw[o * inputs + i] - dy.row(tried)[o] * x.row(tried)[i]);
  bench.report("token " + std::to_string(tried) + " of " + std::to_string(tokens) + " lost", id, got, true, share);
}

/// Products that are not what the profile says: the first projection shows it.
void wrong_products(const Bench& bench) {
  if (bench.profile.name == "fp32") {
    reference::EmulationFault tf32;
    tf32.operand = NumberFormat::kTf32;
    bench.report("TF32 operands", fwd(StageId::kQDown), bench.run(tf32), true, "");
    reference::EmulationFault bf16;
    bf16.accumulation = NumberFormat::kBf16;
    bench.report("bf16 accumulation", fwd(StageId::kQDown), bench.run(bf16), true, "");
    return;
  }
  reference::EmulationFault bf16;
  bf16.accumulation = NumberFormat::kBf16;
  bench.report("bf16 accumulation", fwd(StageId::kQDown), bench.run(bf16), true, "");
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // runs are long
  std::vector<std::string> data(argv + 1, argv + argc);
  if (data.empty()) data = {"normal", "flat", "peaky", "negative", "heavy"};
  for (const char* name : {"fp32", "bf16-fused"}) {
    const PrecisionProfile* profile = find_precision_profile(name);
    for (const std::string& regime_name : data) {
      const std::string regime = "data=" + regime_name;
      single_elements(Bench(*profile, "csa,seq=37+9,pad=8,mask=random:0.2," + regime));
      wrong_products(Bench(*profile, "csa,seq=37," + regime));
      // Heads, widths and keys of a real layer: 64 heads of 512 channels, 128 keys of the window and the 512 best of
      // 520 entries. 8 rows are queries, the others keys. Beside a finite sink deeply negative logits would weigh
      // nothing. Fewer members, since these runs are long.
      const Bench wide(*profile,
                       "csa,ratio=2,heads=64,o_groups=8,head_dim=512,rope_dim=64,window=128,index_dim=64,"
                       "index_topk=512,seq=1040,mask=prefix:1032," +
                           regime + (regime_name == "negative" ? ",sink=-inf" : ""),
                       4,
                       {StageId::kQ, StageId::kKv, StageId::kCompressedKv, StageId::kIndexScores, StageId::kTopk,
                        StageId::kAttnOut, StageId::kAttnLse});
      dropped_key(wide);
      missed_rescale(wide);
      lost_token(Bench(*profile, "swa,seq=4096," + regime, 4));
    }
  }
  std::printf("\n%d visible faults were not seen at their dataset\n", unseen);
  return unseen > 0 ? 1 : 0;
}
