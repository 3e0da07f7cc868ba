#pragma once
#include <functional>
#include <new>

#include "golden/byte_stream.hpp"
#include "golden/golden_file.hpp"

namespace plumbline::golden {

/// What a child process may use.
struct GuardLimits {
  double memory_bytes = kDefaultMemoryBytes;  ///< address space beyond what the process has when it forks
  double seconds = kDefaultSeconds;           ///< wall clock, and CPU time
  std::function<bool()> cancelled = {};       ///< asked while waiting; true ends the call with kInterrupted
};

/// Runs `produce` in a forked child and `consume` here on the bytes that it sends; each returns whether that worked.
/// The child prints nothing, leaves no core file, dies with its parent and, between fork and exit, uses nothing that
/// another thread of the parent may hold (no OpenMP, no HDF5 call in progress). Its death, its silence beyond the time
/// limit or bytes that make no sense are the error "unreadable file" with the reason.
///
/// Under AddressSanitizer the memory limit is not enforced, as its shadow does not fit any; and as its allocator,
/// unlike the C library's, does not survive a fork in the middle of another thread's allocation, calls take turns there
/// and no other thread should be allocating.
contract::Status exchange_with_child(const std::function<bool(const ByteSink&)>& produce,
                                     const std::function<bool(const ByteSource&)>& consume, const GuardLimits& limits);

/// `body` in a child, for any value that has a form on the wire: `send(answer, sink)` and
/// `receive(source, received)`. That memory runs out in the child is its answer.
template <typename Value, typename Body, typename Send, typename Receive>
contract::Result<Value> answer_of_child(const Body& body, const Send& send, const Receive& receive,
                                        const GuardLimits& limits) {
  contract::Result<Value> answer = contract::Error{};
  const auto exchanged = exchange_with_child(
      [&](const ByteSink& sink) {
        try {
          return send(body(), sink);
        } catch (const std::bad_alloc&) {
          return send(
              contract::Error{contract::ErrorCode::kMemory, "its values do not fit the memory allowed for them", ""},
              sink);
        }
      },
      [&](const ByteSource& source) {
        bool received = false;
        answer = receive(source, received);
        return received;
      },
      limits);
  if (!exchanged) return exchanged.error();
  return answer;
}

}  // namespace plumbline::golden
