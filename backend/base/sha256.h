#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace foxscope {

/// SHA-256 of bytes taken in any number of pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(std::span<const std::byte> bytes);
  /// Lower-case hexadecimal. Once.
  std::string finish();

 private:
  void* context_;
};

std::string sha256(std::string_view bytes);

}  // namespace foxscope
