// The size of atlases of large models over large corpora, with numbers such as a corpus leaves: readings by Zipf's law,
// log f that is lognormal, sums at full precision. The content of files is tested with h5py,
// tests/cli/test_eval_atlas.py.
#include "backend/eval/atlas/atlas_file.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "backend/eval/atlas/atlas_reader.h"
#include "backend/map/statistics/distance_bins.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

constexpr std::int64_t kVocabulary = 50'277;
constexpr std::int64_t kWindow = 2048;

/// Sums as a corpus leaves them.
class LargeAtlas {
 public:
  /// @param windows  whose tokens the file has
  LargeAtlas(int layers, int heads, double readings, std::int64_t windows)
      : readings_(readings), documents_(static_cast<std::int64_t>(std::max(10.0, readings / 1e5))) {
    TraceInfo info;
    info.name = "large";
    info.config = "{}";
    info.device = "cpu";
    info.layers = layers;
    info.heads = info.key_heads = heads;
    info.head_dim = 64;
    info.length = kWindow;
    const AtlasNumbers numbers(info, kDefaultRowsHere);
    AtlasShape shape{layers, heads, kVocabulary, 32, kDefaultRowsHere};
    shape.numbers = std::ssize(numbers.numbers);
    shape.profiles = std::ssize(numbers.profiles);
    shape.bins = std::ssize(distance_bins(kWindow));
    atlas_.models.push_back({info, windows_of(windows), 0, numbers, AtlasSums(shape), {}});
    atlas_.corpus.source = "books.jsonl";
    for (std::int32_t n = 0; n < windows; ++n) {
      atlas_.corpus.documents.push_back({"book " + std::to_string(n), std::string(64, 'a')});
    }
    fill();
  }

  [[nodiscard]] const Atlas& atlas() const { return atlas_; }

 private:
  static constexpr std::int64_t kDefaultRowsHere = 64;

  AtlasSums& sums() { return atlas_.models[0].sums; }
  double normal() { return normal_(random_); }
  std::int64_t below(double mean) {
    // Poisson, by its normal limit where it is large.
    if (mean > 100) return std::max<std::int64_t>(0, std::llround(mean + std::sqrt(mean) * normal()));
    return std::poisson_distribution<std::int64_t>(mean)(random_);
  }

  std::shared_ptr<const EvaluatedWindows> windows_of(std::int64_t count) {
    auto windows = std::make_shared<EvaluatedWindows>();
    windows->length = kWindow;
    for (std::int64_t n = 0; n < count; ++n) {
      windows->document.push_back(static_cast<std::int32_t>(n));
      windows->token_start.push_back(n * kWindow);
      windows->byte_start.push_back(4 * n * kWindow);
      windows->byte_end.push_back(4 * (n + 1) * kWindow);
      windows->tokens.push_back(kWindow);
    }
    windows->token_id.resize(index_of(count * kWindow), 17);
    return windows;
  }

  void put_exact(AtlasSum sum, std::size_t index, double value, double unit) {
    // Terms of some size leave a sum whose lower numbers are random.
    const double whole = std::round(value / unit) * unit;
    add_exactly(whole, sums().exact(sum, index));
    for (int n = 0; n < 4; ++n) {
      const double term = std::round(std::abs(value) * normal() * 1e-4 / unit) * unit;
      add_exactly(term, sums().exact(sum, index));
      add_exactly(std::round(term * 1e-7 / unit) * unit, sums().exact(sum, index));
    }
  }

  void fill() {
    const std::size_t heads = sums().shape().head_count();
    std::vector<double> share(kVocabulary), word(kVocabulary);
    double all = 0;
    for (std::size_t n = 0; n < share.size(); ++n) all += share[n] = 1.0 / static_cast<double>(n + 1);
    for (std::size_t n = 0; n < share.size(); ++n) {
      sums().at(AtlasSum::token_count)[n] = std::max<std::int64_t>(1, below(readings_ * share[n] / all));
      word[n] = 0.5 * normal();
    }
    // What log f is about: from a thousandth of a nat to three.
    for (std::size_t head = 0; head < heads; ++head) {
      const double base = std::pow(10, std::uniform_real_distribution<double>(-3, 0.5)(random_));
      fill_tokens(head, base, word);
      fill_classes(head, base);
      fill_places(head, base);
      put_exact(AtlasSum::log_gate, head, -base * readings_, 0x1p-60);
      put_exact(AtlasSum::mass, head, readings_ / 32, 0x1p-60);
    }
    for (std::size_t n = 0; n < heads * (heads + 1) / 2; ++n) {
      put_exact(AtlasSum::log_gate_product, n, readings_ * std::exp(normal()), 0x1p-80);
      put_exact(AtlasSum::mass_product, n, readings_ * std::exp(normal()) / 32, 0x1p-80);
    }
    sums().at(AtlasSum::mass_count)[0] = static_cast<std::int64_t>(readings_ / 32) * sums().shape().bins;
    for (std::size_t n = 0; n < kBoundaryClasses; ++n) {
      sums().at(AtlasSum::class_count)[n] = below(readings_ / 10);
      sums().at(AtlasSum::class_documents)[n] = documents_;
    }
    fill_numbers();
  }

  void fill_tokens(std::size_t head, double base, const std::vector<double>& word) {
    const std::size_t errors = sums().shape().error_tokens();
    for (std::size_t n = 0; n < word.size(); ++n) {
      const auto count = static_cast<double>(sums().at(AtlasSum::token_count)[n]);
      const double mean = std::min(100.0, base * std::exp(word[n] + 0.3 * normal()));
      const double sum = std::max(0.0, mean * (count + 1.2 * std::sqrt(count) * normal()));
      sums().row(AtlasSum::token_log_gate, head)[n] = -std::llround(sum / kTokenLogGateUnit);
      const double below_half = 0.5 * std::erfc((std::log(0.693 / mean) + 0.5) / std::sqrt(2.0));
      sums().row(AtlasSum::token_below_half, head)[n] =
          std::min(static_cast<std::int64_t>(count), below(count * below_half));
      const double received = std::exp(normal() - 0.5) * (count + 3 * std::sqrt(count) * normal());
      sums().row(AtlasSum::token_received, head)[n] = std::max<std::int64_t>(0, std::llround(received / kMassUnit));
      if (n >= errors) continue;
      const auto of_each = count / static_cast<double>(documents_);
      const double squares = (of_each * of_each + of_each) * static_cast<double>(documents_);
      sums().at(AtlasSum::token_documents)[n] = documents_;
      if (head == 0) put_exact(AtlasSum::token_count_square, n, squares, 1);
      const double unit = kTokenLogGateUnit;
      put_exact(AtlasSum::token_log_gate_square, head * errors + n, mean * mean * squares, unit * unit);
      put_exact(AtlasSum::token_log_gate_count, head * errors + n, -mean * squares, unit);
    }
  }

  void fill_classes(std::size_t head, double base) {
    for (std::size_t bin = 0; bin < kLogGateBins; ++bin) {
      const double apart = std::log(std::max(log_gate_bin(bin), 0x1p-25) / base);
      const double density = 0.0433 / 2.5 * std::exp(-0.5 * apart * apart);
      sums().row(AtlasSum::log_gate_histogram, head)[bin] = below(readings_ * density);
      for (std::size_t n = 0; n < kBoundaryClasses; ++n) {
        sums().row(AtlasSum::class_histogram, head)[n * kLogGateBins + bin] = below(readings_ / 10 * density);
      }
    }
    const double resets = readings_ * 0.1 * std::min(1.0, base);
    for (std::int64_t& gap : sums().row(AtlasSum::reset_gap, head).first(14)) gap = below(resets / 14);
    for (std::size_t n = 0; n < kBoundaryClasses; ++n) {
      const std::size_t at = head * kBoundaryClasses + n;
      sums().row(AtlasSum::class_log_gate, head)[n] = -std::llround(base * readings_ / 10 / kLogGateUnit);
      sums().row(AtlasSum::class_resets, head)[n] = below(resets / 10);
      const double squares = readings_ * readings_ / 100 / static_cast<double>(documents_);
      put_exact(AtlasSum::class_log_gate_square, at, base * base * squares, 0x1p-48);
      put_exact(AtlasSum::class_log_gate_count, at, -base * squares, 0x1p-24);
      put_exact(AtlasSum::class_resets_square, at, base * base * squares, 1);
      put_exact(AtlasSum::class_resets_count, at, base * squares, 1);
    }
    for (std::int64_t& shifted : sums().row(AtlasSum::class_shifted, head)) shifted = below(resets / 10);
  }

  void fill_places(std::size_t head, double base) {
    for (std::int64_t n = 0; n < 2 * sums().shape().passages; ++n) {
      AtlasPlace place{static_cast<float>(-base * std::exp(normal())),
                       n % 64,
                       1 + static_cast<std::int64_t>(random_() % 2000),
                       random_(),
                       {}};
      for (std::uint16_t& bits : place.log_gate)
        bits = surrounding_log_gate(static_cast<float>(-base * std::exp(normal())));
      for (std::size_t list = 0; list < kAtlasLists; ++list)
        sums().add_place(static_cast<AtlasList>(list), head, place);
    }
  }

  void fill_numbers() {
    const std::size_t numbers = sums().shape().entries() * sums().shape().head_count();
    for (std::int64_t size = 1; size <= 8; ++size) {
      DocumentClass one;
      one.documents.assign(numbers, documents_ / 8);
      for (std::size_t n = 0; n < numbers; ++n) {
        for (std::vector<std::int64_t>* const to : {&one.sum, &one.square}) {
          to->resize(3 * numbers);
          const auto exact = std::span(*to).subspan(3 * n).first<3>();
          for (int term = 0; term < 8; ++term) add_exactly(std::exp(normal()) * static_cast<double>(documents_), exact);
          add_exactly(std::exp(normal()) * 1e-10, exact);
        }
      }
      sums().add_class(size, one);
      sums().add_documents(size, documents_ / 8);
    }
    for (std::size_t n = 0; n < numbers; ++n) put_exact(AtlasSum::row_variance, n, readings_ * 1e-4, 0x1p-80);
  }

  double readings_;
  std::int64_t documents_;
  std::mt19937_64 random_{1};
  std::normal_distribution<double> normal_;
  Atlas atlas_;
};

/// Readings, and bytes that 576 heads may take, without the 7 MB of what does not grow with heads and of products of
/// pairs.
struct SizeCase {
  double readings;
  double bytes;
};
class AtlasFileSize : public testing::TestWithParam<SizeCase> {};

// 300 MB; sums of more readings have more digits.
TEST_P(AtlasFileSize, LeavesTenBytesForAHeadAndToken) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "atlas.h5";
  const auto size_of_atlas = [&](int layers) {
    const LargeAtlas large(layers, 8, GetParam().readings, 64);
    write_atlas_file(path, large.atlas(), {"foxscope eval atlas", "2026-01-01T00:00:00Z"}, Overwrite::force);
    return static_cast<double>(std::filesystem::file_size(path));
  };
  const double one = size_of_atlas(1);
  EXPECT_LE((size_of_atlas(3) - one) / 16 * 576, GetParam().bytes);
}

INSTANTIATE_TEST_SUITE_P(Readings, AtlasFileSize,
                         testing::Values(SizeCase{1e7, 255e6}, SizeCase{1e8, 277e6}, SizeCase{1e9, 287e6}));

}  // namespace
}  // namespace foxscope
