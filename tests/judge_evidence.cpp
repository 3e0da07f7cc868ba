// Correct runs, judged: how often does a right implementation raise an alarm, and how near do the gates come to one?
//
//   judge_evidence RUNS [SEED]
//
// Cases, profiles, orders, tilings and cast lists are drawn from SEED. Exit code 1 if more than one run in 10,000
// fails.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "compare/judge.hpp"
#include "reference/contract/case.hpp"
#include "reference/contract/random.hpp"
#include "reference/emulate.hpp"

namespace {

using namespace plumbline;
using namespace plumbline::contract;

/// Draws from one stream, one after the other.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t index) : seed_(seed), index_(index) {}
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>((std::uint64_t{word()} * n) >> 32); }
  bool once_in(std::uint32_t n) { return below(n) == 0; }
  template <typename T, std::size_t N>
  const T& one_of(const T (&choices)[N]) {
    return choices[below(N)];
  }

 private:
  std::uint32_t word() { return philox(seed_, 0xa0, index_, static_cast<std::uint32_t>(count_++))[0]; }
  std::uint64_t seed_, index_;
  std::uint32_t count_ = 0;
};

std::string draw_case(Draws& draw, std::uint64_t seed) {
  static const char* kinds[] = {"swa",
                                "csa",
                                "csa",
                                "csa,loss=dense",
                                "csa,indexer=off",
                                "csa,teacher=compressed_only",
                                "hca,ratio=6",
                                "hca,ratio=16",
                                "hca",
                                "csa,ratio=5,overlap=off,index_topk=2",
                                "csa,heads=1,o_groups=1,index_heads=1,hidden=9,head_dim=10,q_lora_rank=7,o_lora_rank=1",
                                "csa,model=tiny-tp",
                                "csa,window=40,index_topk=60,per_token_loss=on,loss_scale=3"};
  static const char* data[] = {"ints", "normal", "normal", "peaky", "negative", "flat", "ties", "outliers", "heavy"};
  static const char* lengths[] = {"37", "64", "5", "70+3+9", "1+2+3+4+5", "96", "130", "33+17"};
  static const char* sinks[] = {"700", "-inf", "inf:0", "-700", "5000"};
  std::string text = draw.one_of(kinds);
  text += std::string(",data=") + draw.one_of(data);
  text += std::string(",seq=") + (text.starts_with("hca,data") ? "300" : draw.one_of(lengths));
  if (draw.once_in(3)) text += ",pad=8";
  if (draw.once_in(3)) text += ",mask=random:0.3";
  if (draw.once_in(6)) text += std::string(",sink=") + draw.one_of(sinks);
  if (draw.once_in(8) && text.find("teacher") == std::string::npos && text.find("rope_dim") == std::string::npos)
    text += ",yarn_orig=4096,yarn_factor=16";
  return text + ",seed=" + std::to_string(seed);
}

/// A correct implementation of the profile: it rounds at some of the places where it may, or at none, or at all.
reference::EmulationVariant draw_candidate(Draws& draw, std::uint64_t seed) {
  reference::EmulationVariant variant{seed};
  variant.shuffled = !draw.once_in(5);
  variant.store_rounded = draw.once_in(2);
  const std::uint32_t kind = draw.below(8);
  if (kind == 0) variant.casts.reset();
  if (kind > 2) variant.casts = std::bitset<kCastPointCount>(draw.below(1u << kCastPointCount));
  return variant;
}

struct Tally {
  double isolated = 0, chained = 0, bound = 0;
  std::string isolated_run, chained_run;
  long runs = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const long runs = argc > 1 ? std::atol(argv[1]) : 0;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  if (runs <= 0) {
    std::fprintf(stderr, "usage: judge_evidence RUNS [SEED]\n");
    return 2;
  }
  constexpr long kRunsPerCase = 16;
  const char* profiles[] = {"fp32", "bf16-fused", "bf16-eager", "bf16-fp8index"};
  std::map<std::size_t, Tally> tallies;
  std::mutex lock;
  long done = 0, alarms = 0, judged = 0, unscaled = 0;
#pragma omp parallel for schedule(dynamic)
  for (long c = 0; c < (runs + kRunsPerCase - 1) / kRunsPerCase; ++c) {
    Draws draw(seed, static_cast<std::uint64_t>(c));
    const std::string text = draw_case(draw, static_cast<std::uint64_t>(c) % 7);
    const PrecisionProfile& profile = *find_precision_profile(draw.one_of(profiles));
    const auto item = parse_case(text);
    if (!item) {
      const std::lock_guard guard(lock);
      std::printf("%s: %s\n", text.c_str(), item.error().text().c_str());
      std::exit(70);
    }
    const auto problem = make_problem(*item);
    const auto truth =
        compare::make_truth(*problem, profile, {.seed = static_cast<std::uint64_t>(c), .wanted = {}, .cancelled = {}});
    if (!truth) {
      const std::lock_guard guard(lock);
      std::printf("%s: %s\n", text.c_str(), truth.error().text().c_str());
      std::exit(70);
    }
    for (long r = 0; r < kRunsPerCase && c * kRunsPerCase + r < runs; ++r) {
      const auto variant =
          draw_candidate(draw, (std::uint64_t{1} << 40) + static_cast<std::uint64_t>(c * kRunsPerCase + r));
      const auto candidate = reference::run_emulated(truth->problem, truth->request, profile, variant);
      const auto verdict = compare::judge(*truth, profile, *candidate);
      const std::lock_guard guard(lock);
      ++done;
      bool alarm = !verdict || verdict->failed > 0;
      if (verdict)
        for (const compare::DatasetJudgement& j : verdict->datasets) {
          Tally& t = tallies[j.id.index()];
          ++t.runs;
          ++judged;
          unscaled += j.chained == 0;
          const std::string name = text + " " + profile.name + " run " + std::to_string(r);
          t.bound = std::max(t.bound, j.bound);
          if (j.isolated > t.isolated)
            t.isolated = j.isolated, t.isolated_run = name + " " + std::string(to_string(j.gate));
          if (j.chained > t.chained) t.chained = j.chained, t.chained_run = name;
          if (j.verdict == compare::StageVerdict::kFail && alarm)
            std::printf("ALARM %s: %s isolated %.3g (%s) chained %.3g got %g want %g allowed %g  %s\n", name.c_str(),
                        j.id.path().c_str(), j.isolated, std::string(to_string(j.gate)).c_str(), j.chained, j.got,
                        j.want, j.allowed, j.reason.c_str());
        }
      alarms += alarm;
    }
  }
  std::printf("%-44s %7s %8s %9s %9s  %s\n", "dataset", "runs", "bound", "isolated", "chained",
              "nearest isolated | nearest chained");
  for (const auto& [index, t] : tallies)
    std::printf("%-44s %7ld %8.3f %9.3f %9.3f  %s | %s\n", DatasetId::from_index(index).path().c_str(), t.runs, t.bound,
                t.isolated, t.chained, t.isolated_run.c_str(), t.chained_run.c_str());
  std::printf(
      "%ld correct runs, %ld datasets judged (%ld of them not by the chained gates), %ld runs raised an alarm\n", done,
      judged, unscaled, alarms);
  return alarms * 10000 > done ? 1 : 0;
}
