#include "tests/bench/random_checkpoint.h"

#include <cstdint>
#include <fstream>
#include <random>
#include <vector>

#include <nlohmann/json.hpp>

#include "backend/model/spec/model_config.h"
#include "backend/model/spec/parameters.h"
#include "backend/trace/query_key_store.h"

namespace foxscope::bench {
namespace {

constexpr float kDeviation = 0.02F;
constexpr std::size_t kDrawn = std::size_t{1} << 20;
constexpr std::size_t kPiece = 4096;

std::size_t elements(const Parameter& tensor) {
  std::size_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= static_cast<std::size_t>(size);
  return count;
}

/// Weights in pieces at random places of a table of random numbers: drawing each of a billion takes too long.
class Weights {
 public:
  Weights() : drawn_(kDrawn + kPiece) {
    std::normal_distribution<float> normal(0, kDeviation);
    for (std::uint16_t& bits : drawn_) bits = to_bfloat16(normal(generator_));
  }

  void write(std::ofstream& file, const Parameter& tensor) {
    const bool bias = tensor.name.ends_with("bias");
    const bool norm = tensor.shape.size() == 1 && !bias;
    const std::vector<std::uint16_t> constant(kPiece, to_bfloat16(norm ? 1.0F : 0.0F));
    std::uniform_int_distribution<std::size_t> place(0, kDrawn - 1);
    for (std::size_t left = elements(tensor); left > 0;) {
      const std::size_t count = std::min(left, kPiece);
      const std::uint16_t* piece = norm || bias ? constant.data() : drawn_.data() + place(generator_);
      file.write(reinterpret_cast<const char*>(piece), static_cast<std::streamsize>(count * sizeof(std::uint16_t)));
      left -= count;
    }
  }

 private:
  std::mt19937_64 generator_{1};
  std::vector<std::uint16_t> drawn_;
};

}  // namespace

RandomCheckpoint::RandomCheckpoint(const std::string& config) {
  folder_.write("config.json", config);
  const std::vector<Parameter> tensors = parameters(ModelConfig::from_json(config, "config.json"));
  nlohmann::json header = nlohmann::json::object();
  std::size_t end = 0;
  for (const Parameter& tensor : tensors) {
    const std::size_t begin = end;
    end += elements(tensor) * sizeof(std::uint16_t);
    header[tensor.name] = {{"dtype", "BF16"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  const std::string text = header.dump();
  const std::uint64_t size = text.size();
  std::ofstream file(folder_ / "model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof(size));
  file << text;
  Weights weights;
  for (const Parameter& tensor : tensors) weights.write(file, tensor);
}

}  // namespace foxscope::bench
