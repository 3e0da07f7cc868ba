#pragma once
#include <functional>

#include "golden/child_process.hpp"
#include "golden/golden_file.hpp"

namespace plumbline::golden {

/// Runs `body` in a forked child (`exchange_with_child`) and hands over what it returns; the answer is checked again by
/// `check`.
contract::Result<GoldenFile> run_in_child(const std::function<contract::Result<GoldenFile>()>& body,
                                          const GuardLimits& limits);

}  // namespace plumbline::golden
