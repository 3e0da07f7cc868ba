#include "tools/plumbline/explain_judge.hpp"

#include <fmt/format.h>

#include "compare/gate.hpp"
#include "reference/budget/formulas.hpp"
#include "reference/contract/precision.hpp"
#include "tools/plumbline/console.hpp"

namespace plumbline::tools {

using namespace contract;

Result<std::string> explain_budget(const std::string& name) {
  std::string text;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    const bool named = id.path() == name || (id.stage() && info(*id.stage()).name == name) ||
                       (id.weight() && info(*id.weight()).name == name);
    const std::string_view formula = reference::budget_formula(id);
    if (!named || formula.empty()) continue;
    text += fmt::format("budget of {}\n  u |y| of its store, + {}\n", id.path(), formula);
  }
  if (text.empty())
    return usage_error("budget",
                       fmt::format("'{}' is no stage, weight or dataset; known ones: plumbline list datasets", name));
  TextTable table({"  constant", ">value", "what", "basis"});
  for (const reference::BudgetConstant& c : reference::budget_constants())
    table.add({"  " + std::string(c.name), fmt::format("{:g}", c.value), std::string(c.meaning), std::string(c.basis)});
  return text +
         "u: unit roundoff of the arithmetic, of sums, or of what is stored; B_x: budget of an input that the "
         "candidate does not hold, or of\n"
         "what a fused kernel may keep unrounded, else 0. Underflow adds the smallest subnormal of each term.\n" +
         table.plain();
}

std::string explain_gates() {
  return fmt::format(
      "gates of the judge, for profiles below double precision (golden: plumbline explain golden)\n"
      "  isolated: the truth of a dataset is computed from what the candidate holds for its inputs; chained: from the "
      "case's inputs\n"
      "  pattern    NaN, Inf and fixed values exactly where they belong\n"
      "  bound      |got - want| <= B, the element's budget (plumbline explain budget STAGE); isolated only\n"
      "  ensemble   |got - want| <= limit B + 1 ulp, limit = max({} kappa sqrt(2 ln(n / {:g})), {} times the largest "
      "|error| / B of correct runs),\n"
      "             kappa the rms of error / B in 16 emulated correct runs, for tensors of at least {} elements\n"
      "  group      rms of a row or channel of at least {} elements <= max({} kappa, {} times the largest of correct "
      "runs) rms(B) + 1/2 ulp\n"
      "  selection  picks are legal, the top-k of the candidate's own scores, and swapped against the truth only "
      "within both scores' budgets\n"
      "  chained errors may use {} times the ensemble's and group's limits. Elements with budgets below 2^-100 are "
      "judged by bounds alone, and\n"
      "  tensors in which correct runs scatter over more than {} times the ensemble's limit.\n"
      "  Basis of the constants: docs/evidence, and judge_evidence, which repeats it\n",
      compare::kTailFactor, compare::kAlarm, compare::kExtremeFactor, compare::kSmallestGroup, compare::kSmallestGroup,
      compare::kGroupFactor, compare::kExtremeFactor, compare::kChainedSlack, compare::kScaleLimit);
}

std::string explain_profile_files() {
  std::string formats;
  for (const FormatInfo& format : number_formats()) formats += (formats.empty() ? "" : ", ") + std::string(format.name);
  TextTable table({"  cast point", "what is rounded"});
  for (const CastPointInfo& point : cast_points())
    table.add({"  " + std::string(point.name), std::string(point.meaning)});
  return "precision profile: how an implementation rounds. Roundings are permissions: to round less is never an error\n"
         "  named ones: plumbline list profiles. In a file NAME.json, everything but base is optional:\n"
         "  {\"base\": \"bf16-fused\", \"inputs\": F, \"weights\": F, \"compute\": F, \"accumulation\": F, \"angles\": "
         "\"exact\" | \"fp32\",\n"
         "   \"storage\": {\"forward/q\": F, \"grad/*\": F}, \"casts\": {\"probability\": F}}\n"
         "  F, formats: " +
         formats + "\n" + table.plain();
}

}  // namespace plumbline::tools
