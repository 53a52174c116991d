#include "backend/train/token_array.h"

#include <sys/stat.h>

#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/mapped_file.h"
#include "backend/base/sha256.h"
#include "backend/data/npy.h"
#include "backend/model/weights/safetensors.h"
#include "backend/text/token_ids.h"
#include "backend/train/row_cut.h"

namespace foxscope {
namespace {

// An array is hashed whole up to the product of the two.
constexpr std::size_t kHashedPieces = 1024;
constexpr std::size_t kHashedPiece = std::size_t{1} << 16;

std::string fingerprint_of(const IdArray& array) {
  Sha256 hash;
  const std::string head = fmt::format("{} {}\n", to_string(array.type), shape_text(array.shape));
  hash.update(std::as_bytes(std::span(head)));
  const std::size_t size = array.bytes.size();
  if (size <= kHashedPieces * kHashedPiece) {
    hash.update(array.bytes);
    return hash.finish();
  }
  const std::size_t last = size - kHashedPiece;
  for (std::size_t piece = 0; piece < kHashedPieces; ++piece) {
    const std::size_t begin = last / (kHashedPieces - 1) * piece;
    hash.update(array.bytes.subspan(piece + 1 == kHashedPieces ? last : begin, kHashedPiece));
  }
  return hash.finish();
}

class ArrayRows final : public TokenRows {
 public:
  ArrayRows(IdArray array, std::int64_t vocabulary, Summary summary)
      : TokenRows(std::move(summary)), array_(std::move(array)), vocabulary_(vocabulary) {}

  void read(std::int64_t row, std::span<std::int32_t> tokens) const override {
    array_.mapped.require_whole();
    const std::size_t row_bytes = tokens.size() * size_of(array_.type);
    const auto bytes = array_.bytes.subspan(static_cast<std::size_t>(row) * row_bytes, row_bytes);
    if (const auto place = take_ids(bytes, array_.type, vocabulary_, tokens)) {
      throw_outside_vocabulary(array_.name, std::to_string(id_at(bytes, array_.type, *place)),
                               fmt::format("position {} of row {}", *place, row), vocabulary_);
    }
    array_.mapped.require_whole();  // what was cut off meanwhile may have been read as zeros
  }

 private:
  IdArray array_;
  std::int64_t vocabulary_;
};

IdArray map_npy(const std::filesystem::path& file) {
  auto mapped = std::make_shared<const MappedFile>(file, "token array");
  const auto bytes = mapped->bytes();
  const NpyArray npy = parse_npy({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string());
  IdArray array{file.string(), IdType::int64, npy.shape, npy.data, mapped, MappedState::of(file)};
  switch (npy.element) {
    case NpyArray::Element::int16:
      array.type = IdType::int16;
      break;
    case NpyArray::Element::uint16:
      array.type = IdType::uint16;
      break;
    case NpyArray::Element::int32:
      array.type = IdType::int32;
      break;
    case NpyArray::Element::int64:
      break;
    case NpyArray::Element::float32:
    case NpyArray::Element::float64:
      throw Error(
          fmt::format("{}: holds reals: token ids are int16, uint16, int32 or int64: save it again with "
                      "numpy.save(..., ids.astype('uint16'))",
                      file.string()));
  }
  return array;
}

std::optional<IdType> id_type(TensorDType dtype) {
  if (dtype == TensorDType::i32) return IdType::int32;
  if (dtype == TensorDType::i64) return IdType::int64;
  return std::nullopt;
}

IdArray map_safetensors(const std::filesystem::path& file, const std::optional<std::string>& tensor) {
  auto mapped = std::make_shared<const SafetensorsFile>(file);
  std::string names;
  std::vector<std::string> of_ids;
  for (const auto& [name, view] : mapped->tensors()) {
    names +=
        fmt::format("{}{} ({} {})", names.empty() ? "" : ", ", name, to_string(view.dtype), shape_text(view.shape));
    if (id_type(view.dtype)) of_ids.push_back(name);
  }
  if (names.empty()) names = "none";
  if (!tensor && of_ids.size() > 1) {
    throw UsageError(
        fmt::format("{}: holds several tensors of integers: choose one with --tensor: {}", file.string(), names));
  }
  if (!tensor && of_ids.empty()) {
    throw Error(fmt::format("{}: has no tensor of token ids, which are I32 or I64: it holds {}", file.string(), names));
  }
  const std::string chosen = tensor.value_or(of_ids.empty() ? std::string() : of_ids.front());
  const auto found = mapped->tensors().find(chosen);
  if (found == mapped->tensors().end()) {
    throw UsageError(fmt::format("--tensor {}: {} has no such tensor, only {}", chosen, file.string(), names));
  }
  const TensorView& view = found->second;
  const auto type = id_type(view.dtype);
  const std::string name = fmt::format("{}: {}", file.string(), chosen);
  if (!type)
    throw Error(fmt::format("{}: is {}: token ids are I32 or I64: store it as I64", name, to_string(view.dtype)));
  return {name, *type, view.shape, view.bytes, mapped, MappedState::of(file)};
}

}  // namespace

MappedState MappedState::of(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return {};
  return {file, status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size)};
}

void MappedState::require_whole() const {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0 || status.st_dev != device || status.st_ino != inode) return;
  const auto left = static_cast<std::uint64_t>(status.st_size);
  if (left >= size) return;
  throw Error(fmt::format("{}: was cut short from {} to {} bytes while it was being read: put the whole file back",
                          file.string(), size, left));
}

IdArray map_id_array(const std::filesystem::path& file, const std::optional<std::string>& tensor) {
  if (file.extension() == ".safetensors") return map_safetensors(file, tensor);
  if (tensor) throw UsageError(fmt::format("--tensor {}: {} has no tensors: leave it out", *tensor, file.string()));
  return map_npy(file);
}

std::unique_ptr<TokenRows> rows_of(IdArray array, std::int64_t length, std::int64_t vocabulary, std::string description,
                                   std::string fingerprint) {
  const RowCut cut = cut_into_rows(array.shape, length, array.name);
  description += ", " + describe(cut, length);
  if (fingerprint.empty()) fingerprint = fingerprint_of(array);
  return std::make_unique<ArrayRows>(
      std::move(array), vocabulary,
      TokenRows::Summary{cut.rows, length, cut.columns, std::move(fingerprint), std::move(description), cut.stream});
}

}  // namespace foxscope
