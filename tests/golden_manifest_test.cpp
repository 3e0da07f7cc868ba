#include <cstdlib>

#include "golden/manifest.hpp"
#include "golden_fixture.hpp"

namespace plumbline::golden::test {
namespace {

using contract::ErrorCode;

constexpr char kDate[] = "2026-01-31";

TEST(GoldenChecksum, IsSha256) {
  const TemporaryFolder folder;
  write_bytes(folder.file("abc"), "abc");
  const auto checksum = checksum_file(folder.file("abc"));
  ASSERT_TRUE(checksum.ok());
  EXPECT_EQ(checksum->sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(checksum->size_bytes, 3);
  write_bytes(folder.file("empty"), "");
  EXPECT_EQ(checksum_file(folder.file("empty"))->sha256,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  write_bytes(folder.file("long"), std::string(3 << 20, 'a'));
  EXPECT_EQ(checksum_file(folder.file("long"))->size_bytes, 3 << 20);
  EXPECT_EQ(checksum_file(folder.file("absent")).error().text(), folder.file("absent") + ": no such file");
  EXPECT_EQ(checksum_file(folder.path()).error().code, ErrorCode::kFile);
}

/// Two files, listed in the order in which they were recorded.
Manifest two_files(const TemporaryFolder& folder) {
  write_bytes(folder.file("b.h5"), "bytes of b");
  write_bytes(folder.file("a.h5"), "bytes of a");
  Manifest manifest;
  EXPECT_TRUE(
      update_entry(manifest, folder.path(), "b.h5", "csa,seq=37", {"topk-ties", "sink-sign"}, kDate, "first golden")
          .ok());
  EXPECT_TRUE(
      update_entry(manifest, folder.path(), "a.h5", "swa", {}, kDate, "sliding window: \"gr\u00FC\u00DFe\"").ok());
  return manifest;
}

TEST(GoldenManifest, SurvivesSavingAndLoading) {
  const TemporaryFolder folder;
  const Manifest manifest = two_files(folder);
  ASSERT_TRUE(save_manifest(folder.path(), manifest).ok());
  const auto loaded = load_manifest(folder.path());
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  EXPECT_TRUE(*loaded == manifest);
  EXPECT_EQ(loaded->entries.front().name, "a.h5");
  EXPECT_EQ(loaded->find("b.h5")->bugs, (std::vector<std::string>{"topk-ties", "sink-sign"}));
  EXPECT_EQ(loaded->find("c.h5"), nullptr);
  const std::string bytes = bytes_of(folder.file("manifest.json"));
  ASSERT_TRUE(save_manifest(folder.path(), *loaded).ok());
  EXPECT_EQ(bytes_of(folder.file("manifest.json")), bytes);
  EXPECT_EQ(bytes.back(), '\n');
}

TEST(GoldenManifest, AChangeNeedsAReasonAndKeepsTheHistory) {
  const TemporaryFolder folder;
  Manifest manifest = two_files(folder);
  const Manifest before = manifest;
  const auto update = [&](const std::string& reason, const std::string& name = "a.h5",
                          const std::string& date = "2026-02-01") {
    return update_entry(manifest, folder.path(), name, "swa", {}, date, reason);
  };
  write_bytes(folder.file("a.h5"), "other bytes");
  for (const char* reason : {"", "   ", "two\nlines", "\xFF"}) {
    const auto status = update(reason);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kUsage);
    EXPECT_EQ(status.error().where, "reason");
  }
  EXPECT_EQ(update("why", "../a.h5").error().code, ErrorCode::kUsage);
  EXPECT_EQ(update("why", "absent.h5").error().code, ErrorCode::kFile);
  EXPECT_EQ(update("why", "a.h5", "yesterday").error().code, ErrorCode::kUsage);
  EXPECT_TRUE(manifest == before);
  ASSERT_TRUE(update("rope angles in fp64").ok());
  const ManifestEntry& entry = *manifest.find("a.h5");
  ASSERT_EQ(entry.history.size(), 2u);
  EXPECT_EQ(entry.history[0], before.find("a.h5")->history[0]);
  EXPECT_EQ(entry.history[1].reason, "rope angles in fp64");
  EXPECT_EQ(entry.history[1].date, "2026-02-01");
  EXPECT_EQ(entry.history[1].sha256, entry.checksum.sha256);
  EXPECT_EQ(entry.checksum, *checksum_file(folder.file("a.h5")));
  ASSERT_TRUE(update("nothing changed").ok());
  EXPECT_EQ(manifest.find("a.h5")->history.size(), 2u);
}

TEST(GoldenManifest, VerifyNamesEveryFault) {
  const TemporaryFolder folder;
  const Manifest manifest = two_files(folder);
  ASSERT_TRUE(save_manifest(folder.path(), manifest).ok());
  auto faults = verify_checksums(manifest, folder.path());
  ASSERT_TRUE(faults.ok());
  EXPECT_TRUE(faults->empty());
  write_bytes(folder.file("a.h5"), "bytes of A");
  std::filesystem::remove(folder.file("b.h5"));
  write_bytes(folder.file("c.h5"), "new");
  write_bytes(folder.file("notes.txt"), "not a golden");
  faults = verify_checksums(manifest, folder.path());
  ASSERT_TRUE(faults.ok());
  ASSERT_EQ(faults->size(), 3u);
  EXPECT_EQ((*faults)[0].name, "a.h5");
  EXPECT_EQ((*faults)[0].kind, ManifestFault::Kind::kChanged);
  EXPECT_NE((*faults)[0].message.find("the manifest records 10 bytes"), std::string::npos) << (*faults)[0].message;
  EXPECT_EQ((*faults)[1].name, "b.h5");
  EXPECT_EQ((*faults)[1].kind, ManifestFault::Kind::kMissing);
  EXPECT_EQ((*faults)[2].name, "c.h5");
  EXPECT_EQ((*faults)[2].kind, ManifestFault::Kind::kUnlisted);
  EXPECT_FALSE(verify_checksums(manifest, folder.file("absent")).ok());
}

TEST(GoldenManifest, RefusesWhatIsNotAManifest) {
  const TemporaryFolder folder;
  ASSERT_TRUE(save_manifest(folder.path(), two_files(folder)).ok());
  const std::string path = folder.file("manifest.json");
  const std::string whole = bytes_of(path);
  const auto refusal = [&](const std::string& text) {
    write_bytes(path, text);
    const auto manifest = load_manifest(folder.path());
    if (manifest.ok()) return std::string("accepted");
    EXPECT_EQ(manifest.error().code, ErrorCode::kFile);
    EXPECT_EQ(manifest.error().where, path);
    EXPECT_EQ(manifest.error().text().find('\n'), std::string::npos);
    return manifest.error().message;
  };
  /// The manifest with one replacement, all occurrences.
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    EXPECT_NE(text.find(from), std::string::npos) << from;
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
    return refusal(text);
  };
  EXPECT_EQ(refusal(whole), "accepted");
  EXPECT_EQ(refusal(""), "is not JSON");
  EXPECT_EQ(refusal("[]"), "manifest: needs the keys schema and schema_version");
  for (std::size_t length = 1; length + 1 < whole.size(); length += 13)
    EXPECT_EQ(refusal(whole.substr(0, length)), "is not JSON");
  EXPECT_EQ(refusal(std::string(100000, '[')), "is not JSON");
  EXPECT_EQ(with("golden-manifest", "other"),
            "manifest: schema is 'plumbline-other', need 'plumbline-golden-manifest'");
  EXPECT_EQ(with("\"schema_version\": 1", "\"schema_version\": 2"),
            "manifest: schema_version is 2, this program reads 1");
  EXPECT_EQ(with("\"schema_version\": 1", "\"schema_version\": \"1\""), "manifest: schema_version must be an integer");
  EXPECT_EQ(with("\"bugs\"", "\"bug\""), "files[0]: unknown key 'bug'");
  EXPECT_EQ(with("\"case\": \"swa\",", ""), "files[0]: missing key 'case'");
  EXPECT_EQ(with("\"case\": \"swa\"", "\"case\": 1"), "files[0]: case must be a string");
  EXPECT_EQ(with("\"size_bytes\": 10", "\"size_bytes\": 1.5"), "files[0]: size_bytes must be an integer");
  EXPECT_EQ(with("\"size_bytes\": 10", "\"size_bytes\": -1"), "entry 'a.h5': size_bytes must not be negative");
  EXPECT_EQ(with("\"topk-ties\"", "3"), "files[1]: bugs must be strings");
  EXPECT_EQ(with("topk-ties", "Top K"), "entry 'b.h5': bug 'Top K' is not a slug (a-z, 0-9, dashes)");
  EXPECT_EQ(with("a.h5", "../a.h5"), "entry '../a.h5': its name is not that of a file in the manifest's folder");
  EXPECT_EQ(with("b.h5", "a.h5"), "entry 'a.h5': is listed twice");
  EXPECT_EQ(with("a.h5", "z.h5"), "entry 'b.h5': is out of order; entries are sorted by name");
  EXPECT_EQ(with("first golden", ""), "entry 'b.h5': every change needs a reason, in one line");
  EXPECT_EQ(with(kDate, "2026-13-01"), "entry 'a.h5': date '2026-13-01' is not YYYY-MM-DD");
  const std::string sha = two_files(folder).find("a.h5")->checksum.sha256;
  EXPECT_EQ(with("\"sha256\": \"" + sha, "\"sha256\": \"" + std::string(64, 'G')),
            "entry 'a.h5': sha256 must be 64 lower-case hexadecimal digits");
  const std::size_t first = whole.find(sha);
  EXPECT_EQ(refusal(whole.substr(0, first) + std::string(64, '0') + whole.substr(first + 64)),
            "entry 'a.h5': its history ends with another sha256 than the file's: changed by hand");
  std::filesystem::remove(path);
  EXPECT_EQ(load_manifest(folder.path()).error().text(), path + ": no such file");
}

TEST(GoldenManifest, RefusesToSaveWhatItCouldNotLoad) {
  const TemporaryFolder folder;
  Manifest manifest = two_files(folder);
  manifest.entries[0].history.clear();
  EXPECT_FALSE(save_manifest(folder.path(), manifest).ok());
  std::swap(manifest.entries[0], manifest.entries[1]);
  EXPECT_FALSE(save_manifest(folder.path(), manifest).ok());
  EXPECT_FALSE(std::filesystem::exists(folder.file("manifest.json")));
}

TEST(GoldenManifest, TodayIsADateThatCanBeFixed) {
  ::setenv("SOURCE_DATE_EPOCH", "86400", 1);
  EXPECT_EQ(today(), "1970-01-02");
  ::setenv("SOURCE_DATE_EPOCH", "nonsense", 1);
  EXPECT_EQ(today().size(), 10u);
  ::unsetenv("SOURCE_DATE_EPOCH");
  EXPECT_GE(today(), "2025-01-01");
}

}  // namespace
}  // namespace plumbline::golden::test
