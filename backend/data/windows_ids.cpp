#include "backend/data/windows_ids.h"

#include <cstring>
#include <functional>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/data/npy.h"
#include "backend/model/weights/safetensors.h"
#include "backend/text/file_bytes.h"

namespace foxscope {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 31;

/// A matrix of whole numbers.
struct IdMatrix {
  std::string name;  ///< file and tensor, for errors
  std::vector<std::int64_t> shape;
  std::function<std::int64_t(std::size_t)> at;
};

Windows cut_rows(const IdMatrix& matrix, const IdsSource& source) {
  if (matrix.shape.size() != 2 || matrix.shape[0] < 1 || matrix.shape[1] < 1) {
    throw Error(fmt::format("{}: has the shape {}: windows of ids have two axes, [windows, tokens]", matrix.name,
                            shape_text(matrix.shape)));
  }
  const auto part = [&](const char* option, std::optional<std::int64_t> wanted, std::int64_t there) {
    if (wanted && (*wanted < 1 || *wanted > there)) {
      throw UsageError(fmt::format("{} {}: {} has {}", option, *wanted, matrix.name, there));
    }
    return wanted.value_or(there);
  };
  const std::int64_t rows = part("--windows", source.windows, matrix.shape[0]);
  const std::int64_t length = part("--length", source.length, matrix.shape[1]);
  Windows result;
  std::set<std::vector<std::int32_t>> known;
  for (std::int64_t row = 0; row < rows; ++row) {
    Window window;
    window.document = static_cast<std::int32_t>(result.windows.size());
    for (std::int64_t p = 0; p < length; ++p) {
      const std::int64_t id = matrix.at(static_cast<std::size_t>(row * matrix.shape[1] + p));
      if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
        throw Error(fmt::format("{}: {} in row {} at {} is not a token id", matrix.name, id, row, p));
      }
      window.ids.push_back(static_cast<std::int32_t>(id));
    }
    if (known.insert(window.ids).second) {
      result.windows.push_back(std::move(window));
    } else {
      ++result.repeated;
    }
  }
  result.room = std::ssize(result.windows);
  return result;
}

Windows read_npy(const IdsSource& source) {
  const std::string bytes = read_input_bytes(source.file, "token id", kLargestFile);
  const NpyArray array = parse_npy(bytes, source.file.string());
  if (!array.is_integer()) {
    throw Error(fmt::format("{}: holds reals: token ids are int16, uint16, int32 or int64", source.file.string()));
  }
  return cut_rows({source.file.string(), array.shape, [&](std::size_t index) { return array.integer(index); }}, source);
}

const std::pair<const std::string, TensorView>& choose_tensor(const SafetensorsFile& file, const IdsSource& source) {
  const auto& tensors = file.tensors();
  if (source.tensor) {
    const auto found = tensors.find(*source.tensor);
    if (found != tensors.end()) return *found;
  } else if (tensors.size() == 1) {
    return *tensors.begin();
  }
  std::string names;
  for (const auto& [name, view] : tensors) names += (names.empty() ? "" : ", ") + name;
  if (source.tensor) {
    throw UsageError(
        fmt::format("--tensor {}: {} has no such tensor, only: {}", *source.tensor, source.file.string(), names));
  }
  throw UsageError(
      fmt::format("{}: holds {} tensors: choose one with --tensor: {}", source.file.string(), tensors.size(), names));
}

template <typename T>
std::int64_t load_id(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

Windows read_safetensors(const IdsSource& source) {
  const SafetensorsFile file(source.file);
  const auto& [name, view] = choose_tensor(file, source);
  const std::string where = fmt::format("{}: {}", source.file.string(), name);
  const auto bytes = view.bytes;
  if (view.dtype == TensorDType::i32) {
    return cut_rows({where, view.shape, [bytes](std::size_t n) { return load_id<std::int32_t>(bytes, n); }}, source);
  }
  if (view.dtype == TensorDType::i64) {
    return cut_rows({where, view.shape, [bytes](std::size_t n) { return load_id<std::int64_t>(bytes, n); }}, source);
  }
  throw Error(fmt::format("{}: is {}: token ids are I32 or I64", where, to_string(view.dtype)));
}

}  // namespace

Windows read_window_ids(const IdsSource& source) {
  const std::string kind = source.file.extension().string();
  if (kind == ".safetensors") return read_safetensors(source);
  if (kind != ".npy") {
    throw UsageError(
        fmt::format("--ids {}: windows of token ids come from .npy or .safetensors files", source.file.string()));
  }
  if (source.tensor) {
    throw UsageError(fmt::format("--tensor {}: a .npy file holds one array: leave it out", *source.tensor));
  }
  return read_npy(source);
}

}  // namespace foxscope
