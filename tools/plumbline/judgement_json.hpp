#pragma once
#include <nlohmann/json.hpp>

#include "compare/judge.hpp"

namespace plumbline::tools {

/// `stages` of a report (docs/report-schema.md): one object a judged dataset.
nlohmann::ordered_json judgement_json(const compare::Judgement& judgement);

/// JSON has no NaN and no infinity: they are the strings "nan", "inf", "-inf".
nlohmann::ordered_json json_number(double value);

}  // namespace plumbline::tools
