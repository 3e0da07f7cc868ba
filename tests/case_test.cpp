#include "reference/contract/case.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "reference/contract/presets.hpp"
#include "reference/contract/suite.hpp"

namespace plumbline::contract {
namespace {

Case parsed(const std::string& text) {
  auto c = parse_case(text);
  EXPECT_TRUE(c.ok()) << text << ": " << (c.ok() ? "" : c.error().text());
  return c.ok() ? *c : Case{};
}

std::string refusal(const std::string& text) {
  const auto c = parse_case(text);
  EXPECT_FALSE(c.ok()) << text;
  if (c.ok()) return {};
  EXPECT_EQ(c.error().code, ErrorCode::kUsage) << c.error().text();
  return c.error().text();
}

TEST(Case, ParsesEveryKey) {
  const Case c = parsed(
      "csa,model=tiny,seq=37+3+0+4,pad=8,mask=random:0.25,layout=thd,data=peaky,sink=-inf:2,loss=dense,prec=bf16,seed="
      "7,"
      "window=5,yarn_factor=1.5,overlap=off,teacher=compressed_only");
  EXPECT_EQ(c.kind, LayerKind::kCsa);
  EXPECT_EQ(c.lengths, (std::vector<Index>{37, 3, 0, 4}));
  EXPECT_EQ(c.pad, 8);
  EXPECT_EQ(c.mask.kind, MaskSpec::Kind::kRandom);
  EXPECT_EQ(c.mask.probability, 0.25);
  EXPECT_EQ(c.data, Regime::kPeaky);
  EXPECT_EQ(c.sink.value, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(c.sink.head, 2);
  EXPECT_FALSE(c.config.sparse_loss);
  EXPECT_EQ(c.precision, "bf16-fused");
  EXPECT_EQ(c.seed, 7u);
  EXPECT_EQ(c.config.window, 5);
  EXPECT_EQ(c.config.yarn_factor, 1.5);
  EXPECT_FALSE(c.config.overlap);
  EXPECT_EQ(c.config.teacher, Teacher::kCompressedOnly);
}

TEST(Case, ShortFormDropsDefaults) {
  EXPECT_EQ(print(parsed("swa")), "swa,model=tiny");
  EXPECT_EQ(print(parsed(" csa , seed=0 , seq=37,model=tiny")), "csa,model=tiny");
  EXPECT_EQ(print(parsed("hca,sparse_loss=off,ratio=8")), "hca,model=tiny,ratio=8,loss=dense");
  EXPECT_EQ(print(parsed("file=some/where.h5")), "file=some/where.h5");
}

/// A legal case drawn at random, over every key.
Case random_case(std::mt19937_64& engine) {
  const auto pick = [&](Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(engine); };
  const auto real = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(engine); };
  Case c;
  c.kind = static_cast<LayerKind>(pick(0, 2));
  c.model = presets()[static_cast<std::size_t>(pick(0, 3))].name;
  c.config = *preset(c.kind, c.model);
  c.lengths.resize(static_cast<std::size_t>(pick(1, 5)));
  for (Index& length : c.lengths) length = pick(0, 400);
  c.pad = pick(1, 32);
  if (pick(0, 2) == 0) c.mask = {MaskSpec::Kind::kRandom, real(0, 1), 0};
  if (pick(0, 4) == 0) c.mask = {MaskSpec::Kind::kPrefix, 0, pick(0, 50)};
  if (pick(0, 3) == 0) {
    c.layout = Layout::kSbhd;
    c.lengths.assign(c.lengths.size(), c.lengths[0]);
  }
  c.data = static_cast<Regime>(pick(0, 7));
  if (pick(0, 2) == 0) c.sink.value = pick(0, 1) ? real(-800, 800) : -std::numeric_limits<double>::infinity();
  if (c.sink.value && pick(0, 1)) c.sink.head = pick(0, c.config.heads - 1);
  c.precision = precision_names()[static_cast<std::size_t>(pick(0, 4))];
  c.seed = engine();
  if (pick(0, 1)) c.config.window = pick(1, 300);
  if (pick(0, 1)) c.config.eps = real(1e-9, 1e-3);
  if (pick(0, 1)) c.config.loss_coeff = real(-2, 2);
  if (pick(0, 1)) c.config.loss_scale = std::ldexp(real(-1, 1), static_cast<int>(pick(-300, 300)));
  if (pick(0, 1)) c.config.sparse_loss = false;
  if (pick(0, 1)) c.config.per_token_loss = true;
  if (pick(0, 1)) c.config.teacher = Teacher::kCompressedOnly;
  if (c.kind != LayerKind::kSwa && pick(0, 1)) c.config.indexer = !c.config.indexer;
  if (c.kind != LayerKind::kSwa && pick(0, 1)) c.config.overlap = !c.config.overlap;
  return c;
}

TEST(Case, PrintedFormsParseBackToTheSameCase) {
  std::mt19937_64 engine(20261201);
  for (int i = 0; i < 3000; ++i) {
    const Case c = random_case(engine);
    EXPECT_EQ(parsed(print(c)), c) << print(c);
    EXPECT_EQ(parsed(print_full(c)), c) << print_full(c);
    EXPECT_EQ(print(parsed(print(c))), print(c));
  }
}

TEST(Case, RefusesWithAHint) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"", "layer kind first"},
      {"mla", "swa | csa | hca"},
      {"seq=3,csa", "layer kind first"},
      {"csa,hca", "expected key=value"},
      {"csa,windw=3", "did you mean 'window'"},
      {"csa,tp=2", "unknown key 'tp'"},
      {"csa,seq=1,seq=1", "'seq' is repeated"},
      {"csa,loss=sparse,sparse_loss=on", "is repeated"},
      {"csa,model=huge", "allowed: tiny, tiny-tp, flash, pro"},
      {"csa,seq=", "a whole number"},
      {"csa,seq=3+", "a whole number"},
      {"csa,seq=-3", "a whole number"},
      {"csa,seq=3.5", "a whole number"},
      {"csa,seq=99999999999999999999999", "a whole number"},
      {"csa,seq=268435456+1", "physical rows"},
      {"csa,seq=1,pad=268435457", "a whole number"},
      {"csa,seq=5,pad=0", "a whole number"},
      {"swa,model=pro,heads=256,seq=268435456", "2^44 elements"},
      {"csa,mask=random:1.5", "0 <= P <= 1"},
      {"csa,mask=random:nan", "0 <= P <= 1"},
      {"csa,mask=prefix:-1", "a whole number"},
      {"csa,mask=all", "none | random:P"},
      {"csa,layout=bshd", "thd | sbhd"},
      {"csa,layout=sbhd,seq=3+4", "equal physical length"},
      {"csa,data=weird", "ints | normal"},
      {"csa,sink=nan", "a number, inf or -inf"},
      {"csa,sink=1:6", "a head below 6"},
      {"csa,loss=medium", "dense | sparse"},
      {"csa,prec=fp8", "fp64 | fp32"},
      {"csa,seed=-1", "2^64 - 1"},
      {"csa,overlap=maybe", "off | on"},
      {"csa,teacher=half", "full | compressed_only"},
      {"csa,rope_dim=7", "even"},
      {"csa,o_groups=4", "divisor of heads"},
      {"csa,index_dim=24", "power of two"},
      {"csa,index_topk=0", "got 0"},
      {"csa,eps=0", "> 0"},
      {"csa,eps=1e999", "a number"},
      {"csa,hidden=4611686018427387904", "a whole number"},
      {"swa,indexer=on", "ratio >= 2"},
      {"file=x.h5,seed=3", "cannot stand beside it"},
      {"file=", "cannot stand beside it"},
  };
  for (const auto& [text, hint] : refused)
    EXPECT_NE(refusal(text).find(hint), std::string::npos) << text << " -> " << refusal(text);
}

TEST(Case, SweepsExpandInReadingOrder) {
  const auto cases = parse_cases("csa|hca,seq=8..10,seed=1|5");
  ASSERT_TRUE(cases.ok());
  ASSERT_EQ(cases->size(), 12u);
  EXPECT_EQ(print(cases->front()), "csa,model=tiny,seq=8,seed=1");
  EXPECT_EQ(print((*cases)[1]), "csa,model=tiny,seq=8,seed=5");
  EXPECT_EQ(print(cases->back()), "hca,model=tiny,seq=10,seed=5");
  EXPECT_FALSE(parse_cases("csa,seq=10..8").ok());
  EXPECT_FALSE(parse_cases("csa,seq=0..9999999").ok());
  EXPECT_FALSE(parse_cases("csa,seq=0..9999,seed=0..9999").ok());
  EXPECT_FALSE(parse_cases("csa,seq=3|x").ok());
}

TEST(Presets, TinySizesAllDiffer) {
  const LayerConfig c = *preset(LayerKind::kCsa, "tiny");
  const std::vector<Index> sizes = {c.hidden,
                                    c.heads,
                                    c.head_dim,
                                    c.rope_dim,
                                    c.q_lora_rank,
                                    c.o_groups,
                                    c.o_lora_rank,
                                    c.index_heads,
                                    c.index_dim,
                                    c.index_topk,
                                    c.window,
                                    c.ratio,
                                    c.o_groups * c.o_lora_rank,
                                    c.heads_per_group() * c.head_dim,
                                    c.heads * c.head_dim,
                                    c.coff() * c.head_dim,
                                    c.coff() * c.index_dim,
                                    c.index_heads * c.index_dim,
                                    default_length(LayerKind::kCsa, "tiny"),
                                    default_length(LayerKind::kCsa, "tiny") / c.ratio};
  EXPECT_EQ(std::set<Index>(sizes.begin(), sizes.end()).size(), sizes.size());
  EXPECT_GT(default_length(LayerKind::kCsa, "tiny") / c.ratio, c.index_topk);
  EXPECT_LT(c.window, default_length(LayerKind::kCsa, "tiny"));
}

TEST(Presets, AreTheReleasedShapes) {
  const LayerConfig flash = *preset(LayerKind::kCsa, "flash"), pro = *preset(LayerKind::kHca, "pro");
  EXPECT_EQ(flash.hidden, 4096);
  EXPECT_EQ(flash.heads, 64);
  EXPECT_EQ(flash.index_topk, 512);
  EXPECT_EQ(flash.rope_base, 160000);
  EXPECT_EQ(preset(LayerKind::kSwa, "flash")->rope_base, 10000);
  EXPECT_EQ(pro.hidden, 7168);
  EXPECT_EQ(pro.heads, 128);
  EXPECT_EQ(pro.q_lora_rank, 1536);
  EXPECT_EQ(pro.o_groups, 16);
  EXPECT_EQ(pro.index_topk, 1024);
  EXPECT_EQ(pro.ratio, 128);
  EXPECT_FALSE(pro.overlap);
  for (const Preset& p : presets())
    for (const LayerKind kind : {LayerKind::kSwa, LayerKind::kCsa, LayerKind::kHca})
      EXPECT_TRUE(validate(*preset(kind, p.name)).ok());
}

TEST(Generate, MasksAreDrawnFromTheSeed) {
  const Packing half = make_packing(parsed("swa,seq=400,mask=random:0.5"));
  EXPECT_NEAR(static_cast<double>(half.valid_rows()), 200, 60);
  EXPECT_EQ(make_packing(parsed("swa,seq=400,mask=random:0")).valid_rows(), 400);
  EXPECT_EQ(make_packing(parsed("swa,seq=400,mask=random:1")).valid_rows(), 0);
  EXPECT_EQ(make_packing(parsed("swa,seq=20+7,mask=prefix:9")).valid_rows(), 11);
  EXPECT_NE(make_packing(parsed("swa,seq=400,mask=random:0.5,seed=1")).row_valid, half.row_valid);
}

TEST(Generate, ValuesOfATokenDependOnItsSegmentAndPositionOnly) {
  const Problem packed = *make_problem(parsed("csa,seq=9+5,pad=8")), other = *make_problem(parsed("csa,seq=12+5"));
  const auto row = [](const Problem& p, Index r) {
    return std::vector<double>(p.hidden.row(r), p.hidden.row(r) + p.hidden.row_size());
  };
  EXPECT_EQ(row(packed, 8), row(other, 8));
  EXPECT_EQ(row(packed, 16), row(other, 12)) << "first token of segment 1";
  EXPECT_NE(row(packed, 0), row(packed, 16));
  EXPECT_TRUE(std::isnan(packed.hidden.row(9)[0])) << "padding is poisoned";
  EXPECT_TRUE(std::isnan(packed.grad_out.row(9)[0]));
  const Problem masked = *make_problem(parsed("csa,seq=9,mask=prefix:2"));
  EXPECT_TRUE(std::isnan(masked.grad_out.row(1)[3])) << "grad_out of masked rows is poisoned";
  EXPECT_FALSE(std::isnan(masked.hidden.row(1)[3])) << "they stay keys";
}

TEST(Generate, SinkKeyActsOnAllHeadsOrOne) {
  const Problem all = *make_problem(parsed("swa,sink=700")), one = *make_problem(parsed("swa,sink=inf:2"));
  for (Index h = 0; h < 6; ++h) {
    EXPECT_EQ(all.weight(WeightId::kAttnSink)[h], 700);
    EXPECT_EQ(std::isinf(one.weight(WeightId::kAttnSink)[h]), h == 2);
  }
}

class SuiteTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / "plumbline_suite_test";
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / (name + ".suite")) << text; }
  std::string error_of(const std::string& name) {
    const auto suite = load_suite(folder_.string(), name);
    return suite.ok() ? "" : suite.error().text();
  }
  std::filesystem::path folder_;
};

TEST_F(SuiteTest, ReadsCasesReasonsAndIncludes) {
  write("base", "swa  # the window alone\n\n# a comment\n");
  write("more", "include base\ncsa,seq=3..5 # short ones\n");
  const auto suite = load_suite(folder_.string(), "more");
  ASSERT_TRUE(suite.ok()) << suite.error().text();
  ASSERT_EQ(suite->size(), 4u);
  EXPECT_EQ(suite->front().reason, "the window alone");
  EXPECT_EQ(print(suite->back().item), "csa,model=tiny,seq=5");
  EXPECT_EQ(suite->back().reason, "short ones");
}

TEST_F(SuiteTest, ErrorsNameFileAndLine) {
  write("twice", "swa\n# between\nswa,seed=0\n");
  EXPECT_NE(error_of("twice").find("twice.suite:3: case stands twice"), std::string::npos) << error_of("twice");
  write("typo", "swa\ncsa,sed=3\n");
  EXPECT_NE(error_of("typo").find("typo.suite:2: case: unknown key 'sed'"), std::string::npos) << error_of("typo");
  write("loop", "include loop\n");
  EXPECT_NE(error_of("loop").find("includes itself"), std::string::npos);
  EXPECT_NE(error_of("absent").find("cannot be read"), std::string::npos);
}

}  // namespace
}  // namespace plumbline::contract
