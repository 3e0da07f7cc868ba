#include "golden/guarded.hpp"

#include "golden/check.hpp"
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

Result<GoldenFile> read_guarded(const std::string& path, double memory_bytes, double seconds,
                                const std::function<bool()>& cancelled) {
  auto golden = run_in_child([&] { return read(path, memory_bytes); }, {memory_bytes, seconds, cancelled});
  if (!golden) return in_file(path, golden.error());
  return golden;
}

}  // namespace plumbline::golden
