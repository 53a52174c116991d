#include "backend/model/weights/safetensors_writer.h"

#include <cassert>

#include <nlohmann/json.hpp>

namespace foxscope {

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, const std::vector<Tensor>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path, /*overwrite=*/false) {
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  std::int64_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    std::int64_t count = 1;
    for (const std::int64_t size : tensor.shape) count *= size;
    const std::int64_t end = bytes + count * static_cast<std::int64_t>(sizeof(float));
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {bytes, end}}};
    bytes = end;
    missing_ += count;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the numbers begin at a multiple of 8 bytes
  file_.require_space(static_cast<std::uint64_t>(bytes) + text.size() + sizeof(std::uint64_t));
  const std::uint64_t length = text.size();
  file_.write(&length, sizeof(length));
  file_.write(text.data(), text.size());
}

void SafetensorsWriter::write(std::span<const float> values) {
  missing_ -= static_cast<std::int64_t>(values.size());
  assert(missing_ >= 0);
  file_.write(values.data(), values.size_bytes());
}

void SafetensorsWriter::commit() {
  assert(missing_ == 0);
  file_.commit();
}

}  // namespace foxscope
