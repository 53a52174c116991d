#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/base/mapped_file.h"

namespace foxscope {

/// Number formats of the safetensors format that Foxscope reads.
enum class TensorDType { f64, f32, f16, bf16, i64, i32, u8, boolean };

/// "F32", "BF16", ... as a safetensors header spells them.
const char* to_string(TensorDType dtype);
/// Whether weights can be of it.
bool is_floating(TensorDType dtype);
/// Bytes of one number.
std::size_t size_of(TensorDType dtype);

/// A tensor inside a memory-mapped file: row-major, little-endian, at any alignment.
struct TensorView {
  TensorDType dtype = TensorDType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
  [[nodiscard]] std::int64_t elements() const;
};

/// "[2, 64]"
std::string shape_text(const std::vector<std::int64_t>& shape);

/// The tensors of one safetensors image in memory, checked: header length (at most 100 MB), JSON without repeated
/// names, dtypes, shapes, offsets that are in range, match the shape, do not overlap and leave no gap.
/// @param name  of the file, for errors
/// @throws Error naming the file and the tensor
std::map<std::string, TensorView> parse_safetensors(std::span<const std::byte> file, std::string_view name);

/// A safetensors file, memory-mapped read-only while the object lives.
class SafetensorsFile {
 public:
  /// @throws Error naming the file
  explicit SafetensorsFile(const std::filesystem::path& path);

  [[nodiscard]] const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return file_.bytes(); }

 private:
  MappedFile file_;
  std::map<std::string, TensorView> tensors_;
};

}  // namespace foxscope
