#include <malloc.h>

#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <thread>

#include "golden/candidate_file.hpp"
#include "golden/candidate_wire.hpp"
#include "golden/float_bits.hpp"
#include "golden_fixture.hpp"

// Candidate files: every encoding that is read, every fault that is refused, and what is written.
namespace plumbline::golden::test {
namespace {

using contract::DatasetId;
using contract::ErrorCode;
using contract::Index;
using contract::NumberFormat;
using contract::Problem;
using contract::Result;
using contract::StageId;
using contract::Tensor;
using contract::WeightId;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");
const DatasetId kOut = DatasetId::forward(StageId::kOut), kTopk = DatasetId::forward(StageId::kTopk);

const GoldenFile& golden_of(const std::string& name) {
  static std::map<std::string, GoldenFile> files;
  if (const auto found = files.find(name); found != files.end()) return found->second;
  auto golden = read(oracle(name));
  EXPECT_TRUE(golden.ok());
  return files.emplace(name, std::move(*golden)).first->second;
}

/// The type of IEEE halves.
hid_t half_type() {
  const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(type, 15, 10, 5, 0, 10);
  H5Tset_size(type, 2);
  H5Tset_ebias(type, 15);
  return type;
}

void mark_bf16(hid_t file, const std::string& path) { set_text(file, path, "storage_dtype", "bf16"); }

/// Equal in every bit, but for which NaN.
void expect_same_values(const Tensor& got, const Tensor& want, const std::string& where) {
  ASSERT_EQ(got.shape(), want.shape()) << where;
  for (Index i = 0; i < want.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    ASSERT_TRUE(got[i] == want[i] && std::signbit(got[i]) == std::signbit(want[i]))
        << where << " " << i << ": " << got[i] << " " << want[i];
  }
}

void expect_same_candidate(const CandidateFile& got, const CandidateFile& want) {
  EXPECT_EQ(got.case_text, want.case_text);
  EXPECT_EQ(got.producer, want.producer);
  EXPECT_EQ(got.results.available(), want.results.available());
  EXPECT_EQ(got.formats, want.formats);
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const auto id = DatasetId::from_index(i);
    if (got.results.has(id) && want.results.has(id))
      expect_same_values(got.results.at(id), want.results.at(id), id.path());
  }
}

/// The candidate that a copy of an oracle file is after an edit, read here and in a child.
std::optional<CandidateFile> candidate_of(const std::string& name, const std::function<void(hid_t)>& edit) {
  const TemporaryFolder folder;
  const std::string path = edited(folder, name, edit);
  auto here = read_candidate(path, golden_of(name).problem);
  const auto child = read_candidate_guarded(path, golden_of(name).problem);
  EXPECT_TRUE(here.ok()) << here.error().text();
  EXPECT_TRUE(child.ok()) << child.error().text();
  if (!here || !child) return std::nullopt;
  expect_same_candidate(*child, *here);
  return std::move(*here);
}

// What is read.

class OracleCandidate : public ::testing::TestWithParam<std::string> {};

TEST_P(OracleCandidate, AGoldenIsACandidateForItself) {
  const GoldenFile& golden = golden_of(GetParam());
  const auto candidate = candidate_of(GetParam(), [](hid_t) {});
  ASSERT_TRUE(candidate);
  EXPECT_EQ(candidate->case_text, golden.case_text);
  EXPECT_EQ(candidate->producer, golden.producer);
  EXPECT_EQ(candidate->results.available(), golden.results.available());
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const auto id = DatasetId::from_index(i);
    ASSERT_EQ(candidate->results.has(id), golden.results.has(id)) << id.path();
    const bool floats = golden.results.has(id) && id != kTopk;
    EXPECT_EQ(candidate->formats[i], floats ? std::optional(NumberFormat::kFp64) : std::nullopt) << id.path();
    if (!golden.results.has(id)) continue;
    EXPECT_TRUE(contract::equal_bits(candidate->results.at(id), golden.results.at(id))) << id.path();
  }
}

INSTANTIATE_TEST_SUITE_P(All, OracleCandidate, ::testing::ValuesIn(oracle_names()),
                         [](const auto& item) { return item.param; });

TEST(CandidateRead, EverythingButTheFormatAndOneResultIsOptional) {
  const auto candidate = candidate_of("csa_ties", [](hid_t file) {
    for (const char* name : {"config", "packing", "inputs", "weights", "grad"}) delete_link(file, name);
    for (const char* name : {"case", "producer"}) delete_attribute(file, "/", name);
    delete_link(file, "forward");
    H5Gclose(H5Gcreate2(file, "grad", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Gclose(H5Gcreate2(file, "grad/weights", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    const std::vector<double> norm(24, 0.5);
    put_dataset(file, "grad/weights/q_norm", H5T_IEEE_F64LE, {24}, norm.data());
    set_text(file, "/", "format", "plumbline-candidate");
  });
  ASSERT_TRUE(candidate);
  EXPECT_EQ(candidate->case_text, "");
  EXPECT_EQ(candidate->producer, "");
  EXPECT_EQ(candidate->results.available().count(), 1u);
  EXPECT_EQ(candidate->results.at(DatasetId::gradient(WeightId::kQNorm))[23], 0.5);
}

TEST(CandidateRead, EachPartOfTheProblemMayBeThereAlone) {
  const std::vector<std::string> packing{"offsets", "lengths", "row_valid"}, inputs{"hidden", "grad_out"},
      weights{"wq_a", "attn_sink", "indexer.compressor.ape"};
  const auto keep_one = [](const std::string& group, const std::string& keep) {
    return candidate_of("csa_ties", [&](hid_t file) {
      const hid_t open = H5Gopen2(file, group.c_str(), H5P_DEFAULT);
      std::vector<std::string> names;
      H5Literate(
          open, H5_INDEX_NAME, H5_ITER_INC, nullptr,
          [](hid_t, const char* name, const H5L_info_t*, void* to) {
            static_cast<std::vector<std::string>*>(to)->emplace_back(name);
            return herr_t{0};
          },
          &names);
      for (const std::string& name : names)
        if (name != keep) H5Ldelete(open, name.c_str(), H5P_DEFAULT);
      H5Gclose(open);
    });
  };
  for (const auto& name : packing) EXPECT_TRUE(keep_one("packing", name)) << name;
  for (const auto& name : inputs) EXPECT_TRUE(keep_one("inputs", name)) << name;
  for (const auto& name : weights) EXPECT_TRUE(keep_one("weights", name)) << name;
  for (const auto& field : contract::kConfigFields)
    EXPECT_TRUE(candidate_of("csa_ties", [&](hid_t file) {
      for (const auto& other : contract::kConfigFields)
        if (H5Aexists_by_name(file, "config", std::string(other.name).c_str(), H5P_DEFAULT) > 0 &&
            other.name != field.name)
          delete_attribute(file, "config", std::string(other.name));
    })) << field.name;
}

TEST(CandidateRead, NanInfAndSelectionsOutOfRangeAreForTheJudge) {
  const auto candidate = candidate_of("csa_ties", [](hid_t file) {
    poke(file, "forward/out", 0, kNan);
    poke(file, "forward/q", 1, kInf);
    poke(file, "grad/inputs/hidden", 2, -kInf);
    poke(file, "forward/indexer_loss", 0, kNan);
    poke(file, "forward/topk", 0, std::int64_t{1} << 40);
    poke(file, "forward/topk", 1, std::int64_t{-7});
  });
  ASSERT_TRUE(candidate);
  EXPECT_TRUE(std::isnan(candidate->results.at(kOut)[0]));
  EXPECT_EQ(candidate->results.at(DatasetId::forward(StageId::kQ))[1], kInf);
  EXPECT_EQ(candidate->results.at(DatasetId::hidden_gradient())[2], -kInf);
  EXPECT_TRUE(std::isnan(candidate->results.at(DatasetId::forward(StageId::kIndexerLoss))[0]));
  EXPECT_EQ(candidate->results.at(kTopk)[0], 0x1p40);
  EXPECT_EQ(candidate->results.at(kTopk)[1], -7);
}

/// Numbers that every format has, and beside them what float64 and float32 need their bits for.
struct Encoding {
  std::string name;
  NumberFormat format;
  /// Writes numbers, given as doubles, under a path.
  std::function<void(hid_t file, const std::string& path, const std::vector<hsize_t>& shape,
                     const std::vector<double>& values)>
      put;
};

void PrintTo(const Encoding& encoding, std::ostream* out) { *out << encoding.name; }

/// HDF5 itself converts, which shares no code with ours.
void put_converted(hid_t file, const std::string& path, hid_t type, const std::vector<hsize_t>& shape,
                   const std::vector<double>& values) {
  put_dataset(file, path, type, shape, nullptr);
  const hid_t dataset = H5Dopen2(file, path.c_str(), H5P_DEFAULT);
  EXPECT_GE(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  H5Dclose(dataset);
}

void put_bf16_patterns(hid_t file, const std::string& path, hid_t type, const std::vector<hsize_t>& shape,
                       const std::vector<double>& values) {
  std::vector<std::uint16_t> patterns;
  for (double value : values) {
    const auto single = static_cast<float>(value);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &single, sizeof bits);
    patterns.push_back(static_cast<std::uint16_t>(bits >> 16));
  }
  put_dataset(file, path, type, shape, nullptr);
  const hid_t dataset = H5Dopen2(file, path.c_str(), H5P_DEFAULT);
  EXPECT_GE(H5Dwrite(dataset, H5T_NATIVE_UINT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, patterns.data()), 0);
  H5Dclose(dataset);
  mark_bf16(file, path);
}

std::vector<Encoding> encodings() {
  const auto plain = [](auto make_type) {
    return [make_type](hid_t file, const std::string& path, const std::vector<hsize_t>& shape,
                       const std::vector<double>& values) { put_converted(file, path, make_type(), shape, values); };
  };
  return {
      {"float64", NumberFormat::kFp64, plain([] { return H5T_IEEE_F64LE; })},
      {"float64_big_endian", NumberFormat::kFp64, plain([] { return H5T_IEEE_F64BE; })},
      {"float32", NumberFormat::kFp32, plain([] { return H5T_IEEE_F32LE; })},
      {"float32_big_endian", NumberFormat::kFp32, plain([] { return H5T_IEEE_F32BE; })},
      {"float16", NumberFormat::kFp16, plain(half_type)},
      {"float16_big_endian", NumberFormat::kFp16, plain([] {
         const hid_t type = half_type();
         H5Tset_order(type, H5T_ORDER_BE);
         return type;
       })},
      {"bf16_as_uint16", NumberFormat::kBf16,
       [](hid_t file, const auto& path, const auto& shape, const auto& values) {
         put_bf16_patterns(file, path, H5T_STD_U16LE, shape, values);
       }},
      {"bf16_as_uint16_big_endian", NumberFormat::kBf16,
       [](hid_t file, const auto& path, const auto& shape, const auto& values) {
         put_bf16_patterns(file, path, H5T_STD_U16BE, shape, values);
       }},
      {"bf16_as_float32", NumberFormat::kBf16,
       [](hid_t file, const auto& path, const auto& shape, const auto& values) {
         put_converted(file, path, H5T_IEEE_F32LE, shape, values);
         mark_bf16(file, path);
       }},
      {"bf16_as_float32_big_endian", NumberFormat::kBf16,
       [](hid_t file, const auto& path, const auto& shape, const auto& values) {
         put_converted(file, path, H5T_IEEE_F32BE, shape, values);
         mark_bf16(file, path);
       }},
  };
}

class EncodedFloats : public ::testing::TestWithParam<Encoding> {};

TEST_P(EncodedFloats, AreReadExactly) {
  const Encoding& encoding = GetParam();
  std::vector<double> numbers{0.0, -0.0, 1.0, -1.5, 0x1p-14, 0.15625, -3.0, 1.9921875, 240.0, kInf, -kInf, kNan};
  if (encoding.format == NumberFormat::kFp64)
    numbers.insert(numbers.end(), {0.1, 1e300, 5e-324, -1.7976931348623157e308});
  if (encoding.format == NumberFormat::kFp32)
    numbers.insert(numbers.end(), {0x1.234566p-3, 0x1p-149, 0x1.fffffep127, -0x1.fffffcp-127});
  if (encoding.format == NumberFormat::kFp16)
    numbers.insert(numbers.end(), {65504.0, -65504.0, 0x1p-24, 0x1.ff8p-15, 0x1.ffcp3});
  if (encoding.format == NumberFormat::kBf16)
    numbers.insert(numbers.end(), {0x1.fep127, -0x1p-133, 0x1.02p-126, 0x1.fcp-127});
  Tensor want({20, 48});
  for (Index i = 0; i < want.size(); ++i) want[i] = numbers[static_cast<std::size_t>(i) % numbers.size()];
  const auto candidate = candidate_of("swa_window", [&](hid_t file) {
    encoding.put(file, "forward/out", {20, 48}, want.values());
    encoding.put(file, "forward/indexer_loss", {}, {0.75});
  });
  ASSERT_TRUE(candidate);
  EXPECT_EQ(candidate->formats[kOut.index()], encoding.format);
  expect_same_values(candidate->results.at(kOut), want, "forward/out");
  EXPECT_EQ(candidate->results.at(DatasetId::forward(StageId::kIndexerLoss))[0], 0.75);
  // Those beside it keep theirs.
  EXPECT_EQ(candidate->formats[DatasetId::forward(StageId::kQ).index()], NumberFormat::kFp64);
}

TEST_P(EncodedFloats, OfInputsAndWeightsMustBeTheGoldensRounded) {
  const Encoding& encoding = GetParam();
  const GoldenFile& golden = golden_of("csa_row_mask_nan");  // row 1 is masked, row 22 is padding
  const auto rounded = [&](const Tensor& tensor) {
    std::vector<double> values;
    for (double value : tensor.values()) values.push_back(contract::round_to(encoding.format, value));
    return values;
  };
  auto hidden = rounded(golden.problem.hidden), grad_out = rounded(golden.problem.grad_out);
  const auto sink = rounded(golden.problem.weight(WeightId::kAttnSink));
  const auto put_all = [&](hid_t file) {
    encoding.put(file, "inputs/hidden", {56, 48}, hidden);
    encoding.put(file, "inputs/grad_out", {56, 48}, grad_out);
    encoding.put(file, "weights/attn_sink", {4}, sink);
  };
  hidden[22 * 48 + 5] = 7;
  grad_out[1 * 48 + 5] = -7;
  grad_out[22 * 48 + 6] = kInf;
  EXPECT_TRUE(candidate_of("csa_row_mask_nan", put_all));
  const TemporaryFolder folder;
  const auto refusal = [&](double& value, double bad) {
    const double good = std::exchange(value, bad);
    const auto candidate = read_candidate(edited(folder, "csa_row_mask_nan", put_all), golden.problem);
    value = good;
    EXPECT_FALSE(candidate.ok());
    if (candidate.ok()) return std::string();
    EXPECT_EQ(candidate.error().code, ErrorCode::kUsage);
    return candidate.error().text();
  };
  double& masked_token = hidden[1 * 48 + 5];
  const std::string text = refusal(masked_token, masked_token + contract::ulp(encoding.format, masked_token));
  EXPECT_NE(text.find("inputs/hidden: of another case: got "), std::string::npos) << text;
  EXPECT_NE(text.find(" at row 1, element 5, want "), std::string::npos) << text;
  double& valid_row = grad_out[3 * 48];
  EXPECT_NE(refusal(valid_row, kNan).find("inputs/grad_out: of another case: got NaN at row 3, element 0, want "),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Each, EncodedFloats, ::testing::ValuesIn(encodings()),
                         [](const auto& item) { return item.param.name; });

TEST(CandidateRead, RoundingOfInputsMayGoThroughFp32) {
  GoldenFile golden = golden_of("swa_window");
  golden.problem.hidden[0] = 1 + 0x1p-8 + 0x1p-40;  // above a tie of bf16, which fp32 does not see
  ASSERT_EQ(contract::round_to(NumberFormat::kBf16, golden.problem.hidden[0]), 1 + 0x1p-7);
  golden.problem.hidden[1] = 1 + 0x1p-11 + 0x1p-40;  // and of fp16
  const TemporaryFolder folder;
  const auto reads = [&](double first, double second, bool half) {
    const std::string path = edited(folder, "swa_window", [&](hid_t file) {
      std::vector<double> values;
      for (double value : golden.problem.hidden.values())
        values.push_back(contract::round_to(half ? NumberFormat::kFp16 : NumberFormat::kBf16, value));
      values[0] = first;
      values[1] = second;
      put_converted(file, "inputs/hidden", half ? half_type() : H5T_IEEE_F32LE, {20, 48}, values);
      if (!half) mark_bf16(file, "inputs/hidden");
    });
    return read_candidate(path, golden.problem).ok();
  };
  EXPECT_TRUE(reads(1 + 0x1p-7, 1, false));
  EXPECT_TRUE(reads(1, 1, false));
  EXPECT_FALSE(reads(1 + 0x1p-6, 1, false));
  EXPECT_TRUE(reads(1 + 4 * 0x1p-10, 1 + 0x1p-10, true));
  EXPECT_TRUE(reads(1 + 4 * 0x1p-10, 1, true));
  EXPECT_FALSE(reads(1, 1, true));
}

TEST(CandidateRead, MinusZeroIsNotZeroInInputs) {
  GoldenFile golden = golden_of("swa_window");
  golden.problem.hidden[0] = 0.0;
  const TemporaryFolder folder;
  const auto text = [&](double value) {
    const auto candidate = read_candidate(
        edited(folder, "swa_window", [&](hid_t file) { poke(file, "inputs/hidden", 0, value); }), golden.problem);
    return candidate.ok() ? "" : candidate.error().text();
  };
  EXPECT_EQ(text(0.0), "");
  EXPECT_NE(text(-0.0).find("got -0 at row 0, element 0, want 0 (the golden's)"), std::string::npos);
}

template <typename Stored>
void expect_selection(hid_t type, hid_t native) {
  Tensor want({41, 6});
  std::vector<Stored> stored;
  for (Index i = 0; i < want.size(); ++i) {
    const auto value = i % 3 == 0   ? std::numeric_limits<Stored>::max()
                       : i % 3 == 1 ? std::numeric_limits<Stored>::min()
                                    : static_cast<Stored>(std::is_signed_v<Stored> && i % 2 == 0 ? -1 : i % 100);
    stored.push_back(value);
    want[i] = static_cast<double>(value);
  }
  const auto candidate = candidate_of("csa_ties", [&](hid_t file) {
    put_dataset(file, "forward/topk", type, {41, 6}, nullptr);
    const hid_t dataset = H5Dopen2(file, "forward/topk", H5P_DEFAULT);
    H5Dwrite(dataset, native, H5S_ALL, H5S_ALL, H5P_DEFAULT, stored.data());
    H5Dclose(dataset);
  });
  ASSERT_TRUE(candidate);
  EXPECT_EQ(candidate->formats[kTopk.index()], std::nullopt);
  expect_same_values(candidate->results.at(kTopk), want, "forward/topk");
}

TEST(CandidateRead, SelectionsMayBeAnyInteger) {
  expect_selection<std::int8_t>(H5T_STD_I8LE, H5T_NATIVE_INT8);
  expect_selection<std::int16_t>(H5T_STD_I16LE, H5T_NATIVE_INT16);
  expect_selection<std::int32_t>(H5T_STD_I32LE, H5T_NATIVE_INT32);
  expect_selection<std::int64_t>(H5T_STD_I64LE, H5T_NATIVE_INT64);
  expect_selection<std::uint8_t>(H5T_STD_U8LE, H5T_NATIVE_UINT8);
  expect_selection<std::uint16_t>(H5T_STD_U16LE, H5T_NATIVE_UINT16);
  expect_selection<std::uint32_t>(H5T_STD_U32LE, H5T_NATIVE_UINT32);
  expect_selection<std::uint64_t>(H5T_STD_U64LE, H5T_NATIVE_UINT64);
  expect_selection<std::int32_t>(H5T_STD_I32BE, H5T_NATIVE_INT32);
  expect_selection<std::uint64_t>(H5T_STD_U64BE, H5T_NATIVE_UINT64);
}

TEST(FloatBits, EveryPatternIsItsOwnNumber) {
  for (std::uint32_t i = 0; i <= 0xFFFF; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const double half = from_fp16_bits(bits), brain = from_bf16_bits(bits);
    if (!std::isnan(half)) {
      EXPECT_EQ(to_fp16_bits(half), bits);
    }
    if (!std::isnan(brain)) {
      EXPECT_EQ(to_bf16_bits(brain), bits);
    }
    EXPECT_EQ(std::isnan(half), (bits & 0x7FFF) > 0x7C00) << bits;
    EXPECT_EQ(std::isnan(brain), (bits & 0x7FFF) > 0x7F80) << bits;
  }
  EXPECT_EQ(from_fp16_bits(0x3C00), 1.0);
  EXPECT_EQ(from_fp16_bits(0x0001), 0x1p-24);
  EXPECT_EQ(from_bf16_bits(0xC040), -3.0);
}

TEST(FloatBits, RoundToNearestEven) {
  EXPECT_EQ(to_fp16_bits(1 + 0x1p-11), 0x3C00);
  EXPECT_EQ(to_fp16_bits(1 + 3 * 0x1p-11), 0x3C02);
  EXPECT_EQ(to_fp16_bits(0x1.ffep-15), 0x0400);  // the largest subnormal rounds up to a normal number
  EXPECT_EQ(to_fp16_bits(65519), 0x7BFF);
  EXPECT_EQ(to_fp16_bits(-65520), 0xFC00);
  EXPECT_EQ(to_fp16_bits(-1e-300), 0x8000);
  EXPECT_EQ(to_fp16_bits(-kNan) & 0x7FFF, 0x7E00);
  EXPECT_EQ(to_bf16_bits(1 + 0x1p-8), 0x3F80);
  EXPECT_EQ(to_bf16_bits(1 + 3 * 0x1p-8), 0x3F82);
  EXPECT_EQ(to_bf16_bits(1e300), 0x7F80);
  EXPECT_EQ(to_bf16_bits(kNan), 0x7FC0);
}

// What is refused.

struct Bad {
  std::string name;
  std::string oracle_name;
  std::function<void(hid_t)> edit;
  ErrorCode code;
  std::vector<std::string> message;  ///< parts that the line must have
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class BadCandidate : public ::testing::TestWithParam<Bad> {};

TEST_P(BadCandidate, IsRefusedInOneLineThatNamesTheThing) {
  const Bad& bad = GetParam();
  const TemporaryFolder folder;
  const std::string path = edited(folder, bad.oracle_name, bad.edit);
  const Problem& problem = golden_of(bad.oracle_name).problem;
  ::testing::internal::CaptureStderr();
  const auto here = read_candidate(path, problem);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ASSERT_FALSE(here.ok());
  const std::string text = here.error().text();
  EXPECT_EQ(here.error().code, bad.code) << text;
  EXPECT_EQ(here.error().where, path);
  for (const std::string& part : bad.message) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
  }
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  EXPECT_LT(text.size(), path.size() + 400) << text;
  const auto child = read_candidate_guarded(path, problem);
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.error().code, here.error().code);
  EXPECT_EQ(child.error().text(), text);
}

constexpr ErrorCode kFile = ErrorCode::kFile, kUsage = ErrorCode::kUsage, kNothing = ErrorCode::kNothing;

void put_zeros(hid_t file, const std::string& path, hid_t type, const std::vector<hsize_t>& shape) {
  std::size_t bytes = H5Tget_size(type);
  for (hsize_t extent : shape) bytes *= extent;
  put_dataset(file, path, type, shape, std::vector<std::uint8_t>(bytes).data());
}

/// A fault in the names, the attributes or the shapes.
std::vector<Bad> layout_faults() {
  const std::string csa = "csa_ties", swa = "swa_window";
  return {
      {"no_format", swa, [](hid_t f) { delete_attribute(f, "/", "format"); }, kFile, {"'format'", "missing"}},
      {"no_version",
       swa,
       [](hid_t f) { delete_attribute(f, "/", "format_version"); },
       kFile,
       {"'format_version'", "missing"}},
      {"other_format",
       swa,
       [](hid_t f) { set_text(f, "/", "format", "plumbline-budget"); },
       kFile,
       {"'format'", "is 'plumbline-budget'", "need 'plumbline-candidate' or 'plumbline-golden'"}},
      {"other_version",
       swa,
       [](hid_t f) { set_int(f, "/", "format_version", 3); },
       kFile,
       {"'format_version'", "is 3", "versions 1 and 2"}},
      {"version_is_float",
       swa,
       [](hid_t f) { set_real(f, "/", "format_version", 1); },
       kFile,
       {"'format_version'", "float64", "need int64"}},
      {"case_is_a_number",
       swa,
       [](hid_t f) { set_int(f, "/", "case", 1); },
       kFile,
       {"root attribute 'case'", "int64", "need a variable-length UTF-8 string"}},
      {"producer_is_a_number", swa, [](hid_t f) { set_real(f, "/", "producer", 1); }, kFile, {"'producer'", "float64"}},
      {"unknown_root_attribute",
       swa,
       [](hid_t f) { set_text(f, "/", "produced", "x"); },
       kFile,
       {"root group", "'produced'", "did you mean 'producer'?"}},
      {"unknown_group",
       swa,
       [](hid_t f) { H5Gclose(H5Gcreate2(f, "foward", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)); },
       kFile,
       {"foward", "unknown name", "did you mean 'forward'?"}},
      {"group_attribute", swa, [](hid_t f) { set_int(f, "forward", "rank", 0); }, kFile, {"forward", "'rank'"}},
      {"unknown_field",
       swa,
       [](hid_t f) { set_int(f, "config", "head_dims", 32); },
       kFile,
       {"config/head_dims", "unknown attribute", "did you mean 'head_dim'?"}},
      {"field_of_other_type",
       swa,
       [](hid_t f) { set_real(f, "config", "heads", 4); },
       kFile,
       {"config attribute 'heads'", "float64", "need int64"}},
      {"unknown_in_packing",
       swa,
       [](hid_t f) { put_zeros(f, "packing/offset", H5T_STD_I64LE, {2}); },
       kFile,
       {"packing/offset", "did you mean 'offsets'?"}},
      {"packing_of_other_type",
       swa,
       [](hid_t f) { put_zeros(f, "packing/offsets", H5T_STD_I32LE, {2}); },
       kFile,
       {"packing/offsets", "int32", "need int64"}},
      {"unknown_input",
       swa,
       [](hid_t f) {
         put_zeros(f, "inputs/hiden", H5T_IEEE_F64LE, {20, 48});
       },
       kFile,
       {"inputs/hiden", "did you mean 'hidden'?"}},
      {"unknown_weight",
       csa,
       [](hid_t f) { put_zeros(f, "weights/compressor.wk", H5T_IEEE_F64LE, {1}); },
       kFile,
       {"weights/compressor.wk", "unknown weight", "did you mean 'compressor.wkv'?"}},
      {"weight_of_other_layer",
       swa,
       [](hid_t f) { put_zeros(f, "weights/compressor.wkv", H5T_IEEE_F64LE, {1}); },
       kFile,
       {"weights/compressor.wkv", "a layer with ratio 0", "has no such dataset"}},
      {"unknown_stage",
       swa,
       [](hid_t f) { put_zeros(f, "forward/attn_ot", H5T_IEEE_F64LE, {1}); },
       kFile,
       {"forward/attn_ot", "unknown dataset", "did you mean 'attn_out'?"}},
      {"stage_of_other_layer",
       swa,
       [](hid_t f) { put_zeros(f, "forward/index_q", H5T_IEEE_F64LE, {1}); },
       kFile,
       {"forward/index_q", "a layer with ratio 0", "has no such dataset", "leave it out"}},
      {"gradient_without_one",
       csa,
       [](hid_t f) {
         put_zeros(f, "grad/forward/attn_lse", H5T_IEEE_F64LE, {41, 4});
       },
       kFile,
       {"grad/forward/attn_lse", "unknown dataset", "did you mean 'attn_out'?"}},
      {"unknown_gradient_group",
       csa,
       [](hid_t f) { H5Gclose(H5Gcreate2(f, "grad/weight", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)); },
       kFile,
       {"grad/weight", "did you mean 'weights'?"}},
      {"unknown_weight_gradient",
       csa,
       [](hid_t f) { put_zeros(f, "grad/weights/wq", H5T_IEEE_F64LE, {1}); },
       kFile,
       {"grad/weights/wq", "did you mean 'wq_a'?"}},
      {"shape",
       csa,
       [](hid_t f) {
         put_zeros(f, "forward/out", H5T_IEEE_F32LE, {48, 41});
       },
       kFile,
       {"forward/out", "has shape [48, 41], need [41, 48]"}},
      {"shape_of_selection",
       csa,
       [](hid_t f) {
         put_zeros(f, "forward/topk", H5T_STD_I32LE, {41, 7});
       },
       kFile,
       {"forward/topk", "has shape [41, 7], need [41, 6]"}},
      {"scalar_with_an_axis",
       csa,
       [](hid_t f) { put_zeros(f, "forward/indexer_loss", H5T_IEEE_F32LE, {1}); },
       kFile,
       {"forward/indexer_loss", "has shape [1], need []"}},
      {"a_dataset_is_a_group",
       csa,
       [](hid_t f) {
         delete_link(f, "forward/q");
         H5Gclose(H5Gcreate2(f, "forward/q", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
       },
       kFile,
       {"forward/q", "is not a dataset"}},
      {"a_group_is_a_dataset",
       csa,
       [](hid_t f) { put_zeros(f, "grad", H5T_IEEE_F32LE, {1}); },
       kFile,
       {"grad", "is not a group"}},
      {"a_link",
       csa,
       [](hid_t f) {
         delete_link(f, "forward/q");
         H5Lcreate_external("other.h5", "q", f, "forward/q", H5P_DEFAULT, H5P_DEFAULT);
       },
       kFile,
       {"forward/q", "is a link"}},
      {"never_written",
       csa,
       [](hid_t f) {
         put_dataset(f, "forward/q", H5T_IEEE_F32LE, {41, 4, 32}, nullptr);
       },
       kFile,
       {"forward/q", "declares shape [41, 4, 32]", "no more than 0"}},
      {"nothing_at_all",
       csa,
       [](hid_t f) {
         delete_link(f, "forward");
         delete_link(f, "grad");
       },
       kNothing,
       {"nothing to judge", "forward/", "grad/", "at least one"}},
      {"only_empty_groups",
       csa,
       [](hid_t f) {
         delete_link(f, "forward");
         delete_link(f, "grad");
         H5Gclose(H5Gcreate2(f, "forward", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
         H5Gclose(H5Gcreate2(f, "grad", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
         H5Gclose(H5Gcreate2(f, "grad/inputs", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
       },
       kNothing,
       {"nothing to judge"}},
  };
}

/// A fault in how a dataset is stored.
std::vector<Bad> encoding_faults() {
  const std::string csa = "csa_ties";
  const auto out_as = [](hid_t (*type)()) {
    return [type](hid_t f) { put_zeros(f, "forward/out", type(), {41, 48}); };
  };
  const auto marked = [](hid_t (*type)(), const char* text) {
    return [type, text](hid_t f) {
      put_zeros(f, "forward/out", type(), {41, 48});
      set_text(f, "forward/out", "storage_dtype", text);
    };
  };
  const std::string allowed =
      "need float64, float32, float16, or bf16 as uint16 or float32 with the attribute storage_dtype = 'bf16'";
  return {
      {"floats_as_int32",
       csa,
       out_as([] { return hid_t{H5T_STD_I32LE}; }),
       kFile,
       {"forward/out", "has dtype int32, " + allowed}},
      {"floats_as_int16", csa, out_as([] { return hid_t{H5T_STD_I16LE}; }), kFile, {"has dtype int16, " + allowed}},
      {"floats_as_float128", csa, out_as([] { return hid_t{H5T_NATIVE_LDOUBLE}; }), kFile, {"forward/out", allowed}},
      {"floats_of_a_layout_of_their_own",
       csa,
       out_as([] {
         const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
         H5Tset_fields(type, 15, 7, 8, 0, 7);
         H5Tset_size(type, 2);
         return type;
       }),
       kFile,
       {"forward/out", "float16 of a bit layout of its own, " + allowed}},
      {"patterns_without_the_attribute",
       csa,
       out_as([] { return hid_t{H5T_STD_U16LE}; }),
       kFile,
       {"forward/out", "dtype uint16 but no attribute 'storage_dtype'", "'bf16'", "float64, float32 or float16"}},
      {"attribute_of_another_value",
       csa,
       marked([] { return hid_t{H5T_STD_U16LE}; }, "bfloat16"),
       kFile,
       {"forward/out attribute 'storage_dtype'", "is 'bfloat16', need 'bf16'"}},
      {"attribute_on_float64",
       csa,
       marked([] { return hid_t{H5T_IEEE_F64LE}; }, "bf16"),
       kFile,
       {"'storage_dtype'", "on dtype float64", "need uint16 or float32"}},
      {"attribute_on_float16", csa, marked(half_type, "bf16"), kFile, {"on dtype float16", "need uint16 or float32"}},
      {"attribute_of_another_type",
       csa,
       [](hid_t f) { set_int(f, "forward/out", "storage_dtype", 16); },
       kFile,
       {"forward/out attribute 'storage_dtype'", "int64", "need a variable-length UTF-8 string"}},
      {"another_attribute",
       csa,
       [](hid_t f) { set_text(f, "forward/out", "dtype", "bf16"); },
       kFile,
       {"forward/out", "unknown attribute 'dtype'", "storage_dtype"}},
      {"float32_that_is_not_bf16",
       csa,
       [](hid_t f) {
         std::vector<float> values(41 * 48, std::numeric_limits<float>::infinity());
         values[3 * 48 + 5] = 1.001953125f;
         put_dataset(f, "forward/out", H5T_NATIVE_FLOAT, {41, 48}, values.data());
         mark_bf16(f, "forward/out");
       },
       kFile,
       {"forward/out", "holds 1.001953125 at row 3, element 5", "no bf16 number", "'storage_dtype'", "round"}},
      {"selection_as_float64",
       csa,
       [](hid_t f) {
         put_zeros(f, "forward/topk", H5T_IEEE_F64LE, {41, 6});
       },
       kFile,
       {"forward/topk", "has dtype float64, need an integer type of 8, 16, 32 or 64 bits"}},
      {"selection_as_boolean",
       csa,
       [](hid_t f) {
         put_zeros(f, "forward/topk", bool_type(), {41, 6});
       },
       kFile,
       {"forward/topk", "an enumeration", "an integer type"}},
      {"selection_with_the_attribute",
       csa,
       [](hid_t f) {
         put_zeros(f, "forward/topk", H5T_STD_U16LE, {41, 6});
         mark_bf16(f, "forward/topk");
       },
       kFile,
       {"forward/topk", "unknown attribute 'storage_dtype'", "none"}},
      {"weight_as_integers",
       csa,
       [](hid_t f) { put_zeros(f, "weights/q_norm", H5T_STD_I64LE, {24}); },
       kFile,
       {"weights/q_norm", "has dtype int64, " + allowed}},
  };
}

/// Candidates of another case.
std::vector<Bad> other_cases() {
  const std::string csa = "csa_ties", swa = "swa_window", masked = "csa_row_mask_nan";
  return {
      {"size",
       swa,
       [](hid_t f) { set_int(f, "config", "window", 8); },
       kUsage,
       {"config/window: of another case: got 8, want 7 (the golden's)", "the golden of its own case"}},
      {"real",
       swa,
       [](hid_t f) { set_real(f, "config", "eps", 1.0000000000000002e-6); },
       kUsage,
       {"config/eps: of another case: got 1.0000000000000002e-06, want 1e-06"}},
      {"boolean",
       csa,
       [](hid_t f) {
         const hid_t type = bool_type();
         const std::int8_t no = 0;
         set_attribute(f, "config", "sparse_loss", type, &no);
         H5Tclose(type);
       },
       kUsage,
       {"config/sparse_loss: of another case: got false, want true"}},
      {"teacher",
       csa,
       [](hid_t f) { set_text(f, "config", "teacher", "compressed_only"); },
       kUsage,
       {"config/teacher: of another case: got 'compressed_only', want 'full'"}},
      {"default_field",
       swa,
       [](hid_t f) { set_int(f, "config", "index_heads", 4); },
       kUsage,
       {"config/index_heads: of another case: got 4, want 0"}},
      {"offsets",
       masked,
       [](hid_t f) { poke(f, "packing/offsets", 1, std::int64_t{23}); },
       kUsage,
       {"packing/offsets: of another case: got 23 at element 1, want 24"}},
      {"lengths",
       masked,
       [](hid_t f) { poke(f, "packing/lengths", 0, std::int64_t{22}); },
       kUsage,
       {"packing/lengths: of another case: got 22 at element 0, want 21"}},
      {"row_valid",
       masked,
       [](hid_t f) { poke(f, "packing/row_valid", 1, std::uint8_t{1}); },
       kUsage,
       {"packing/row_valid: of another case: got 1 at element 1, want 0"}},
      {"segments",
       masked,
       [](hid_t f) { put_zeros(f, "packing/lengths", H5T_STD_I64LE, {4}); },
       kUsage,
       {"packing/lengths: of another case: got shape [4], want [3]"}},
      {"tokens",
       swa,
       [](hid_t f) {
         put_zeros(f, "inputs/hidden", H5T_IEEE_F32LE, {21, 48});
       },
       kUsage,
       {"inputs/hidden: of another case: got shape [21, 48], want [20, 48]"}},
      {"hidden",
       swa,
       [](hid_t f) { poke(f, "inputs/hidden", 19 * 48 + 47, 0.25); },
       kUsage,
       {"inputs/hidden: of another case: got 0.25 at row 19, element 47, want "}},
      {"grad_out",
       swa,
       [](hid_t f) { poke(f, "inputs/grad_out", 0, kInf); },
       kUsage,
       {"inputs/grad_out: of another case: got Inf at row 0, element 0, want "}},
      {"weight",
       csa,
       [](hid_t f) { poke(f, "weights/indexer.weights_proj", 1, 0.5); },
       kUsage,
       {"weights/indexer.weights_proj: of another case: got 0.5 at row 0, element 1, want "}},
      {"weight_of_another_shape",
       csa,
       [](hid_t f) {
         put_zeros(f, "weights/wkv", H5T_IEEE_F64LE, {48, 32});
       },
       kUsage,
       {"weights/wkv: of another case: got shape [48, 32], want [32, 48]"}},
      {"narrow_weight",
       csa,
       [](hid_t f) { put_zeros(f, "weights/q_norm", half_type(), {24}); },
       kUsage,
       {"weights/q_norm: of another case: got 0 at row 0, element 0, want ", "(in fp16)"}},
  };
}

const auto kNameOf = [](const auto& item) { return item.param.name; };
INSTANTIATE_TEST_SUITE_P(Layout, BadCandidate, ::testing::ValuesIn(layout_faults()), kNameOf);
INSTANTIATE_TEST_SUITE_P(Encoding, BadCandidate, ::testing::ValuesIn(encoding_faults()), kNameOf);
INSTANTIATE_TEST_SUITE_P(OtherCase, BadCandidate, ::testing::ValuesIn(other_cases()), kNameOf);

TEST(CandidatePath, EachHasItsOwnLine) {
  const TemporaryFolder folder;
  const Problem& problem = golden_of("swa_window").problem;
  const auto refusal = [&](const std::string& path) {
    const auto here = read_candidate(path, problem), child = read_candidate_guarded(path, problem);
    EXPECT_FALSE(here.ok() || child.ok());
    if (here.ok() || child.ok()) return std::string();
    EXPECT_EQ(here.error().code, ErrorCode::kFile);
    EXPECT_EQ(child.error().code, ErrorCode::kFile);
    EXPECT_EQ(child.error().text(), here.error().text());
    return here.error().text();
  };
  EXPECT_EQ(refusal(folder.file("absent.h5")), folder.file("absent.h5") + ": no such file");
  EXPECT_EQ(refusal(folder.path()), folder.path() + ": is a folder, need a candidate file");
  EXPECT_EQ(refusal("/dev/null"), "/dev/null: is not a regular file");
  write_bytes(folder.file("empty.h5"), "");
  EXPECT_EQ(refusal(folder.file("empty.h5")), folder.file("empty.h5") + ": is empty, need a candidate file");
  write_bytes(folder.file("noise.h5"), std::string(5000, 'x'));
  EXPECT_EQ(refusal(folder.file("noise.h5")), folder.file("noise.h5") + ": is not an HDF5 file");
  const std::string whole = bytes_of(oracle("swa_window"));
  write_bytes(folder.file("cut.h5"), whole.substr(0, whole.size() / 2));
  EXPECT_NE(refusal(folder.file("cut.h5")).find("truncated or damaged"), std::string::npos);
}

TEST(CandidatePath, MemoryAndTimeAreLimited) {
  const Problem& problem = golden_of("csa_ties").problem;
  for (const auto& candidate :
       {read_candidate(oracle("csa_ties"), problem, 1e5), read_candidate_guarded(oracle("csa_ties"), problem, 1e5)}) {
    ASSERT_FALSE(candidate.ok());
    EXPECT_EQ(candidate.error().code, ErrorCode::kMemory);
    EXPECT_NE(candidate.error().text().find("memory"), std::string::npos);
  }
  const auto late = read_candidate_guarded(oracle("csa_ties"), problem, 1e9, 1e-9);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(
      late.error().text(),
      oracle("csa_ties") +
          ": unreadable file: reading it took more than 1 s; no sound file takes that long, so have it made again");
}

TEST(CandidatePath, MemoryOfComparedAndOfStoredValuesCounts) {
  const TemporaryFolder folder;
  const auto code = [&](const char* keep, double memory_bytes) {
    const std::string path = edited(folder, "csa_ties", [&](hid_t file) {
      for (const char* name : {"config", "packing", "inputs", "weights", "grad", "forward"})
        if (std::string_view(name) != keep) delete_link(file, name);
      H5Gclose(H5Gcreate2(file, "forward", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      put_zeros(file, "forward/topk", H5T_STD_I64LE, {41, 6});
    });
    const auto candidate = read_candidate(path, golden_of("csa_ties").problem, memory_bytes);
    return candidate.ok() ? std::nullopt : std::optional(candidate.error().code);
  };
  const double topk_bytes = 41 * 6 * 8, hidden_bytes = 41 * 48 * 8;
  EXPECT_EQ(code("", 2 * topk_bytes), std::nullopt);
  EXPECT_EQ(code("", 2 * topk_bytes - 1), ErrorCode::kMemory);
  EXPECT_EQ(code("inputs", hidden_bytes), std::nullopt);
  EXPECT_EQ(code("inputs", hidden_bytes - 1), ErrorCode::kMemory);
}

TEST(CandidatePath, AProblemThatIsNoneIsRefused) {
  Problem problem = golden_of("swa_window").problem;
  problem.hidden = Tensor({1, 1});
  const auto candidate = read_candidate(oracle("swa_window"), problem);
  ASSERT_FALSE(candidate.ok());
  EXPECT_EQ(candidate.error().text(), "inputs/hidden: has shape [1, 1], want [20, 48]");
}

// Between the processes.

std::vector<std::byte> sent(const Result<CandidateFile>& answer) {
  std::vector<std::byte> stream;
  EXPECT_TRUE(send_candidate(answer, [&](std::span<const std::byte> bytes) {
    stream.insert(stream.end(), bytes.begin(), bytes.end());
    return true;
  }));
  return stream;
}

Result<CandidateFile> received(std::span<const std::byte> stream, const Problem& problem, bool& ok,
                               double memory_bytes = 1e9) {
  return receive_candidate(
      [&](std::span<std::byte> bytes) {
        if (stream.size() < bytes.size()) return false;
        std::copy_n(stream.begin(), bytes.size(), bytes.begin());
        stream = stream.subspan(bytes.size());
        return true;
      },
      problem, memory_bytes, ok);
}

TEST(CandidateWire, ACutOrAlteredStreamIsNotAnAnswer) {
  const Problem& problem = golden_of("swa_window").problem;
  const auto candidate = read_candidate(oracle("swa_window"), problem);
  ASSERT_TRUE(candidate.ok());
  const auto stream = sent(candidate);
  bool ok = false;
  const auto copy = received(stream, problem, ok);
  ASSERT_TRUE(ok && copy.ok());
  expect_same_candidate(*copy, *candidate);
  for (std::size_t size = 0; size < stream.size(); size += size < 1000 ? 1 : 4999) {
    (void)received(std::span(stream).first(size), problem, ok);
    EXPECT_FALSE(ok) << size;
  }
  (void)received(stream, problem, ok, 1e4);
  EXPECT_FALSE(ok);
}

TEST(CandidateWire, WhatMakesNoSenseIsNotAnAnswer) {
  const Problem& problem = golden_of("swa_window").problem;
  const auto accepted = [&](const std::function<void(CandidateFile&)>& spoil) {
    CandidateFile candidate;
    candidate.results.set(kOut, Tensor({20, 48}));
    candidate.formats[kOut.index()] = NumberFormat::kBf16;
    spoil(candidate);
    bool ok = false;
    (void)received(sent(candidate), problem, ok);
    return ok;
  };
  EXPECT_TRUE(accepted([](CandidateFile&) {}));
  EXPECT_FALSE(accepted([](CandidateFile& c) { c.results.erase(kOut); }));
  EXPECT_FALSE(accepted([](CandidateFile& c) { c.formats[kOut.index()] = NumberFormat::kTf32; }));
  EXPECT_FALSE(accepted([](CandidateFile& c) { c.formats[kOut.index()].reset(); }));
  EXPECT_FALSE(accepted([](CandidateFile& c) {
    c.results.set(kTopk, Tensor({20, 0}));
    c.formats[kTopk.index()] = NumberFormat::kFp64;
  }));
  EXPECT_FALSE(accepted([](CandidateFile& c) {
    const auto absent = DatasetId::forward(StageId::kIndexQ);
    c.results.set(absent, Tensor({20, 0, 0}));  // its shape without an indexer
    c.formats[absent.index()] = NumberFormat::kFp64;
  }));
  EXPECT_FALSE(accepted([](CandidateFile& c) { c.results.set(kOut, Tensor({20, 47})); }));
}

// What is written.

/// Results of an oracle file in all four formats, with NaN and infinities, as they are after rounding.
CandidateFile mixed(const std::string& name) {
  constexpr NumberFormat kFormats[] = {NumberFormat::kFp64, NumberFormat::kFp32, NumberFormat::kFp16,
                                       NumberFormat::kBf16};
  CandidateFile candidate{"case of " + name, "a test, \xC3\xBC", golden_of(name).results, {}};
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const auto id = DatasetId::from_index(i);
    if (!candidate.results.has(id) || id == kTopk) continue;
    candidate.formats[i] = kFormats[i % 4];
    Tensor& tensor = candidate.results.at(id);
    if (tensor.size() > 3) {
      tensor[0] = kNan;
      tensor[1] = -kInf;
      tensor[2] = -0.0;
    }
    for (double& value : tensor.values()) value = contract::round_to(kFormats[i % 4], value);
  }
  return candidate;
}

TEST(CandidateWrite, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  for (const char* name : {"csa_row_mask_nan", "hca_packed_padded", "swa_window"}) {
    const CandidateFile candidate = mixed(name);
    const auto status = write_candidate(folder.file("c.h5"), candidate);
    ASSERT_TRUE(status.ok()) << status.error().text();
    const auto copy = read_candidate_guarded(folder.file("c.h5"), golden_of(name).problem);
    ASSERT_TRUE(copy.ok()) << copy.error().text();
    expect_same_candidate(*copy, candidate);
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"c.h5"});
}

TEST(CandidateWrite, TheSameContentsGiveTheSameBytes) {
  const TemporaryFolder folder;
  const CandidateFile candidate = mixed("csa_ties");
  ASSERT_TRUE(write_candidate(folder.file("first.h5"), candidate).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // a stored time would differ
  ::mallopt(M_PERTURB, 0x5A);                                    // uninitialised bytes would differ
  ASSERT_TRUE(write_candidate(folder.file("second.h5"), candidate).ok());
  ::mallopt(M_PERTURB, 0);
  EXPECT_EQ(bytes_of(folder.file("first.h5")), bytes_of(folder.file("second.h5")));
}

TEST(CandidateWrite, RoundsToTheFormatAndFp64IsTheDefault) {
  const TemporaryFolder folder;
  const DatasetId lse = DatasetId::forward(StageId::kAttnLse);
  CandidateFile candidate;
  candidate.results.set(kOut, Tensor({20, 48}, 1 + 0x1p-9));
  candidate.formats[kOut.index()] = NumberFormat::kBf16;
  candidate.results.set(lse, Tensor({20, 4}, 0.1));
  ASSERT_TRUE(write_candidate(folder.file("c.h5"), candidate).ok());
  const auto copy = read_candidate(folder.file("c.h5"), golden_of("swa_window").problem);
  ASSERT_TRUE(copy.ok()) << copy.error().text();
  EXPECT_EQ(copy->results.at(kOut)[0], 1.0);
  EXPECT_EQ(copy->results.at(lse)[79], 0.1);
  EXPECT_EQ(copy->formats[lse.index()], NumberFormat::kFp64);
  EXPECT_EQ(copy->case_text, "");
  EXPECT_EQ(copy->producer, "");
}

TEST(CandidateWrite, RefusalsLeaveNothingBehind) {
  const TemporaryFolder folder;
  const std::string path = folder.file("c.h5");
  const auto refusal = [&](ErrorCode code, const std::function<void(CandidateFile&)>& spoil) {
    CandidateFile candidate = mixed("csa_ties");
    spoil(candidate);
    const auto status = write_candidate(path, candidate);
    EXPECT_FALSE(status.ok());
    EXPECT_TRUE(folder.names().empty());
    if (status.ok()) return std::string();
    EXPECT_EQ(status.error().code, code);
    return status.error().text();
  };
  EXPECT_EQ(refusal(ErrorCode::kNothing, [](CandidateFile& c) { c.results = {}; }),
            path + ": there are no results to write; nothing was written");
  EXPECT_EQ(refusal(kUsage, [](CandidateFile& c) { c.formats[kOut.index()] = NumberFormat::kFp8E4m3; }),
            path + ": forward/out: has the format fp8-e4m3, allowed: fp64, fp32, fp16, bf16");
  EXPECT_EQ(refusal(kUsage, [](CandidateFile& c) { c.formats[kTopk.index()] = NumberFormat::kFp32; }),
            path + ": forward/topk: has the format fp32, need none: selections are stored as int64");
  EXPECT_EQ(refusal(kUsage, [](CandidateFile& c) { c.results.at(kTopk)[0] = 0.5; }),
            path + ": forward/topk: holds 0.5, allowed: integers of 64 bits");
  EXPECT_EQ(refusal(kUsage, [](CandidateFile& c) { c.results.at(kTopk)[0] = kNan; }),
            path + ": forward/topk: holds NaN, allowed: integers of 64 bits");
  EXPECT_EQ(refusal(kUsage, [](CandidateFile& c) { c.producer = "a\xFF"; }),
            path + ": producer: is not valid UTF-8 text: 'a\\xff'");
  EXPECT_EQ(refusal(kUsage, [](CandidateFile& c) { c.case_text = std::string("a\0b", 3); }).find(path + ": case: "),
            0u);
}

TEST(CandidateWrite, CanBeInterruptedAtAnyDataset) {
  const TemporaryFolder folder;
  const CandidateFile candidate = mixed("swa_window");
  const auto datasets = static_cast<int>(candidate.results.available().count());
  for (int after = 0; after <= datasets; ++after) {
    int asked = 0;
    const auto status = write_candidate(folder.file("c.h5"), candidate, [&] { return asked++ == after; });
    EXPECT_EQ(status.ok(), after == datasets) << after;
    if (!status) {
      EXPECT_EQ(status.error().code, ErrorCode::kInterrupted);
      EXPECT_TRUE(folder.names().empty());
    }
  }
}

}  // namespace
}  // namespace plumbline::golden::test
