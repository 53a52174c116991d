#include "backend/base/sha256.h"

#include <array>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "backend/base/error.h"

namespace foxscope {
namespace {

[[noreturn]] void throw_unavailable() {
  throw Error("OpenSSL offers no SHA-256 here: check the OpenSSL configuration of this machine");
}

EVP_MD_CTX* as_context(void* context) { return static_cast<EVP_MD_CTX*>(context); }

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr || EVP_DigestInit_ex(as_context(context_), EVP_sha256(), nullptr) != 1) {
    EVP_MD_CTX_free(as_context(context_));
    throw_unavailable();
  }
}

Sha256::~Sha256() { EVP_MD_CTX_free(as_context(context_)); }

void Sha256::update(std::span<const std::byte> bytes) {
  if (EVP_DigestUpdate(as_context(context_), bytes.data(), bytes.size()) != 1) throw_unavailable();
}

std::string Sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_DigestFinal_ex(as_context(context_), digest.data(), &size) != 1) throw_unavailable();
  std::string text;
  for (unsigned int n = 0; n < size; ++n) text += fmt::format("{:02x}", digest[n]);
  return text;
}

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(bytes)));
  return hash.finish();
}

}  // namespace foxscope
