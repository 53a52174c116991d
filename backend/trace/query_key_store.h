#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/trace/dtype.h"
#include "backend/trace/trace_arrays.h"

namespace foxscope::kernels::cuda {
class PinnedBuffer;
}

namespace foxscope {

/// Holds the queries and keys of a run, its values, or all three, as they enter attention (after shift, norm and
/// rotation). Maps ask it for tiles of rows, never for a matrix. Safe to call from several threads.
class QueryKeyStore {
 public:
  using Shape = TraceSizes;
  using Part = TraceArray;  ///< those with Storage::store
  using Parts = std::vector<Part>;

  virtual ~QueryKeyStore() = default;
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Parts& parts() const { return parts_; }
  [[nodiscard]] bool has(Part part) const { return std::ranges::find(parts_, part) != parts_.end(); }
  /// Heads of a part in a layer: H of queries, H_kv of keys and values in softmax attention.
  [[nodiscard]] int heads(Part part, int layer) const;
  /// Channels of a part in a layer: d of queries and keys, d_v of values.
  [[nodiscard]] int channels(Part part, int layer) const;
  /// "memory", "temporary file", "run file" or "GPU memory", for what the program says of itself.
  [[nodiscard]] virtual const char* where() const = 0;

  /// Rows [begin, end) of one head as float32, [end - begin, channels]: a view of the store itself where it holds
  /// float32 in memory, else of `scratch`, which is resized and filled.
  /// @param head  one of the part's own heads
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
  static std::size_t bytes(const Shape& shape, DType dtype, const Parts& parts = {Part::query, Part::key});

 protected:
  QueryKeyStore(const Shape& shape, DType dtype, Parts parts);
  /// Byte where a head's row begins; a layer's parts lie one behind the other.
  [[nodiscard]] std::size_t offset(Part part, int layer, int head, std::int64_t row) const;

 private:
  Shape shape_;
  DType dtype_;
  Parts parts_;
  std::vector<std::size_t> begins_;  ///< elements before each layer's parts, layer by layer
};

/// The words for a store's content in a message.
struct StoredWords {
  std::string title;  ///< "queries, keys and values"
  std::string words;  ///< of --keep: "qk and values"
};
StoredWords words_of(const QueryKeyStore::Parts& parts);

/// A store that a running model fills, layer by layer. Either of the two says where.
class RunQueryKeyStore : public QueryKeyStore {
 public:
  /// Where a forward writes one layer: [heads, L, d] in the store's dtype, host memory; empty for a store elsewhere,
  /// and for a part that it does not hold.
  virtual std::span<std::byte> layer(Part /*part*/, int /*layer*/) { return {}; }
  /// The same in GPU memory; null for a store elsewhere.
  virtual void* device_layer(Part /*part*/, int /*layer*/) { return nullptr; }
  /// A line for the user on where the store is; empty where nobody need know.
  [[nodiscard]] virtual std::string note() const { return {}; }

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
                    const std::filesystem::path& spill_folder, std::optional<int> gpu = std::nullopt,
                    Parts parts = {Part::query, Part::key});
  ~HostQueryKeyStore() override;
  HostQueryKeyStore(const HostQueryKeyStore&) = delete;
  HostQueryKeyStore& operator=(const HostQueryKeyStore&) = delete;

  [[nodiscard]] const char* where() const override;
  [[nodiscard]] std::span<const std::byte> raw_rows(Part part, int layer, int head, std::int64_t begin,
                                                    std::int64_t end, std::vector<std::byte>& scratch) const override;

  std::span<std::byte> layer(Part part, int layer) override;
  /// Says how large its temporary file is, and in which folder.
  [[nodiscard]] std::string note() const override;

 private:
  std::unique_ptr<kernels::cuda::PinnedBuffer> pinned_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool in_file_ = false;
  std::filesystem::path folder_;  ///< of the temporary file
};

}  // namespace foxscope
