#include "golden/guarded.hpp"

#include "golden/check.hpp"
#include "golden/generated.hpp"
#include "golden/wire.hpp"

namespace plumbline::golden {

using contract::Result;

Result<GoldenFile> run_in_child(const std::function<Result<GoldenFile>()>& body, const GuardLimits& limits) {
  auto answer = answer_of_child<GoldenFile>(
      body, send,
      [&](const ByteSource& source, bool& received) { return receive(source, limits.memory_bytes, received); }, limits);
  if (answer)
    if (auto s = check(*answer); !s) return s.error();
  return answer;
}

namespace {

/// Without inputs and weights, if its case generates these.
Result<GoldenFile> read_layout_guarded(const std::string& path, double memory_bytes, double seconds,
                                       const std::function<bool()>& cancelled) {
  auto golden = run_in_child([&] { return read_layout(path, memory_bytes); }, {memory_bytes, seconds, cancelled});
  if (!golden) return in_file(path, golden.error());
  return golden;
}

}  // namespace

Result<Contents> read_contents_guarded(const std::string& path, double memory_bytes, double seconds,
                                       const std::function<bool()>& cancelled) {
  auto golden = read_layout_guarded(path, memory_bytes, seconds, cancelled);
  if (!golden) return golden.error();
  return golden->contents;
}

Result<GoldenFile> read_guarded(const std::string& path, double memory_bytes, double seconds,
                                const std::function<bool()>& cancelled) {
  auto golden = read_layout_guarded(path, memory_bytes, seconds, cancelled);
  if (!golden) return golden;
  if (auto s = complete(*golden, memory_bytes); !s) return in_file(path, s.error());
  return golden;
}

}  // namespace plumbline::golden
