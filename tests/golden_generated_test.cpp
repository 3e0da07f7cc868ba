#include "golden_fixture.hpp"
#include "reference/contract/case.hpp"
#include "reference/contract/random.hpp"

// Files of version 2, whose case generates inputs and weights.
namespace plumbline::golden::test {
namespace {

using contract::DatasetId;
using contract::ErrorCode;

/// Numbers that a file of this case may hold; what they mean is not the readers' business.
GoldenFile made(Contents contents, const std::string& text = "csa,seq=9+5,pad=4,mask=random:0.3,seed=3") {
  GoldenFile golden;
  golden.contents = contents;
  golden.case_text = text;
  golden.producer = "a test";
  golden.problem = *contract::make_problem(*contract::parse_case(text));
  golden.fingerprints = make_fingerprints(golden.problem);
  for (std::size_t i = 0; i < DatasetId::kCount && contents != Contents::kSeed; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    if (!id.exists(golden.problem.config)) continue;
    contract::Tensor tensor(shape_of(id.axes(), golden.problem.config, golden.problem.packing),
                            id == DatasetId::forward(contract::StageId::kTopk) ? -1 : 0);
    if (tensor.rank() > 0 && tensor.size() > 0 && !(id == DatasetId::forward(contract::StageId::kTopk)))
      for (contract::Index e = 0; e < tensor.size(); ++e)
        tensor[e] = contract::normal(i, 1, static_cast<std::uint64_t>(e));
    if (contents == Contents::kSketch)
      golden.sketches[i] = contract::make_sketch(id, tensor, golden.problem);
    else
      golden.results.set(id, std::move(tensor));
  }
  return golden;
}

class Generated : public ::testing::TestWithParam<Contents> {};

TEST_P(Generated, ComesBackAsItWasWritten) {
  const TemporaryFolder folder;
  const GoldenFile golden = made(GetParam());
  const std::string path = folder.file("a.h5");
  ASSERT_TRUE(write(path, golden).ok());
  for (const auto& got : {read(path), read_guarded(path)}) {
    ASSERT_TRUE(got.ok()) << got.error().text();
    expect_same(*got, golden);
  }
  EXPECT_EQ(*read_contents_guarded(path), GetParam());
  ASSERT_TRUE(write(folder.file("b.h5"), *read(path)).ok());
  EXPECT_EQ(bytes_of(path), bytes_of(folder.file("b.h5")));
}

TEST_P(Generated, SaysThatTheGeneratorMovedAndInWhat) {
  const TemporaryFolder folder;
  GoldenFile golden = made(GetParam());
  golden.fingerprints.hidden[3] = golden.fingerprints.hidden[3] == 'a' ? 'b' : 'a';
  golden.fingerprints.weights[0].back() = golden.fingerprints.weights[0].back() == '0' ? '1' : '0';
  const std::string path = folder.file("a.h5");
  ASSERT_TRUE(write(path, golden).ok());
  for (const auto& got : {read(path), read_guarded(path)}) {
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, ErrorCode::kCheckFailed);
    EXPECT_NE(got.error().text().find("generator has moved"), std::string::npos) << got.error().text();
    EXPECT_NE(got.error().text().find("inputs/hidden, weights/wq_a;"), std::string::npos) << got.error().text();
  }
  // What it holds can be known all the same.
  EXPECT_EQ(*read_contents_guarded(path), GetParam());
}

TEST_P(Generated, NeedsTheMemoryOfWhatItGenerates) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  ASSERT_TRUE(write(path, made(Contents::kSeed, "swa,seq=3000")).ok());
  const auto got = read_guarded(path, 1e6);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ErrorCode::kMemory) << got.error().text();
}

INSTANTIATE_TEST_SUITE_P(Contents, Generated, ::testing::Values(Contents::kFull, Contents::kSketch, Contents::kSeed),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST(GeneratedWrite, RefusesWhatCouldNotBeRead) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::function<void(GoldenFile&)>& spoil, Contents contents = Contents::kSketch) {
    GoldenFile golden = made(contents);
    spoil(golden);
    const auto status = write(folder.file("a.h5"), golden);
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE(std::filesystem::exists(folder.file("a.h5")));
    return status.ok() ? std::string() : status.error().text();
  };
  EXPECT_NE(refusal([](GoldenFile& g) { g.case_text = "csa,nonsense=1"; }).find("nonsense"), std::string::npos);
  EXPECT_NE(refusal([](GoldenFile& g) { g.case_text = "csa,seq=9+5,pad=4,seed=3"; }).find("packing"),
            std::string::npos);
  EXPECT_NE(refusal([](GoldenFile& g) { g.problem.config.eps = 0.5; }).find("config/eps"), std::string::npos);
  EXPECT_NE(refusal([](GoldenFile& g) { g.sketches[0]->norm = std::nan(""); }).find("sketch/forward/q_down"),
            std::string::npos);
  EXPECT_NE(refusal([](GoldenFile& g) { g.sketches[0]->samples.pop_back(); }).find("another shape"), std::string::npos);
}

struct Hostile {
  std::string name;
  Contents contents;
  std::function<void(hid_t)> edit;
  std::vector<std::string> message;
  ErrorCode code = ErrorCode::kFile;
};
void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.name; }

class HostileGenerated : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileGenerated, IsRefusedInOneLineThatNamesTheThing) {
  const Hostile& hostile = GetParam();
  const TemporaryFolder folder;
  const std::string path = folder.file("a.h5");
  ASSERT_TRUE(write(path, made(hostile.contents)).ok());
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  hostile.edit(file);
  ASSERT_GE(H5Fclose(file), 0);
  const auto here = read(path), child = read_guarded(path);
  ASSERT_FALSE(here.ok());
  ASSERT_FALSE(child.ok());
  const std::string text = here.error().text();
  EXPECT_EQ(here.error().code, hostile.code) << text;
  EXPECT_EQ(here.error().where, path);
  for (const std::string& part : hostile.message)
    EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  EXPECT_EQ(child.error().text(), text);
}

void make_group(hid_t file, const std::string& name) {
  H5Gclose(H5Gcreate2(file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
}

constexpr Contents kFull = Contents::kFull, kSketch = Contents::kSketch, kSeed = Contents::kSeed;

std::vector<Hostile> hostile_files() {
  return {
      {"no_contents", kFull, [](hid_t f) { delete_attribute(f, "/", "contents"); }, {"'contents'", "missing"}},
      {"unknown_contents",
       kFull,
       [](hid_t f) { set_text(f, "/", "contents", "all"); },
       {"'all'", "'full', 'sketch' or 'seed'"}},
      {"contents_of_version_1",
       kSeed,
       [](hid_t f) { set_int(f, "/", "format_version", 1); },
       {"unknown attribute 'contents'"}},
      {"unknown_attribute", kSeed, [](hid_t f) { set_int(f, "/", "extra", 1); }, {"unknown attribute 'extra'"}},
      {"case_is_nonsense", kSeed, [](hid_t f) { set_text(f, "/", "case", "csa,seq=x"); }, {"'case'", "seq"}},
      {"case_is_a_file", kSeed, [](hid_t f) { set_text(f, "/", "case", "file=a.h5"); }, {"'case'", "names a file"}},
      {"case_of_another_config",
       kSeed,
       [](hid_t f) { set_text(f, "/", "case", "csa,seq=9+5,pad=4,mask=random:0.3,seed=3,window=7"); },
       {"config/window"}},
      {"case_of_another_packing",
       kSeed,
       [](hid_t f) { set_text(f, "/", "case", "csa,seq=9+6,pad=4,mask=random:0.3,seed=3"); },
       {"packing", "case"}},
      {"case_of_another_seed",
       kSeed,
       [](hid_t f) { set_text(f, "/", "case", "csa,seq=9+5,pad=4,mask=random:0,seed=4"); },
       {"packing"}},
      {"no_checksums", kFull, [](hid_t f) { delete_link(f, "checksums"); }, {"checksums", "missing"}},
      {"no_checksums_of_weights",
       kFull,
       [](hid_t f) { delete_link(f, "checksums/weights"); },
       {"checksums/weights", "missing"}},
      {"no_checksum_of_hidden",
       kFull,
       [](hid_t f) { delete_attribute(f, "checksums/inputs", "hidden"); },
       {"checksums/inputs attribute 'hidden'", "missing"}},
      {"checksum_is_none",
       kFull,
       [](hid_t f) { set_text(f, "checksums/inputs", "hidden", "0123"); },
       {"checksums/inputs/hidden", "'0123'", "SHA-256"}},
      {"checksum_is_a_number",
       kFull,
       [](hid_t f) { set_int(f, "checksums/inputs", "hidden", 5); },
       {"checksums/inputs attribute 'hidden'", "int64"}},
      {"checksum_of_nothing",
       kFull,
       [](hid_t f) { set_text(f, "checksums/weights", "wq", "0"); },
       {"unknown attribute 'wq'"}},
      {"dataset_among_checksums",
       kFull,
       [](hid_t f) { put_dataset(f, "checksums/inputs/a", H5T_NATIVE_DOUBLE, {5}, std::vector<double>(5).data()); },
       {"checksums/inputs/a", "unknown name"}},
      {"inputs_beside_a_case", kFull, [](hid_t f) { make_group(f, "inputs"); }, {"inputs", "unknown name"}},
      {"sketch_in_a_full_one", kFull, [](hid_t f) { make_group(f, "sketch"); }, {"sketch", "unknown name"}},
      {"results_in_a_sketch", kSketch, [](hid_t f) { make_group(f, "forward"); }, {"forward", "unknown name"}},
      {"sketch_in_a_seed", kSeed, [](hid_t f) { make_group(f, "sketch"); }, {"sketch", "unknown name"}},
      {"sketch_of_nothing",
       kSketch,
       [](hid_t f) { put_dataset(f, "sketch/forward/qq", H5T_NATIVE_DOUBLE, {5}, std::vector<double>(5).data()); },
       {"sketch/forward/qq", "unknown dataset"}},
      {"sketch_of_no_gradient",
       kSketch,
       [](hid_t f) {
         put_dataset(f, "sketch/grad/forward/topk", H5T_NATIVE_DOUBLE, {5}, std::vector<double>(5).data());
       },
       {"sketch/grad/forward/topk", "unknown dataset"}},
      {"sketch_of_wrong_length",
       kSketch,
       [](hid_t f) { put_dataset(f, "sketch/forward/q", H5T_NATIVE_DOUBLE, {5}, std::vector<double>(5).data()); },
       {"sketch/forward/q", "has shape [5]"}},
      {"sketch_of_floats",
       kSketch,
       [](hid_t f) { put_dataset(f, "sketch/forward/q", H5T_NATIVE_FLOAT, {5}, std::vector<float>(5).data()); },
       {"sketch/forward/q", "float32"}},
      {"sketch_with_nan",
       kSketch,
       [](hid_t f) { poke(f, "sketch/forward/q", 4, std::nan("")); },
       {"sketch/forward/q", "NaN at element 4"},
       ErrorCode::kNonFinite},
      {"sketch_with_inf",
       kSketch,
       [](hid_t f) { poke(f, "sketch/grad/inputs/hidden", 1, HUGE_VAL); },
       {"sketch/grad/inputs/hidden", "Inf"},
       ErrorCode::kNonFinite},
      {"unknown_group",
       kSketch,
       [](hid_t f) { make_group(f, "sketch/backward"); },
       {"sketch/backward", "unknown name"}},
  };
}

INSTANTIATE_TEST_SUITE_P(Files, HostileGenerated, ::testing::ValuesIn(hostile_files()),
                         [](const auto& test) { return test.param.name; });

TEST(Fingerprint, ChangesWithEveryTensor) {
  const GoldenFile golden = made(kSeed);
  contract::Problem problem = golden.problem;
  EXPECT_TRUE(moved_tensors(golden.fingerprints, make_fingerprints(problem), problem.config).empty());
  for (const contract::WeightInfo& weight : contract::kWeights) {
    if (!present(weight.presence, problem.config)) continue;
    contract::Problem other = problem;
    other.weight(weight.id)[other.weight(weight.id).size() - 1] += 1;
    EXPECT_EQ(moved_tensors(golden.fingerprints, make_fingerprints(other), problem.config),
              std::vector<std::string>{"weights/" + std::string(weight.name)});
  }
}

}  // namespace
}  // namespace plumbline::golden::test
