#include "reference/jacobian.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "reference/jacobian_map.hpp"
#include "reference/rope.hpp"

namespace plumbline::reference {
namespace {

using namespace contract;
using testing::AllOf;
using testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// A dense Jacobian and its vjp differ by the rounding of a few operations, relative to their size.
constexpr double kVjpLimit = 2e-15;
/// Differences in long double carry fourth-order truncation and the rounding of the double they are compared with.
constexpr double kDifferenceLimit = 1e-12;

std::vector<double> normal_values(Index n, unsigned seed, double scale = 1, double shift = 0) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal(shift, scale);
  std::vector<double> values(static_cast<std::size_t>(n));
  for (double& value : values) value = normal(engine);
  return values;
}

void expect_agreement(const JacobianMap& map) {
  const JacobianReport report = check(map);
  EXPECT_LE(report.vjp_error, kVjpLimit) << map.name << ", " << map.at;
  EXPECT_LE(report.difference_error, kDifferenceLimit) << map.name << ", " << map.at;
}

LayerConfig rotary_config(Index rope_dim, double base, Index yarn_orig) {
  LayerConfig c;
  c.head_dim = rope_dim;
  c.rope_dim = rope_dim;
  c.ratio = 4;
  c.rope_base = base;
  c.yarn_factor = 16;
  c.yarn_orig = yarn_orig;
  return c;
}

TEST(RopeJacobian, IsAnOrthogonalMatrixWhoseTransposeIsTheInverse) {
  for (const auto& [width, rope_dim] : {std::pair<Index, Index>{2, 2}, {8, 8}, {10, 4}, {48, 8}, {65, 64}}) {
    for (const Index yarn_orig : {0, 256})
      for (const Index t : {0, 1, 5, 1000}) {
        const LayerConfig c = rotary_config(rope_dim, 500, yarn_orig);
        const std::vector<double> x = normal_values(width, 1);
        const JacobianMap forward = rope_map(c, x, t, false, "P = " + std::to_string(rope_dim));
        const JacobianMap inverse = rope_map(c, x, t, true, "P = " + std::to_string(rope_dim));
        expect_agreement(forward);
        expect_agreement(inverse);
        EXPECT_EQ(inverse.dense, forward.dense.transpose());
        const Matrix<double> identity = Matrix<double>::Identity(width, width);
        EXPECT_LE((forward.dense * inverse.dense - identity).cwiseAbs().maxCoeff(), 4e-16);
        EXPECT_EQ(forward.dense.topLeftCorner(width - rope_dim, width - rope_dim),
                  identity.topLeftCorner(width - rope_dim, width - rope_dim))
            << "channels before the last P must pass";
        EXPECT_EQ(forward.dense == identity, t == 0);
      }
  }
}

TEST(RopeJacobian, RotatesAdjacentPairsBySineAndCosine) {
  const LayerConfig c = rotary_config(4, 10000, 0);
  const Matrix<double> dense = rope_map(c, {0, 0, 0, 0, 0}, 3, false, "").dense;
  for (Index pair = 0; pair < 2; ++pair) {
    const double angle = 3 * std::pow(10000.0, -2.0 * double(pair) / 4);
    const Index u = 1 + 2 * pair;
    EXPECT_NEAR(dense(u, u), std::cos(angle), 1e-16);
    EXPECT_NEAR(dense(u, u + 1), -std::sin(angle), 1e-16);
    EXPECT_NEAR(dense(u + 1, u), std::sin(angle), 1e-16);
    EXPECT_NEAR(dense(u + 1, u + 1), std::cos(angle), 1e-16);
  }
}

/// YaRN's blend by another route: the share of interpolation is how far pair j lies between the pairs that turn
/// beta_fast and beta_slow times within the original length.
std::vector<double> yarn_frequencies(const LayerConfig& c, double low, double high) {
  std::vector<double> f;
  for (Index j = 0; j < c.rope_dim / 2; ++j) {
    const double extrapolated = std::exp(-std::log(c.rope_base) * 2 * double(j) / double(c.rope_dim));
    const double share = std::fmin(1, std::fmax(0, (double(j) - low) / (high - low)));
    f.push_back(extrapolated * (1 - share * (1 - 1 / c.yarn_factor)));
  }
  return f;
}

void expect_frequencies(const LayerConfig& c, const std::vector<double>& want) {
  ASSERT_TRUE(validate([&] {
    LayerConfig whole = c;
    whole.hidden = whole.heads = whole.q_lora_rank = whole.o_groups = whole.o_lora_rank = whole.window = 1;
    whole.eps = 1e-6;
    return whole;
  }()));
  const Vector<double> f = rope_frequencies<double>(c);
  ASSERT_EQ(f.size(), static_cast<Index>(want.size()));
  for (Index j = 0; j < f.size(); ++j)
    EXPECT_NEAR(f[j], want[static_cast<std::size_t>(j)], 4e-15 * want[static_cast<std::size_t>(j)]) << "pair " << j;
}

TEST(YarnFrequencies, BlendOverAFractionalRamp) {
  // dim(r) = 64 ln(65536 / (2 pi r)) / (2 ln 160000): dim(32) = 15.47, dim(1) = 24.71
  const LayerConfig released = rotary_config(64, 160000, 65536);
  expect_frequencies(released, yarn_frequencies(released, 15, 25));
  // dim(32) = 0.31 and dim(1) = 2.39 of 8 rotated channels: ramp 0, 1/3, 2/3, 1
  const LayerConfig tiny = rotary_config(8, 500, 256);
  expect_frequencies(tiny, yarn_frequencies(tiny, 0, 3));
  const Vector<double> f = rope_frequencies<double>(tiny);
  EXPECT_NEAR(f[1], std::pow(500.0, -0.25) * (2.0 / 3 + 1.0 / 3 / 16), 1e-16);
}

TEST(YarnFrequencies, StepWhereTheRampHasNoLength) {
  // Both ends clamped at 0: dim(32) < 0 and dim(1) = 8 ln(6 / 2 pi) / (2 ln 10000) = -0.02.
  const LayerConfig first = rotary_config(8, 10000, 6);
  expect_frequencies(first, yarn_frequencies(first, 0, 0.001));
  const Vector<double> f = rope_frequencies<double>(first);
  EXPECT_EQ(f[0], 1) << "pair 0 stands before the step";
  EXPECT_NEAR(f[1], 0.1 / 16, 1e-17) << "pair 1 behind it";

  // Both ends at P - 1 = 7: dim(32) = 8 ln(2e7 / 64 pi) / (2 ln 500) = 7.4, and dim(1) = 9.6 is clamped. No pair is
  // there.
  const LayerConfig last = rotary_config(8, 500, 20000000);
  expect_frequencies(last, yarn_frequencies(last, 7, 7.001));
  EXPECT_NEAR(rope_frequencies<double>(last)[3], std::pow(500.0, -0.75), 1e-17);
}

TEST(YarnFrequencies, RampEndsAtTheLastChannelNotTheLastPair) {
  // dim(1) = 8 ln(1e6 / 2 pi) / (2 ln 500) = 7.7 > P - 1 = 7: hi is 7, beyond the last pair, 3.
  const LayerConfig c = rotary_config(8, 500, 1000000);
  const double low = std::floor(8 * std::log(1e6 / (64 * M_PI)) / (2 * std::log(500.0)));
  ASSERT_EQ(low, 5);
  expect_frequencies(c, yarn_frequencies(c, low, 7));
  LayerConfig slow = c;
  slow.beta_fast = 1e4;  // lo = 1: the clamp then shows in every blended pair
  expect_frequencies(slow, yarn_frequencies(slow, 1, 7));
}

TEST(YarnFrequencies, BelongToCompressedLayersOnly) {
  LayerConfig c = rotary_config(8, 10000, 256);
  c.ratio = 0;
  const Vector<double> f = rope_frequencies<double>(c);
  for (Index j = 0; j < 4; ++j) EXPECT_NEAR(f[j], std::pow(10.0, -double(j)), 1e-16);
}

TEST(YarnFrequencies, OriginalLengthTooSmallForARampIsRefused) {
  auto c = parse_case("csa");
  ASSERT_TRUE(c);
  LayerConfig config = c->config;
  config.yarn_orig = 1;  // dim(beta_slow) < -1: the ramp would end before channel 0, where it starts
  const Status status = validate(config);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUsage);
  EXPECT_THAT(status.error().text(), HasSubstr("yarn_orig"));
}

TEST(RmsNormJacobian, AgreesForAnySizeScaleAndGain) {
  for (const Index n : {1, 2, 7, 8, 9, 64, 131})
    for (const double scale : {1e-6, 1e-3, 1.0, 1e3}) {
      const std::vector<double> x = normal_values(n, 2, scale);
      const std::string at = "n = " + std::to_string(n) + ", scale " + std::to_string(scale);
      expect_agreement(rms_norm_map(1e-6, x, {}, at));
      expect_agreement(rms_norm_map(1e-6, x, normal_values(n, 3), at));
    }
}

TEST(RmsNormJacobian, OfAZeroRowIsTheGainOverTheRootOfEps) {
  const std::vector<double> gain = {2, -3, 0.5};
  const JacobianMap map = rms_norm_map(1e-6, {0, 0, 0}, gain, "zero");
  expect_agreement(map);
  for (Index i = 0; i < 3; ++i)
    for (Index j = 0; j < 6; ++j)
      EXPECT_NEAR(map.dense(i, j), i == j ? 1e3 * gain[static_cast<std::size_t>(i)] : 0, 1e-12);
}

TEST(RmsNormJacobian, KillsTheRadialDirectionAsEpsVanishes) {
  const std::vector<double> x = normal_values(16, 4);
  const JacobianMap map = rms_norm_map(1e-300, x, {}, "radial");
  EXPECT_LE((map.dense * Eigen::Map<const Vector<double>>(x.data(), 16)).cwiseAbs().maxCoeff(), 1e-15);
}

TEST(HadamardJacobian, IsSymmetricAndItsOwnInverse) {
  for (const Index n : {1, 2, 4, 16, 128}) {
    const JacobianMap map = hadamard_map(normal_values(n, 5), "n = " + std::to_string(n));
    expect_agreement(map);
    EXPECT_EQ(map.dense, map.dense.transpose());
    EXPECT_LE((map.dense * map.dense - Matrix<double>::Identity(n, n)).cwiseAbs().maxCoeff(), 1e-15);
    EXPECT_EQ(map.dense.cwiseAbs().maxCoeff(), map.dense.cwiseAbs().minCoeff());
  }
}

TEST(PoolingJacobian, AgreesForAnyNumberOfSlots) {
  for (const Index slots : {1, 2, 4, 8, 128, 256})
    for (const Index width : {1, 5})
      for (const double scale : {0.0, 1.0, 30.0}) {
        const std::string at = std::to_string(slots) + " slots, logits of scale " + std::to_string(scale);
        const JacobianMap map =
            pooling_map(normal_values(slots * width, 6), normal_values(slots * width, 7, scale), width, at);
        expect_agreement(map);
        ASSERT_EQ(map.dense.rows(), width);
        ASSERT_EQ(map.dense.cols(), 2 * slots * width);
        // Weights of one channel sum to 1, its logits' derivatives to 0: a constant added to all changes nothing.
        const auto half = slots * width;
        EXPECT_LE((map.dense.leftCols(half).rowwise().sum().array() - 1).abs().maxCoeff(), 1e-14) << at;
        EXPECT_LE(map.dense.rightCols(half).rowwise().sum().cwiseAbs().maxCoeff(), 1e-14) << at;
      }
}

TEST(PoolingJacobian, SurvivesHugeLogits) {
  for (const double shift : {-700.0, 700.0, 1e5})
    expect_agreement(pooling_map(normal_values(12, 8), normal_values(12, 9, 1, shift), 3, std::to_string(shift)));
}

TEST(SinkSoftmaxJacobian, AgreesForOrdinarySinks) {
  for (const Index n : {1, 2, 5, 8, 64})
    for (const double scale : {0.0, 1.0, 20.0})
      for (const double sink : {-3.0, 0.0, 0.7, 5.0}) {
        const std::string at = "n = " + std::to_string(n) + ", sink " + std::to_string(sink);
        expect_agreement(sink_softmax_map(normal_values(n, 10, scale), sink, at));
      }
}

TEST(SinkSoftmaxJacobian, SurvivesHugeAndInfiniteSinksAndLogits) {
  for (const double shift : {-700.0, 0.0, 700.0})
    for (const double sink : {-kInf, -700.0, 700.0, kInf}) {
      const JacobianMap map = sink_softmax_map(normal_values(6, 11, 1, shift), sink, std::to_string(sink));
      const JacobianReport report = check(map);
      EXPECT_LE(report.difference_error, kDifferenceLimit) << sink << ", logits near " << shift;
      EXPECT_LE(report.vjp_error, kVjpLimit) << sink << ", logits near " << shift;
      EXPECT_TRUE(map.dense.allFinite());
      if (std::isinf(sink)) {
        EXPECT_EQ(map.dense.col(6).cwiseAbs().maxCoeff(), 0) << "an infinite sink has no derivative";
      }
      if (sink == kInf) {
        EXPECT_EQ(map.dense.cwiseAbs().maxCoeff(), 0);
      }
    }
}

/// Every kind of map, at a point where nothing is zero by accident.
std::vector<JacobianMap> one_of_each() {
  const LayerConfig c = rotary_config(8, 500, 256);
  return {rope_map(c, normal_values(12, 12), 7, false, ""),
          rope_map(c, normal_values(12, 12), 7, true, ""),
          rms_norm_map(1e-6, normal_values(9, 13), normal_values(9, 14), ""),
          rms_norm_map(1e-6, normal_values(9, 13), {}, ""),
          hadamard_map(normal_values(8, 15), ""),
          sink_softmax_map(normal_values(7, 16), 0.3, ""),
          pooling_map(normal_values(12, 17), normal_values(12, 18), 3, "")};
}

TEST(JacobianCheck, SeesAWrongElementOfTheMatrix) {
  for (JacobianMap map : one_of_each()) {
    const Matrix<double> right = map.dense;
    const double change = 1e-9 * right.cwiseAbs().maxCoeff();
    for (Index o = 0; o < right.rows(); ++o)
      for (Index i = 0; i < right.cols(); ++i) {
        map.dense = right;
        map.dense(o, i) += change;
        const JacobianReport report = check(map);
        EXPECT_GE(report.vjp_error, 0.2e-9) << map.name << " (" << o << ", " << i << ")";
        EXPECT_GE(report.difference_error, 0.2e-9) << map.name << " (" << o << ", " << i << ")";
      }
  }
}

TEST(JacobianCheck, SeesAWrongVjp) {
  for (JacobianMap map : one_of_each()) {
    const auto right = map.vjp;
    map.vjp = [&](const std::vector<double>& g) {
      std::vector<double> d = right(g);
      d.back() *= 1 + 1e-6;
      return d;
    };
    EXPECT_GE(check(map).vjp_error, 1e-9) << map.name;
    map.vjp = [&](const std::vector<double>& g) {
      std::vector<double> d = right(g);
      d.front() = std::nan("");
      return d;
    };
    EXPECT_EQ(check(map).vjp_error, kInf) << map.name;
  }
}

TEST(JacobianCheck, SeesAnotherFunction) {
  for (JacobianMap map : one_of_each()) {
    const auto right = map.value;
    map.value = [&](const std::vector<long double>& x) {
      std::vector<long double> y = right(x);
      y.front() += 1e-6L * x.back();  // a dependence that the Jacobian knows nothing of
      return y;
    };
    EXPECT_GE(check(map).difference_error, 1e-9) << map.name;
  }
}

std::vector<std::string> names_of(const std::vector<JacobianReport>& reports) {
  std::vector<std::string> names;
  for (const JacobianReport& report : reports) names.push_back(report.map);
  return names;
}

TEST(Jacobian, EveryNameAgreesOnEveryKindOfLayer) {
  for (const char* text : {"swa", "csa", "csa,overlap=off", "csa,indexer=off", "csa,ratio=2,seq=9+5,pad=4",
                           "csa,data=peaky,mask=random:0.5", "hca,ratio=8,seq=37", "csa,sink=inf", "csa,sink=-700"}) {
    const auto c = parse_case(text);
    ASSERT_TRUE(c) << text;
    std::size_t found = 0;
    for (const std::string& name : jacobian_names()) {
      const auto reports = jacobian(name, *c);
      if (!reports) {
        EXPECT_EQ(reports.error().code, ErrorCode::kUsage);
        EXPECT_THAT(reports.error().text(), HasSubstr("does not occur in")) << text << " " << name;
        continue;
      }
      ++found;
      ASSERT_FALSE(reports->empty());
      for (const JacobianReport& report : *reports) {
        EXPECT_LE(report.vjp_error, kVjpLimit) << text << " " << name << " " << report.map;
        EXPECT_LE(report.difference_error, kDifferenceLimit) << text << " " << name << " " << report.map;
        EXPECT_EQ(report.matrix.rank(), 2);
        EXPECT_GT(report.matrix.size(), 0);
        EXPECT_FALSE(report.at.empty());
        EXPECT_FALSE(report.formula.empty());
      }
    }
    EXPECT_EQ(found, c->config.indexer ? 17u : c->config.compressed() ? 13u : 10u) << text;
  }
}

TEST(Jacobian, StagesAreMadeOfTheirMaps) {
  const auto c = parse_case("csa");
  ASSERT_TRUE(c);
  const auto maps = [&](std::string_view name) { return names_of(*jacobian(name, *c)); };
  using Names = std::vector<std::string>;
  EXPECT_EQ(maps("q_latent"), Names{"rms_norm"});
  EXPECT_EQ(maps("q"), (Names{"rms_norm_weightless", "rope"}));
  EXPECT_EQ(maps("kv"), (Names{"rms_norm", "rope"}));
  EXPECT_EQ(maps("compressed_pooled"), (Names{"pooling", "pooling"}));
  EXPECT_EQ(maps("index_k"), (Names{"rms_norm", "rope", "hadamard"}));
  EXPECT_EQ(maps("index_q"), (Names{"rope", "hadamard"}));
  EXPECT_EQ(maps("attn_out"), Names{"sink_softmax"});
  EXPECT_EQ(maps("attn_out_derotated"), Names{"inverse_rope"});
  for (const char* map : {"rope", "inverse_rope", "rms_norm", "rms_norm_weightless", "hadamard", "sink_softmax"})
    EXPECT_EQ(maps(map), Names{map});
}

TEST(Jacobian, PoolsThePredecessorsSlotsExceptInTheFirstGroup) {
  const auto c = parse_case("csa");
  ASSERT_TRUE(c);
  const auto reports = jacobian("pooling", *c);
  ASSERT_TRUE(reports);
  ASSERT_EQ(reports->size(), 2u);
  const Index dim = c->config.head_dim, ratio = c->config.ratio;
  EXPECT_EQ((*reports)[0].matrix.shape(), (Shape{dim, 2 * 2 * ratio * dim}));
  EXPECT_EQ((*reports)[1].matrix.shape(), (Shape{dim, 2 * ratio * dim}));
}

/// The scene is assembled beside the layer: it must still be the layer's own numbers that the maps are taken at.
TEST(Jacobian, SeesEveryKeyOfTheRow) {
  const auto c = parse_case("csa");
  ASSERT_TRUE(c);
  const auto reports = jacobian("sink_softmax", *c);
  ASSERT_TRUE(reports);
  const Index keys = c->config.window + c->config.index_topk;
  EXPECT_EQ(reports->front().matrix.shape(), (Shape{keys, keys + 1}));
}

TEST(Jacobian, RefusesWhatItCannotShow) {
  const auto refused = [](std::string_view name, std::string_view text) {
    const auto c = parse_case(text);
    EXPECT_TRUE(c) << text;
    const auto reports = jacobian(name, *c);
    EXPECT_FALSE(reports) << text;
    EXPECT_EQ(reports.error().code, ErrorCode::kUsage);
    return reports.error().text();
  };
  EXPECT_THAT(refused("ropee", "csa"), AllOf(HasSubstr("'ropee'"), HasSubstr("did you mean 'rope'"),
                                             HasSubstr("sink_softmax"), HasSubstr("attn_out_derotated")));
  EXPECT_THAT(refused("hadamard", "hca"), HasSubstr("does not occur in hca"));
  EXPECT_THAT(refused("kv", "csa,mask=prefix:37"), HasSubstr("no valid query row"));
  EXPECT_THAT(refused("kv", "csa,seq=0"), HasSubstr("no valid query row"));
  EXPECT_THAT(refused("pooling", "csa,seq=3"), HasSubstr("sees a compressed entry"));
  EXPECT_THAT(refused("pooling", "hca,model=flash"), HasSubstr("model=tiny"));
  EXPECT_THAT(refused("q", "swa,model=flash,seq=1000000"), HasSubstr("model=tiny"));
  EXPECT_THAT(refused("pooling", "file=captured.h5"), HasSubstr("file"));
}

}  // namespace
}  // namespace plumbline::reference
