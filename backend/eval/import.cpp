#include "backend/eval/import.h"

#include <zip.h>

#include <cmath>
#include <memory>
#include <numeric>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/data/npy.h"
#include "backend/model/weights/safetensors.h"

namespace foxscope {
namespace {

constexpr const char* kArray = "val/loss_per_token";
constexpr zip_uint64_t kLargestArray = zip_uint64_t{1} << 31;

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseEntry {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw Error(
      fmt::format("{}: {}: give the results.npz that the authors' per-token evaluation wrote", file.string(), what));
}

std::unique_ptr<zip_t, CloseArchive> open_archive(const std::filesystem::path& file) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(file, failed)) refuse(file, "no such file");
  int code = 0;
  std::unique_ptr<zip_t, CloseArchive> archive(zip_open(file.c_str(), ZIP_RDONLY, &code));
  if (!archive) refuse(file, "is not a sound .npz archive");
  return archive;
}

/// One array's bytes, decompressed and checked by the archive's checksum.
std::string read_entry(const std::filesystem::path& file) {
  const auto archive = open_archive(file);
  const std::string name = fmt::format("{}.npy", kArray);
  zip_stat_t status;
  zip_stat_init(&status);
  if (zip_stat(archive.get(), name.c_str(), 0, &status) != 0 || (status.valid & ZIP_STAT_SIZE) == 0) {
    refuse(file, fmt::format("holds no array {}", kArray));
  }
  if (status.size > kLargestArray) refuse(file, fmt::format("the array {} is larger than 2 GiB", kArray));
  const std::unique_ptr<zip_file_t, CloseEntry> entry(zip_fopen_index(archive.get(), status.index, 0));
  if (!entry) refuse(file, fmt::format("the array {} cannot be read", kArray));
  std::string bytes;
  constexpr std::size_t kZipPiece = std::size_t{1} << 20;
  while (true) {
    const std::size_t used = bytes.size();
    bytes.resize(used + kZipPiece);
    const zip_int64_t got = zip_fread(entry.get(), bytes.data() + used, kZipPiece);
    bytes.resize(used + static_cast<std::size_t>(std::max<zip_int64_t>(got, 0)));
    if (got < 0) refuse(file, fmt::format("the array {} is damaged", kArray));
    if (got == 0) break;
    if (bytes.size() > status.size) refuse(file, fmt::format("the array {} is longer than the archive says", kArray));
  }
  return bytes;
}

}  // namespace

LossEvaluation import_losses(const std::filesystem::path& file, const std::string& name) {
  const std::string bytes = read_entry(file);
  const NpyArray array = parse_npy(bytes, fmt::format("{}: {}", file.string(), kArray));
  if (array.is_integer()) refuse(file, fmt::format("the array {} holds whole numbers, no losses", kArray));
  if (array.shape.empty() || array.shape.size() > 2 || array.count() == 0) {
    refuse(file, fmt::format("the array {} has the shape {}, not [L] or [M, L]", kArray, shape_text(array.shape)));
  }
  EvaluatedModel model;
  model.info.name = name;
  model.averaged = array.shape.size() == 1;
  auto windows = std::make_shared<EvaluatedWindows>();
  windows->length = array.shape.back();
  const auto rows = static_cast<std::size_t>(model.averaged ? 1 : array.shape.front());
  windows->document.resize(rows);
  std::iota(windows->document.begin(), windows->document.end(), 0);
  windows->tokens.assign(rows, windows->length);
  model.losses = {static_cast<std::int64_t>(rows), windows->length, {}, windows->tokens};
  model.losses.loss.reserve(array.count());
  for (std::size_t n = 0; n < array.count(); ++n) {
    const auto loss = static_cast<float>(array.real(n));
    if (!std::isfinite(loss)) refuse(file, fmt::format("the array {} holds {} at {}", kArray, loss, n));
    model.losses.loss.push_back(loss);
  }
  model.windows = std::move(windows);
  LossEvaluation evaluation;
  evaluation.corpus.source = file.filename().string();
  evaluation.models.push_back(std::move(model));
  return evaluation;
}

}  // namespace foxscope
