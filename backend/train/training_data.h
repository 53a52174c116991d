#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/train/text_rows.h"
#include "backend/train/token_rows.h"

namespace foxscope {

struct TrainingDataOptions {
  std::int64_t length = 2048;         ///< L
  std::int64_t vocabulary = 0;        ///< the model's; ids are below it
  std::optional<std::string> tensor;  ///< of .safetensors files
  /// Options for texts; without its tokenizer there can be none.
  TextOptions texts = {{}, 0, token_cache_folder()};
};

/// Opens data to train on, of any kind, and puts them one after the other:
/// - a folder with `.zarray`: tokens in zarr's format 2, such as LongCrawl64's (ZarrArray)
/// - .npy, .safetensors: tokens (map_id_array)
/// - .txt, .jsonl, .jsonl.xz, .jsonl.gz, and any other folder: texts (open_text_rows)
/// @returns null if the job was stopped
/// @throws Error, UsageError naming the path or the option
std::unique_ptr<TokenRows> open_training_data(const std::vector<std::filesystem::path>& paths,
                                              const TrainingDataOptions& options, const Job& job);

/// L of token arrays [N, L], where all of the data are such arrays of one L; nothing for other data, and for what
/// cannot be read: open_training_data says why.
std::optional<std::int64_t> length_of_arrays(const std::vector<std::string>& paths, const std::string& tensor);

}  // namespace foxscope
