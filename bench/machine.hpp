#pragma once

namespace plumbline::bench {

/// Wall seconds, and CPU seconds of all threads of this process, since an arbitrary origin. On a machine that others
/// use too, ratios of CPU seconds are the steadier ones.
struct Seconds {
  double wall = 0;
  double cpu = 0;

  Seconds operator-(const Seconds& other) const { return {wall - other.wall, cpu - other.cpu}; }
};
Seconds now();

/// CPU seconds of the calling thread.
double thread_cpu_seconds();

/// Operations a wall second (all threads together), and a CPU second.
struct Rate {
  double per_second = 0;
  double per_cpu_second = 0;
};

/// The faster of two ways to multiply large matrices with Eigen on all threads: one product of 2048^3, tiled as the
/// reference tiles its own; and on every thread a plain product of 1024^3 of its own, with the blocking that Eigen
/// chooses for this machine. Takes about a second; its memory is gone afterwards.
Rate measure_dgemm();

/// Mean of two rates, as measured before and after something.
Rate mean(const Rate& a, const Rate& b);

/// Forgets how much memory this process held so far. False where the system cannot (it needs Linux's clear_refs).
bool reset_peak_memory();
/// Most resident bytes since the last reset.
double peak_memory_bytes();

}  // namespace plumbline::bench
