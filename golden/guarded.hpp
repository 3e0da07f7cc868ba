#pragma once
#include <functional>

#include "golden/golden_file.hpp"

namespace plumbline::golden {

/// What a child process may use.
struct GuardLimits {
  double memory_bytes = kDefaultMemoryBytes;  ///< address space beyond what the process has when it forks
  double seconds = 120;                       ///< wall clock, and CPU time
  std::function<bool()> cancelled = {};       ///< asked while waiting; true ends the call with kInterrupted
};

/// Runs `body` in a forked child and hands over what it returns. The child prints nothing, leaves no core file, dies
/// with its parent and, between fork and exit, uses nothing that another thread of the parent may hold (no OpenMP, no
/// HDF5 call in progress). Its death, its silence beyond the time limit or an answer that makes no sense are the
/// error "unreadable file" with the reason; the answer is checked again by `check`.
///
/// Under AddressSanitizer the memory limit is not enforced, as its shadow does not fit any; and as its allocator,
/// unlike the C library's, does not survive a fork in the middle of another thread's allocation, calls take turns there
/// and no other thread should be allocating.
contract::Result<GoldenFile> run_in_child(const std::function<contract::Result<GoldenFile>()>& body,
                                          const GuardLimits& limits);

}  // namespace plumbline::golden
