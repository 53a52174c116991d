#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/train/id_numbers.h"
#include "backend/train/token_rows.h"

namespace foxscope {

/// A file that is mapped into memory, as it was then. Where it is cut short later, the bytes behind its end are zeros
/// up to the end of a page, and behind that there is nothing to read.
struct MappedState {
  std::filesystem::path file;
  std::uint64_t device = 0;  ///< with the inode: another file of the name leaves the bytes that are mapped as they are
  std::uint64_t inode = 0;
  std::uint64_t size = 0;

  static MappedState of(const std::filesystem::path& file);
  /// @throws Error naming the file if it has been cut short
  void require_whole() const;
};

/// Token ids in memory, as a file holds them.
struct IdArray {
  std::string name;  ///< of the file, and of the tensor where it has several: for errors
  IdType type = IdType::int32;
  std::vector<std::int64_t> shape;     ///< [tokens] or [documents, tokens]
  std::span<const std::byte> bytes;    ///< row-major, at any alignment
  std::shared_ptr<const void> memory;  ///< what the bytes live in
  MappedState mapped = {};
};

/// Maps an array of token ids into memory: a .npy file of int16, uint16, int32 or int64, or the I32 or I64 tensor of a
/// .safetensors file.
/// @param tensor  of a .safetensors file; may be left out where only one tensor is of integers
/// @throws Error naming the file: unreadable, damaged, of another dtype
/// @throws UsageError for a tensor that is not there, or not named where there are several, with those that are there
IdArray map_id_array(const std::filesystem::path& file, const std::optional<std::string>& tensor);

/// The rows of an array (cut_into_rows).
/// @param fingerprint  of the content; empty: made from it
/// @param description  of the array; its rows are described behind it
std::unique_ptr<TokenRows> rows_of(IdArray array, std::int64_t length, std::int64_t vocabulary, std::string description,
                                   std::string fingerprint = {});

}  // namespace foxscope
