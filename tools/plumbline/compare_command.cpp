#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>

#include "compare/golden_rule.hpp"
#include "compare/judge.hpp"
#include "golden/atomic_file.hpp"
#include "golden/candidate_file.hpp"
#include "golden/golden_file.hpp"
#include "tools/plumbline/commands.hpp"
#include "tools/plumbline/console.hpp"
#include "tools/plumbline/interrupt.hpp"
#include "tools/plumbline/judgement_json.hpp"
#include "tools/plumbline/judgement_text.hpp"
#include "tools/plumbline/profile_file.hpp"
#include "tools/plumbline/report.hpp"

namespace plumbline::tools {

using namespace contract;

namespace {

struct CompareOptions {
  std::string golden, candidate, precision, json, baseline;
  int members = 16;
  bool quiet = false;
};

/// What the candidate's storage says of its arithmetic.
std::string inferred_profile(const golden::CandidateFile& candidate) {
  bool wide = false, narrow = false;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    if (!candidate.formats[i] || DatasetId::from_index(i) == DatasetId::forward(StageId::kTopk)) continue;
    wide = wide || *candidate.formats[i] == NumberFormat::kFp64;
    narrow = narrow || *candidate.formats[i] == NumberFormat::kBf16 || *candidate.formats[i] == NumberFormat::kFp16;
  }
  return narrow ? "bf16-fused" : wide ? "fp64" : "fp32";
}

/// A double-precision candidate against what the golden itself holds.
compare::Judgement judge_by_golden_rule(const golden::GoldenFile& golden, const Results& candidate) {
  compare::Judgement judgement;
  for (const compare::DatasetVerdict& v : compare::compare_by_golden_rule(golden.problem, golden.results, candidate)) {
    if (!candidate.has(v.id)) continue;
    compare::DatasetJudgement j(v.id);
    j.gate = compare::Gate::kGolden;
    j.isolated = v.share();
    j.elements = v.compared;
    j.wrong = v.wrong;
    j.worst = v.worst;
    j.got = v.got;
    j.want = v.want;
    j.reason = v.reason;
    j.verdict = v.verdict == compare::Verdict::kFail   ? compare::StageVerdict::kFail
                : v.verdict == compare::Verdict::kPass ? compare::StageVerdict::kPass
                                                       : compare::StageVerdict::kNotJudged;
    judgement.judged += j.verdict != compare::StageVerdict::kNotJudged;
    judgement.failed += j.verdict == compare::StageVerdict::kFail;
    if (j.verdict == compare::StageVerdict::kFail && !judgement.first_wrong) judgement.first_wrong = v.id;
    judgement.datasets.push_back(std::move(j));
  }
  return judgement;
}

/// What the golden does not hold is computed: its problem decides.
Status complete_results(golden::GoldenFile& golden, const DatasetSet& judged) {
  DatasetSet missing = judged & ~golden.results.available();
  // The loss is judged by these.
  for (const StageId stage : {StageId::kTeacher, StageId::kPredict, StageId::kIndexScores, StageId::kTopk})
    if (DatasetId::forward(stage).exists(golden.problem.config) && !golden.results.has(DatasetId::forward(stage)))
      missing.set(DatasetId::forward(stage).index());
  if (golden.contents == golden::Contents::kStored || golden.contents == golden::Contents::kFull || missing.none())
    return {};
  Request request;
  request.wanted = missing;
  request.cancelled = interrupted;
  auto results = find_implementation("reference")->run(golden.problem, request);
  if (!results) return results.error();
  golden.results = std::move(*results);
  return {};
}

/// rms shares of an earlier report, by dataset.
Result<std::map<std::string, double>> load_baseline(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const nlohmann::json report = nlohmann::json::parse(file, nullptr, false);
  if (!file.is_open() || report.is_discarded()) return file_error(path, "is not a readable JSON report");
  std::map<std::string, double> shares;
  if (const auto cases = report.find("cases"); cases != report.end() && cases->is_array())
    for (const auto& item : *cases)
      if (const auto stages = item.find("stages"); stages != item.end() && stages->is_array())
        for (const auto& stage : *stages)
          if (stage.contains("name") && stage.contains("rms") && stage["rms"].is_number())
            shares[stage["name"].get<std::string>()] = stage["rms"].get<double>();
  if (shares.empty()) return file_error(path, "holds no shares; write one with plumbline compare ... --json FILE");
  return shares;
}

/// Datasets that still pass but use more of their budget than before and than correct runs differ among themselves.
int compare_with_baseline(const std::map<std::string, double>& before, const compare::Judgement& judgement) {
  int grown = 0;
  for (const compare::DatasetJudgement& j : judgement.datasets) {
    const auto old = before.find(j.id.path());
    if (old == before.end() || j.verdict != compare::StageVerdict::kPass) continue;
    const double allowed = std::max(old->second, 1e-12) * std::max(1.25, j.rms_spread);
    if (j.rms <= allowed) continue;
    ++grown;
    fmt::print("{}  {} uses {:.3g} of its budget (rms), {:.3g} before; correct runs differ by a factor of {:.3g}\n",
               coloured("FAIL"), j.id.path(), j.rms, old->second, j.rms_spread);
  }
  return grown;
}

Status write_compare_report(const CompareOptions& options, const golden::GoldenFile& golden,
                            const PrecisionProfile& profile, const compare::Judgement& judgement, double seconds,
                            int exit_code) {
  nlohmann::ordered_json item = {{"case", golden.case_text},
                                 {"implementation", options.candidate},
                                 {"truth", options.golden},
                                 {"precision", profile.name},
                                 {"seconds", seconds},
                                 {"outcome", judgement.judged == 0  ? "nothing_checked"
                                             : judgement.failed > 0 ? "failed"
                                                                    : "passed"},
                                 {"first_wrong_stage", nullptr},
                                 {"error", nullptr},
                                 {"absent", nlohmann::ordered_json::array()},
                                 {"moved", nullptr},
                                 {"likely", nlohmann::ordered_json::array()},
                                 {"stages", judgement_json(judgement)}};
  if (judgement.first_wrong) item["first_wrong_stage"] = judgement.first_wrong->path();
  const nlohmann::ordered_json report = {{"schema_version", kReportSchemaVersion},
                                         {"exit_code", exit_code},
                                         {"environment", environment_json()},
                                         {"cases", {item}}};
  return golden::write_file(options.json, report.dump(2) + "\n");
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int compare_files(const CompareOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (auto status = may_write("--json", options.json); !status) return report_error(status.error());
  std::optional<std::map<std::string, double>> before;
  if (!options.baseline.empty()) {
    auto loaded = load_baseline(options.baseline);
    if (!loaded) return report_error(loaded.error());
    before = std::move(*loaded);
  }
  auto golden = golden::read_guarded(options.golden, golden::kDefaultMemoryBytes, golden::kDefaultSeconds, interrupted);
  if (!golden) return report_error(golden.error());
  auto candidate = golden::read_candidate_guarded(options.candidate, golden->problem, golden::kDefaultMemoryBytes,
                                                  golden::kDefaultSeconds, interrupted);
  if (!candidate) return report_error(candidate.error());
  const std::string name = options.precision.empty() ? inferred_profile(*candidate) : options.precision;
  auto profile = load_profile(name);
  if (!profile) return report_error(profile.error());

  compare::Judgement judgement;
  if (profile->compute == NumberFormat::kFp64) {
    if (auto status = complete_results(*golden, candidate->results.available()); !status)
      return report_error(status.error());
    judgement = judge_by_golden_rule(*golden, candidate->results);
  } else {
    compare::JudgeOptions judge_options;
    judge_options.members = options.members;
    judge_options.cancelled = interrupted;
    auto truth = compare::make_truth(golden->problem, *profile, judge_options);
    if (!truth) return report_error(truth.error());
    auto judged = compare::judge(*truth, *profile, candidate->results);
    if (!judged) return report_error(judged.error());
    judgement = std::move(*judged);
  }
  if (judgement.judged == 0)
    return report_error(
        {ErrorCode::kNothing, "none of its datasets has an element that the contract specifies", options.candidate});

  const std::string title =
      fmt::format("{}  golden={}  prec={}{}", options.candidate, options.golden, profile->name,
                  options.precision.empty() ? " (from how it is stored; --prec says otherwise)" : "");
  if (judgement.failed > 0) {
    const std::string repro =
        fmt::format("plumbline compare --golden {} --candidate {} --prec {}", options.golden, options.candidate, name);
    fmt::print("{}", judgement_report(judgement, golden->problem, title, repro));
  } else {
    if (!options.quiet) fmt::print("{}", judgement_table(judgement));
    fmt::print("{}  {}   {} datasets judged\n", coloured("PASS"), title, judgement.judged);
  }
  int code = judgement.failed > 0 ? exit_code(ErrorCode::kCheckFailed) : 0;
  if (before && compare_with_baseline(*before, judgement) > 0) code = exit_code(ErrorCode::kCheckFailed);
  if (!options.json.empty())
    if (auto status = write_compare_report(options, *golden, *profile, judgement, seconds_since(start), code); !status)
      return report_error(status.error());
  return code;
}

}  // namespace

void add_compare_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command =
      app.add_subcommand("compare", "Judge a file of an implementation's outputs against a golden file's problem");
  command->add_option("--golden", options->golden, "Golden file: it states the problem")->required();
  command
      ->add_option(
          "--candidate", options->candidate,
          "HDF5 file with any of the golden's datasets, in float64, float32, float16 or bf16 (docs/golden-format.md)")
      ->required();
  command->add_option(
      "--prec", options->precision,
      "Precision profile (plumbline list profiles) or a JSON file; default: from how the candidate is stored");
  command->add_option("--members", options->members, "Correct runs that are emulated to learn how they scatter")
      ->check(CLI::Range(4, 1000));
  command->add_option("--json", options->json, "Write a JSON report (docs/report-schema.md)")->check(not_empty());
  command->add_option("--baseline", options->baseline,
                      "JSON report of an earlier run: fail where a dataset's share of its budget has grown");
  command->add_flag("-q,--quiet", options->quiet, "Print failures and the summary only");
  command->footer(
      "Examples:\n"
      "  plumbline golden make csa --out csa.h5\n"
      "  plumbline compare --golden csa.h5 --candidate csa.h5 --prec fp64\n"
      "Exit codes: plumbline explain exit-codes");
  command->callback([options, &exit_code] { exit_code = compare_files(*options); });
}

}  // namespace plumbline::tools
