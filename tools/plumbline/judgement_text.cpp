#include "tools/plumbline/judgement_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/plumbline/console.hpp"

namespace plumbline::tools {

using namespace contract;
using compare::DatasetJudgement;
using compare::StageVerdict;

namespace {

std::string share_text(double share) { return std::isinf(share) ? "inf" : fmt::format("{:.3g}", share); }

/// "7", "24..31", "3, 7, 11" or "12 of 64 (0..60)".
std::string indices_text(const std::vector<Index>& at) {
  if (at.size() == 1) return fmt::format("{}", at.front());
  if (at.back() - at.front() + 1 == static_cast<Index>(at.size())) return fmt::format("{}..{}", at.front(), at.back());
  if (at.size() > 6) return fmt::format("{} places in {}..{}", at.size(), at.front(), at.back());
  std::string text;
  for (const Index i : at) text += fmt::format("{}{}", text.empty() ? "" : ", ", i);
  return text;
}

std::string index_text(const DatasetJudgement& j) {
  std::string text;
  std::size_t axis = 0;
  for (const Axis a : j.id.axes())
    if (a != Axis::kNone && axis < j.worst.size())
      text += fmt::format("{}{} {}", text.empty() ? "" : " ", name_of(a), j.worst[axis++]);
  return text.empty() ? "the value" : text;
}

const DatasetJudgement* first_wrong(const compare::Judgement& judgement) {
  if (!judgement.first_wrong) return nullptr;
  for (const DatasetJudgement& j : judgement.datasets)
    if (j.id == *judgement.first_wrong) return &j;
  return nullptr;
}

std::string remark(const DatasetJudgement& j, bool first) {
  if (first) {
    if (j.isolated <= 1) return "<- starts here, though it follows from its inputs";
    return j.composite_of.empty() ? "<- starts here: its inputs were right"
                                  : fmt::format("<- starts here or in {}", fmt::join(j.composite_of, ", "));
  }
  return j.composite_of.empty() ? "" : fmt::format("with {}", fmt::join(j.composite_of, ", "));
}

}  // namespace

std::string wrong_places(const DatasetJudgement& j, const Problem& problem) {
  const Shape shape = shape_of(j.id.axes(), problem.config, problem.packing);
  std::string text;
  std::size_t axis = 0;
  for (const Axis a : j.id.axes()) {
    if (a == Axis::kNone || axis >= j.wrong_at.size()) continue;
    const std::vector<Index>& at = j.wrong_at[axis];
    const Index extent = shape[axis++];
    if (at.empty()) continue;
    if (!text.empty()) text += ", ";
    const Index missing = extent - static_cast<Index>(at.size());
    if (missing == 0) {
      text += fmt::format("every {}", name_of(a));
    } else if (missing == 1 && extent > 4) {
      Index gap = 0;
      while (gap < static_cast<Index>(at.size()) && at[static_cast<std::size_t>(gap)] == gap) ++gap;
      text += fmt::format("every {} but {}", name_of(a), gap);
    } else {
      text += fmt::format("{} {}", name_of(a), indices_text(at));
    }
  }
  return text;
}

std::string judgement_table(const compare::Judgement& judgement) {
  TextTable table({"  dataset", ">isolated", ">chained", "gate", "verdict", ""});
  for (const DatasetJudgement& j : judgement.datasets) {
    const bool first = judgement.first_wrong && j.id == *judgement.first_wrong;
    table.add({(first ? "> " : "  ") + j.id.path(), share_text(j.isolated),
               j.chained == 0 ? "-" : share_text(j.chained), std::string(to_string(j.gate)),
               std::string(to_string(j.verdict)), remark(j, first)});
  }
  return table.plain();
}

std::string judgement_report(const compare::Judgement& judgement, const Problem& problem, const std::string& title,
                             const std::string& repro) {
  std::string text = fmt::format("{}  {}   {} of {} datasets wrong, {} inherited\n", coloured("FAIL"), title,
                                 judgement.failed, judgement.judged, judgement.inherited);
  text += judgement_table(judgement);
  const DatasetJudgement* first = first_wrong(judgement);
  if (!first) return text;
  const double fraction =
      first->elements > 0 ? 100.0 * static_cast<double>(first->wrong) / static_cast<double>(first->elements) : 0;
  text += fmt::format("  where   {:.3g} % of what is specified in {}{}{}\n", fraction, first->id.path(),
                      first->wrong_at.empty() ? "" : ": ", wrong_places(*first, problem));
  text += fmt::format("  how bad worst at {}: got {:.9g}, want {:.9g}", index_text(*first), first->got, first->want);
  if (first->ulps > 0) text += fmt::format(" = {:.3g} ulp off", first->ulps);
  if (first->allowed > 0) text += fmt::format("; {:.3g} is allowed", first->allowed);
  text += fmt::format("\n  why     it {}\n", first->reason);
  return text + fmt::format("  repro   {}\n", repro);
}

}  // namespace plumbline::tools
