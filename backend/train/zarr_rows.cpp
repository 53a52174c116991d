#include "backend/train/zarr_rows.h"

#include <algorithm>
#include <array>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "backend/model/weights/safetensors.h"
#include "backend/text/token_ids.h"
#include "backend/train/id_numbers.h"
#include "backend/train/row_cut.h"

namespace foxscope {
namespace {

/// The chunks of an array that were asked for last. Its lock is held to look a chunk up; who reads one holds that
/// chunk's own.
class ChunkCache {
 public:
  /// @param most  chunks that are kept, at least 1
  ChunkCache(const ZarrArray& array, std::size_t most) : array_(array), most_(most) {}

  /// The numbers of a chunk, which stay for as long as the pointer does.
  std::shared_ptr<const std::byte[]> get(std::span<const std::int64_t> index) {
    const std::shared_ptr<Chunk> chunk =
        find(index.size() == 1 ? index[0] : index[0] * array_.chunk_counts()[1] + index[1]);
    const std::lock_guard lock(chunk->mutex);
    if (!chunk->numbers) chunk->numbers = array_.read_chunk(index);
    return {chunk, chunk->numbers.get()};
  }

 private:
  struct Chunk {
    std::mutex mutex;
    std::unique_ptr<std::byte[]> numbers;  ///< null until they are read
  };
  using Entry = std::pair<std::int64_t, std::shared_ptr<Chunk>>;

  std::shared_ptr<Chunk> find(std::int64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(number);
    if (found != places_.end()) {
      newest_first_.splice(newest_first_.begin(), newest_first_, found->second);
    } else {
      newest_first_.emplace_front(number, std::make_shared<Chunk>());
      places_[number] = newest_first_.begin();
    }
    if (newest_first_.size() > most_) {
      places_.erase(newest_first_.back().first);
      newest_first_.pop_back();
    }
    return newest_first_.front().second;
  }

  const ZarrArray& array_;
  std::size_t most_;
  std::mutex mutex_;
  std::list<Entry> newest_first_;
  std::unordered_map<std::int64_t, std::list<Entry>::iterator> places_;
};

class ZarrRows final : public TokenRows {
 public:
  ZarrRows(std::unique_ptr<const ZarrArray> array, std::int64_t vocabulary, std::size_t cache_bytes, Summary summary)
      : TokenRows(std::move(summary)),
        array_(std::move(array)),
        chunks_(*array_, std::max<std::size_t>(1, cache_bytes / array_->chunk_bytes())),
        vocabulary_(vocabulary) {}

  void read(std::int64_t row, std::span<std::int32_t> tokens) const override {
    const std::size_t axes = array_->shape().size();
    const std::int64_t documents_of_chunk = axes == 1 ? 1 : array_->chunk_shape()[0];
    const std::int64_t tokens_of_chunk = array_->chunk_shape().back();
    const std::int64_t document = axes == 1 ? 0 : row / columns();
    std::int64_t at = (axes == 1 ? row : row % columns()) * length();
    for (std::size_t done = 0; done < tokens.size();) {
      const std::array<std::int64_t, 2> chunk = {document / documents_of_chunk, at / tokens_of_chunk};
      const auto index = std::span(chunk).last(axes);
      const std::int64_t begin = at % tokens_of_chunk;
      const auto size = std::min(tokens.size() - done, static_cast<std::size_t>(tokens_of_chunk - begin));
      take(index, document % documents_of_chunk * tokens_of_chunk + begin, row, done, tokens.subspan(done, size));
      done += size;
      at += static_cast<std::int64_t>(size);
    }
  }

 private:
  /// Fills a part of a row.
  /// @param begin  number of the chunk that comes first
  /// @param done   tokens of the row that are filled already
  void take(std::span<const std::int64_t> index, std::int64_t begin, std::int64_t row, std::size_t done,
            std::span<std::int32_t> tokens) const {
    const auto numbers = chunks_.get(index);
    const std::size_t size = size_of(array_->type());
    const std::span bytes(numbers.get() + static_cast<std::size_t>(begin) * size, tokens.size() * size);
    if (const auto place = take_ids(bytes, array_->type(), vocabulary_, tokens)) {
      throw_outside_vocabulary(array_->chunk_file(index).string(), std::to_string(id_at(bytes, array_->type(), *place)),
                               fmt::format("position {} of row {}", done + *place, row), vocabulary_);
    }
  }

  std::unique_ptr<const ZarrArray> array_;
  mutable ChunkCache chunks_;
  std::int64_t vocabulary_;
};

}  // namespace

std::unique_ptr<TokenRows> rows_of(std::unique_ptr<const ZarrArray> array, std::int64_t length, std::int64_t vocabulary,
                                   std::size_t cache_bytes) {
  const std::string folder = array->folder().string();
  const RowCut cut = cut_into_rows(array->shape(), length, folder);
  std::string description =
      fmt::format("{}: zarr, {} {} in chunks of {}, {}", folder, to_string(array->type()), shape_text(array->shape()),
                  shape_text(array->chunk_shape()), describe(cut, length));
  TokenRows::Summary summary{cut.rows, length, cut.columns, array->fingerprint(), std::move(description), cut.stream};
  return std::make_unique<ZarrRows>(std::move(array), vocabulary, cache_bytes, std::move(summary));
}

}  // namespace foxscope
