// The value generator: Random123's own known answers, the table that tools/check_values.py computes in numpy, and the
// moments and purposes of the distributions.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "reference/contract/case.hpp"
#include "reference/contract/random.hpp"

namespace plumbline::contract {
namespace {

TEST(Philox, GivesThePublishedAnswers) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox(0, 0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~std::uint64_t{0}, ~std::uint32_t{0}, ~std::uint64_t{0}, ~std::uint32_t{0}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x13198a2e, 0x85a308d3243f6a88, 0x03707344),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Normal, HasMeanZeroVarianceOneAndExactSteps) {
  double sum = 0, squares = 0;
  constexpr int kCount = 200000;
  for (int i = 0; i < kCount; ++i) {
    const double z = normal(5, 7, static_cast<std::uint64_t>(i));
    EXPECT_EQ(std::ldexp(z, 16), std::round(std::ldexp(z, 16)));
    sum += z;
    squares += z * z;
  }
  EXPECT_NEAR(sum / kCount, 0, 4 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1, 4 * std::sqrt(2.0 / kCount));
}

struct Row {
  Regime regime;
  std::uint64_t seed;
  std::string tensor;
  std::map<std::string, Index> sizes;
  std::string checksum;
};

std::vector<Row> read_table() {
  std::map<std::string, Regime> names;
  for (const RegimeInfo& info : regimes()) names[std::string(info.name)] = info.id;
  std::ifstream file(PLUMBLINE_TESTS_FOLDER "/data/values.txt");
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Row row;
    std::string regime, word;
    words >> regime >> row.seed >> row.tensor;
    row.regime = names.at(regime);
    while (words >> word) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos)
        row.checksum = word;
      else
        row.sizes[word.substr(0, equals)] = std::stoll(word.substr(equals + 1));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string checksum(const std::vector<double>& values) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += std::bit_cast<std::uint64_t>(values[i]) * (2 * i + 1);
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(sum));
  return text;
}

std::vector<double> generate(const Row& row) {
  LayerConfig config = parse_case("csa")->config;
  std::vector<double> values;
  if (const auto id = find_weight(row.tensor)) {
    const Index count = element_count(shape_of(info(*id).axes, config, Packing{}));
    for (Index i = 0; i < count; ++i) values.push_back(weight_value(config, row.regime, row.seed, *id, i));
    return values;
  }
  const auto value = row.tensor == "hidden" ? hidden_value : grad_out_value;
  for (Index t = 0; t < row.sizes.at("tokens"); ++t)
    for (Index c = 0; c < config.hidden; ++c)
      values.push_back(value(config, row.regime, row.seed, row.sizes.at("segment"), t, c));
  return values;
}

TEST(Values, AreTheBitsOfTheTable) {
  const std::vector<Row> rows = read_table();
  ASSERT_EQ(rows.size(), regimes().size() * (kWeightCount + 4));
  for (const Row& row : rows)
    EXPECT_EQ(checksum(generate(row)), row.checksum)
        << to_string(row.regime) << " " << row.tensor << ": a changed generator makes every golden anew";
}

TEST(Values, DifferBetweenTensorsSegmentsAndSeeds) {
  const LayerConfig c = parse_case("csa")->config;
  const double value = hidden_value(c, Regime::kNormal, 1, 0, 3, 5);
  EXPECT_NE(value, hidden_value(c, Regime::kNormal, 2, 0, 3, 5));
  EXPECT_NE(value, hidden_value(c, Regime::kNormal, 1, 1, 3, 5));
  EXPECT_NE(value, hidden_value(c, Regime::kNormal, 1, 0, 4, 5));
  EXPECT_NE(value, hidden_value(c, Regime::kNormal, 1, 0, 3, 6));
  EXPECT_NE(value, grad_out_value(c, Regime::kNormal, 1, 0, 3, 5));
  EXPECT_NE(weight_value(c, Regime::kNormal, 1, WeightId::kWkv, 0),
            weight_value(c, Regime::kNormal, 1, WeightId::kWqA, 0));
}

TEST(Values, HeavyTailsAreHeavy) {
  const LayerConfig c = parse_case("csa,hidden=4096")->config;
  int large = 0;
  for (Index i = 0; i < 40000; ++i) large += std::abs(hidden_value(c, Regime::kHeavy, 3, 0, i / 4096, i % 4096)) > 20;
  EXPECT_GT(large, 200);
}

}  // namespace
}  // namespace plumbline::contract
