#include "golden/wire.hpp"
#include "golden_fixture.hpp"

// What crosses from the child to its parent, and what happens when it is cut, altered or endless.
namespace plumbline::golden::test {
namespace {

using contract::ErrorCode;

std::vector<std::byte> sent(const contract::Result<GoldenFile>& answer) {
  std::vector<std::byte> stream;
  EXPECT_TRUE(send(answer, [&](std::span<const std::byte> bytes) {
    stream.insert(stream.end(), bytes.begin(), bytes.end());
    return true;
  }));
  return stream;
}

/// Receives from a stream; after its end the source fails, or goes on with zeros for ever.
contract::Result<GoldenFile> received(std::span<const std::byte> stream, bool& ok, double memory_bytes = 1e9,
                                      bool endless = false) {
  return receive(
      [&](std::span<std::byte> bytes) {
        if (stream.size() < bytes.size()) {
          std::fill(bytes.begin(), bytes.end(), std::byte{0});
          return endless;
        }
        std::copy_n(stream.begin(), bytes.size(), bytes.begin());
        stream = stream.subspan(bytes.size());
        return true;
      },
      memory_bytes, ok);
}

TEST(GoldenWire, HandsOverEveryBit) {
  for (const char* name : {"csa_row_mask_nan", "hca_packed_padded", "csa_compressed_only_teacher"}) {
    const auto golden = read(oracle(name));
    ASSERT_TRUE(golden.ok());
    bool ok = false;
    const auto copy = received(sent(*golden), ok);
    ASSERT_TRUE(ok && copy.ok());
    expect_same(*copy, *golden);
  }
}

TEST(GoldenWire, ACutStreamIsNotAnAnswer) {
  const auto stream = sent(read(oracle("swa_window")));
  for (std::size_t size = 0; size < stream.size(); size += size < 1000 ? 1 : 4999) {
    bool ok = true;
    (void)received(std::span(stream).first(size), ok);
    EXPECT_FALSE(ok) << size;
  }
}

TEST(GoldenWire, AnEndlessStreamMeetsTheMemoryLimit) {
  const auto golden = read(oracle("swa_window"));
  auto stream = sent(golden);
  bool ok = true;
  (void)received(stream, ok, 1e5);
  EXPECT_FALSE(ok);
  // The number of offsets follows the version, the two texts and the configuration.
  const std::int64_t offsets[] = {2, 0, 20};
  const auto* pattern = reinterpret_cast<const std::byte*>(offsets);
  const auto place = std::search(stream.begin(), stream.end(), pattern, pattern + sizeof offsets);
  ASSERT_NE(place, stream.end());
  const std::uint64_t absurd = std::uint64_t{1} << 36;
  std::memcpy(&*place, &absurd, sizeof absurd);
  (void)received(stream, ok, 1e8, true);
  EXPECT_FALSE(ok);
}

TEST(GoldenWire, AlteredHeadersNeverCrash) {
  const auto stream = sent(read(oracle("swa_window")));
  for (std::size_t place = 0; place < 600; ++place)
    for (auto value : {std::byte{0}, std::byte{0x7F}, std::byte{0xFF}}) {
      auto altered = stream;
      altered[place] = value;
      bool ok = false;
      (void)received(altered, ok, 1e8);
    }
}

}  // namespace
}  // namespace plumbline::golden::test
