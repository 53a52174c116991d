#include "backend/model/training/store_backend_torch.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope {
namespace {

using Bytes = std::vector<std::uint8_t>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

class StoreWork final : public c10d::Work {
 public:
  StoreWork() { finish(); }
};

WorkPointer done() { return c10::make_intrusive<StoreWork>(); }

Bytes bytes_of(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  const auto* const first = static_cast<const std::uint8_t*>(whole.const_data_ptr());
  return {first, first + whole.nbytes()};
}

at::Tensor tensor_of(Bytes& bytes, const at::Tensor& like) {
  return at::from_blob(bytes.data(), like.sizes(), like.options());
}

class StoreBackend final : public c10d::Backend {
 public:
  StoreBackend(c10::intrusive_ptr<c10d::Store> store, int rank, int size)
      : Backend(rank, size), store_(std::move(store)) {}

  const std::string getBackendName() const override { return "foxscope-store"; }

  WorkPointer allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& /*options*/) override {
    for (at::Tensor& tensor : tensors) tensor.copy_(sum(exchange(tensor), tensor));
    return done();
  }

  WorkPointer broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) override {
    for (at::Tensor& tensor : tensors) {
      const auto root = static_cast<int>(options.rootRank);
      tensor.copy_(tensor_of(exchange(tensor, root)[index_of(root)], tensor));
    }
    return done();
  }

  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& /*options*/) override {
    std::vector<Bytes> all = exchange(input);
    for (int rank = 0; rank < getSize(); ++rank) {
      output.narrow(0, rank * input.numel(), input.numel()).copy_(tensor_of(all[index_of(rank)], input));
    }
    return done();
  }

  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& /*options*/) override {
    const at::Tensor all = sum(exchange(input), input);
    output.copy_(all.narrow(0, getRank() * output.numel(), output.numel()));
    return done();
  }

 private:
  std::string key(std::int64_t number, int rank) const { return fmt::format("exchange/{}/{}", number, rank); }

  /// Collects the bytes that every process gives, by rank.
  /// @param giver  alone gives something, the others nothing; none: all do
  /// @throws Error where another process gives more or less than this one's tensor takes
  std::vector<Bytes> exchange(const at::Tensor& mine, std::optional<int> giver = std::nullopt) {
    store_->set(key(number_, getRank()), giver.value_or(getRank()) == getRank() ? bytes_of(mine) : Bytes());
    std::vector<Bytes> all;
    all.reserve(static_cast<std::size_t>(getSize()));
    for (int rank = 0; rank < getSize(); ++rank) {
      all.push_back(store_->get(key(number_, rank)));
      const std::size_t wanted = giver.value_or(rank) == rank ? mine.nbytes() : 0;
      if (all.back().size() == wanted) continue;
      throw Error(
          fmt::format("process {} of {} exchanges {} bytes where process {} takes {}: start all with the same command "
                      "and the same files",
                      rank, getSize(), all.back().size(), getRank(), wanted));
    }
    // A process that has given for this exchange has read the last one.
    if (number_ > 0) store_->deleteKey(key(number_ - 1, getRank()));
    ++number_;
    return all;
  }

  at::Tensor sum(std::vector<Bytes> all, const at::Tensor& like) const {
    at::Tensor total = tensor_of(all[0], like).clone();
    for (std::size_t rank = 1; rank < all.size(); ++rank) total.add_(tensor_of(all[rank], like));
    return total;
  }

  c10::intrusive_ptr<c10d::Store> store_;
  std::int64_t number_ = 0;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_store_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                     const DistributedConfig& distributed) {
  return c10::make_intrusive<StoreBackend>(store, distributed.rank, distributed.world_size);
}

}  // namespace foxscope
