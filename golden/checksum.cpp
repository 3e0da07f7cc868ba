#include "golden/checksum.hpp"

#include <openssl/evp.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "reference/contract/check.hpp"

namespace plumbline::golden {
namespace {

using contract::file_error;
using contract::Result;

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::size_t kSha256Bytes = 32;

std::string hexadecimal(const unsigned char* bytes, std::size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

}  // namespace

std::string sha256_of(std::span<const std::byte> bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  const bool hashed = EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr) == 1 &&
                      length == kSha256Bytes;
  PLUMBLINE_CHECK(hashed, "the cryptographic library computes no SHA-256");
  return hexadecimal(digest.data(), length);
}

Result<Checksum> checksum_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    return file_error(path,
                      errno == ENOENT ? "no such file" : std::string("cannot be opened: ") + std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return file_error(path, "is not a regular file");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (!file) return file_error(path, std::string("cannot be opened: ") + std::strerror(errno));
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> hash(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  bool hashed = hash && EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) == 1;
  Checksum checksum;
  std::vector<unsigned char> block(kBlockBytes);
  while (hashed) {
    const std::size_t count = std::fread(block.data(), 1, block.size(), file.get());
    if (count == 0) break;
    hashed = EVP_DigestUpdate(hash.get(), block.data(), count) == 1;
    checksum.size_bytes += static_cast<std::int64_t>(count);
  }
  if (std::ferror(file.get()) != 0) return file_error(path, "cannot be read");
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  hashed = hashed && EVP_DigestFinal_ex(hash.get(), digest.data(), &length) == 1 && length == kSha256Bytes;
  if (!hashed)
    return contract::Error{contract::ErrorCode::kInternal, "the cryptographic library computes no SHA-256", path};
  checksum.sha256 = hexadecimal(digest.data(), length);
  return checksum;
}

bool is_sha256(const std::string& text) {
  return text.size() == 2 * kSha256Bytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace plumbline::golden
