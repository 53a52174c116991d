#include "backend/train/training_data.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/weights/safetensors.h"
#include "backend/train/token_array.h"
#include "backend/train/zarr_rows.h"

namespace foxscope {
namespace {

enum class DataKind { texts, npy, safetensors, zarr };

/// Tells the kind by the names of files, as for a corpus; an unknown folder may be a corpus that says why it is none.
DataKind kind_of(const std::filesystem::path& path) {
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  if (!std::filesystem::exists(status)) {
    throw Error(
        fmt::format("{}: no such data: give texts (.txt, .jsonl, .jsonl.xz, .jsonl.gz, a folder of them) or tokens "
                    "(.npy, .safetensors, the folder of a zarr array)",
                    path.string()));
  }
  if (std::filesystem::is_directory(status)) return is_zarr(path) ? DataKind::zarr : DataKind::texts;
  if (path.extension() == ".npy") return DataKind::npy;
  if (path.extension() == ".safetensors") return DataKind::safetensors;
  return DataKind::texts;
}

std::unique_ptr<TokenRows> open_one(const std::filesystem::path& path, DataKind kind,
                                    const TrainingDataOptions& options, const Job& job) {
  if (kind == DataKind::zarr) {
    return rows_of(std::make_unique<const ZarrArray>(path), options.length, options.vocabulary);
  }
  if (kind == DataKind::texts) {
    if (options.texts.tokenizer.empty()) {
      throw UsageError(fmt::format("{}: texts need a --tokenizer: give the folder of one", path.string()));
    }
    return open_text_rows(path, options.length, options.vocabulary, options.texts, job);
  }
  IdArray array = map_id_array(path, kind == DataKind::safetensors ? options.tensor : std::nullopt);
  std::string description = fmt::format("{}: {} {}", array.name, to_string(array.type), shape_text(array.shape));
  return rows_of(std::move(array), options.length, options.vocabulary, std::move(description));
}

std::vector<std::int64_t> shape_of(const std::filesystem::path& path, const std::optional<std::string>& tensor) {
  const DataKind kind = kind_of(path);
  if (kind == DataKind::texts) return {};
  if (kind == DataKind::zarr) return ZarrArray(path).shape();
  return map_id_array(path, kind == DataKind::safetensors ? tensor : std::nullopt).shape;
}

}  // namespace

std::optional<std::int64_t> length_of_arrays(const std::vector<std::string>& paths, const std::string& tensor) {
  std::optional<std::int64_t> length;
  try {
    for (const std::string& path : paths) {
      const std::vector<std::int64_t> shape = shape_of(path, tensor.empty() ? std::nullopt : std::optional(tensor));
      if (shape.size() != 2 || shape[1] < 1 || shape[1] != length.value_or(shape[1])) return std::nullopt;
      length = shape[1];
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return length;
}

std::unique_ptr<TokenRows> open_training_data(const std::vector<std::filesystem::path>& paths,
                                              const TrainingDataOptions& options, const Job& job) {
  if (paths.empty()) throw UsageError("--data: give texts or tokens to train on");
  if (options.length < 1) throw UsageError(fmt::format("--length {}: use a number of tokens from 1", options.length));
  std::vector<DataKind> kinds;
  kinds.reserve(paths.size());
  for (const auto& path : paths) kinds.push_back(kind_of(path));
  if (options.tensor && std::find(kinds.begin(), kinds.end(), DataKind::safetensors) == kinds.end()) {
    throw UsageError(
        fmt::format("--tensor {}: none of the data is a .safetensors file: leave it out", *options.tensor));
  }
  std::vector<std::unique_ptr<TokenRows>> parts;
  for (std::size_t n = 0; n < paths.size(); ++n) {
    auto part = open_one(paths[n], kinds[n], options, job);
    if (!part) return nullptr;
    parts.push_back(std::move(part));
  }
  return concatenate(std::move(parts));
}

}  // namespace foxscope
