#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "reference/contract/case.hpp"
#include "reference/exact.hpp"
#include "tests/probe_policy.hpp"

// Every gradient of the reference against differences of its forward pass in long double.
namespace plumbline::tests {
namespace {

using namespace contract;

/// Agreement, relative to a tensor's largest gradient.
constexpr double kLimit = 1e-9;

#ifdef __SANITIZE_ADDRESS__
constexpr Index kThinning = 29;  // instrumented runs are slow: that many times fewer elements
#else
constexpr Index kThinning = 1;
#endif

struct Layer {
  const char* name;
  const char* text;  ///< a case string without the sizes below
  Index stride = 1;  ///< every stride-th element of a tensor is probed
};

void PrintTo(const Layer& layer, std::ostream* out) { *out << layer.text; }

/// Every size small and different from the others, so that each element of each tensor can be probed.
constexpr const char* kSmall =
    ",hidden=9,heads=4,head_dim=6,rope_dim=4,q_lora_rank=5,o_groups=2,o_lora_rank=3,index_heads=3,index_dim=8,"
    "index_topk=2,window=5,loss_coeff=0.1";

Problem problem_of(const std::string& text) {
  auto problem = make_problem(*parse_case(text));
  round_to_grid(*problem);
  return std::move(*problem);
}

Results gradients_of(const Problem& problem) {
  Request request;
  request.wanted = all_datasets(problem.config);
  return *reference::run_exact<double>(problem, request);
}

std::vector<DatasetId> gradient_datasets(const LayerConfig& config) {
  std::vector<DatasetId> ids;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (const DatasetId id = DatasetId::from_index(i); id.is_gradient() && id.exists(config)) ids.push_back(id);
  return ids;
}

/// Stages of which row i touches row i of out and kl_rows alone: one probe serves all rows.
bool is_row_local(DatasetId id) {
  const auto stage = id.stage();
  return stage && (info(*stage).role == Role::kQueryInput || info(*stage).role == Role::kQueryResult);
}

/// The elements of a gradient that differences were taken of.
struct Differences {
  std::vector<Index> elements;
  std::vector<Wide> values;
};

double largest_of(const Tensor& tensor) {
  double largest = 0;
  for (const double value : tensor.values()) largest = std::max(largest, std::abs(value));
  return largest;
}

/// Every stride-th of `count` indices, and the one that matters most.
std::vector<Index> thinned(Index count, Index stride, Index indispensable) {
  std::vector<Index> indices;
  for (Index i = 0; i < count; ++i)
    if (i % stride == 0 || i == indispensable) indices.push_back(i);
  return indices;
}

/// Differences of every stride-th element (or column, where a probe serves all rows) of a gradient, its largest element
/// among them.
Differences differences_of(const Probe& probe, DatasetId id, const Tensor& gradient, Index stride) {
  const WideTensor none(gradient.shape());
  const Index rows = is_row_local(id) ? gradient.shape()[0] : 1, columns = none.size() / rows;
  const auto by_size = [](double a, double b) { return std::abs(a) < std::abs(b); };
  const Index largest =
      std::max_element(gradient.values().begin(), gradient.values().end(), by_size) - gradient.values().begin();
  const std::vector<Index> taken = thinned(columns, stride, largest % columns);
  Differences result;
  result.elements.resize(taken.size() * static_cast<std::size_t>(rows));
  result.values.resize(result.elements.size());
#pragma omp parallel for schedule(dynamic)
  for (std::size_t k = 0; k < taken.size(); ++k) {
    Direction direction{id, none};
    for (Index row = 0; row < rows; ++row) direction.values[row * columns + taken[k]] = 1;
    std::vector<Wide> slopes = probe.slopes(direction);
    if (rows == 1) slopes.assign(1, std::accumulate(slopes.begin(), slopes.end(), Wide(0)));
    for (Index row = 0; row < rows; ++row) {
      const std::size_t to = k * static_cast<std::size_t>(rows) + static_cast<std::size_t>(row);
      result.elements[to] = row * columns + taken[k];
      result.values[to] = slopes[static_cast<std::size_t>(row)];
    }
  }
  return result;
}

/// max |gradient - differences| / max |gradient|; absolute where the gradient is zero everywhere, +inf for a NaN.
double disagreement(const Tensor& gradient, const Differences& differences) {
  Wide worst = 0;
  for (std::size_t k = 0; k < differences.elements.size(); ++k) {
    const Wide error = std::abs(gradient[differences.elements[k]] - differences.values[k]);
    if (!std::isfinite(error)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, error);
  }
  const double largest = largest_of(gradient);
  return static_cast<double>(largest > 0 ? worst / largest : worst);
}

/// The body with one stage's gradient too large by a millionth.
struct ScaledGradient : reference::ExactPolicy<double> {
  StageId stage;
  explicit ScaledGradient(StageId id) : stage(id) {}
  void on_gradient(StageId id, const std::vector<Index>&, Out block) const {
    if (id == stage) block *= 1 + 1e-6;
  }
};

Tensor scaled_gradient(const Problem& problem, const Results& right, DatasetId id) {
  if (id.stage()) {
    Request request;
    request.wanted.set(id.index());
    return reference::run_layer(problem, request, ScaledGradient(*id.stage()))->at(id);
  }
  Tensor gradient = right.at(id);
  for (double& value : gradient.values()) value *= 1 + 1e-6;
  return gradient;
}

class Gradients : public testing::TestWithParam<Layer> {};

TEST_P(Gradients, AgreeWithDifferencesOfTheForwardPass) {
  const Problem problem = problem_of(std::string(GetParam().text) + kSmall);
  const Results results = gradients_of(problem);
  const Probe probe(problem, results.at(DatasetId::forward(StageId::kTopk)));
  for (const DatasetId id : gradient_datasets(problem.config)) {
    const Tensor& gradient = results.at(id);
    EXPECT_GT(largest_of(gradient), 0) << id.path() << " is zero: nothing would be tested";
    const Differences differences = differences_of(probe, id, gradient, GetParam().stride * kThinning);
    EXPECT_LE(disagreement(gradient, differences), kLimit) << id.path();
    EXPECT_GT(disagreement(scaled_gradient(problem, results, id), differences), 100 * kLimit)
        << id.path() << ": a relative error of 1e-6 would go unseen";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layers, Gradients,
    testing::Values(Layer{"Swa", "swa,seq=11"}, Layer{"CsaSparseLoss", "csa,seq=19"},
                    Layer{"CsaDenseLossPerToken", "csa,seq=18,loss=dense,per_token_loss=on,loss_scale=3"},
                    Layer{"CsaCompressedOnlyTeacher", "csa,seq=17,teacher=compressed_only,seed=1"},
                    Layer{"CsaCompressedOnlyTeacherDenseLoss", "csa,seq=17,teacher=compressed_only,loss=dense"},
                    Layer{"CsaDenseMode", "csa,seq=18,indexer=off"}, Layer{"HcaRatio4", "hca,seq=14,ratio=4"},
                    Layer{"HcaRatio8", "hca,seq=25,ratio=8"},
                    Layer{"CsaPackedPaddedMasked", "csa,seq=9+0+3+13,pad=4,mask=random:0.4,loss_scale=2"},
                    Layer{"HcaPackedPaddedMasked", "hca,ratio=4,seq=6+1+9,pad=3,mask=prefix:2"},
                    Layer{"OverlapRatio2", "csa,seq=9,ratio=2"},
                    Layer{"IndexerWithoutOverlap", "csa,seq=17,overlap=off"},
                    Layer{"IndexerRatio3DenseLoss", "csa,seq=13,ratio=3,overlap=off,loss=dense"},
                    Layer{"NoSink", "csa,seq=13,sink=-inf:1", 7}, Layer{"InfiniteSink", "csa,seq=13,sink=inf:2", 7},
                    Layer{"HugeSink", "csa,seq=13,sink=700:3", 7}, Layer{"VerySmallSink", "csa,seq=13,sink=-700:3", 7},
                    Layer{"PeakyKeys", "csa,seq=13,data=peaky", 7}),
    [](const testing::TestParamInfo<Layer>& layer) { return layer.param.name; });

/// Batches of several query tiles and token blocks, whose tensors are too large for probes of every element: whole
/// tensors move along random signs.
class LargeGradients : public testing::TestWithParam<Layer> {};

TEST_P(LargeGradients, AgreeAlongRandomDirections) {
  const Problem problem = problem_of(GetParam().text);
  const Results results = gradients_of(problem);
  const Probe probe(problem, results.at(DatasetId::forward(StageId::kTopk)));
  const std::vector<DatasetId> ids = gradient_datasets(problem.config);
  std::vector<double> errors(ids.size());
#pragma omp parallel for schedule(dynamic)
  for (std::size_t k = 0; k < ids.size(); ++k) {
    const Tensor& gradient = results.at(ids[k]);
    std::mt19937_64 engine(k);
    Direction direction{ids[k], WideTensor(gradient.shape())};
    Wide expected = 0, size = 0;
    for (Index i = 0; i < gradient.size(); ++i) {
      direction.values[i] = engine() >> 63 ? 1 : -1;
      expected += direction.values[i] * Wide(gradient[i]);
      size += Wide(gradient[i]) * Wide(gradient[i]);
    }
    errors[k] = static_cast<double>(std::abs(probe.slope(direction) - expected) / std::sqrt(size));
  }
  for (std::size_t k = 0; k < ids.size(); ++k) EXPECT_LE(errors[k], kLimit) << ids[k].path();
}

INSTANTIATE_TEST_SUITE_P(
    Layers, LargeGradients,
    testing::Values(Layer{"Tiles", "csa,seq=61+30,pad=4,mask=random:0.2"},
                    Layer{"TilesDenseLoss", "csa,seq=70,loss=dense"}, Layer{"HcaRatio128", "hca,seq=300"},
                    Layer{"TokenBlocks",
                          "csa,seq=540+8,ratio=16,hidden=14,heads=6,head_dim=10,rope_dim=4,q_lora_rank=7,o_groups=2,"
                          "o_lora_rank=5,index_heads=3,index_dim=8,index_topk=5,window=5"}),
    [](const testing::TestParamInfo<Layer>& layer) { return layer.param.name; });

/// The loss that users read is the one that the probes differentiate.
TEST(Probes, ObjectiveIsTheContractsOwn) {
  for (const char* text : {"csa,seq=19,loss_scale=3", "csa,seq=9+7,mask=random:0.5,per_token_loss=on"}) {
    const Problem problem = problem_of(std::string(text) + kSmall);
    const Results results = gradients_of(problem);
    double kl = 0;
    for (const double row : results.at(DatasetId::forward(StageId::kKlRows)).values()) kl += row;
    const double divisor = problem.config.per_token_loss ? 1 : double(problem.packing.valid_rows());
    const double loss = results.at(DatasetId::forward(StageId::kIndexerLoss))[0];
    EXPECT_GT(loss, 0);
    EXPECT_NEAR(loss, problem.config.loss_coeff * kl / divisor, 1e-15 * loss);
    for (Index row = 0; row < problem.packing.tokens(); ++row)
      EXPECT_NEAR(results.at(DatasetId::gradient(StageId::kKlRows))[row],
                  problem.packing.row_valid[row] ? problem.config.loss_scale * problem.config.loss_coeff / divisor : 0,
                  1e-16);
  }
}

/// Held stages are what makes a probe of hidden or q_latent blind to the detached indexer: with the indexer free, the
/// same probe must disagree.
TEST(Probes, IndexerInputsAreDetached) {
  const Problem problem = problem_of(std::string("csa,seq=19") + kSmall);
  const Results results = gradients_of(problem);
  const Probe probe(problem, results.at(DatasetId::forward(StageId::kTopk)));
  Request request;
  request.wanted.set(DatasetId::forward(StageId::kKlRows).index());
  ProbePolicy::Selections picks(static_cast<std::size_t>(problem.packing.tokens()));
  const Tensor& topk = results.at(DatasetId::forward(StageId::kTopk));
  for (Index row = 0; row < topk.shape()[0]; ++row)
    for (Index k = 0; k < topk.row_size(); ++k)
      if (topk.row(row)[k] >= 0) picks[static_cast<std::size_t>(row)].push_back(static_cast<Index>(topk.row(row)[k]));
  const WideTensor ones({problem.packing.tokens(), problem.config.q_lora_rank}, 1);
  const auto kl = [&](std::initializer_list<StageId> held) {
    ProbePolicy policy(picks);
    std::bitset<kStageCount> constants;
    for (const StageId stage : held) constants.set(static_cast<std::size_t>(stage));
    policy.hold(probe.recorded(), constants);
    policy.move(StageId::kQLatent, ones, 0.01L);
    return reference::run_layer(problem, request, policy)->at(DatasetId::forward(StageId::kKlRows)).values();
  };
  const auto& recorded = probe.recorded().at(DatasetId::forward(StageId::kKlRows)).values();
  EXPECT_EQ(kl({StageId::kTeacher, StageId::kIndexQ}), recorded);
  EXPECT_NE(kl({StageId::kTeacher}), recorded);
  EXPECT_NE(kl({StageId::kIndexQ}), recorded);
}

bool all_zero(const double* values, Index count) {
  return std::all_of(values, values + count, [](double value) { return value == 0; });
}

/// Products of exactly 0 sit on the ReLU's corner, where its derivative is 0 by definition.
TEST(Relu, PassesNothingAtZero) {
  Problem problem = problem_of(std::string("csa,seq=19,loss=dense") + kSmall);
  const LayerConfig& c = problem.config;
  Tensor& wq_b = problem.weight(WeightId::kIndexerWqB);
  std::fill(wq_b.row(0), wq_b.row(c.index_dim), 0.0);  // index head 0 has the zero query
  const Results results = gradients_of(problem);
  const Tensor& dq = results.at(DatasetId::gradient(StageId::kIndexQ));
  const Tensor& dw = results.at(DatasetId::gradient(StageId::kIndexW));
  for (Index row = 0; row < problem.packing.tokens(); ++row) {
    EXPECT_TRUE(all_zero(dq.row(row), c.index_dim)) << "row " << row;
    EXPECT_EQ(dw.row(row)[0], 0) << "row " << row;
  }
  EXPECT_FALSE(all_zero(dq.row(18) + c.index_dim, (c.index_heads - 1) * c.index_dim));
  const Tensor& dwq_b = results.at(DatasetId::gradient(WeightId::kIndexerWqB));
  EXPECT_TRUE(all_zero(dwq_b.data(), c.index_dim * dwq_b.row_size()));
  EXPECT_FALSE(all_zero(dwq_b.data(), dwq_b.size()));
}

TEST(Relu, PassesNothingToKeysAtZero) {
  Problem problem = problem_of(std::string("csa,seq=19,loss=dense") + kSmall);
  Tensor& norm = problem.weight(WeightId::kIndexerCompressorNorm);
  std::fill(norm.data(), norm.data() + norm.size(), 0.0);  // every index key is zero, every query is not
  const Results results = gradients_of(problem);
  const Tensor& scores = results.at(DatasetId::gradient(StageId::kIndexScores));
  EXPECT_FALSE(all_zero(scores.data(), scores.size()));
  for (const StageId id : {StageId::kIndexK, StageId::kIndexQ, StageId::kIndexW, StageId::kIndexPooled}) {
    const Tensor& gradient = results.at(DatasetId::gradient(id));
    EXPECT_TRUE(all_zero(gradient.data(), gradient.size())) << info(id).name;
  }
}

}  // namespace
}  // namespace plumbline::tests
