// The one frequency table of a layer: ramps with fractional values, ramps of no length, and where it is used.
#include <numbers>

#include "compare/golden_rule.hpp"
#include "tests/layer_runs.hpp"

namespace plumbline::tests {
namespace {

using Wide = long double;

struct Ramp {
  const char* name;
  const char* text;
  std::vector<Wide> values;  ///< of each pair, worked out by hand from lo and hi; empty: YaRN is off
};

void PrintTo(const Ramp& ramp, std::ostream* out) { *out << ramp.text; }

class YarnProperty : public testing::TestWithParam<Ramp> {};
// dim(r) = 8 ln(orig / (2 pi r)) / (2 ln 500):
INSTANTIATE_TEST_SUITE_P(
    Ramps, YarnProperty,
    testing::Values(
        Ramp{"thirds", "csa", {0, 1.0L / 3, 2.0L / 3, 1}},                  // dims 0.16, 2.39: lo 0, hi 3
        Ramp{"halves", "csa,yarn_orig=2000,beta_slow=5", {0, 0, 0.5L, 1}},  // dims 1.48, 2.68: lo 1, hi 3
        Ramp{"sevenths", "csa,yarn_orig=100000,beta_fast=5000", {0, 1.0L / 7, 2.0L / 7, 3.0L / 7}},  // 0.75, 6.23: 0, 7
        Ramp{"starts_below_zero", "csa,yarn_orig=100", {0, 0.5L, 1, 1}},  // dims -0.45, 1.78: lo 0, hi 2
        Ramp{"no_length_at_zero", "csa,yarn_orig=6", {0, 1, 1, 1}},       // dims < 0: lo = hi = 0
        Ramp{"no_length_at_two",
             "csa,beta_fast=1,beta_slow=2,yarn_orig=218",
             {0, 0, 0, 1}},                                                // dims 2.28, 1.84: lo = hi = 2
        Ramp{"no_length_at_end", "csa,yarn_orig=20000000", {0, 0, 0, 0}},  // dims 7.40, > 7: lo = hi = 7
        Ramp{"off_by_factor", "csa,yarn_factor=1", {}}, Ramp{"off_by_length", "csa,yarn_orig=0", {}},
        Ramp{"hca", "hca,ratio=6", {0, 1.0L / 3, 2.0L / 3, 1}}, Ramp{"swa_has_none", "swa", {}}),
    [](const auto& test) { return test.param.name; });

std::vector<Wide> frequencies(const LayerConfig& c, const std::vector<Wide>& ramp) {
  std::vector<Wide> f;
  for (Index j = 0; j < c.rope_dim / 2; ++j) {
    const Wide plain = std::exp(-std::log(Wide(c.rope_base)) * Wide(2 * j) / Wide(c.rope_dim));
    const Wide share = ramp.empty() ? 0 : ramp[static_cast<std::size_t>(j)];
    f.push_back(plain * (1 - share) + plain / Wide(c.yarn_factor) * share);
  }
  return f;
}

/// Largest |want - got| where `want` is `from` (normalised by its root mean square and `gain` if not null), its last
/// channels rotated as complex numbers by t f[j] times `sign`.
double rotation_error(const double* from, const double* got, Index width, bool normalise, const Tensor* gain, Wide eps,
                      const std::vector<Wide>& f, Index t, int sign) {
  std::vector<Wide> want(from, from + width);
  Wide square = 0;
  for (const Wide v : want) square += v * v;
  const Wide rho = normalise ? 1 / std::sqrt(square / Wide(width) + eps) : Wide(1);
  for (Index c = 0; c < width; ++c) want[static_cast<std::size_t>(c)] *= gain ? rho * Wide((*gain)[c]) : rho;
  const Index first = width - 2 * static_cast<Index>(f.size());
  for (std::size_t j = 0; j < f.size(); ++j) {
    Wide &u = want[static_cast<std::size_t>(first) + 2 * j], &v = want[static_cast<std::size_t>(first) + 2 * j + 1];
    const Wide angle = Wide(sign) * Wide(t) * f[j], real = u, imaginary = v;
    u = real * std::cos(angle) - imaginary * std::sin(angle);
    v = real * std::sin(angle) + imaginary * std::cos(angle);
  }
  double error = 0;
  for (Index c = 0; c < width; ++c)
    error = std::max(error, double(std::abs(want[static_cast<std::size_t>(c)] - got[c])));
  return error;
}

TEST_P(YarnProperty, OneTableRotatesEverything) {
  const Problem problem = case_problem(std::string(GetParam().text) + ",seq=70+9,seed=81");
  const Results results = run(problem);
  const LayerConfig& c = problem.config;
  const std::vector<Wide> f = frequencies(c, GetParam().values);
  const auto stage = [&](StageId id) -> const Tensor& { return results.at(DatasetId::forward(id)); };
  for (const Index row : real_rows(problem.packing)) {
    const Index t = row < 70 ? row : row - 70;
    for (Index h = 0; h < c.heads; ++h) {
      const Index at = h * c.head_dim;
      EXPECT_LT(rotation_error(stage(StageId::kQUp).row(row) + at, stage(StageId::kQ).row(row) + at, c.head_dim, true,
                               nullptr, c.eps, f, t, 1),
                1e-14);
      EXPECT_LT(rotation_error(stage(StageId::kAttnOut).row(row) + at, stage(StageId::kAttnOutDerotated).row(row) + at,
                               c.head_dim, false, nullptr, c.eps, f, t, -1),
                1e-14);
    }
    EXPECT_LT(rotation_error(stage(StageId::kKvProj).row(row), stage(StageId::kKv).row(row), c.head_dim, true,
                             &problem.weight(WeightId::kKvNorm), c.eps, f, t, 1),
              1e-14);
  }
  const Index first_groups = problem.packing.groups(0, c.ratio);
  for (Index e = 0; e < problem.packing.total_groups(c.ratio); ++e) {
    const Index g = e < first_groups ? e : e - first_groups;
    EXPECT_LT(rotation_error(stage(StageId::kCompressedPooled).row(e), stage(StageId::kCompressedKv).row(e), c.head_dim,
                             true, &problem.weight(WeightId::kCompressorNorm), c.eps, f, g * c.ratio, 1),
              1e-14);
  }
}

TEST_P(YarnProperty, AgreesWithTheWiderType) {
  const Problem problem = case_problem(std::string(GetParam().text) + ",seq=300+9,seed=82");
  const Results wide = convert<double>(run<long double>(problem));
  for (const auto& v : compare::compare_by_golden_rule(problem, wide, run(problem), {.kl_by_condition = true}))
    EXPECT_NE(v.verdict, compare::Verdict::kFail) << v.id.path() << " " << v.error;
}

TEST(Yarn, LayersWithoutCompressionIgnoreIt) {
  const Problem plain = case_problem("swa,seq=40,seed=83");
  Problem other = plain;
  other.config.yarn_orig = 3;
  other.config.yarn_factor = 2;
  other.config.beta_fast = -1;
  EXPECT_TRUE(same_bits(run(plain), run(other)));
}

TEST(Yarn, ChangesCompressedLayers) {
  Problem plain = case_problem("csa,seq=40,seed=83");
  const Results before = run(plain);
  plain.config.yarn_orig = 1000;
  EXPECT_FALSE(close(before, run(plain), 1e-6));
}

}  // namespace
}  // namespace plumbline::tests
