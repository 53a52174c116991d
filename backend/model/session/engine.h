#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "backend/base/job.h"
#include "backend/model/layer/pass_options.h"
#include "backend/model/session/causal_lm.h"
#include "backend/model/session/run_memory.h"
#include "backend/text/tokenizer.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// A model as somebody asks for it.
struct ModelRequest {
  std::string name;                 ///< NAME in files
  std::string model;                ///< folder or hub id
  std::optional<std::int64_t> bos;  ///< token id; none: the checkpoint's
  DeviceChoice device;
  std::optional<DType> dtype;               ///< none: float32 on a CPU, bfloat16 on a GPU
  std::optional<double> pruning_tolerance;  ///< overrides the config's, which overrides 2^-24
  std::vector<Intervention> interventions;
};

class Engine;

/// A model that was asked for, and what the request comes to with its checkpoint. Everything that can be wrong before a
/// text is read has been checked; no weights are in memory. Copies share a tokenizer.
class OpenedModel {
 public:
  ModelRequest request;
  std::filesystem::path folder;
  ModelConfig config;
  std::int64_t parameters = 0;
  Device device;
  DType dtype = DType::float32;
  PassOptions options;

  /// The tokenizer of its folder; null: there is none.
  [[nodiscard]] const Tokenizer* find_tokenizer() const;
  /// @throws Error where there is none
  [[nodiscard]] const Tokenizer& tokenizer() const;
  /// The token that begins a sequence: the request's, else config.json's, else the tokenizer's.
  /// @throws UsageError if none is named; Error for one outside the vocabulary
  [[nodiscard]] std::int32_t bos() const;

  /// Whether each layer will forget, by the configuration and the interventions; a trace knows it from its gates.
  [[nodiscard]] std::vector<bool> forgetting() const;
  /// Describes a pass over `length` positions, for a recorder and for files, without the checksum of the weights.
  [[nodiscard]] TraceInfo describe_pass(std::int64_t length) const;
  /// The checksum of the weights, which are read for it, once for files that stay as they are.
  /// @returns nothing if the job was stopped
  [[nodiscard]] std::optional<std::string> weights_sha256(const Job& job) const;
  /// Both.
  /// @returns nothing if the job was stopped
  [[nodiscard]] std::optional<TraceInfo> describe(std::int64_t length, const Job& job) const;
  /// The memory of a pass, and of the weights where they are not loaded yet.
  [[nodiscard]] RunNeeds needs(const KeepSet& keep) const;
  /// The model with its weights, from the engine's memory or from its files.
  /// @returns nothing if the job was stopped. @throws Error as CausalLM::load does, and for files that have changed
  [[nodiscard]] std::shared_ptr<CausalLM> load(const Job& job) const;

 private:
  friend class Engine;
  struct Memory;
  OpenedModel(const ModelRequest& request, std::shared_ptr<Memory> memory);

  std::shared_ptr<Memory> memory_;  ///< of the engine
  std::string key_;                 ///< all that a model in memory depends on
  std::shared_ptr<std::optional<Tokenizer>> tokenizer_ = std::make_shared<std::optional<Tokenizer>>();
};

/// Opens all models that are run. A model that is in memory, because somebody uses it or the engine keeps it, is not
/// loaded again. From any thread; copies are the same engine.
class Engine {
 public:
  /// @param kept  how many models stay in memory that nobody uses: the last ones, but none that takes more
  ///              than a quarter of the memory that is free
  explicit Engine(std::size_t kept = 0);
  /// Opens a checkpoint and checks the request with it.
  /// @throws Error naming the file and the remedy, UsageError naming the option
  [[nodiscard]] OpenedModel open(const ModelRequest& request) const;

 private:
  std::shared_ptr<OpenedModel::Memory> memory_;
};

}  // namespace foxscope
