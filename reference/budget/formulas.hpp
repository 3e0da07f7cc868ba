#pragma once
#include <string_view>
#include <vector>

#include "reference/contract/dataset.hpp"

namespace plumbline::reference {

/// How a dataset's budget is made, in the words of reference/budget: the terms besides u |y| of the store.
std::string_view budget_formula(contract::DatasetId id);

/// A constant of the budgets, with what it rests on.
struct BudgetConstant {
  std::string_view name;
  double value;
  std::string_view meaning;
  std::string_view basis;
};
const std::vector<BudgetConstant>& budget_constants();

}  // namespace plumbline::reference
