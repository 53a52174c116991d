#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace foxscope::kernels::cuda {
class PinnedBuffer;
}

namespace foxscope {

/// Number format of stored queries and keys.
enum class DType { float32, bfloat16 };

/// "float32" or "bfloat16".
const char* to_string(DType dtype);
/// Bytes of one number.
std::size_t size_of(DType dtype);
/// @throws Error for another name
DType dtype_from_string(const std::string& name);

/// Nearest bfloat16, ties to even; NaN stays NaN. Bit patterns.
std::uint16_t to_bfloat16(float value);
float from_bfloat16(std::uint16_t bits);

/// Where the queries and keys of a run live, as they enter attention (after shift, norm and rotation). Maps ask it for
/// tiles of rows, never for a matrix. Safe to call from several threads.
class QueryKeyStore {
 public:
  struct Shape {
    int layers = 0;
    int heads = 0;      ///< query heads H
    int key_heads = 0;  ///< H_kv; query head h reads key head h / (H / H_kv)
    std::int64_t length = 0;
    int head_dim = 0;
  };
  enum class Part { query, key };

  virtual ~QueryKeyStore() = default;
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  /// "memory", "temporary file", "run file" or "GPU memory", for what the program says of itself.
  [[nodiscard]] virtual const char* where() const = 0;

  /// Rows [begin, end) of one head as float32, [end - begin, d]: a view of the store itself where it holds float32 in
  /// memory, else of `scratch`, which is resized and filled.
  /// @param head  query head, or key head for Part::key
  /// @throws Error if the file behind the store cannot be read
  std::span<const float> rows(Part part, int layer, int head, std::int64_t begin, std::int64_t end,
                              std::vector<float>& scratch) const;

  /// Raw bytes of rows [begin, end) in the store's dtype: a view of the store where it is in memory, else of `scratch`.
  [[nodiscard]] virtual std::span<const std::byte> raw_rows(Part part, int layer, int head, std::int64_t begin,
                                                            std::int64_t end,
                                                            std::vector<std::byte>& scratch) const = 0;

  /// Address on the GPU of one head, [L, d] in the store's dtype; null where the store is elsewhere.
  [[nodiscard]] virtual const void* on_device(Part /*part*/, int /*layer*/, int /*head*/) const { return nullptr; }
  /// The GPU that on_device is about.
  [[nodiscard]] virtual int device() const { return 0; }

  /// Bytes that a store of this shape takes.
  static std::size_t bytes(const Shape& shape, DType dtype);

 protected:
  QueryKeyStore(const Shape& shape, DType dtype) : shape_(shape), dtype_(dtype) {}
  /// Byte where a head's row begins; layout per layer: query [H, L, d], then key [H_kv, L, d].
  [[nodiscard]] std::size_t offset(Part part, int layer, int head, std::int64_t row) const;

 private:
  Shape shape_;
  DType dtype_;
};

/// A store that a running model fills, layer by layer. Either of the two says where.
class RunQueryKeyStore : public QueryKeyStore {
 public:
  /// Where a forward writes one layer: [heads, L, d] in the store's dtype, host memory; empty for a store elsewhere.
  virtual std::span<std::byte> layer(Part /*part*/, int /*layer*/) { return {}; }
  /// The same in GPU memory; null for a store elsewhere.
  virtual void* device_layer(Part /*part*/, int /*layer*/) { return nullptr; }

 protected:
  using QueryKeyStore::QueryKeyStore;
};

/// A store in host memory: anonymous memory within a budget, beyond it an unlinked temporary file mapped into memory,
/// so that the system can put pages aside.
class HostQueryKeyStore final : public RunQueryKeyStore {
 public:
  /// @param memory_budget  bytes that may be held in memory; a larger store goes to a file in `spill_folder`
  /// @param gpu            that fills the store: memory is pinned, into which it copies at full speed without waiting,
  ///                       or pageable where that cannot be
  /// @throws Error naming the size when neither memory nor disk can hold it
  HostQueryKeyStore(const Shape& shape, DType dtype, std::size_t memory_budget,
                    const std::filesystem::path& spill_folder, std::optional<int> gpu = std::nullopt);
  ~HostQueryKeyStore() override;
  HostQueryKeyStore(const HostQueryKeyStore&) = delete;
  HostQueryKeyStore& operator=(const HostQueryKeyStore&) = delete;

  [[nodiscard]] const char* where() const override;
  [[nodiscard]] std::span<const std::byte> raw_rows(Part part, int layer, int head, std::int64_t begin,
                                                    std::int64_t end, std::vector<std::byte>& scratch) const override;

  std::span<std::byte> layer(Part part, int layer) override;

 private:
  std::unique_ptr<kernels::cuda::PinnedBuffer> pinned_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool in_file_ = false;
};

}  // namespace foxscope
