#include "tools/plumbline/judgement_json.hpp"

#include <cmath>

namespace plumbline::tools {

namespace {

const char* verdict_name(compare::StageVerdict verdict) {
  switch (verdict) {
    case compare::StageVerdict::kPass: return "pass";
    case compare::StageVerdict::kFail: return "fail";
    case compare::StageVerdict::kInherited: return "inherited";
    case compare::StageVerdict::kNotJudged: break;
  }
  return "not_compared";
}

}  // namespace

nlohmann::ordered_json json_number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

nlohmann::ordered_json judgement_json(const compare::Judgement& judgement) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const compare::DatasetJudgement& j : judgement.datasets)
    stages.push_back({{"name", j.id.path()},
                      {"direction", j.id.is_forward() ? "forward" : "backward"},
                      {"isolated", json_number(j.isolated)},
                      {"chained", j.chained == 0 ? nlohmann::ordered_json(nullptr) : json_number(j.chained)},
                      {"gate", {{"name", to_string(j.gate)}, {"limit", 1}}},
                      {"verdict", verdict_name(j.verdict)},
                      {"compared", j.elements},
                      {"wrong", j.wrong},
                      {"worst", {{"index", j.worst}, {"got", json_number(j.got)}, {"want", json_number(j.want)}}},
                      {"reason", j.reason},
                      {"bound", json_number(j.bound)},
                      {"rms", json_number(j.rms)},
                      {"rms_spread", json_number(j.rms_spread)},
                      {"composite_of", j.composite_of}});
  return stages;
}

}  // namespace plumbline::tools
