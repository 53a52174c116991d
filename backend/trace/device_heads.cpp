#include "backend/trace/device_heads.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/measures.h"

namespace foxscope {
namespace {

namespace cuda = kernels::cuda;

Error failed(int device) {
  return Error(
      fmt::format("cuda:{}: the GPU failed while it was given queries, keys and gates: use --device cpu", device));
}

}  // namespace

cuda::MapHead map_head(const Trace& trace, const DeviceHead& arrays) {
  const TraceInfo& info = trace.info();
  cuda::MapHead head;
  head.query = arrays.query;
  head.key = arrays.key;
  const bool is_float = trace.query_key() != nullptr && trace.query_key()->dtype() == DType::float32;
  head.element = is_float ? cuda::ElementType::float32 : cuda::ElementType::bfloat16;
  head.length = info.length;
  head.head_dim = info.mixer(arrays.layer).head_dim;
  head.scale = info.softmax_scale;
  head.window = window_of(info, arrays.layer);
  head.cumulative_log_gate = arrays.gate;
  head.log_normalizer = arrays.normalizer;
  head.tables = arrays.tables;
  return head;
}

std::optional<cuda::MixingKind> mixing_kind(const LayerMixer& mixer) {
  if (mixer.has_softmax() || !mixer.kind().mixes) return std::nullopt;
  if (mixer.erases()) {
    if (!mixer.erases_own_key()) return std::nullopt;
    return mixer.decays_by_channel() ? std::nullopt : std::optional(cuda::MixingKind::delta_rule);
  }
  return mixer.decays_by_channel() ? cuda::MixingKind::channel_decay : cuda::MixingKind::head_decay;
}

cuda::MixingHead mixing_head(const Trace& trace, int layer, bool of_decay) {
  const LayerMixer mixer = trace.info().mixer(layer);
  cuda::MixingHead head;
  head.kind = of_decay ? cuda::MixingKind::channel_decay : mixing_kind(mixer).value();
  // Where beta becomes part of keys, these are made here.
  const bool is_float = of_decay || mixer.has_rates() || trace.require_query_key().dtype() == DType::float32;
  head.element = is_float ? cuda::ElementType::float32 : cuda::ElementType::bfloat16;
  head.length = trace.info().length;
  head.head_dim = mixer.head_dim;
  return head;
}

DeviceHeads::DeviceHeads(int device, std::size_t budget) : device_(device), budget_(budget) {
  const cuda::DeviceScope scope(device);
  if (!cuda::is_available()) {
    throw Error(fmt::format("cuda:{}: the GPU cannot be used for maps: choose another, or --device cpu", device));
  }
  stream_ = std::make_unique<cuda::DeviceStream>();
}

cuda::DeviceBuffer DeviceHeads::allocate(std::size_t bytes) {
  try {
    return cuda::DeviceBuffer(bytes);
  } catch (const std::bad_alloc&) {
    heads_.clear();
  }
  try {
    return cuda::DeviceBuffer(bytes);
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format("cuda:{}: no memory for {:.3f} GiB of a map, {:.3f} GiB are free: use --device cpu",
                            device_, gibibytes(bytes), gibibytes(cuda::free_memory())));
  }
}

void* DeviceHeads::workspace(std::size_t bytes) {
  if (workspace_.bytes() < bytes) {
    workspace_ = {};
    workspace_ = allocate(bytes);
  }
  return workspace_.data();
}

std::span<std::byte> DeviceHeads::host_workspace(std::size_t bytes) {
  if (host_workspace_.size() >= bytes) return host_workspace_;
  host_workspace_ = {};
  pinned_.reset();
  pageable_ = {};
  try {
    pinned_ = std::make_unique<cuda::PinnedBuffer>(bytes, device_);
    host_workspace_ = {static_cast<std::byte*>(pinned_->data()), bytes};
  } catch (const std::bad_alloc&) {
    pageable_.resize(bytes);
    host_workspace_ = pageable_;
  }
  return host_workspace_;
}

const void* DeviceHeads::upload(std::span<const std::byte> values, Entry& entry) {
  const cuda::DeviceBuffer& buffer = entry.buffers.emplace_back(allocate(values.size()));
  entry.bytes += values.size();
  if (!cuda::copy_to_device(buffer.data(), values, stream())) throw failed(device_);
  return buffer.data();
}

void DeviceHeads::add_query_key(const Trace& trace, Entry& entry) {
  DeviceHead& head = entry.head;
  using Part = QueryKeyStore::Part;
  const QueryKeyStore& store = trace.require_query_key();
  const int key_head = key_head_of(trace.info(), head.layer, head.head);
  if (store.on_device(Part::query, head.layer, head.head) != nullptr && store.device() == device_) {
    head.key = store.on_device(Part::key, head.layer, key_head);
    head.query = store.on_device(Part::query, head.layer, head.head);
    return;
  }
  std::vector<std::byte> scratch;
  const std::int64_t length = trace.info().length;
  head.key = upload(store.raw_rows(Part::key, head.layer, key_head, 0, length, scratch), entry);
  head.query = upload(store.raw_rows(Part::query, head.layer, head.head, 0, length, scratch), entry);
}

void DeviceHeads::add_gate(const Trace& trace, Entry& entry) {
  DeviceHead& head = entry.head;
  if (!forgets(trace.info(), head.layer)) return;
  head.gate =
      static_cast<const double*>(upload(std::as_bytes(trace.cumulative_log_gate(head.layer, head.head)), entry));
}

void DeviceHeads::add_tables(const Trace& trace, Entry& entry) {
  DeviceHead& head = entry.head;
  const cuda::MapHead map = map_head(trace, head);
  const cuda::DeviceBuffer& tables = entry.buffers.emplace_back(allocate(cuda::head_table_bytes(map.length)));
  entry.bytes += tables.bytes();
  const auto status = cuda::prepare_map_head(map, tables.data(), stream());
  if (status != kernels::Status::ok) throw failed(device_);
  head.tables = tables.data();
}

/// The inputs of the tables are let go when the tables are there. @returns null where the device has no room for a
/// block
const void* DeviceHeads::add_mixing(const Trace& trace, bool of_decay, Entry& entry) {
  const int layer = entry.head.layer;
  const LayerMixer mixer = trace.info().mixer(layer);
  cuda::MixingHead head = mixing_head(trace, layer, of_decay);
  Entry passing;
  std::vector<std::byte> scratch;
  const auto rows_of = [&](QueryKeyStore::Part part, int among) -> const void* {
    const QueryKeyStore& store = trace.require_query_key();
    const int index = shared_head(mixer.heads, among, entry.head.head);
    const void* there = store.on_device(part, layer, index);
    if (there != nullptr && store.device() == device_) return there;
    return upload(store.raw_rows(part, layer, index, 0, trace.info().length, scratch), passing);
  };
  const bool within = mixer.has_rates();  // beta, in keys
  const auto floats_of = [&](QueryKeyStore::Part part, int among, std::span<const float> beta) {
    std::vector<float> memory;
    const auto rows = trace.require_query_key().rows(part, layer, shared_head(mixer.heads, among, entry.head.head), 0,
                                                     trace.info().length, memory);
    std::vector<float> numbers(rows.begin(), rows.end());
    for (std::size_t n = 0; n < numbers.size() && !beta.empty(); ++n) {
      numbers[n] *= beta[n / static_cast<std::size_t>(mixer.head_dim)];
    }
    return upload(std::as_bytes(std::span(numbers)), passing);
  };
  if (!of_decay && within) {
    head.query = floats_of(QueryKeyStore::Part::query, mixer.query_heads, {});
    head.key = floats_of(QueryKeyStore::Part::key, mixer.key_heads, trace.beta(layer, entry.head.head));
  } else if (!of_decay) {
    head.query = rows_of(QueryKeyStore::Part::query, mixer.query_heads);
    head.key = rows_of(QueryKeyStore::Part::key, mixer.key_heads);
  }
  if (mixer.decays()) {
    ChannelSums of_channels;
    if (!mixer.decays_by_head()) of_channels = trace.cumulative_log_decay(layer, entry.head.head);
    const std::span<const double> sums =
        mixer.decays_by_head() ? trace.cumulative_log_gate(layer, entry.head.head) : of_channels.values;
    head.cumulative_log_decay = static_cast<const double*>(upload(std::as_bytes(sums), passing));
  }
  if (!of_decay && mixer.kind().writes_beta && !within) {
    const auto beta = trace.beta(layer, entry.head.head);
    head.beta = static_cast<const float*>(upload(std::as_bytes(beta), passing));
  }
  cuda::DeviceBuffer tables = allocate(cuda::mixing_table_bytes(head));
  const auto status = cuda::prepare_mixing_head(head, tables.data(), stream());
  const bool waited = wait();
  if (status == kernels::Status::unsupported) return nullptr;
  if (status != kernels::Status::ok || !waited) throw failed(device_);
  entry.bytes += tables.bytes();
  return entry.buffers.emplace_back(std::move(tables)).data();
}

void DeviceHeads::keep_within_budget() {
  std::size_t used = 0;
  for (auto head = heads_.begin(); head != heads_.end();) {
    used += (*head)->bytes;
    head = used > budget_ && head != heads_.begin() ? heads_.erase(head) : std::next(head);
  }
}

DeviceHead DeviceHeads::head(const Trace& trace, int layer, int head, const DeviceParts& parts) {
  const auto known = std::find_if(heads_.begin(), heads_.end(), [&](const auto& entry) {
    return entry->head.layer == layer && entry->head.head == head;
  });
  auto entry = std::make_shared<Entry>();
  if (known != heads_.end()) {
    entry = *known;
    heads_.erase(known);
  }
  DeviceHead& found = entry->head;
  found.layer = layer;
  found.head = head;
  if (parts.query_key && found.query == nullptr) {
    add_query_key(trace, *entry);
    found.tables = nullptr;
  }
  if (parts.gate && found.gate == nullptr) add_gate(trace, *entry);
  if (parts.gate && found.gate != nullptr && found.tables == nullptr) add_tables(trace, *entry);
  if (parts.normalizer && found.normalizer == nullptr) {
    found.normalizer = static_cast<const float*>(upload(std::as_bytes(trace.log_normalizer(layer, head)), *entry));
  }
  if (parts.without_gate && found.without_gate == nullptr) {
    const auto rows = trace.log_normalizer_without_gate(layer, head, [] { return std::vector<float>{}; });
    found.without_gate = static_cast<const float*>(upload(std::as_bytes(rows), *entry));
  }
  if (parts.mixing && found.mixing == nullptr) found.mixing = add_mixing(trace, false, *entry);
  if (parts.mean_decay && found.mean_decay == nullptr) found.mean_decay = add_mixing(trace, true, *entry);
  if (parts.row_sizes && found.row_sizes == nullptr) {
    const auto sizes = trace.row_sizes(layer, head, [] { return std::vector<float>{}; });
    found.row_sizes = static_cast<const float*>(upload(std::as_bytes(sizes), *entry));
  }
  heads_.push_front(entry);
  keep_within_budget();
  DeviceHead result = found;
  result.held = std::move(entry);
  return result;
}

}  // namespace foxscope
