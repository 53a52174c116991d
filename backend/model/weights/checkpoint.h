#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/model/spec/model_config.h"
#include "backend/model/spec/parameters.h"
#include "backend/model/weights/safetensors.h"

namespace foxscope {

/// A checkpoint folder, opened and checked: every tensor that the configuration needs is there, in the right shape, and
/// nothing else is. Weights are memory-mapped, not read.
class Checkpoint {
 public:
  /// @param path  a folder, or a hub id "owner/name", which resolves in the local hub cache (HF_HUB_CACHE, else
  ///              HF_HOME/hub, else ~/.cache/huggingface/hub) and is never downloaded
  /// @throws Error naming the file, the tensors and the remedy
  static Checkpoint open(const std::string& path);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const ModelConfig& config() const { return config_; }
  /// @throws Error if there is no such tensor
  [[nodiscard]] const TensorView& tensor(const std::string& name) const;
  [[nodiscard]] const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  /// A weight as float32, row-major, piece by piece: each is at most a mebibyte of the file.
  /// @param take  gets the pieces in their order; false ends the reading
  /// @throws Error naming the tensor if it holds a NaN or an infinity
  void read(const std::string& name, const std::function<bool(std::span<const float> piece)>& take) const;
  /// The weight files, by name.
  [[nodiscard]] const std::vector<std::filesystem::path>& weight_files() const { return weight_files_; }
  /// A part of the files that is not run: a tower for pictures, a head that predicts further tokens.
  struct Unread {
    std::string prefix;  ///< of its tensors
    std::string words;
    std::size_t tensors = 0;
  };
  [[nodiscard]] const std::vector<Unread>& unread() const { return unread_; }
  /// SHA-256 over the contents of the weight files in the order of their names, hexadecimal.
  /// @returns nothing if the job was stopped
  [[nodiscard]] std::optional<std::string> weights_sha256(const Job& job) const;
  /// Numbers in all weights.
  [[nodiscard]] std::int64_t parameter_count() const;
  /// Numbers in those that a CPU reads where they lie in the files: the matrices of experts.
  [[nodiscard]] std::int64_t mapped_parameter_count() const;
  /// The mapped weight files.
  [[nodiscard]] const std::vector<std::shared_ptr<const SafetensorsFile>>& files() const { return files_; }

 private:
  void open_weights();
  void choose_names();
  void choose_norm(std::vector<Parameter>& wanted);
  [[nodiscard]] std::int64_t count_missing(const std::vector<Parameter>& wanted) const;
  void choose_form(std::vector<Parameter>& wanted);
  void check_tied(const TensorView& head, const std::vector<Parameter>& wanted) const;
  void check_tensors();
  [[nodiscard]] bool take_unread(const std::string& name);
  [[nodiscard]] std::int64_t count_numbers(bool (*counts)(const Parameter& parameter)) const;

  std::filesystem::path folder_;
  ModelConfig config_;
  std::vector<std::filesystem::path> weight_files_;
  std::vector<std::shared_ptr<const SafetensorsFile>> files_;
  std::map<std::string, TensorView> tensors_;
  std::vector<Unread> unread_;
};

}  // namespace foxscope
