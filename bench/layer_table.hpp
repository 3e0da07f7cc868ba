#pragma once
#include <string>
#include <vector>

#include "bench/machine.hpp"
#include "reference/contract/case.hpp"

namespace plumbline::bench {

/// One measured layer.
struct LayerRow {
  contract::Case item;
  bool backward = false;
  double operations = 0;
  Seconds seconds;
  Rate dgemm;             ///< mean of before and after
  double peak_bytes = 0;  ///< inputs and results included; 0: could not be measured

  double rate() const { return operations / seconds.wall; }
  double of_dgemm() const { return rate() / dgemm.per_second; }
  double of_dgemm_by_cpu() const { return operations / seconds.cpu / dgemm.per_cpu_second; }
};

/// Adds a row; of two measurements of the same thing the one nearer to dgemm stays.
void add_row(std::vector<LayerRow>& rows, LayerRow row);

/// Speed and memory, a line a row.
std::string speed_table(const std::vector<LayerRow>& rows);

/// Peak memory a token, between one length and the next of otherwise equal cases of one segment: equal numbers mean
/// memory linear in the length. Empty where there are no two such rows.
std::string memory_table(const std::vector<LayerRow>& rows);

}  // namespace plumbline::bench
