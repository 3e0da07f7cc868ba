#include "tools/plumbline/report.hpp"

#include <H5public.h>
#include <omp.h>

#include <Eigen/Core>
#include <fstream>
#include <thread>

#include "golden/atomic_file.hpp"
#include "golden/manifest.hpp"
#include "plumbline_build_commit.hpp"
#include "tools/plumbline/judgement_json.hpp"

namespace plumbline::tools {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

std::string version(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

const char* verdict_name(compare::Verdict verdict) {
  switch (verdict) {
    case compare::Verdict::kPass: return "pass";
    case compare::Verdict::kFail: return "fail";
    case compare::Verdict::kNotCompared: break;
  }
  return "not_compared";
}

nlohmann::ordered_json dataset_json(const compare::DatasetVerdict& v) {
  return {{"name", v.id.path()},
          {"direction", v.id.is_forward() ? "forward" : "backward"},
          {"isolated", nullptr},
          {"chained", json_number(v.error)},
          {"gate", {{"name", "golden"}, {"limit", json_number(v.limit)}}},
          {"verdict", verdict_name(v.verdict)},
          {"compared", v.compared},
          {"wrong", v.wrong},
          {"worst", {{"index", v.worst}, {"got", json_number(v.got)}, {"want", json_number(v.want)}}},
          {"reason", v.reason}};
}

nlohmann::ordered_json case_json(const CaseVerdict& v) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  if (v.judgement)
    stages = judgement_json(*v.judgement);
  else
    for (const compare::DatasetVerdict& dataset : v.datasets) stages.push_back(dataset_json(dataset));
  const compare::DatasetVerdict* first = v.first_wrong();
  nlohmann::ordered_json json = {
      {"case", v.case_text},
      {"implementation", v.implementation},
      {"truth", v.truth},
      {"precision", v.precision},
      {"outcome", outcome_name(v.outcome)},
      {"seconds", v.seconds},
      {"first_wrong_stage", nullptr},
      {"error", nullptr},
      {"absent", v.absent},
      {"moved", v.moved.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(v.moved)},
      {"likely", nlohmann::ordered_json::array()},
      {"stages", std::move(stages)}};
  if (first) json["first_wrong_stage"] = first->id.path();
  if (v.problem) json["error"] = {{"exit_code", contract::exit_code(v.problem->code)}, {"message", v.problem->text()}};
  return json;
}

}  // namespace

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed: return "passed";
    case Outcome::kFailed: return "failed";
    case Outcome::kDeclined: return "declined";
    case Outcome::kError: return "error";
    case Outcome::kNothingChecked: break;
  }
  return "nothing_checked";
}

nlohmann::ordered_json environment_json() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return {{"plumbline", PLUMBLINE_VERSION},
          {"date", golden::today()},
          {"build_type", PLUMBLINE_BUILD_TYPE},
          {"commit", kBuildCommit},
          {"instruction_set", PLUMBLINE_ARCH_NAME},
          {"compiler", PLUMBLINE_COMPILER},
          {"flags", PLUMBLINE_FLAGS},
          {"eigen", version(EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION)},
          {"hdf5", version(static_cast<int>(major), static_cast<int>(minor), static_cast<int>(release))},
          {"processor", processor_name()},
          {"hardware_threads", std::thread::hardware_concurrency()},
          {"openmp_threads", omp_get_max_threads()},
          {"cuda", "not built"}};
}

nlohmann::ordered_json report_json(const std::vector<CaseVerdict>& verdicts, int exit_code) {
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  for (const CaseVerdict& v : verdicts) cases.push_back(case_json(v));
  return {{"schema_version", kReportSchemaVersion},
          {"exit_code", exit_code},
          {"environment", environment_json()},
          {"cases", std::move(cases)}};
}

contract::Status write_report(const std::string& path, const std::vector<CaseVerdict>& verdicts, int exit_code) {
  return golden::write_file(path, report_json(verdicts, exit_code).dump(2) + "\n");
}

}  // namespace plumbline::tools
