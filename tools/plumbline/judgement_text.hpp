#pragma once
#include <string>

#include "compare/judge.hpp"

namespace plumbline::tools {

/// Every judged dataset with its shares of the isolated and chained limits, the gate and the verdict.
std::string judgement_table(const compare::Judgement& judgement);

/// What a failure needs: the table, where the first wrong dataset is wrong, how badly, and how to see it again.
std::string judgement_report(const compare::Judgement& judgement, const contract::Problem& problem,
                             const std::string& title, const std::string& repro);

/// "channel 24..31, every entry but 0": the indices of each axis at which elements are wrong.
std::string wrong_places(const compare::DatasetJudgement& judgement, const contract::Problem& problem);

}  // namespace plumbline::tools
