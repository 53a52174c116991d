#include "backend/map/device/device_profile.h"

#include <cstddef>

#include "backend/map/device/device_map.h"
#include "backend/trace/device_heads.h"
#include "kernels/cuda/linear/lagged_products.h"

namespace foxscope {
namespace {

namespace cuda = kernels::cuda;
using kernels::Status;

/// Bytes of the workspace for sums of every lag.
constexpr std::size_t kSumBytes = 512;
static_assert(kSumBytes >= cuda::LaggedProducts::kMostLags * sizeof(double));

}  // namespace

Status device_product_sums(const HeadOf& head, std::span<const DistanceBin> bins, int gpu, std::span<double> sums) {
  if (!device_takes(head) || bins.size() + 1 > cuda::LaggedProducts::kMostLags) return Status::unsupported;
  const auto heads = head.trace->device_heads(gpu);
  const auto lock = heads->lock();
  const cuda::DeviceScope scope(gpu);
  const DeviceHead arrays = heads->head(*head.trace, head.layer, head.head, {.query_key = true});
  cuda::LaggedProducts products;
  products.head = map_head(*head.trace, arrays);
  for (const DistanceBin& bin : bins) products.lags[products.count++] = bin.from;
  products.lags[products.count++] = bins.back().to;
  auto* memory = static_cast<std::byte*>(heads->workspace(kSumBytes + cuda::lagged_products_workspace_bytes(products)));
  products.sums = reinterpret_cast<double*>(memory);
  products.workspace = memory + kSumBytes;
  const Status status = cuda::lagged_products(products, heads->stream());
  require_device(status == Status::ok && !heads->wait() ? Status::failed : status, gpu);
  double beyond[cuda::LaggedProducts::kMostLags];
  const std::span<double> taken(beyond, static_cast<std::size_t>(products.count));
  require_device(cuda::copy_to_host(std::as_writable_bytes(taken), memory) ? Status::ok : Status::failed, gpu);
  for (std::size_t bin = 0; bin < bins.size(); ++bin) sums[bin] = beyond[bin] - beyond[bin + 1];
  return Status::ok;
}

}  // namespace foxscope
