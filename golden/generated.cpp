#include "golden/generated.hpp"

#include "golden/message.hpp"
#include "golden/text.hpp"
#include "reference/contract/case.hpp"

namespace plumbline::golden {

using contract::Case;
using contract::ConfigField;
using contract::Error;
using contract::ErrorCode;
using contract::file_error;
using contract::LayerConfig;
using contract::Result;
using contract::Status;

namespace {

Result<Case> case_of(const GoldenFile& golden) {
  auto parsed = contract::parse_case(golden.case_text);
  if (!parsed) return file_error("root attribute 'case'", "generates no problem: " + printable(parsed.error().text()));
  if (!parsed->file.empty())
    return file_error("root attribute 'case'", "names a file; need a case that generates the problem");
  return parsed;
}

}  // namespace

Status check_generator(const GoldenFile& golden) {
  const auto parsed = case_of(golden);
  if (!parsed) return parsed.error();
  const LayerConfig &got = golden.problem.config, &want = parsed->config;
  for (const ConfigField& field : contract::kConfigFields)
    if (!std::visit([&](auto member) { return got.*member == want.*member; }, field.member))
      return file_error("config/" + std::string(field.name), "is not that of the file's case");
  if (!(golden.problem.packing == contract::make_packing(*parsed)))
    return file_error("packing", "is not that of the file's case");
  return {};
}

Status complete(GoldenFile& golden, double memory_bytes) {
  return golden.contents == Contents::kStored ? Status() : generate(golden, memory_bytes);
}

Status generate(GoldenFile& golden, double memory_bytes) {
  const auto parsed = case_of(golden);
  if (!parsed) return parsed.error();
  if (contract::problem_bytes(*parsed) > memory_bytes)
    return Error{
        ErrorCode::kMemory,
        "its case generates more values than the memory allowed for it holds; allow more or use a smaller case", ""};
  auto problem = contract::make_problem(*parsed);
  if (!problem) return problem.error();
  golden.problem = std::move(*problem);
  const std::vector<std::string> moved =
      moved_tensors(golden.fingerprints, make_fingerprints(golden.problem), golden.problem.config);
  if (moved.empty()) return {};
  std::string names;
  for (const std::string& name : moved) names += (names.empty() ? "" : ", ") + name;
  return Error{ErrorCode::kCheckFailed,
               "the generator has moved: its case no longer gives the numbers that the file was made with, in " +
                   names + "; mend the generator, or make the file again and say why",
               "checksums"};
}

}  // namespace plumbline::golden
