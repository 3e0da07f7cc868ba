#include "bench/machine.hpp"

#include <malloc.h>
#include <omp.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <string>
#include <string_view>

#include "reference/run_layer.hpp"

namespace plumbline::bench {
namespace {

using contract::Index;
using reference::Matrix;

double read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

/// A memory field of this process's status, in bytes; 0 where there is none.
double status_bytes(std::string_view field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field)) return std::stod(line.substr(field.size())) * 1024;
  return 0;
}

template <typename Body>
Rate time_operations(double operations, Body body) {
  const Seconds start = now();
  body();
  const Seconds taken = now() - start;
  return {operations / taken.wall, operations / taken.cpu};
}

Rate measure_tiled() {
  constexpr Index n = 2048;
  const Matrix<double> a = Matrix<double>::Random(n, n), b = Matrix<double>::Random(n, n);
  Matrix<double> c = Matrix<double>::Zero(n, n);
  reference::fix_product_blocking();
  return time_operations(2.0 * n * n * n, [&] {
    reference::project(reference::ExactPolicy<double>{}, contract::DatasetId::forward(contract::StageId::kOut),
                       reference::all(c), reference::all(a), reference::all(b));
  });
}

Rate measure_plain() {
  // Read before anything has fixed them.
  static const auto l1 = Eigen::l1CacheSize(), l2 = Eigen::l2CacheSize(), l3 = Eigen::l3CacheSize();
  constexpr Index n = 1024;
  const int threads = omp_get_max_threads();
  const Matrix<double> a = Matrix<double>::Random(n, n), b = Matrix<double>::Random(n, n);
  Matrix<double> c = Matrix<double>::Zero(threads * n, n);
  Eigen::setCpuCacheSizes(l1, l2, l3);
  return time_operations(2.0 * threads * n * n * n, [&] {
#pragma omp parallel for schedule(static)
    for (int thread = 0; thread < threads; ++thread) c.middleRows(thread * n, n).noalias() = a * b;
  });
}

}  // namespace

Seconds now() { return {read_clock(CLOCK_MONOTONIC), read_clock(CLOCK_PROCESS_CPUTIME_ID)}; }

double thread_cpu_seconds() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

Rate measure_dgemm() {
  const Rate plain = measure_plain(), tiled = measure_tiled();
  return {std::max(plain.per_second, tiled.per_second), std::max(plain.per_cpu_second, tiled.per_cpu_second)};
}

Rate mean(const Rate& a, const Rate& b) {
  return {(a.per_second + b.per_second) / 2, (a.per_cpu_second + b.per_cpu_second) / 2};
}

bool reset_peak_memory() {
  malloc_trim(0);  // what earlier cases freed is not this one's
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5" << std::flush;
  return clear.good();
}

double peak_memory_bytes() { return status_bytes("VmHWM:"); }

}  // namespace plumbline::bench
