#include "backend/eval/loss/loss_file.h"

#include <cmath>
#include <numbers>
#include <set>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {
namespace {

/// Sum of the losses of each window.
std::vector<double> window_nats(const LossTable& losses) {
  std::vector<double> nats;
  nats.reserve(static_cast<std::size_t>(losses.windows));
  for (std::int64_t window = 0; window < losses.windows; ++window) {
    double sum = 0;
    const auto row = losses.row(window);
    for (std::int64_t p = 0; p < losses.tokens[static_cast<std::size_t>(window)]; ++p) {
      sum += static_cast<double>(row[static_cast<std::size_t>(p)]);
    }
    nats.push_back(sum);
  }
  return nats;
}

std::vector<double> as_reals(const std::vector<std::int64_t>& values) { return {values.begin(), values.end()}; }

/// Bytes of each window; empty without a corpus.
std::vector<double> window_bytes(const EvaluatedWindows& windows) {
  std::vector<double> bytes;
  for (std::size_t n = 0; n < windows.byte_start.size(); ++n) {
    bytes.push_back(static_cast<double>(windows.byte_end[n] - windows.byte_start[n]));
  }
  return bytes;
}

Estimate in_bits(const Estimate& nats) {
  return {nats.value / std::numbers::ln2, nats.error / std::numbers::ln2, nats.over};
}

}  // namespace

Estimate EvaluatedModel::nats_per_token() const {
  return clustered_ratio(window_nats(losses), as_reals(losses.tokens), documents());
}

std::optional<Estimate> EvaluatedModel::bits_per_byte() const {
  const std::vector<double> bytes = window_bytes(*windows);
  if (bytes.empty()) return std::nullopt;
  return in_bits(clustered_ratio(window_nats(losses), bytes, documents()));
}

Estimate EvaluatedModel::perplexity() const {
  const Estimate nats = nats_per_token();
  const double value = std::exp(nats.value);
  return {value, value * nats.error, nats.over};
}

std::int64_t EvaluatedModel::document_count() const {
  return static_cast<std::int64_t>(std::set(windows->document.begin(), windows->document.end()).size());
}

bool same_tokens(const EvaluatedModel& model, const EvaluatedModel& minus) {
  return model.windows == minus.windows || *model.windows == *minus.windows;
}

LossDifference loss_difference(const EvaluatedModel& model, const EvaluatedModel& minus) {
  if (model.windows->document != minus.windows->document || model.averaged != minus.averaged) {
    throw UsageError(fmt::format("{} and {} were not evaluated on the same windows: there is no difference of theirs",
                                 model.info.name, minus.info.name));
  }
  const std::vector<double> nats = window_nats(model.losses);
  const std::vector<double> other_nats = window_nats(minus.losses);
  LossDifference difference;
  if (same_tokens(model, minus)) {
    const std::vector<double> tokens = as_reals(model.losses.tokens);
    difference.nats_per_token = clustered_ratio_difference({nats, tokens}, {other_nats, tokens}, model.documents());
  }
  const std::vector<double> bytes = window_bytes(*model.windows);
  const std::vector<double> other_bytes = window_bytes(*minus.windows);
  if (!bytes.empty() && !other_bytes.empty()) {
    difference.bits_per_byte =
        in_bits(clustered_ratio_difference({nats, bytes}, {other_nats, other_bytes}, model.documents()));
  }
  return difference;
}

}  // namespace foxscope
