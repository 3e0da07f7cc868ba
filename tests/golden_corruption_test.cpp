#include <unistd.h>

#include <random>

#include "golden_fixture.hpp"

// Damaged bytes. The HDF5 library may do anything with them, so these files are read in a child, as users' files are.
namespace plumbline::golden::test {
namespace {

using contract::ErrorCode;

/// What reading damaged bytes may come to: a value (the damage hit numbers, which remain legal ones) or one line.
void expect_value_or_line(const contract::Result<GoldenFile>& golden, const std::string& path) {
  if (golden.ok()) return;
  const std::string text = golden.error().text();
  EXPECT_NE(golden.error().code, ErrorCode::kInternal) << text;
  EXPECT_EQ(golden.error().where, path) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  EXPECT_GT(golden.error().message.size(), 5u);
}

TEST(GoldenCorruption, TruncatedAnywhereIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.file("cut.h5");
  // As h5py writes it, and as this project does.
  const std::string by_h5py = bytes_of(oracle("swa_window"));
  ASSERT_TRUE(write(folder.file("own.h5"), *read(oracle("swa_window"))).ok());
  const std::string by_us = bytes_of(folder.file("own.h5"));
  for (const std::string* whole : {&by_h5py, &by_us}) {
    std::vector<std::size_t> lengths;
    for (std::size_t length = 1; length < 4096; length = length * 3 / 2 + 1) lengths.push_back(length);
    for (std::size_t i = 1; i <= 40; ++i) lengths.push_back(whole->size() * i / 41);
    for (std::size_t last : {1, 2, 7, 8, 100, 1000, 5000}) lengths.push_back(whole->size() - last);
    ASSERT_GE(lengths.size(), 60u);
    for (std::size_t length : lengths) {
      write_bytes(path, whole->substr(0, length));
      const auto golden = read_guarded(path);
      ASSERT_FALSE(golden.ok()) << length << " of " << whole->size();
      EXPECT_EQ(golden.error().code, ErrorCode::kFile) << golden.error().text();
      expect_value_or_line(golden, path);
    }
  }
}

/// Damages `count` bytes between `begin` and `end`: random values, or extreme ones that make sizes and offsets absurd.
std::string damaged(std::string bytes, std::size_t begin, std::size_t end, int count, std::mt19937_64& random) {
  for (int i = 0; i < count; ++i) {
    const std::size_t place = begin + random() % (end - begin);
    const std::size_t kind = random() % 4;
    const std::size_t run = kind == 3 ? std::min<std::size_t>(8, end - place) : 1;
    for (std::size_t k = 0; k < run; ++k)
      bytes[place + k] = kind == 0   ? static_cast<char>(random())
                         : kind == 1 ? static_cast<char>(bytes[place] ^ (1 << random() % 8))
                                     : '\xFF';
  }
  return bytes;
}

class Corruption : public ::testing::TestWithParam<int> {};

TEST_P(Corruption, GivesAValueOrOneLine) {
  const TemporaryFolder folder;
  const std::string path = folder.file("damaged.h5");
  ASSERT_TRUE(write(folder.file("own.h5"), *read(oracle("csa_ties"))).ok());
  const std::vector<std::string> sources = {bytes_of(oracle("swa_window")), bytes_of(oracle("csa_dense_mode")),
                                            bytes_of(folder.file("own.h5"))};
  int refused = 0;
  constexpr int kSeeds = 50;
  for (int seed = 0; seed < kSeeds; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(GetParam() * kSeeds + seed));
    const std::string& source = sources[random() % sources.size()];
    // Mostly the front, where headers are dense; else anywhere.
    const std::size_t end = random() % 3 == 0 ? source.size() : 16384;
    write_bytes(path, damaged(source, 0, end, 1 + static_cast<int>(random() % 16), random));
    const auto golden = read_guarded(path, kDefaultMemoryBytes, 3);
    expect_value_or_line(golden, path);
    refused += golden.ok() ? 0 : 1;
  }
  EXPECT_GT(refused, kSeeds / 4);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Corruption, ::testing::Range(0, 8));

}  // namespace
}  // namespace plumbline::golden::test
