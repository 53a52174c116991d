#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "backend/model/weights/safetensors.h"
#include "backend/trace/recorder.h"
#include "tests/error_of.h"
#include "tests/map/dense.h"
#include "tests/map/linear_run.h"

namespace foxscope::test {
namespace {

MapRequest request_for(const HeadOf& head, Quantity quantity) {
  MapRequest request;
  request.head = head;
  request.quantity = quantity;
  request.reduction = default_reduction(quantity, false);
  request.rows = request.columns = {0, head.trace->info().length};
  request.pixel_rows = request.pixel_columns = request.rows.size();
  return request;
}

MapRequest exact_rows(const HeadOf& head, Quantity quantity, const Range& rows) {
  MapRequest request = request_for(head, quantity);
  request.rows = rows;
  request.pixel_rows = rows.size();
  return request;
}

/// |M_ij| / sum_j |M_ij|.
std::vector<double> shares(std::vector<double> entries, std::int64_t length) {
  for (std::size_t row = 0; row < entries.size(); row += static_cast<std::size_t>(length)) {
    double sum = 0;
    for (std::int64_t n = 0; n < length; ++n) {
      double& entry = entries[row + static_cast<std::size_t>(n)];
      entry = std::abs(entry);
      if (!std::isnan(entry)) sum += entry;
    }
    for (std::int64_t n = 0; n < length; ++n) entries[row + static_cast<std::size_t>(n)] /= sum;
  }
  return entries;
}

double difference(const MapRequest& request, const std::vector<double>& entries) {
  const auto image = compute_map(request, {});
  const std::int64_t length = request.head.trace->info().length;
  return largest_difference(*image, pool(entries, length, request), largest_size(entries));
}

TEST(Mixing, EntriesAreThoseOfTheRecurrence) {
  for (const LayerMixer& mixer : linear_mixers()) {
    for (const std::int64_t length : {1, 5, 64, 65, 200, 331}) {
      const auto run = make_linear_run({mixer, length});
      for (int head = 0; head < mixer.heads; ++head) {
        const HeadOf of{run, 0, head};
        const std::vector<double> dense = dense_mixing(of, {0, length});
        SCOPED_TRACE(fmt::format("{} {} {} {}", to_string(mixer.mixer), to_string(mixer.decay), length, head));
        EXPECT_LT(difference(request_for(of, Quantity::mixing), dense), 2e-6);
        EXPECT_LT(difference(request_for(of, Quantity::attention), shares(dense, length)), 2e-6);
      }
    }
  }
}

/// Any rectangle at any size is the reduction of the entries, whichever blocks its edges cut.
TEST(Mixing, PixelsAreReducedEntries) {
  constexpr std::int64_t kLength = 500;
  std::mt19937 random(3);
  for (const LayerMixer& mixer : linear_mixers()) {
    const auto run = make_linear_run({mixer, kLength});
    const HeadOf of{run, 0, mixer.heads - 1};
    const std::vector<double> dense = dense_mixing(of, {0, kLength});
    const std::vector<double> attention = shares(dense, kLength);
    for (int trial = 0; trial < 40; ++trial) {
      const auto at_most = [&](std::int64_t most) {
        return std::uniform_int_distribution<std::int64_t>(1, most)(random);
      };
      MapRequest request = request_for(of, trial % 2 == 0 ? Quantity::mixing : Quantity::attention);
      request.rows.begin = at_most(kLength) - 1;
      request.rows.end = request.rows.begin + at_most(kLength - request.rows.begin);
      request.columns.begin = at_most(kLength) - 1;
      request.columns.end = request.columns.begin + at_most(kLength - request.columns.begin);
      request.pixel_rows = at_most(request.rows.size());
      request.pixel_columns = at_most(request.columns.size());
      request.reduction = static_cast<Reduction>(trial / 2 % 4);
      SCOPED_TRACE(fmt::format("{} {} trial {}", to_string(mixer.mixer), to_string(mixer.decay), trial));
      EXPECT_LT(difference(request, trial % 2 == 0 ? dense : attention), 3e-6);
    }
  }
}

TEST(Mixing, LeavesOutTheFirstKey) {
  for (const LayerMixer& mixer : linear_mixers()) {
    const auto run = make_linear_run({mixer, 150});
    const HeadOf of{run, 0, 1};
    std::vector<double> entries = dense_mixing(of, {0, 150});
    for (std::int64_t row = 0; row < 150; ++row) {
      entries[index_of(row * 150)] = std::numeric_limits<double>::quiet_NaN();
    }
    MapRequest request = request_for(of, Quantity::attention);
    request.first_key = FirstKey::left_out;
    request.rows = {1, 150};
    request.pixel_rows = 30;
    request.pixel_columns = 50;
    EXPECT_LT(difference(request, shares(entries, 150)), 2e-6) << to_string(mixer.mixer);
  }
}

TEST(Mixing, OfSoftmaxAttentionIsAttention) {
  RunShape shape;
  shape.length = 200;
  const auto run = make_run(shape);
  MapRequest request = request_for({run, 0, 0}, Quantity::mixing);
  request.pixel_rows = request.pixel_columns = 77;
  const Image mixing = *compute_map(request, {});
  request.quantity = Quantity::attention;
  request.reduction = Reduction::max;
  const Image attention = *compute_map(request, {});
  for (std::size_t n = 0; n < mixing.value.size(); ++n) {
    if (std::isnan(attention.value[n])) continue;
    EXPECT_EQ(mixing.value[n], attention.value[n]);
  }
}

TEST(Mixing, DifferencesOfKindsAreEntryByEntry) {
  RunShape softmax;
  softmax.length = 260;
  softmax.window = 90;
  const auto attending = make_run(softmax);
  const std::vector<double> attention = DenseHead({attending, 0, 0}).entries(Quantity::attention);
  for (const LayerMixer& mixer : linear_mixers()) {
    const auto run = make_linear_run({mixer, 260});
    std::vector<double> entries = shares(dense_mixing({run, 0, 0}, {0, 260}), 260);
    for (std::size_t n = 0; n < entries.size(); ++n) entries[n] -= attention[n];
    MapRequest request = request_for({run, 0, 0}, Quantity::attention);
    request.minus = HeadOf{attending, 0, 0};
    // The second row's two differences are as large as each other: the larger of them is a matter of rounding.
    request.reduction = Reduction::max;
    request.pixel_rows = 61;
    request.pixel_columns = 40;
    EXPECT_LT(difference(request, entries), 5e-6) << to_string(mixer.mixer);
  }
}

std::vector<double> dense_forget(const HeadOf& head, std::optional<int> channel, bool logarithm) {
  const TraceInfo& info = head.trace->info();
  const int channels = info.mixer(0).head_dim;
  const ChannelSums all = head.trace->cumulative_log_decay(0, head.head);
  const std::span<const double> sums = all.values;
  std::vector<double> entries(static_cast<std::size_t>(info.length * info.length),
                              std::numeric_limits<double>::quiet_NaN());
  for (std::int64_t i = 0; i < info.length; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      double mean = 0;
      for (int n = 0; n < channels; ++n) {
        const double log_forget = sums[index_of(i * channels + n)] - sums[index_of(j * channels + n)];
        const double value = logarithm ? log_forget : std::exp(log_forget);
        if (!channel || *channel == n) mean += channel ? value : value / channels;
      }
      entries[index_of(i * info.length + j)] = mean;
    }
  }
  return entries;
}

void check_forget_of_channels(const LayerMixer& mixer) {
  const auto run = make_linear_run({mixer, 300});
  const HeadOf of{run, 0, 2};
  for (const Quantity quantity : {Quantity::forget, Quantity::log_forget}) {
    for (const std::optional<int> channel : {std::optional<int>(), std::optional(0), std::optional(23)}) {
      for (const Reduction reduction : {Reduction::max, Reduction::mean, Reduction::min, Reduction::absmax}) {
        MapRequest request = request_for(of, quantity);
        request.channel = channel;
        request.reduction = reduction;
        request.rows = {17, 290};
        request.pixel_rows = 50;
        request.pixel_columns = 37;
        EXPECT_LT(difference(request, dense_forget(of, channel, quantity == Quantity::log_forget)), 1e-6)
            << to_string(quantity) << " " << channel.value_or(-1) << " " << to_string(reduction);
      }
    }
  }
}

TEST(Mixing, ForgetOfChannelsIsTheirMeanOrOneOfThem) {
  for (const LayerMixer& mixer : {gla_mixer(), channel_delta_mixer(24), mamba_mixer(24)})
    check_forget_of_channels(mixer);
}

TEST(Mixing, ForgetOfAScalarDecayIsTheClosedForm) {
  const auto run = make_linear_run({gated_delta_mixer(), 300});
  const HeadOf of{run, 0, 3};
  const auto c = run->cumulative_log_gate(0, 3);
  std::vector<double> entries(300 * 300, std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; i < 300; ++i) {
    for (std::size_t j = 0; j <= i; ++j) entries[i * 300 + j] = std::exp(c[i] - c[j]);
  }
  MapRequest request = request_for(of, Quantity::forget);
  request.pixel_rows = request.pixel_columns = 45;
  EXPECT_LT(difference(request, entries), 1e-6);
}

/// Decays of hundreds of nats within a block are zeros, not infinities.
TEST(Mixing, StrongDecaysStayFinite) {
  for (const LayerMixer& mixer :
       {mamba2_mixer(), gla_mixer(), gated_delta_mixer(), channel_delta_mixer(), mamba_mixer()}) {
    const auto run = make_linear_run({mixer, 400, 5, 80.0});
    for (int head = 0; head < mixer.heads; ++head) {
      const HeadOf of{run, 0, head};
      const std::vector<double> dense = dense_mixing(of, {0, 400});
      EXPECT_LT(difference(request_for(of, Quantity::mixing), dense), 2e-6) << to_string(mixer.mixer) << head;
      MapRequest request = request_for(of, Quantity::attention);
      request.pixel_rows = request.pixel_columns = 40;
      EXPECT_LT(difference(request, shares(dense, 400)), 2e-6) << to_string(mixer.mixer) << head;
    }
  }
}

/// A query that is not a number spoils its own row and no other.
TEST(Mixing, NotANumberIsSeen) {
  for (const LayerMixer& mixer : linear_mixers()) {
    for (const Quantity quantity : {Quantity::mixing, Quantity::attention}) {
      LinearShape shape{mixer, 200};
      shape.nan_query = 100;
      const auto run = make_linear_run(shape);
      MapRequest request = request_for({run, 0, 0}, quantity);
      request.pixel_rows = 20;
      request.pixel_columns = 10;
      const Image image = *compute_map(request, {});
      EXPECT_TRUE(std::isnan(image.value[10 * 10 + 1])) << to_string(mixer.mixer);
      EXPECT_FALSE(std::isnan(image.value[9 * 10 + 1])) << to_string(mixer.mixer);
      EXPECT_FALSE(std::isnan(image.value[11 * 10 + 1])) << to_string(mixer.mixer);
    }
  }
}

TEST(Mixing, LongTextsAgreeWithTheRecurrence) {
  constexpr std::int64_t kLong = 24576;
  std::mt19937 random(11);
  for (const LayerMixer& mixer : linear_mixers()) {
    const auto run = make_linear_run({mixer, kLong, 2, 0.02});
    const HeadOf of{run, 0, 1};
    double largest = 0;
    std::vector<std::tuple<std::int64_t, std::int64_t, double>> found;
    for (const std::int64_t first : {kLong / 3, kLong / 2 + 7, kLong - 16}) {
      const Range rows{first, first + 16};
      const Image image = *compute_map(exact_rows(of, Quantity::mixing, rows), {});
      for (const float entry : image.value) {
        if (!std::isnan(entry)) largest = std::max(largest, static_cast<double>(std::abs(entry)));
      }
      for (int n = 0; n < 67; ++n) {
        const std::int64_t row = first + std::uniform_int_distribution<std::int64_t>(0, 15)(random);
        // As many near the diagonal as far from it.
        const double share = std::uniform_real_distribution<double>(0, 1)(random);
        const std::int64_t key = row - static_cast<std::int64_t>(std::pow(static_cast<double>(row), share));
        found.emplace_back(row, key, image.value[index_of((row - first) * kLong + key)]);
      }
    }
    for (const auto& [row, key, value] : found) {
      EXPECT_NEAR(value, mixing_entry(of, row, key), 1e-5 * largest) << to_string(mixer.mixer) << row << " " << key;
    }
  }
}

/// What the implementations of the mixers' authors return: M of the last 48 rows, from queries, keys, decays and beta.
class GoldenMaps : public testing::TestWithParam<std::pair<const char*, Mixer>> {};

std::vector<float> numbers_of(const TensorView& tensor) {
  std::vector<float> numbers(static_cast<std::size_t>(tensor.elements()));
  std::memcpy(numbers.data(), tensor.bytes.data(), tensor.bytes.size());
  return numbers;
}

TEST_P(GoldenMaps, Agree) {
  const auto& [folder, kind] = GetParam();
  const SafetensorsFile file(fmt::format("{}/{}/golden_maps.safetensors", FOXSCOPE_TEST_DATA, folder));
  for (int layer = 0; file.tensors().contains(fmt::format("layers.{}.q", layer)); ++layer) {
    const auto find = [&](const char* name) { return file.tensors().find(fmt::format("layers.{}.{}", layer, name)); };
    const TensorView& q = find("q")->second;
    const auto decay = find("log_decay");
    const auto beta = find("beta");
    const bool decays = decay != file.tensors().end();
    const auto heads = static_cast<int>(q.shape[0]);
    const std::int64_t length = q.shape[1];
    const auto dim = static_cast<int>(q.shape[2]);
    const bool by_channel = decays && decay->second.shape.size() == 3;
    TraceInfo info;
    info.length = length;
    const Decay how = by_channel ? Decay::channel : decays ? Decay::head : Decay::none;
    info.set_mixers({{kind, how, heads, heads, heads, heads, dim, dim}});
    auto store = std::make_shared<HostQueryKeyStore>(info, DType::float32, std::size_t{1} << 40U, "/tmp");
    Recorder recorder(info, {Keep::gates, Keep::query_key}, store);
    std::memcpy(store->layer(TraceArray::query, 0).data(), q.bytes.data(), q.bytes.size());
    std::memcpy(store->layer(TraceArray::key, 0).data(), find("k")->second.bytes.data(), q.bytes.size());
    if (beta != file.tensors().end()) std::ranges::copy(numbers_of(beta->second), recorder.beta(0).begin());
    if (decays) {
      const std::span<double> sums = by_channel ? recorder.cumulative_log_decay(0) : recorder.cumulative_log_gate(0);
      const std::vector<float> steps = numbers_of(decay->second);
      const auto width = static_cast<std::size_t>(by_channel ? dim : 1);
      for (std::size_t n = 0; n < sums.size(); ++n) {
        const bool first = n % (width * static_cast<std::size_t>(length)) < width;
        sums[n] = (first ? 0.0 : sums[n - width]) + static_cast<double>(steps[n]);
      }
    }
    const auto run = recorder.finish(nullptr, nullptr);
    const std::vector<float> mixing = numbers_of(find("mixing")->second);
    const std::int64_t rows = find("mixing")->second.shape[1];
    for (int head = 0; head < heads; ++head) {
      const auto size = static_cast<std::size_t>(rows * length);
      const auto golden = std::span(mixing).subspan(static_cast<std::size_t>(head) * size, size);
      const double largest = std::abs(*std::ranges::max_element(golden, {}, [](float x) { return std::abs(x); }));
      const Image image = *compute_map(exact_rows({run, 0, head}, Quantity::mixing, {length - rows, length}), {});
      for (std::int64_t n = 0; n < rows * length; ++n) {
        if (n % length > length - rows + n / length) continue;
        const auto at = static_cast<std::size_t>(n);
        ASSERT_NEAR(image.value[at], golden[at], 1e-5 * largest) << folder << " layer " << layer << " head " << head;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Mixers, GoldenMaps,
    testing::Values(std::pair("mamba2", Mixer::mamba2), std::pair("hgrn2", Mixer::gated_linear_attention),
                    std::pair("gla", Mixer::gated_linear_attention), std::pair("delta-net", Mixer::delta_rule),
                    std::pair("gated-deltanet", Mixer::delta_rule), std::pair("qwen3_5", Mixer::delta_rule)));

/// Of some channels of Mamba the last rows of M and of the mean over the states, by a dense program.
TEST(GoldenMamba, MapsAgree) {
  for (const char* const folder : {"samba", "samba-options", "mamba"}) {
    const SafetensorsFile file(fmt::format("{}/{}/golden_maps.safetensors", FOXSCOPE_TEST_DATA, folder));
    for (const int layer : {0, 2}) {
      if (!file.tensors().contains(fmt::format("layers.{}.q", layer))) continue;
      const auto find = [&](const char* name) -> const TensorView& {
        return file.tensors().at(fmt::format("layers.{}.{}", layer, name));
      };
      const auto copy = [](const TensorView& from, std::span<std::byte> to) {
        ASSERT_EQ(from.bytes.size(), to.size());
        std::memcpy(to.data(), from.bytes.data(), to.size());
      };
      const std::vector<float> steps = numbers_of(find("beta"));
      const std::vector<float> rates = numbers_of(find("rate"));
      const auto heads = static_cast<int>(find("beta").shape[0]);
      const std::int64_t length = find("beta").shape[1];
      const auto dim = static_cast<int>(find("rate").shape[1]);
      TraceInfo info;
      info.length = length;
      info.set_mixers({{Mixer::mamba, Decay::rates, heads, 1, 1, heads, dim, 1}});
      auto store = std::make_shared<HostQueryKeyStore>(info, DType::float32, std::size_t{1} << 40U, "/tmp");
      Recorder recorder(info, {Keep::gates, Keep::query_key}, store);
      copy(find("q"), store->layer(TraceArray::query, 0));
      copy(find("k"), store->layer(TraceArray::key, 0));
      std::ranges::copy(steps, recorder.beta(0).begin());
      for (std::size_t head = 0; head < static_cast<std::size_t>(heads); ++head) {
        const std::span<const float> own =
            std::span(rates).subspan(head * static_cast<std::size_t>(dim)).first(static_cast<std::size_t>(dim));
        const double mean = std::accumulate(own.begin(), own.end(), 0.0) / dim;
        for (std::size_t n = 0; n < own.size(); ++n) recorder.decay_rate(0)[head * own.size() + n] = own[n] / mean;
        double sum = 0;
        for (std::size_t t = head * static_cast<std::size_t>(length); t < (head + 1) * static_cast<std::size_t>(length);
             ++t) {
          recorder.cumulative_log_gate(0)[t] = sum -= mean * static_cast<double>(steps[t]);
        }
      }
      const auto run = recorder.finish(nullptr, nullptr);
      std::vector<std::int64_t> chosen(static_cast<std::size_t>(find("mixing_heads").shape[0]));
      copy(find("mixing_heads"), std::as_writable_bytes(std::span(chosen)));
      for (const auto& [name, quantity] :
           {std::pair("mixing", Quantity::mixing), std::pair("forget", Quantity::forget)}) {
        const std::vector<float> golden = numbers_of(find(name));
        const std::int64_t rows = find(name).shape[1];
        const std::size_t size = static_cast<std::size_t>(rows * length);
        for (std::size_t place = 0; place < chosen.size(); ++place) {
          const std::span<const float> wanted = std::span(golden).subspan(place * size, size);
          const double largest = std::abs(*std::ranges::max_element(wanted, {}, [](float x) { return std::abs(x); }));
          const HeadOf of{run, 0, static_cast<int>(chosen[place])};
          const Image image = *compute_map(exact_rows(of, quantity, {length - rows, length}), {});
          for (std::int64_t n = 0; n < rows * length; ++n) {
            if (n % length > length - rows + n / length) continue;
            const auto at = static_cast<std::size_t>(n);
            ASSERT_NEAR(image.value[at], wanted[at], 1e-5 * largest) << folder << " " << name << " " << of.head;
          }
        }
      }
    }
  }
}

TEST(Mixing, SaysWhatALayerDoesNotHave) {
  const auto message = [](const LayerMixer& mixer, Quantity quantity, std::optional<int> channel = {}) {
    MapRequest request = request_for({make_linear_run({mixer, 20}), 0, 0}, quantity);
    request.channel = channel;
    return error_of([&] { compute_map(request, {}); });
  };
  EXPECT_EQ(
      message(mamba2_mixer(), Quantity::gate_effect),
      "model 'linear', layer 0: gate_effect needs softmax attention, and Mamba-2 has no softmax: ask for mixing or "
      "attention");
  EXPECT_NE(message(gla_mixer(), Quantity::logits).find("logits needs softmax attention"), std::string::npos);
  EXPECT_NE(message(gla_mixer(), Quantity::attention_without_gate).find("no softmax"), std::string::npos);
  EXPECT_EQ(message(delta_mixer(), Quantity::forget),
            "model 'linear', layer 0: the delta rule forgets only what it overwrites: ask for mixing or "
            "attention");
  EXPECT_NE(message(gla_mixer(24), Quantity::forget, 24).find("has no channel 24: channels are 0 to 23"),
            std::string::npos);
  EXPECT_NE(message(mamba2_mixer(), Quantity::forget, 0).find("where each channel decays"), std::string::npos);
  EXPECT_NE(message(gla_mixer(), Quantity::mixing, 0).find("where each channel decays"), std::string::npos);
}

}  // namespace
}  // namespace foxscope::test
