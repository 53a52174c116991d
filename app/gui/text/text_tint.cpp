#include "app/gui/text/text_tint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "app/gui/document/places.h"
#include "app/gui/views/expert_colours.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/map/map.h"
#include "backend/map/statistics/expert_use.h"
#include "backend/map/statistics/head_saliency.h"
#include "backend/trace/run_origin.h"

namespace foxscope::gui {
namespace {

constexpr double kDecades = 4;        // a logarithmic scale shows
constexpr double kShownShare = 0.99;  // of losses within the scale; the rest has the last colour
constexpr float kAbsent = std::numeric_limits<float>::quiet_NaN();

constexpr std::array<std::pair<TintKind, const char*>, 10> kWords{{
    {TintKind::none, "none"},
    {TintKind::loss, "loss"},
    {TintKind::lossDifference, "loss_difference"},
    {TintKind::attentionRow, "attention"},
    {TintKind::forgetRow, "forget"},
    {TintKind::ungatedRow, "attention_without_gate"},
    {TintKind::gate, "gate"},
    {TintKind::saliency, "saliency"},
    {TintKind::keyLogit, "key_logit"},
    {TintKind::expert, "expert"},
}};

std::span<const float> lossOf(const Trace& trace) {
  if (trace.per_token_loss().empty()) {
    const TraceInfo& info = trace.info();
    throw Error(fmt::format("model '{}': losses were not kept: {}", info.name, losses_remedy(info)));
  }
  return trace.per_token_loss();
}

/// Loss of the token that each cell shows.
std::vector<float> lossByCell(const Trace& reference, const Trace& run) {
  const TokenPlaces places(reference, run);
  const std::span<const float> loss = lossOf(run);
  std::vector<float> value(index_of(reference.info().length + 1), kAbsent);
  for (std::int64_t cell = 1; cell < static_cast<std::int64_t>(value.size()); ++cell) {
    if (const auto token = places.tokenOfCell(cell)) value[index_of(cell)] = loss[index_of(*token)];
  }
  return value;
}

/// A value of each position of the run, taken to the cells that these positions read.
std::vector<float> readByCell(const TintRequest& request, std::span<const float> ofPosition) {
  const TokenPlaces places(*request.reference, *request.run);
  std::vector<float> value(index_of(request.reference->info().length + 1), kAbsent);
  for (std::int64_t cell = 0; cell < static_cast<std::int64_t>(value.size()); ++cell) {
    const auto position = places.readerOfCell(cell);
    if (position && index_of(*position) < ofPosition.size()) value[index_of(cell)] = ofPosition[index_of(*position)];
  }
  return value;
}

std::vector<float> gateLoss(const TintRequest& request) {
  const std::span<const double> c = request.run->cumulative_log_gate(request.layer, request.head);
  std::vector<float> value(c.size());
  for (std::size_t n = 0; n < c.size(); ++n) {
    const double logGate = n == 0 ? c[0] : c[n] - c[n - 1];
    value[n] = static_cast<float>(-std::expm1(logGate));
  }
  return value;
}

/// The change of the loss for one per cent of each gate, or for a nat in the logits of each key.
std::vector<float> changesBy(const TintRequest& request) {
  const std::span<const float> gradient = request.run->log_forget_gradient(request.layer, request.head);
  std::vector<float> value(gradient.begin(), gradient.end());
  if (request.kind == TintKind::keyLogit) value = key_logit_gradient(gradient);
  for (float& one : value) one = static_cast<float>(change_by_one_percent(static_cast<double>(one)));
  return value;
}

/// The weight of the heaviest expert where each cell is read, and which it is.
void takeExperts(const TintRequest& request, Tint& tint) {
  const std::optional<int> layer = expert_layer(*request.run, request.layer);
  if (!layer) {
    throw Error(fmt::format("model '{}': layer {} has no experts", request.run->info().name, request.layer));
  }
  tint.experts.layer = *layer;
  const std::vector<ReadExpert> heaviest = heaviest_experts(*request.run, *layer);
  std::map<int, std::int64_t> counted;
  for (const ReadExpert& each : heaviest) {
    if (each.expert >= 0) ++counted[each.expert];
  }
  tint.experts.number = ExpertColours::coloured(counted);
  const auto positions = static_cast<double>(heaviest.size());
  for (const int expert : tint.experts.number) {
    tint.experts.share.push_back(static_cast<double>(std::exchange(counted[expert], 0)) / positions);
  }
  for (const auto& [expert, count] : counted) tint.experts.others += static_cast<double>(count) / positions;
  std::vector<float> weight;
  std::vector<float> number;
  for (const ReadExpert& each : heaviest) {
    weight.push_back(each.expert < 0 ? kAbsent : static_cast<float>(each.weight));
    number.push_back(static_cast<float>(ExpertColours::hueOf(each.expert, tint.experts.number)));
  }
  tint.value = readByCell(request, weight);
  for (const float hue : readByCell(request, number)) {
    tint.hue.push_back(std::isnan(hue) ? ExpertColours::kHues : static_cast<int>(hue));
  }
}

/// exp(S_j) / sum exp(S_j) of one row, whose normaliser costs no more than the row itself.
void softmax(std::vector<float>& row) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const float logit : row) {
    if (!std::isnan(logit)) largest = std::max(largest, static_cast<double>(logit));
  }
  double sum = 0;
  for (const float logit : row) {
    if (!std::isnan(logit)) sum += std::exp(static_cast<double>(logit) - largest);
  }
  for (float& logit : row) logit = static_cast<float>(std::exp(static_cast<double>(logit) - largest) / sum);
}

std::optional<std::vector<float>> rowOf(const TintRequest& request, std::int64_t query, const Job& job) {
  MapRequest map;
  map.head = {request.run, request.layer, request.head};
  map.quantity = request.kind == TintKind::forgetRow      ? Quantity::forget
                 : request.kind == TintKind::attentionRow ? Quantity::attention
                                                          : Quantity::logits;
  map.rows = {query, query + 1};
  map.columns = {0, query + 1};
  map.pixel_rows = 1;
  map.pixel_columns = query + 1;
  std::optional<Image> image = compute_map(map, job);
  if (!image) return std::nullopt;
  if (request.kind == TintKind::ungatedRow) softmax(image->value);
  return std::move(image->value);
}

/// The size below which this share of the values lies.
double quantileOfSize(const std::vector<float>& values, double share) {
  std::vector<float> sizes;
  for (const float value : values) {
    if (std::isfinite(value)) sizes.push_back(std::abs(value));
  }
  if (sizes.empty()) return 0;
  const auto place = sizes.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(sizes.size() - 1));
  std::nth_element(sizes.begin(), place, sizes.end());
  return static_cast<double>(*place);
}

/// The end of a scale that is told, and with it the other end, and what lies beyond them.
void setUpper(TintScale& scale, double upper, const std::vector<float>& values) {
  scale.upper = upper;
  if (scale.diverging) scale.lower = -scale.upper;
  if (scale.scaling == TintScaling::logarithmic) scale.lower = scale.upper * std::pow(10, -kDecades);
  scale.clipsAbove = scale.clipsBelow = false;
  for (const float value : values) {
    const auto v = static_cast<double>(value);
    if (v > scale.upper) scale.clipsAbove = true;
    if (v < scale.lower) scale.clipsBelow = true;
  }
}

TintScale scaleFor(const TintRequest& request, const std::vector<float>& values) {
  TintScale scale;
  const bool hasExtremes = request.kind == TintKind::loss || hasSigns(request.kind);
  scale.diverging = hasSigns(request.kind);
  scale.scaling = scale.diverging ? TintScaling::linear : request.scaling;
  const double upper = hasOwnLimits(request.kind) ? quantileOfSize(values, hasExtremes ? kShownShare : 1) : 1;
  setUpper(scale, upper > 0 ? upper : 1, values);
  return scale;
}

}  // namespace

QString toString(TintKind kind) {
  for (const auto& [value, word] : kWords) {
    if (value == kind) return QString::fromLatin1(word);
  }
  return {};
}

std::optional<TintKind> tintKindFromString(const QString& wanted) {
  for (const auto& [value, word] : kWords) {
    if (wanted == QLatin1String(word)) return value;
  }
  return std::nullopt;
}

bool isRow(TintKind kind) {
  return kind == TintKind::attentionRow || kind == TintKind::forgetRow || kind == TintKind::ungatedRow;
}

bool isOwed(TintKind kind) { return kind == TintKind::saliency || kind == TintKind::keyLogit; }

bool hasSigns(TintKind kind) { return isOwed(kind) || kind == TintKind::lossDifference; }

bool isOfHead(TintKind kind) {
  return isRow(kind) || isOwed(kind) || kind == TintKind::gate || kind == TintKind::expert;
}

bool hasOwnLimits(TintKind kind) { return kind != TintKind::gate && kind != TintKind::forgetRow; }

void widen(Tint& tint, double upper) {
  if (upper > tint.scale.upper) setUpper(tint.scale, upper, tint.value);
}

double TintScale::position(double value) const {
  if (std::isnan(value)) return value;
  if (scaling == TintScaling::logarithmic) {
    if (value <= lower) return 0;
    return std::clamp(std::log(value / lower) / std::log(upper / lower), 0.0, 1.0);
  }
  return std::clamp((value - lower) / (upper - lower), 0.0, 1.0);
}

TokenPlaces::TokenPlaces(const Trace& reference, const Trace& run)
    : m_reference(reference.tokens().get()), m_run(run.tokens().get()) {
  m_identical = beginAlike(*m_reference, *m_run);
}

std::optional<std::int64_t> TokenPlaces::tokenOfCell(std::int64_t cell) const {
  if (cell < 1) return std::nullopt;
  const auto tokens = static_cast<std::int64_t>(m_run->id.size());
  const bool byNumber = m_identical || m_run->byte_start.empty() || m_reference->byte_start.empty();
  if (byNumber) return cell <= tokens ? std::optional(cell - 1) : std::nullopt;
  const std::int64_t byte = m_reference->byte_start[index_of(cell - 1)];
  const auto after = std::upper_bound(m_run->byte_start.begin(), m_run->byte_start.end(), byte);
  const std::int64_t token = after - m_run->byte_start.begin() - 1;
  if (token < 0 || m_run->byte_end[index_of(token)] <= byte) return std::nullopt;
  return token;
}

std::optional<std::int64_t> TokenPlaces::readerOfCell(std::int64_t cell) const {
  if (cell == 0) return 0;
  const auto token = tokenOfCell(cell);
  if (!token || *token + 1 >= static_cast<std::int64_t>(m_run->id.size())) return std::nullopt;
  return *token + 1;
}

std::optional<Tint> computeTint(const TintRequest& request, const Job& job) {
  Tint tint;
  tint.kind = request.kind;
  if (request.kind == TintKind::none) {
    tint.value.assign(index_of(request.reference->info().length + 1), kAbsent);
  } else if (request.kind == TintKind::loss) {
    tint.value = lossByCell(*request.reference, *request.run);
  } else if (request.kind == TintKind::lossDifference) {
    tint.value = lossByCell(*request.reference, *request.run);
    const std::vector<float> other = lossByCell(*request.reference, *request.minus);
    for (std::size_t n = 0; n < other.size(); ++n) tint.value[n] -= other[n];
  } else if (request.kind == TintKind::gate) {
    tint.value = readByCell(request, gateLoss(request));
  } else if (request.kind == TintKind::expert) {
    takeExperts(request, tint);
  } else if (isOwed(request.kind)) {
    tint.value = readByCell(request, changesBy(request));
  } else {
    const auto query = TokenPlaces(*request.reference, *request.run).readerOfCell(request.query);
    if (!query) {
      throw Error(
          fmt::format("model '{}' did not read as far as position {}", request.run->info().name, request.query));
    }
    const auto values = rowOf(request, *query, job);
    if (!values) return std::nullopt;
    tint.value = readByCell(request, *values);
    tint.lastReadCell = request.query;
  }
  tint.scale = scaleFor(request, tint.value);
  return tint;
}

}  // namespace foxscope::gui
