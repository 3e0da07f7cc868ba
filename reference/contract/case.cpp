#include "reference/contract/case.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "reference/contract/nearest.hpp"
#include "reference/contract/presets.hpp"

namespace plumbline::contract {
namespace {

using Keys = std::map<std::string, std::string, std::less<>>;

constexpr std::array<std::string_view, 3> kKindNames = {"swa", "csa", "hca"};
constexpr Index kMaxSegments = Index{1} << 20;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

std::vector<std::string> known_keys() {
  std::vector<std::string> names;
  for (const CaseKey& key : case_keys()) names.emplace_back(key.name);
  for (const ConfigField& field : kConfigFields) names.emplace_back(field.name);
  return names;
}

Error unknown_key(std::string_view key) {
  return usage_error("case", "unknown key " + quoted(key) + ", did you mean " +
                                 quoted(nearest_names(key, known_keys(), 1).front()) +
                                 "? All keys: plumbline explain case");
}

Error bad_value(std::string_view key, std::string_view got, std::string_view allowed) {
  return usage_error("case key " + quoted(key), "got " + quoted(got) + ", allowed: " + std::string(allowed));
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<Index> parse_index(std::string_view key, std::string_view text, Index low, Index high) {
  const auto value = parse_number<Index>(text);
  if (!value || *value < low || *value > high)
    return bad_value(key, text, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  return *value;
}

std::string shortest(double value) {
  std::array<char, 40> buffer;
  return std::string(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr);
}

template <typename Table>
std::string joined(const Table& names) {
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : " | ") + std::string(name);
  return all;
}

/// Position of `text` in a list of names.
template <typename Table>
Result<std::size_t> parse_name(std::string_view key, std::string_view text, const Table& names) {
  for (std::size_t i = 0; i < std::size(names); ++i)
    if (names[i] == text) return i;
  return bad_value(key, text, joined(names));
}

std::vector<std::string_view> regime_names() {
  std::vector<std::string_view> names;
  for (const RegimeInfo& regime : regimes()) names.push_back(regime.name);
  return names;
}

Status set_field(LayerConfig& config, const ConfigField& field, std::string_view text) {
  if (const auto* member = std::get_if<Index LayerConfig::*>(&field.member)) {
    auto value = parse_index(field.name, text, 0, kMaxExtent);
    if (!value) return value.error();
    config.*(*member) = *value;
  } else if (const auto* number = std::get_if<double LayerConfig::*>(&field.member)) {
    const auto value = parse_number<double>(text);
    if (!value) return bad_value(field.name, text, "a number");
    config.*(*number) = *value;
  } else if (const auto* flag = std::get_if<bool LayerConfig::*>(&field.member)) {
    static constexpr std::array<std::string_view, 6> kNames = {"off", "on", "false", "true", "0", "1"};
    auto value = parse_name(field.name, text, kNames);
    if (!value) return value.error();
    config.*(*flag) = *value % 2 == 1;
  } else {
    static constexpr std::array<std::string_view, 2> kNames = {"full", "compressed_only"};
    auto value = parse_name(field.name, text, kNames);
    if (!value) return value.error();
    config.*std::get<Teacher LayerConfig::*>(field.member) = static_cast<Teacher>(*value);
  }
  return {};
}

std::string print_field(const LayerConfig& config, const ConfigField& field) {
  return std::visit(
      [&](auto member) -> std::string {
        const auto& value = config.*member;
        using Value = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>) {
          return value ? "on" : "off";
        } else if constexpr (std::is_same_v<Value, Teacher>) {
          return std::string(to_string(value));
        } else if constexpr (std::is_same_v<Value, double>) {
          return shortest(value);
        } else {
          return std::to_string(value);
        }
      },
      field.member);
}

Result<std::vector<Index>> parse_lengths(std::string_view text) {
  std::vector<Index> lengths;
  for (const std::string& part : split(text, '+')) {
    auto length = parse_index("seq", part, 0, kMaxCaseTokens);
    if (!length) return length.error();
    lengths.push_back(*length);
  }
  if (static_cast<Index>(lengths.size()) > kMaxSegments)
    return bad_value("seq", std::to_string(lengths.size()) + " segments", "at most " + std::to_string(kMaxSegments));
  return lengths;
}

Result<MaskSpec> parse_mask(std::string_view text) {
  constexpr std::string_view kAllowed = "none | random:P with 0 <= P <= 1 | prefix:N";
  MaskSpec mask;
  if (text == "none") return mask;
  if (text.starts_with("random:")) {
    const auto probability = parse_number<double>(text.substr(7));
    if (!probability || !(*probability >= 0 && *probability <= 1)) return bad_value("mask", text, kAllowed);
    mask.kind = MaskSpec::Kind::kRandom;
    mask.probability = *probability;
    return mask;
  }
  if (text.starts_with("prefix:")) {
    auto prefix = parse_index("mask", text.substr(7), 0, kMaxCaseTokens);
    if (!prefix) return prefix.error();
    mask.kind = MaskSpec::Kind::kPrefix;
    mask.prefix = *prefix;
    return mask;
  }
  return bad_value("mask", text, kAllowed);
}

std::string print_mask(const MaskSpec& mask) {
  switch (mask.kind) {
    case MaskSpec::Kind::kRandom: return "random:" + shortest(mask.probability);
    case MaskSpec::Kind::kPrefix: return "prefix:" + std::to_string(mask.prefix);
    case MaskSpec::Kind::kNone: break;
  }
  return "none";
}

Result<SinkSpec> parse_sink(std::string_view text) {
  constexpr std::string_view kAllowed = "normal | a number, inf or -inf, then :h for head h alone";
  SinkSpec sink;
  if (text == "normal") return sink;
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto value = parse_number<double>(text.substr(0, colon));
  if (!value || std::isnan(*value)) return bad_value("sink", text, kAllowed);
  sink.value = *value;
  if (colon == text.size()) return sink;
  auto head = parse_index("sink", text.substr(colon + 1), 0, kMaxExtent);
  if (!head) return head.error();
  sink.head = *head;
  return sink;
}

std::string print_sink(const SinkSpec& sink) {
  if (!sink.value) return "normal";
  return shortest(*sink.value) + (sink.head ? ":" + std::to_string(*sink.head) : "");
}

std::string print_lengths(const std::vector<Index>& lengths) {
  std::string text;
  for (const Index length : lengths) text += (text.empty() ? "" : "+") + std::to_string(length);
  return text;
}

/// Cuts "key=value" parts into a map; a key may stand once, and `loss` is another name of sparse_loss.
Result<Keys> collect_keys(const std::vector<std::string>& parts) {
  const std::vector<std::string> names = known_keys();
  Keys keys;
  for (const std::string& part : parts) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos)
      return usage_error("case", "expected key=value, got " + quoted(part) + " (the layer kind comes first, once)");
    const std::string key = trim(part.substr(0, equals)), value = trim(part.substr(equals + 1));
    if (std::find(names.begin(), names.end(), key) == names.end()) return unknown_key(key);
    const bool twice = !keys.emplace(key, value).second || (keys.count("loss") && keys.count("sparse_loss"));
    if (twice) return usage_error("case", "key " + quoted(key) + " is repeated; give it once");
  }
  return keys;
}

/// Sizes that no allocation could meet are refused before anything is allocated.
Status check_extent(const Case& c) {
  double tokens = 0;
  for (const Index length : c.lengths) tokens += std::ceil(double(length) / double(c.pad)) * double(c.pad);
  if (tokens > double(kMaxCaseTokens))
    return usage_error("case key 'seq'", "the batch has " + shortest(tokens) + " physical rows, allowed: at most " +
                                             std::to_string(kMaxCaseTokens));
  const LayerConfig& config = c.config;
  const double entries = config.compressed() ? tokens / double(config.ratio) : 0;
  const double widest = std::max({double(config.hidden), double(config.heads) * double(config.head_dim),
                                  double(config.index_heads) * double(config.index_dim),
                                  double(config.o_groups) * double(config.o_lora_rank), entries});
  if (tokens * widest > double(kMaxElements))
    return usage_error("case",
                       "a tensor of this batch would have more than 2^44 elements; shorten seq or reduce sizes");
  return {};
}

Status finish(Case& c) {
  if (auto status = validate(c.config); !status) return status;
  if (c.sink.head && *c.sink.head >= c.config.heads)
    return bad_value("sink", print_sink(c.sink), "a head below " + std::to_string(c.config.heads));
  if (auto status = check_extent(c); !status) return status;
  if (c.layout == Layout::kSbhd)
    for (const Index length : c.lengths)
      if ((length + c.pad - 1) / c.pad != (c.lengths[0] + c.pad - 1) / c.pad)
        return bad_value("layout", "sbhd with seq=" + print_lengths(c.lengths),
                         "segments of equal physical length (use layout=thd, or pad=)");
  return {};
}

Result<Case> parse_file_case(const std::vector<std::string>& parts) {
  Case c;
  for (const std::string& part : parts) {
    if (part.starts_with("file=") && c.file.empty() && part.size() > 5) {
      c.file = part.substr(5);
    } else {
      return usage_error(
          "case", "a case 'file=PATH' takes everything from the file; " + quoted(part) + " cannot stand beside it");
    }
  }
  return c;
}

Status apply_keys(const Keys& keys, Case& c) {
  const auto given = [&](std::string_view key) -> const std::string* {
    const auto found = keys.find(key);
    return found == keys.end() ? nullptr : &found->second;
  };
  for (const ConfigField& field : kConfigFields)
    if (const std::string* text = given(field.name))
      if (auto status = set_field(c.config, field, *text); !status) return status;
  if (const std::string* text = given("loss")) {
    static constexpr std::array<std::string_view, 2> kNames = {"dense", "sparse"};
    auto value = parse_name("loss", *text, kNames);
    if (!value) return value.error();
    c.config.sparse_loss = *value == 1;
  }
  if (const std::string* text = given("seq")) {
    auto value = parse_lengths(*text);
    if (!value) return value.error();
    c.lengths = *value;
  }
  if (const std::string* text = given("pad")) {
    auto value = parse_index("pad", *text, 1, kMaxCaseTokens);
    if (!value) return value.error();
    c.pad = *value;
  }
  if (const std::string* text = given("mask")) {
    auto value = parse_mask(*text);
    if (!value) return value.error();
    c.mask = *value;
  }
  if (const std::string* text = given("layout")) {
    static constexpr std::array<std::string_view, 2> kNames = {"thd", "sbhd"};
    auto value = parse_name("layout", *text, kNames);
    if (!value) return value.error();
    c.layout = static_cast<Layout>(*value);
  }
  if (const std::string* text = given("data")) {
    auto value = parse_name("data", *text, regime_names());
    if (!value) return value.error();
    c.data = static_cast<Regime>(*value);
  }
  if (const std::string* text = given("sink")) {
    auto value = parse_sink(*text);
    if (!value) return value.error();
    c.sink = *value;
  }
  if (const std::string* text = given("prec")) {
    const std::string name = *text == "bf16" ? "bf16-fused" : *text;
    auto value = parse_name("prec", name, precision_names());
    if (!value) return value.error();
    c.precision = name;
  }
  if (const std::string* text = given("seed")) {
    const auto value = parse_number<std::uint64_t>(*text);
    if (!value) return bad_value("seed", *text, "a whole number from 0 to 2^64 - 1");
    c.seed = *value;
  }
  return {};
}

/// All keys of a case with their printed values, in printing order.
std::vector<std::pair<std::string, std::string>> printed_keys(const Case& c) {
  std::vector<std::pair<std::string, std::string>> keys = {{"seq", print_lengths(c.lengths)},
                                                           {"pad", std::to_string(c.pad)},
                                                           {"mask", print_mask(c.mask)},
                                                           {"layout", std::string(to_string(c.layout))},
                                                           {"data", std::string(to_string(c.data))},
                                                           {"sink", print_sink(c.sink)}};
  for (const ConfigField& field : kConfigFields) {
    if (field.name == "sparse_loss")
      keys.emplace_back("loss", c.config.sparse_loss ? "sparse" : "dense");
    else
      keys.emplace_back(std::string(field.name), print_field(c.config, field));
  }
  keys.emplace_back("prec", c.precision);
  keys.emplace_back("seed", std::to_string(c.seed));
  return keys;
}

Case default_case(LayerKind kind, const std::string& model) {
  Case c;
  c.kind = kind;
  c.model = model;
  if (auto config = preset(kind, model)) c.config = *config;
  c.lengths = {default_length(kind, model)};
  return c;
}

std::string print_keys(const Case& c, bool all) {
  if (!c.file.empty()) return "file=" + c.file;
  std::string text = std::string(to_string(c.kind)) + ",model=" + c.model;
  const auto defaults = printed_keys(default_case(c.kind, c.model));
  const auto keys = printed_keys(c);
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (all || keys[i] != defaults[i]) text += "," + keys[i].first + "=" + keys[i].second;
  return text;
}

/// Alternatives of one value: `a|b`, and `127..131` in whole numbers.
Result<std::vector<std::string>> expand_value(const std::string& part) {
  constexpr Index kMostSteps = 100000;
  const std::size_t equals = part.find('=');
  const std::string prefix = equals == std::string::npos ? "" : part.substr(0, equals + 1);
  std::vector<std::string> values;
  if (prefix == "file=") return std::vector<std::string>{part};
  for (const std::string& value : split(std::string_view(part).substr(prefix.size()), '|')) {
    const std::size_t dots = value.find("..");
    if (dots == std::string::npos) {
      values.push_back(prefix + value);
      continue;
    }
    const auto first = parse_number<Index>(std::string_view(value).substr(0, dots));
    const auto last = parse_number<Index>(std::string_view(value).substr(dots + 2));
    if (!first || !last || *first > *last || *last - *first >= kMostSteps || *first < 0)
      return bad_value(prefix.empty() ? "kind" : prefix.substr(0, prefix.size() - 1), value,
                       "a sweep FIRST..LAST of at most " + std::to_string(kMostSteps) + " whole numbers");
    for (Index i = *first; i <= *last; ++i) values.push_back(prefix + std::to_string(i));
  }
  return values;
}

}  // namespace

const std::vector<CaseKey>& case_keys() {
  static const std::vector<CaseKey> keys = {
      {"model", "tiny | tiny-tp | flash | pro", "shape of the layer; default tiny"},
      {"seq", "37 or 37+3+4", "real tokens of each segment; sweeps: 127..131"},
      {"pad", "a whole number >= 1", "physical lengths are rounded up to a multiple; default 1"},
      {"mask", "none | random:0.3 | prefix:5", "rows without the query role"},
      {"layout", "thd | sbhd", "how an implementation is handed the batch"},
      {"data", "ints | normal | peaky | negative | flat | ties | outliers | heavy", "distribution of the values"},
      {"sink", "normal | 700 | -inf | inf:2", "attention sinks: drawn, or one value for all heads or one"},
      {"loss", "sparse | dense", "the field sparse_loss"},
      {"prec", "fp64 | fp32 | bf16-fused | bf16-eager | bf16-fp8index", "precision profile; bf16 means bf16-fused"},
      {"seed", "a whole number", "seed of every value; default 0"},
      {"file", "a path", "replays the case of a golden file; stands alone"},
  };
  return keys;
}

const std::vector<std::string_view>& precision_names() {
  static const std::vector<std::string_view> names = {"fp64", "fp32", "bf16-fused", "bf16-eager", "bf16-fp8index"};
  return names;
}

std::string_view to_string(LayerKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

std::string_view to_string(Layout layout) { return layout == Layout::kThd ? "thd" : "sbhd"; }

Result<Case> parse_case(std::string_view text) {
  std::vector<std::string> parts = split(text, ',');
  for (std::string& part : parts) part = trim(part);
  if (std::any_of(parts.begin(), parts.end(), [](const std::string& part) { return part.starts_with("file="); }))
    return parse_file_case(parts);
  auto kind = parse_name("kind", parts.front(), kKindNames);
  if (!kind)
    return usage_error("case", "starts with " + quoted(parts.front()) +
                                   ", expected a layer kind first: swa | csa | hca (or file=PATH)");
  parts.erase(parts.begin());
  auto keys = collect_keys(parts);
  if (!keys) return keys.error();
  const auto model = keys->find("model");
  const std::string model_name = model == keys->end() ? "tiny" : model->second;
  if (auto config = preset(static_cast<LayerKind>(*kind), model_name); !config) return config.error();
  Case c = default_case(static_cast<LayerKind>(*kind), model_name);
  if (auto status = apply_keys(*keys, c); !status) return status.error();
  if (auto status = finish(c); !status) return status.error();
  return c;
}

Result<std::vector<Case>> parse_cases(std::string_view text) {
  constexpr std::size_t kMostCases = 100000;
  std::vector<std::string> texts = {""};
  for (const std::string& part : split(text, ',')) {
    auto values = expand_value(trim(part));
    if (!values) return values.error();
    if (texts.size() * values->size() > kMostCases)
      return usage_error("case", "sweeps expand to more than " + std::to_string(kMostCases) + " cases");
    std::vector<std::string> expanded;
    for (const std::string& head : texts)
      for (const std::string& value : *values) expanded.push_back(head.empty() ? value : head + "," + value);
    texts = std::move(expanded);
  }
  std::vector<Case> cases;
  for (const std::string& one : texts) {
    auto parsed = parse_case(one);
    if (!parsed) return parsed.error();
    cases.push_back(std::move(*parsed));
  }
  return cases;
}

std::string print(const Case& c) { return print_keys(c, false); }
std::string print_full(const Case& c) { return print_keys(c, true); }

}  // namespace plumbline::contract
