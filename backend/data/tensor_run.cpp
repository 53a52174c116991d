#include "backend/data/tensor_run.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/nearest_name.h"
#include "backend/base/sha256.h"
#include "backend/data/tensor_layers.h"
#include "backend/data/tensor_source.h"
#include "backend/file/run_sizes.h"
#include "backend/model/weights/safetensors.h"
#include "backend/text/json_reading.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

/// Bytes that are looked at between two looks at the stop token.
constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;

constexpr const char* kWindow = "window";
const std::vector<std::string> kLayerTensors = {"q",          "k",          "v",           "log_f", "log_decay", "beta",
                                                "decay_rate", "erase_read", "erase_write", "sink",  kWindow};
const std::vector<std::string> kRunTensors = {"ids", "labels", "loss", "scale", "logit_cap", "text"};

/// The axes of a layer's tensor behind its heads.
struct TensorAxes {
  bool positions = true;
  bool channels = true;
};

/// @param by_channel  of decays
TensorAxes axes_of(std::string_view name, bool by_channel) {
  if (name == "sink") return {false, false};
  if (name == "decay_rate") return {false, true};
  if (name == "log_decay") return {true, by_channel};
  return {true, name != "log_f" && name != "beta"};
}

/// "head 2, position 17" or "head 2, position 17, channel 3" of the n-th number of a head.
std::string place_text(const LayerTensor& tensor, std::int64_t head, std::int64_t n) {
  if (tensor.length == 1) return fmt::format("head {}{}", head, tensor.width > 0 ? fmt::format(", channel {}", n) : "");
  if (tensor.width == 0) return fmt::format("head {}, position {}", head, n);
  return fmt::format("head {}, position {}, channel {}", head, n / tensor.width, n % tensor.width);
}

/// The number N of "layers.N.q", and "q".
std::optional<std::pair<int, std::string>> layer_and_tensor(const std::string& name) {
  constexpr std::string_view kBefore = "layers.";
  if (!name.starts_with(kBefore)) return std::nullopt;
  const std::size_t dot = name.find('.', kBefore.size());
  if (dot == std::string::npos) return std::nullopt;
  int layer = -1;
  const auto [end, failed] = std::from_chars(name.data() + kBefore.size(), name.data() + dot, layer);
  if (failed != std::errc() || end != name.data() + dot || layer < 0) return std::nullopt;
  return std::pair(layer, name.substr(dot + 1));
}

class TensorRunReader {
 public:
  TensorRunReader(const std::filesystem::path& path, const TensorRunOptions& options, const Job& job)
      : options_(options), job_(job) {
    layers_->file = std::make_shared<const SafetensorsFile>(path);
    layers_->path = path.string();
  }

  std::shared_ptr<const Trace> read() {
    sort_tensors();
    read_metadata();
    const std::vector<std::int32_t> ids = read_ids("ids");
    if (ids.empty()) {
      fail("ids",
           found("ids") == nullptr ? "is missing: store the token that each position reads, [L] I64" : "is empty");
    }
    info_.name = options_.name;
    info_.length = std::ssize(ids);
    locate_layers();
    describe_mixers();
    read_scale();
    choose_dtype();
    std::vector<float> loss = read_loss();
    std::shared_ptr<const Text> text;
    const std::shared_ptr<const TokenTable> tokens = read_tokens(ids, text);
    if (!check_numbers()) return nullptr;
    QueryKeyStore::Parts parts{TraceArray::query, TraceArray::key};
    if (has_values_) parts.push_back(TraceArray::value);
    return std::make_shared<const Trace>(info_, text, tokens, tensor_source(layers_, info_, std::move(loss)),
                                         tensor_store(layers_, info_, std::move(parts)));
  }

 private:
  [[noreturn]] void fail(const std::string& tensor, const std::string& problem) const {
    layers_->fail(tensor, problem);
  }

  [[nodiscard]] const TensorView* found(const std::string& name) const {
    const auto view = layers_->file->tensors().find(name);
    return view == layers_->file->tensors().end() ? nullptr : &view->second;
  }

  /// A misspelt gate would be none, so that no name is passed over.
  void sort_tensors() {
    for (const auto& [name, view] : layers_->file->tensors()) {
      if (std::ranges::find(kRunTensors, name) != kRunTensors.end()) continue;
      const auto parsed = layer_and_tensor(name);
      if (!parsed) {
        throw Error(fmt::format("{}: {}: is not a tensor of a run: {}use {} and layers.N.{}, or leave it out",
                                layers_->path, in_quotes(name), did_you_mean(name, kRunTensors),
                                fmt::join(kRunTensors, ", "), fmt::join(kLayerTensors, ", layers.N.")));
      }
      const auto& [layer, tensor] = *parsed;
      if (std::ranges::find(kLayerTensors, tensor) == kLayerTensors.end()) {
        throw Error(fmt::format("{}: {}: is not a tensor of a layer: {}use {}, or leave it out", layers_->path,
                                in_quotes(name), did_you_mean(tensor, kLayerTensors), fmt::join(kLayerTensors, ", ")));
      }
      if (layer >= kMostLayers) fail(name, fmt::format("a run has {} layers at most", kMostLayers));
      if (std::ssize(layers_->layers) <= layer) layers_->layers.resize(index_of(layer) + 1);
      if (tensor == kWindow) {
        windows_[layer] = window_of_tensor(name, view);
      } else {
        layers_->layers[index_of(layer)][tensor] = {view, name};
      }
    }
    if (layers_->layers.empty()) {
      throw Error(fmt::format("{}: holds no layers: store the queries and keys of each as layers.N.q and layers.N.k",
                              layers_->path));
    }
  }

  /// Strings of the header's __metadata__, which SafetensorsFile has found sound.
  void read_metadata() {
    const std::span<const std::byte> bytes = layers_->file->bytes();
    const auto size = bits_at<std::uint64_t>(bytes.data());
    const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + sizeof(size), size);
    const nlohmann::json all = nlohmann::json::parse(header);
    const auto metadata = all.find("__metadata__");
    if (metadata == all.end() || !metadata->is_object()) return;
    for (const char* name : {"scale", "logit_cap", "text"}) {
      const auto value = metadata->find(name);
      if (value == metadata->end()) continue;
      if (!value->is_string()) fail(std::string("__metadata__: ") + name, "is not a string");
      if (found(name) != nullptr) fail(name, "is a tensor and metadata too: leave one of them out");
      metadata_[name] = value->get<std::string>();
    }
  }

  /// A list of L numbers may have a batch axis of one.
  [[nodiscard]] std::int64_t list_length(const std::string& name, const TensorView& view) const {
    const std::vector<std::int64_t>& shape = view.shape;
    if (shape.size() == 1) return shape[0];
    if (shape.size() == 2 && shape[0] == 1) return shape[1];
    fail(name, fmt::format("expected [L], found {}", shape_text(shape)));
  }

  [[nodiscard]] std::vector<std::int32_t> read_ids(const std::string& name) const {
    const TensorView* const view = found(name);
    if (view == nullptr) return {};
    if (view->dtype != TensorDType::i64 && view->dtype != TensorDType::i32) {
      fail(name, fmt::format("expected I64 or I32, found {}", to_string(view->dtype)));
    }
    std::vector<std::int32_t> ids(index_of(list_length(name, *view)));
    for (std::size_t n = 0; n < ids.size(); ++n) {
      const std::byte* const at = view->bytes.data() + n * size_of(view->dtype);
      const std::int64_t id =
          view->dtype == TensorDType::i64 ? bits_at<std::int64_t>(at) : std::int64_t{bits_at<std::int32_t>(at)};
      if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
        fail(name, fmt::format("is {} at position {}, which is no token", id, n));
      }
      ids[n] = static_cast<std::int32_t>(id);
    }
    return ids;
  }

  /// Keys that each query of a layer sees.
  [[nodiscard]] std::int64_t window_of_tensor(const std::string& name, const TensorView& view) const {
    const bool is_long = view.dtype == TensorDType::i64;
    if ((!is_long && view.dtype != TensorDType::i32) || view.elements() != 1) {
      fail(name,
           fmt::format("expected one number, I64 or I32, found {} {}", to_string(view.dtype), shape_text(view.shape)));
    }
    const std::int64_t window =
        is_long ? bits_at<std::int64_t>(view.bytes.data()) : std::int64_t{bits_at<std::int32_t>(view.bytes.data())};
    if (window < 0) fail(name, fmt::format("is {}, not 0 (all keys) or above", window));
    return window;
  }

  /// The axes of a layer's tensor that has none of positions: [H], or [H, d].
  void locate_parameter(LayerTensor& tensor, bool channels) const {
    const std::vector<std::int64_t>& shape = tensor.view.shape;
    if (!is_float(tensor.view.dtype) || shape.size() != (channels ? 2 : 1) || shape[0] < 1 || shape[0] > kMostHeads ||
        (channels && (shape[1] < 1 || shape[1] > kMostHeads))) {
      fail(tensor.name, fmt::format("expected floats, {}, found {} {}", channels ? "[H, d]" : "[H]",
                                    to_string(tensor.view.dtype), shape_text(shape)));
    }
    tensor.heads = shape[0];
    tensor.width = channels ? shape[1] : 0;
    tensor.head_stride = channels ? shape[1] : 1;
  }

  /// The axes of a layer's tensor.
  void locate(LayerTensor& tensor, bool channels, bool batch) const {
    const std::size_t axes = channels ? 3 : 2;
    const std::vector<std::int64_t>& shape = tensor.view.shape;
    const char* const expected = axes == 3 ? (options_.length_first ? "[{}, H, d]" : "[H, {}, d]")
                                           : (options_.length_first ? "[{}, H]" : "[H, {}]");
    const auto refuse = [&] {
      const bool turned =
          shape.size() == axes + (batch ? 1 : 0) && !options_.length_first && shape[batch ? 1 : 0] == info_.length;
      fail(tensor.name, fmt::format("expected {}{}, as ids have {} positions, found {}{}", batch ? "[1] and " : "",
                                    fmt::format(fmt::runtime(expected), info_.length), info_.length, shape_text(shape),
                                    turned ? ": where positions come first, say --length-first" : ""));
    };
    if (!is_float(tensor.view.dtype)) {
      fail(tensor.name, fmt::format("expected F64, F32, F16 or BF16, found {}", to_string(tensor.view.dtype)));
    }
    const std::size_t first = batch ? 1 : 0;
    if (shape.size() != axes + first || (batch && shape[0] != 1)) refuse();
    const std::int64_t length = shape[first + (options_.length_first ? 0 : 1)];
    tensor.heads = shape[first + (options_.length_first ? 1 : 0)];
    tensor.width = axes == 3 ? shape[first + 2] : 0;
    if (length != info_.length) refuse();
    if (tensor.heads < 1 || tensor.heads > kMostHeads || (axes == 3 && tensor.width < 1) || tensor.width > kMostHeads) {
      fail(tensor.name, fmt::format("has {} heads of {} channels, not from 1 to {}", tensor.heads,
                                    axes == 3 ? tensor.width : 1, kMostHeads));
    }
    const std::int64_t row = axes == 3 ? tensor.width : 1;
    tensor.length = length;
    tensor.head_stride = options_.length_first ? row : length * row;
    tensor.position_stride = options_.length_first ? tensor.heads * row : row;
  }

  void locate_layers() {
    for (int layer = 0; layer < std::ssize(layers_->layers); ++layer) {
      LayerTensors& tensors = layers_->layers[index_of(layer)];
      if (tensors.empty()) continue;
      for (const char* name : {"q", "k"}) {
        if (!tensors.contains(name)) {
          fail(fmt::format("layers.{}.{}", layer, name),
               fmt::format("is missing, and there is {}", tensors.begin()->second.name));
        }
      }
      // One sequence of a batch: the queries have four axes, and then all tensors of the layer have one more.
      const std::vector<std::int64_t>& shape = tensors.at("q").view.shape;
      const bool batch = shape.size() == 4;
      if (batch && shape[0] != 1) {
        fail(tensors.at("q").name,
             fmt::format("is a batch of {}, {}: store one of its sequences", shape[0], shape_text(shape)));
      }
      for (auto& [name, tensor] : tensors) {
        const TensorAxes axes = axes_of(name, tensor.view.shape.size() == 3 + (batch ? 1U : 0U));
        axes.positions ? locate(tensor, axes.channels, batch) : locate_parameter(tensor, axes.channels);
      }
    }
  }

  /// @throws Error for the number of heads or channels of a tensor that do not fit those before it
  void require_extent(const LayerTensor& tensor, std::int64_t has, std::int64_t needs, const char* what) const {
    if (has == needs) return;
    fail(tensor.name, fmt::format("expected {} {}, found {}", needs, what, has));
  }

  [[nodiscard]] LayerMixer mixer_of(int layer) const {
    LayerMixer mixer;
    mixer.mixer = Mixer::none;
    mixer.decay = Decay::none;
    if (layers_->layers[index_of(layer)].empty()) return mixer;
    const LayerTensor& q = *layers_->find(layer, "q");
    const LayerTensor& k = *layers_->find(layer, "k");
    const LayerTensor* const v = layers_->find(layer, "v");
    const LayerTensor* const gate = layers_->find(layer, "log_f");
    const LayerTensor* const decay = layers_->find(layer, "log_decay");
    const LayerTensor* const beta = layers_->find(layer, "beta");
    const LayerTensor* const rate = layers_->find(layer, "decay_rate");
    const LayerTensor* const read = layers_->find(layer, "erase_read");
    const LayerTensor* const write = layers_->find(layer, "erase_write");
    const LayerTensor* const sink = layers_->find(layer, "sink");
    require_extent(k, k.width, q.width, "channels, as queries have");
    const LayerTensor* const softmax = gate != nullptr ? gate : sink;
    for (const LayerTensor* other : {decay, beta, rate, read, write}) {
      if (softmax != nullptr && other != nullptr) {
        fail(other->name,
             fmt::format("stands beside {}, which is of softmax attention: leave one of them out", softmax->name));
      }
    }
    const bool linear = softmax == nullptr && (decay != nullptr || beta != nullptr || rate != nullptr ||
                                               read != nullptr || write != nullptr || options_.mixer);
    if (!linear) {
      mixer = attention_layer(static_cast<int>(q.heads), static_cast<int>(k.heads), static_cast<int>(q.width));
      mixer.sinks = sink != nullptr;
      if (sink != nullptr) require_extent(*sink, sink->heads, q.heads, "heads, as queries have");
      if (gate != nullptr) require_extent(*gate, gate->heads, q.heads, "heads, as queries have");
      if (v != nullptr) {
        require_extent(*v, v->heads, k.heads, "heads, as keys have");
        require_extent(*v, v->width, q.width, "channels, as queries have");
      }
    } else {
      const Mixer by_tensors = rate != nullptr                       ? Mixer::mamba
                               : read != nullptr || write != nullptr ? Mixer::diagonal_plus_low_rank
                               : beta != nullptr                     ? Mixer::delta_rule
                                                                     : Mixer::gated_linear_attention;
      mixer.mixer = options_.mixer.value_or(by_tensors);
      std::int64_t heads = std::max(q.heads, k.heads);
      for (const LayerTensor* other : {v, beta, decay != nullptr && decay->width == 0 ? decay : nullptr}) {
        if (other != nullptr) heads = std::max(heads, other->heads);
      }
      mixer.heads = static_cast<int>(heads);
      mixer.query_heads = static_cast<int>(q.heads);
      mixer.key_heads = static_cast<int>(k.heads);
      mixer.value_heads = static_cast<int>(v != nullptr ? v->heads : heads);
      mixer.head_dim = static_cast<int>(q.width);
      mixer.value_dim = static_cast<int>(v != nullptr ? v->width : q.width);
      mixer.decay = decay == nullptr ? Decay::none : decay->width == 0 ? Decay::head : Decay::channel;
      if (rate != nullptr) {
        if (decay == nullptr || decay->width > 0) {
          fail(rate->name, fmt::format("needs layers.{}.log_decay [H, L], which it is times for each channel", layer));
        }
        mixer.decay = Decay::rates;
        require_extent(*rate, rate->heads, heads, "heads");
        require_extent(*rate, rate->width, q.width, "channels, as queries have");
      }
      for (const LayerTensor* erasing : {read, write}) {
        if (mixer.keeps_erasing() != (erasing != nullptr)) {
          fail(fmt::format("layers.{}.{}", layer, read == nullptr ? "erase_read" : "erase_write"),
               fmt::format("{}, and the layer is {}", mixer.keeps_erasing() ? "is missing" : "is there",
                           to_string(mixer.mixer)));
        }
        if (erasing == nullptr) continue;
        require_extent(*erasing, erasing->heads, k.heads, "heads, as keys have");
        require_extent(*erasing, erasing->width, k.width, "channels, as keys have");
      }
      if (decay != nullptr && decay->width > 0) {
        require_extent(*decay, decay->heads, k.heads, "heads, as keys have");
        require_extent(*decay, decay->width, k.width, "channels, as keys have");
      } else if (decay != nullptr) {
        // The steps of a query head have one decay.
        const bool steps = mixer.mixer == Mixer::delta_product;
        require_extent(*decay, decay->heads, steps ? q.heads : heads, steps ? "heads, as queries have" : "heads");
      }
      if (mixer.kind().writes_beta != (beta != nullptr)) {
        fail(fmt::format("layers.{}.beta", layer),
             fmt::format("{}, and the layer is {}", beta == nullptr ? "is missing" : "is there",
                         to_string(mixer.mixer)));
      }
      if (beta != nullptr) require_extent(*beta, beta->heads, heads, "heads");
    }
    if (const std::string problem = mixer_problem(mixer); !problem.empty())
      fail(fmt::format("layers.{}", layer), problem);
    return mixer;
  }

  void describe_mixers() {
    std::vector<LayerMixer> mixers;
    std::optional<bool> values;
    for (int layer = 0; layer < std::ssize(layers_->layers); ++layer) {
      mixers.push_back(mixer_of(layer));
      if (!mixers.back().kind().mixes) continue;
      const bool has = layers_->find(layer, "v") != nullptr;
      if (values && *values != has) {
        fail(fmt::format("layers.{}.v", layer),
             fmt::format("{}, unlike in the layers before: store values of every layer or of none",
                         has ? "is there" : "is missing"));
      }
      values = has;
    }
    has_values_ = values.value_or(false);
    const bool alike = mixers.front().has_softmax() && !mixers.front().sinks &&
                       std::ranges::count(mixers, mixers.front()) == std::ssize(mixers);
    info_.set_mixers(mixers);
    if (alike) info_.mixers.clear();  // as runs of softmax attention alone have it
    info_.window_size = options_.window_size;
    for (const auto& [layer, window] : windows_) {
      if (!info_.mixer(layer).has_softmax()) {
        fail(fmt::format("layers.{}.{}", layer, kWindow), "is of a layer that is no softmax attention: leave it out");
      }
      info_.window_sizes.resize(index_of(info_.layers), options_.window_size);
      info_.window_sizes[index_of(layer)] = window;
    }
    // As runs have it whose layers are alike.
    const auto& sizes = info_.window_sizes;
    if (!sizes.empty() && std::ranges::count(sizes, sizes.front()) == std::ssize(sizes)) {
      info_.window_size = sizes.front();
      info_.window_sizes.clear();
    }
  }

  /// A number of the run, which stands in a tensor or in the metadata.
  [[nodiscard]] std::optional<double> read_number(const std::string& name) const {
    std::optional<double> number;
    if (const auto text = metadata_.find(name); text != metadata_.end()) {
      double value = 0;
      const char* const end = text->second.data() + text->second.size();
      const auto [stop, failed] = std::from_chars(text->second.data(), end, value);
      if (failed != std::errc() || stop != end) {
        fail("__metadata__: " + name, in_quotes(text->second) + " is no number");
      }
      number = value;
    } else if (const TensorView* const view = found(name)) {
      if (!is_float(view->dtype) || view->elements() != 1) {
        fail(name, fmt::format("expected one number, F64 or F32, found {} {}", to_string(view->dtype),
                               shape_text(view->shape)));
      }
      visit_floats(*view, 0, 1, [&](std::int64_t, double value) { number = value; });
    }
    if (number && (!std::isfinite(*number) || *number < 0)) fail(name, fmt::format("is {}, not 0 or above", *number));
    return number;
  }

  void read_scale() {
    const std::optional<double> scale = read_number("scale");
    info_.logit_cap = read_number("logit_cap").value_or(0);
    int head_dim = 0;
    for (int layer = 0; layer < info_.layers; ++layer) {
      const LayerMixer mixer = info_.mixer(layer);
      if (!mixer.has_softmax()) continue;
      if (!scale && head_dim > 0 && head_dim != mixer.head_dim) {
        fail("scale", fmt::format("is missing, and heads of attention have {} and {} channels: a run has one scale",
                                  head_dim, mixer.head_dim));
      }
      head_dim = mixer.head_dim;
    }
    info_.softmax_scale = scale ? static_cast<float>(*scale) : head_dim > 0 ? softmax_scale<float>(head_dim) : 0;
  }

  /// bfloat16 where all that lies in a store is; float32 holds the others but F64 exactly.
  void choose_dtype() {
    info_.dtype = DType::bfloat16;
    for (const LayerTensors& tensors : layers_->layers) {
      for (const auto& [name, tensor] : tensors) {
        const bool stored = name == "q" || name == "k" || name == "v";
        if (stored && tensor.view.dtype != TensorDType::bf16) info_.dtype = DType::float32;
      }
    }
  }

  [[nodiscard]] std::vector<float> read_loss() const {
    const TensorView* const view = found("loss");
    if (view == nullptr) return {};
    if (!is_float(view->dtype)) {
      fail("loss", fmt::format("expected F64, F32, F16 or BF16, found {}", to_string(view->dtype)));
    }
    const std::int64_t length = list_length("loss", *view);
    if (length != info_.length) {
      fail("loss",
           fmt::format("expected [{}], the loss in nats of what each position predicts, found [{}]{}", info_.length,
                       length, length == info_.length - 1 ? ": leave the last position out of all tensors" : ""));
    }
    std::vector<float> loss(index_of(length));
    visit_floats(*view, 0, length, [&](std::int64_t n, double value) {
      loss[index_of(n)] = static_cast<float>(value);
      if (!std::isfinite(loss[index_of(n)])) fail("loss", fmt::format("is not finite at position {}", n));
    });
    return loss;
  }

  [[nodiscard]] std::optional<std::string> read_text() const {
    if (const auto text = metadata_.find("text"); text != metadata_.end()) return text->second;
    const TensorView* const view = found("text");
    if (view == nullptr) return std::nullopt;
    if (view->dtype != TensorDType::u8 || view->shape.size() != 1) {
      fail("text", fmt::format("expected U8 [bytes], found {} {}", to_string(view->dtype), shape_text(view->shape)));
    }
    return std::string(reinterpret_cast<const char*>(view->bytes.data()), view->bytes.size());
  }

  std::shared_ptr<const TokenTable> read_tokens(const std::vector<std::int32_t>& ids,
                                                std::shared_ptr<const Text>& text) const {
    auto table = std::make_shared<TokenTable>();
    table->input_id = ids;
    table->id = read_ids("labels");
    if (found("labels") != nullptr && table->id.size() != ids.size()) {
      fail("labels", fmt::format("expected [{}], as many as ids, found [{}]", ids.size(), table->id.size()));
    }
    if (table->id.empty()) {
      table->id.assign(ids.begin() + 1, ids.end());
      table->id.push_back(kUnknownToken);
    }
    const std::optional<std::string> content = read_text();
    const std::string by_id = fmt::format("⟨{}⟩", ids.front());
    if (options_.tokenizer.empty()) {
      table->first_string = by_id;
      if (!content) return table;
      fail("text",
           "needs the tokenizer that made ids, to find them in it: name its folder with --tokenizer, or leave "
           "text out");
    }
    const Tokenizer tokenizer = Tokenizer::load(options_.tokenizer);
    const auto name = [&tokenizer](std::int32_t id) {
      const bool known = id >= 0 && id < tokenizer.vocabulary_size();
      return known ? replace_invalid_utf8(tokenizer.token_bytes(id)) : "";
    };
    if (tokenizer.bos_id() != ids.front()) {
      const std::string first = name(ids.front());
      table->first_string = first.empty() ? by_id : first;
    }
    if (content) {
      text = place_in_text(tokenizer, *content, *table);
    } else {
      std::ranges::transform(table->id, std::back_inserter(table->string), name);
    }
    return table;
  }

  /// Finds the tokens in their text. Position p reads token p - 1 of it behind BOS, or token p of it, and then the text
  /// of the run begins behind the first token, which no position predicts.
  std::shared_ptr<const Text> place_in_text(const Tokenizer& tokenizer, const std::string& content,
                                            TokenTable& table) const {
    const Tokens tokens = tokenizer.encode(content);
    const std::size_t length = table.input_id.size();
    const auto agree = [&](std::size_t skipped, std::size_t behind) {
      // Both read the same tokens where the first `skipped` ids and the first `behind` tokens are left out.
      std::size_t n = 0;
      while (skipped + n < length && behind + n < tokens.size() &&
             table.input_id[skipped + n] == tokens.id[behind + n]) {
        ++n;
      }
      return n;
    };
    const std::size_t behind_bos = agree(1, 0);
    const std::size_t from_first = agree(0, 0);
    const bool bos = behind_bos == length - 1;
    if (!bos && from_first != length) {
      const std::size_t at = std::max(behind_bos + 1, from_first);
      fail("text",
           fmt::format("the tokenizer cuts it into other tokens: ids have {} at position {}", table.input_id[at], at));
    }
    const std::size_t first = bos ? 0 : 1;
    std::size_t cut = first < tokens.size() ? index_of(tokens.byte_start[first]) : content.size();
    while (cut > 0 && cut < content.size() && (static_cast<unsigned char>(content[cut]) & 0xC0U) == 0x80U) --cut;
    if (bos) cut = 0;
    const std::string_view rest = std::string_view(content).substr(cut);
    for (std::size_t p = 0; p < length; ++p) {
      const bool known = first + p < tokens.size();
      const bool labelled = found("labels") != nullptr;
      if (known && labelled && table.id[p] != tokens.id[first + p]) {
        fail("labels",
             fmt::format("is {} at position {}, and the text goes on with {}", table.id[p], p, tokens.id[first + p]));
      }
      if (known) table.id[p] = tokens.id[first + p];
      const std::int64_t begin =
          known ? tokens.byte_start[first + p] - static_cast<std::int64_t>(cut) : std::ssize(rest);
      const std::int64_t end = known ? tokens.byte_end[first + p] - static_cast<std::int64_t>(cut) : std::ssize(rest);
      table.byte_start.push_back(std::max<std::int64_t>(0, begin));
      table.byte_end.push_back(end);
      table.string.push_back(replace_invalid_utf8(
          rest.substr(index_of(table.byte_start.back()), index_of(end - table.byte_start.back()))));
    }
    const Text whole{std::string(rest), ""};
    Text part = part_read(whole, table.byte_end.back());
    part.sha256 = sha256(part.content);
    return std::make_shared<const Text>(std::move(part));
  }

  /// Looks at every number once. @returns false if the job was stopped
  [[nodiscard]] bool check_numbers() const {
    std::int64_t total = 0;
    for (const LayerTensors& tensors : layers_->layers) {
      for (const auto& [name, tensor] : tensors) total += std::ssize(tensor.view.bytes);
    }
    std::int64_t done = 0;
    for (const LayerTensors& tensors : layers_->layers) {
      for (const auto& [name, tensor] : tensors) {
        const std::int64_t row =
            std::max<std::int64_t>(tensor.width, 1) * static_cast<std::int64_t>(size_of(tensor.view.dtype));
        const std::int64_t rows = std::max<std::int64_t>(1, kPieceBytes / row);
        for (std::int64_t head = 0; head < tensor.heads; ++head) {
          for (std::int64_t begin = 0; begin < tensor.length; begin += rows) {
            if (job_.stopped()) return false;
            job_.tell({done, total, "bytes", "reading tensors"});
            const std::int64_t end = std::min(begin + rows, tensor.length);
            check_rows(tensor, name, head, begin, end);
            done += (end - begin) * row;
          }
        }
      }
    }
    return !job_.stopped();
  }

  void check_rows(const LayerTensor& tensor, const std::string& name, std::int64_t head, std::int64_t begin,
                  std::int64_t end) const {
    const bool gates = name == "log_f" || name == "log_decay";
    const bool rates = name == "decay_rate";
    const std::int64_t before = begin * std::max<std::int64_t>(tensor.width, 1);
    tensor.visit(head, begin, end, [&](std::int64_t n, double number) {
      if (gates && number > 0) {
        fail(tensor.name,
             fmt::format("is {:.6g} at {}, and no logarithm of a gate is above 0: store log f, not f and not "
                         "the gate's logit",
                         number, place_text(tensor, head, before + n)));
      }
      if (rates && number < 0) {
        fail(tensor.name, fmt::format("is {:.6g} at {}, and with a rate below 0 a channel would grow", number,
                                      place_text(tensor, head, before + n)));
      }
      // A gate of 0 is one: its logarithm is taken as -1000.
      const bool closed = gates && number == -std::numeric_limits<double>::infinity();
      if (!closed && !std::isfinite(static_cast<float>(number))) {
        fail(tensor.name, fmt::format("is not finite at {}", place_text(tensor, head, before + n)));
      }
    });
  }

  static constexpr std::int32_t kUnknownToken = -1;

  const TensorRunOptions& options_;
  const Job& job_;
  std::shared_ptr<TensorLayers> layers_ = std::make_shared<TensorLayers>();
  std::map<std::string, std::string> metadata_;
  TraceInfo info_;
  std::map<int, std::int64_t> windows_;  ///< by layer, where a tensor says it
  bool has_values_ = false;
};

}  // namespace

std::shared_ptr<const Trace> read_tensor_run(const std::filesystem::path& path, const TensorRunOptions& options,
                                             const Job& job) {
  return TensorRunReader(path, options, job).read();
}

}  // namespace foxscope
