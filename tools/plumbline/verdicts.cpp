#include "tools/plumbline/verdicts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/plumbline/console.hpp"
#include "tools/plumbline/judgement_text.hpp"

namespace plumbline::tools {
namespace {

std::string place(const compare::DatasetVerdict& v) {
  std::string text;
  std::size_t axis = 0;
  for (const contract::Axis a : v.id.axes()) {
    if (a == contract::Axis::kNone || axis >= v.worst.size()) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", contract::name_of(a), v.worst[axis++]);
  }
  return text.empty() ? "the value" : text;
}

std::string verdict_word(const compare::DatasetVerdict& v) {
  switch (v.verdict) {
    case compare::Verdict::kPass: return "pass";
    case compare::Verdict::kFail: return "FAIL";
    case compare::Verdict::kNotCompared: break;
  }
  return "not compared";
}

}  // namespace

std::string repro_line(const CaseVerdict& verdict) {
  if (!verdict.repro.empty()) return verdict.repro;
  std::string line = fmt::format("plumbline verify '{}' --impl {}", verdict.case_text, verdict.implementation);
  if (verdict.repeat > 1) line += fmt::format(" --repeat {}", verdict.repeat);
  if (const compare::DatasetVerdict* first = verdict.first_wrong()) line += " --stage " + first->id.path();
  return line;
}

std::string notes(const CaseVerdict& verdict) {
  std::string text;
  for (const compare::DatasetVerdict& v : verdict.datasets)
    if (v.verdict == compare::Verdict::kPass && !v.reason.empty())
      text += fmt::format("{}: {} {}\n", verdict.case_text, v.id.path(), v.reason);
  return text;
}

std::string verdict_table(const std::vector<CaseVerdict>& verdicts) {
  TextTable table(
      {"case", "implementation", "truth", ">datasets", ">worst share", "worst dataset", ">seconds", "verdict"});
  for (const CaseVerdict& v : verdicts) {
    const compare::DatasetVerdict* worst = v.worst();
    table.add({v.case_text, v.implementation, v.truth, fmt::format("{}", v.compared()),
               worst ? fmt::format("{:.3g}", worst->share()) : "", worst ? worst->id.path() : "",
               fmt::format("{:.2f}", v.seconds), coloured(word_for(v.outcome))});
  }
  return table.plain();
}

std::string failure_report(const CaseVerdict& verdict) {
  const compare::DatasetVerdict* first = verdict.first_wrong();
  if (!first) return {};
  if (verdict.judgement && verdict.judgement->failed > 0)
    return judgement_report(
        *verdict.judgement, *verdict.judged_problem,
        fmt::format("{}  impl={}  prec={}", verdict.case_text, verdict.implementation, verdict.precision),
        repro_line(verdict));
  std::string text = fmt::format("{}  {}  impl={}  {} of {} datasets wrong\n", coloured("FAIL"), verdict.case_text,
                                 verdict.implementation, verdict.failed(), verdict.compared());
  TextTable table({"  dataset", ">error", ">limit", ">share", "verdict", ""});
  for (const compare::DatasetVerdict& v : verdict.datasets) {
    const bool selection = v.id == contract::DatasetId::forward(contract::StageId::kTopk);
    table.add({(&v == first ? "> " : "  ") + v.id.path(),
               selection ? fmt::format("{} rows", v.wrong) : fmt::format("{:.3g}", v.error),
               fmt::format("{:.3g}", v.limit), selection ? "" : fmt::format("{:.3g}", v.share()), verdict_word(v),
               &v == first ? "<- first wrong in the order of computation" : ""});
  }
  text += table.plain();
  text += fmt::format("  where   {} of {} entries of {}; worst at {}\n", first->wrong, first->compared,
                      first->id.path(), place(*first));
  text += fmt::format("  how bad got {:.17g}, want {:.17g}: {}\n", first->got, first->want, first->reason);
  text += fmt::format("  repro   {}\n", repro_line(verdict));
  return text;
}

void report_case_errors(const std::vector<CaseVerdict>& verdicts) {
  for (const CaseVerdict& v : verdicts) {
    if (v.outcome == Outcome::kDeclined || !v.problem) continue;
    const bool placed = v.problem->where == v.case_text || "file=" + v.problem->where == v.case_text;
    report_error(placed ? *v.problem : contract::Error{v.problem->code, v.problem->text(), v.case_text});
  }
}

std::string summary_line(const std::vector<CaseVerdict>& verdicts) {
  const auto count = [&](Outcome outcome) {
    return std::count_if(verdicts.begin(), verdicts.end(), [&](const CaseVerdict& v) { return v.outcome == outcome; });
  };
  return fmt::format("{} runs: {} passed, {} failed, {} declined, {} could not be judged, {} checked nothing",
                     verdicts.size(), count(Outcome::kPassed), count(Outcome::kFailed), count(Outcome::kDeclined),
                     count(Outcome::kError), count(Outcome::kNothingChecked));
}

}  // namespace plumbline::tools
