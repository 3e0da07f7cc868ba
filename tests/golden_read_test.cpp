#include "golden/check.hpp"
#include "golden_fixture.hpp"
#include "reference/contract/specified.hpp"

namespace plumbline::golden::test {
namespace {

using contract::DatasetId;
using contract::ErrorCode;
using contract::Index;
using contract::StageId;
using contract::WeightId;

class OracleFile : public ::testing::TestWithParam<std::string> {};

TEST_P(OracleFile, ReadsTheSameInThisProcessAndInAChild) {
  const auto here = read(oracle(GetParam()));
  ASSERT_TRUE(here.ok()) << here.error().text();
  const auto child = read_guarded(oracle(GetParam()));
  ASSERT_TRUE(child.ok()) << child.error().text();
  expect_same(*child, *here);
}

TEST_P(OracleFile, HoldsEverythingThatItsLayerHas) {
  const auto golden = read(oracle(GetParam()));
  ASSERT_TRUE(golden.ok()) << golden.error().text();
  auto missing = contract::all_datasets(golden->problem.config) & ~golden->results.available();
  for (std::size_t i = 0; i < missing.size(); ++i) {
    EXPECT_FALSE(missing.test(i)) << DatasetId::from_index(i).path();
  }
}

TEST_P(OracleFile, SurvivesWritingBitForBit) {
  const TemporaryFolder folder;
  const auto golden = read(oracle(GetParam()));
  ASSERT_TRUE(golden.ok());
  const auto written = write(folder.file("copy.h5"), *golden);
  ASSERT_TRUE(written.ok()) << written.error().text();
  const auto copy = read(folder.file("copy.h5"));
  ASSERT_TRUE(copy.ok()) << copy.error().text();
  expect_same(*copy, *golden);
}

INSTANTIATE_TEST_SUITE_P(All, OracleFile, ::testing::ValuesIn(oracle_names()),
                         [](const auto& item) { return item.param; });

TEST(GoldenRead, FindsAllOracleFiles) { EXPECT_EQ(oracle_names().size(), 17u); }

TEST(GoldenRead, TakesNumbersFromWhereTheyAre) {
  const auto golden = read(oracle("csa_packed_padded"));
  ASSERT_TRUE(golden.ok());
  EXPECT_EQ(golden->case_text, "csa_packed_padded");
  EXPECT_EQ(golden->producer, "independent-oracle");
  const auto& config = golden->problem.config;
  EXPECT_EQ(config.hidden, 48);
  EXPECT_EQ(config.rope_base, 40000.0);
  EXPECT_EQ(config.index_topk, 6);
  EXPECT_TRUE(config.overlap && config.indexer && config.sparse_loss);
  EXPECT_FALSE(config.per_token_loss);
  EXPECT_EQ(config.teacher, contract::Teacher::kFull);
  EXPECT_EQ(golden->problem.packing.segments(), 5);
  EXPECT_EQ(golden->problem.packing.tokens(), 88);
  // A column-major reader would put another number here.
  const hid_t file = H5Fopen(oracle("csa_packed_padded").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, "forward/attn_out", H5P_DEFAULT);
  std::vector<double> values(88 * 4 * 32);
  H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  H5Dclose(dataset);
  H5Fclose(file);
  const auto& attn_out = golden->results.at(DatasetId::forward(StageId::kAttnOut));
  EXPECT_EQ(attn_out.shape(), (contract::Shape{88, 4, 32}));
  EXPECT_EQ(attn_out.row(3)[2 * 32 + 7], values[(3 * 4 + 2) * 32 + 7]);
}

TEST(GoldenRead, FillsInTheDefaultsOfAbsentFields) {
  const auto golden = read(oracle("swa_window"));
  ASSERT_TRUE(golden.ok());
  const auto& config = golden->problem.config;
  EXPECT_EQ(config.yarn_factor, 1.0);
  EXPECT_EQ(config.yarn_orig, 0);
  EXPECT_EQ(config.index_heads, 0);
  EXPECT_EQ(config.index_dim, 0);
  EXPECT_EQ(config.index_topk, 0);
  EXPECT_EQ(config.teacher, contract::Teacher::kFull);
  const TemporaryFolder folder;
  const std::string path = edited(folder, "swa_window", [](hid_t file) {
    for (const char* name : {"overlap", "indexer", "sparse_loss", "per_token_loss"})
      delete_attribute(file, "config", name);
  });
  const auto without = read(path);
  ASSERT_TRUE(without.ok()) << without.error().text();
  EXPECT_FALSE(without->problem.config.sparse_loss);
  EXPECT_FALSE(without->problem.config.overlap);
}

TEST(GoldenRead, IgnoresYarnWithoutCompression) {
  const TemporaryFolder folder;
  const std::string path = edited(folder, "swa_window", [](hid_t file) {
    set_real(file, "config", "yarn_factor", 0);
    set_int(file, "config", "yarn_orig", -5);
    set_real(file, "config", "beta_fast", std::nan(""));
  });
  const auto golden = read(path);
  EXPECT_TRUE(golden.ok()) << golden.error().text();
}

TEST(GoldenRead, IgnoresIndexerSizesWithoutAnIndexer) {
  const TemporaryFolder folder;
  const std::string path =
      edited(folder, "csa_dense_mode", [](hid_t file) { set_int(file, "config", "index_topk", -7); });
  const auto golden = read(path);
  ASSERT_TRUE(golden.ok()) << golden.error().text();
  EXPECT_EQ(golden->results.at(DatasetId::forward(StageId::kTopk)).shape(), (contract::Shape{30, 0}));
}

TEST(GoldenRead, ResultsAreOptional) {
  const TemporaryFolder folder;
  const std::string path = edited(folder, "csa_ties", [](hid_t file) {
    delete_link(file, "grad");
    delete_link(file, "forward");
  });
  const auto bare = read(path);
  ASSERT_TRUE(bare.ok()) << bare.error().text();
  EXPECT_TRUE(bare->results.available().none());
  const std::string part = edited(folder, "csa_ties", [](hid_t file) {
    delete_link(file, "grad/weights");
    delete_link(file, "forward/q");
  });
  const auto partial = read(part);
  ASSERT_TRUE(partial.ok()) << partial.error().text();
  EXPECT_FALSE(partial->results.has(DatasetId::forward(StageId::kQ)));
  EXPECT_FALSE(partial->results.has(DatasetId::gradient(WeightId::kWqA)));
  EXPECT_TRUE(partial->results.has(DatasetId::gradient(StageId::kQ)));
}

TEST(GoldenRead, AcceptsResizableAndBigEndianDatasets) {
  const TemporaryFolder folder;
  const auto golden = read(oracle("swa_window"));
  ASSERT_TRUE(golden.ok());
  const std::string path = edited(folder, "swa_window", [&](hid_t file) {
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    const std::vector<hsize_t> chunk{7, 32}, most{H5S_UNLIMITED, H5S_UNLIMITED};
    H5Pset_chunk(creation, 2, chunk.data());
    H5Pset_fletcher32(creation);
    const auto& hidden = golden->problem.hidden;
    put_dataset(file, "inputs/hidden", H5T_NATIVE_DOUBLE, {20, 48}, hidden.data(), creation, most);
    H5Pclose(creation);
    const auto& sink = golden->problem.weight(WeightId::kAttnSink);
    put_dataset(file, "weights/attn_sink", H5T_IEEE_F64BE, {4}, nullptr);
    const hid_t dataset = H5Dopen2(file, "weights/attn_sink", H5P_DEFAULT);
    H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, sink.data());
    H5Dclose(dataset);
  });
  const auto changed = read(path);
  ASSERT_TRUE(changed.ok()) << changed.error().text();
  expect_same(*changed, *golden);
}

// The checks of contents, each dataset in turn, on a file with padding, masked rows and NaN inputs.

class FiniteCheck : public ::testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    auto read_file = read(oracle("csa_row_mask_nan"));
    ASSERT_TRUE(read_file.ok());
    golden_ = std::move(*read_file);
  }
  GoldenFile golden_;
};

TEST_P(FiniteCheck, NanIsRefusedExactlyWhereAValueIsSpecified) {
  const DatasetId id = DatasetId::from_index(GetParam());
  if (!id.exists(golden_.problem.config)) return;
  ASSERT_TRUE(golden_.results.has(id)) << id.path();
  auto& tensor = golden_.results.at(id);
  const Index rows = tensor.rank() == 0 ? 1 : tensor.shape()[0];
  for (Index row = 0; row < rows; ++row) {
    double& value = tensor.row(row)[tensor.row_size() - 1];
    for (double bad : {std::nan(""), HUGE_VAL}) {
      const double good = std::exchange(value, bad);
      const auto status = check(golden_);
      const bool selection = id == DatasetId::forward(StageId::kTopk);
      const bool legal = std::isinf(bad) && id == DatasetId::forward(StageId::kAttnLse);
      const bool refused =
          selection || (!legal && contract::specified_rows(id, golden_.problem)[static_cast<std::size_t>(row)]);
      EXPECT_EQ(status.ok(), !refused) << id.path() << " row " << row << " " << bad;
      if (!status) {
        EXPECT_EQ(status.error().code, selection ? ErrorCode::kFile : ErrorCode::kNonFinite);
        EXPECT_EQ(status.error().where, id.path());
        EXPECT_NE(status.error().message.find(rows == 1 ? "only value" : "row " + std::to_string(row)),
                  std::string::npos)
            << status.error().message;
      }
      value = good;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, FiniteCheck, ::testing::Range<std::size_t>(0, DatasetId::kCount));

TEST(GoldenCheck, SpecifiedPlacesFollowTheLayout) {
  const auto golden = read(oracle("csa_row_mask_nan"));
  ASSERT_TRUE(golden.ok());
  const auto& problem = golden->problem;  // segments [0,21)+3, [24,27)+5, [32,50)+6; ratio 4
  const auto specified = [&](DatasetId id, Index row) {
    return bool(contract::specified_rows(id, problem)[static_cast<std::size_t>(row)]);
  };
  // Row 1 is masked, row 22 is padding.
  EXPECT_TRUE(specified(DatasetId::forward(StageId::kQ), 0));
  EXPECT_FALSE(specified(DatasetId::forward(StageId::kQ), 1));
  EXPECT_FALSE(specified(DatasetId::forward(StageId::kIndexW), 1));
  EXPECT_TRUE(specified(DatasetId::forward(StageId::kKv), 1));
  EXPECT_FALSE(specified(DatasetId::forward(StageId::kKv), 22));
  EXPECT_TRUE(specified(DatasetId::forward(StageId::kOut), 1));
  EXPECT_TRUE(specified(DatasetId::gradient(StageId::kQ), 1));
  EXPECT_TRUE(specified(DatasetId::gradient(StageId::kKv), 22));
  EXPECT_TRUE(specified(DatasetId::hidden_gradient(), 22));
  // Groups of segment 0: tokens 0..19 are real, group 5 holds padding; segment 1 has none without padding.
  for (Index entry = 0; entry < 14; ++entry) {
    const bool clean = entry < 5 || (entry >= 8 && entry < 12);
    EXPECT_EQ(specified(DatasetId::forward(StageId::kCompressedKv), entry), clean) << entry;
    EXPECT_EQ(specified(DatasetId::forward(StageId::kIndexPooled), entry), clean) << entry;
    EXPECT_TRUE(specified(DatasetId::gradient(StageId::kIndexK), entry));
  }
  // The loss has no say on rows without the query role, or without candidates (row 2 sees no whole group).
  EXPECT_FALSE(specified(DatasetId::gradient(StageId::kKlRows), 1));
  EXPECT_FALSE(specified(DatasetId::gradient(StageId::kKlRows), 2));
  EXPECT_TRUE(specified(DatasetId::gradient(StageId::kKlRows), 3));
}

TEST(GoldenCheck, InfinitiesAreLegalOnlyWhereTheyMeanSomething) {
  auto golden = read(oracle("csa_row_mask_nan"));
  ASSERT_TRUE(golden.ok());
  const auto fails_with = [&](DatasetId id, Index row, Index column, double value) {
    double& place = golden->results.at(id).row(row)[column];
    const double before = std::exchange(place, value);
    const bool failed = !check(*golden).ok();
    place = before;
    return failed;
  };
  const DatasetId scores = DatasetId::forward(StageId::kIndexScores);
  EXPECT_TRUE(fails_with(scores, 8, 1, -HUGE_VAL));  // visible
  EXPECT_FALSE(fails_with(scores, 8, 2, -HUGE_VAL));
  EXPECT_TRUE(fails_with(scores, 8, 2, HUGE_VAL));
  EXPECT_FALSE(fails_with(scores, 1, 0, -HUGE_VAL));  // a masked row sees nothing
  EXPECT_FALSE(fails_with(DatasetId::forward(StageId::kMaxLogits), 1, 0, -HUGE_VAL));
  EXPECT_TRUE(fails_with(DatasetId::forward(StageId::kMaxLogits), 1, 0, HUGE_VAL));
  EXPECT_TRUE(fails_with(DatasetId::gradient(StageId::kIndexScores), 8, 2, -HUGE_VAL));
}

TEST(GoldenCheck, SelectionsMustBeVisibleAndDistinct) {
  auto golden = read(oracle("csa_row_mask_nan"));
  ASSERT_TRUE(golden.ok());
  auto& topk = golden->results.at(DatasetId::forward(StageId::kTopk));
  const auto verdict = [&](Index row, Index k, double pick) {
    const double before = std::exchange(topk.row(row)[k], pick);
    const auto status = check(*golden);
    topk.row(row)[k] = before;
    return status.ok() ? "" : status.error().text();
  };
  EXPECT_EQ(verdict(8, 0, 0), "forward/topk: row 8 selects entry 0 twice");
  EXPECT_EQ(verdict(8, 2, 2), "forward/topk: row 8 selects entry 2, allowed: -1 or 0..1 (the entries it sees)");
  EXPECT_EQ(verdict(8, 2, -2), "forward/topk: row 8 selects entry -2, allowed: -1 or 0..1 (the entries it sees)");
  EXPECT_EQ(verdict(1, 0, 0), "forward/topk: row 1 selects entry 0, allowed: -1 (it sees no entry)");
  EXPECT_EQ(verdict(22, 0, 0), "forward/topk: row 22 selects entry 0, allowed: -1 (it sees no entry)");
  EXPECT_NE(verdict(8, 2, 1e300), "");
  EXPECT_NE(verdict(8, 2, 0.5), "");
  EXPECT_EQ(verdict(8, 0, -1), "");
}

}  // namespace
}  // namespace plumbline::golden::test
