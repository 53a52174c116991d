#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <QString>

#include "backend/base/job.h"
#include "backend/trace/trace.h"

namespace foxscope::gui {

/// The quantity that tints the words of the text.
enum class TintKind {
  none,
  loss,            ///< of one run, by the position that predicts the word, nats
  lossDifference,  ///< of one run minus another's, likewise
  attentionRow,    ///< A(i, j) of one query i, by the position j that reads the word
  forgetRow,       ///< F(i, j), likewise
  ungatedRow,      ///< attention without the gate, likewise
  gate,            ///< 1 - f of one head, by the position that reads the word
  saliency,        ///< what raising that gate by 1 % changes, nats, likewise
  keyLogit,        ///< what 0.01 more in the logits of the word as a key changes, nats, likewise
  expert,          ///< the heaviest expert of a layer, as strong as its weight, by the position that reads the word
};
inline constexpr TintKind kTintKinds[] = {
    TintKind::none,         TintKind::loss,       TintKind::lossDifference, TintKind::gate,     TintKind::forgetRow,
    TintKind::attentionRow, TintKind::ungatedRow, TintKind::saliency,       TintKind::keyLogit, TintKind::expert};

/// The word for session files, and back; an unknown word is nothing.
QString toString(TintKind kind);
std::optional<TintKind> tintKindFromString(const QString& word);

/// A row of a map, of one query.
[[nodiscard]] bool isRow(TintKind kind);
/// Is about the gradient of a loss by a head's gates or logits (head_saliency.h).
[[nodiscard]] bool isOwed(TintKind kind);
/// Has values on both sides of zero.
[[nodiscard]] bool hasSigns(TintKind kind);
/// Belongs to one head, or to its layer: rows, the gate, saliency; experts.
[[nodiscard]] bool isOfHead(TintKind kind);

enum class TintScaling { linear, logarithmic };

/// Maps values to places on a colour ramp.
struct TintScale {
  double lower = 0;
  double upper = 1;
  TintScaling scaling = TintScaling::linear;
  bool diverging = false;   ///< zero in the middle
  bool clipsAbove = false;  ///< there are values beyond `upper` (or, diverging, beyond either end)
  bool clipsBelow = false;  ///< there are values below `lower`

  /// 0 at `lower`, 1 at `upper`, clamped; NaN stays NaN.
  [[nodiscard]] double position(double value) const;
};

/// The experts that have a colour of their own (ExpertColours), and how many positions each is the heaviest of.
struct TintedExperts {
  int layer = 0;
  std::vector<int> number;    ///< by hue
  std::vector<double> share;  ///< of positions
  double others = 0;          ///< the share of all others together
};

/// A value for every cell of the text.
struct Tint {
  TintKind kind = TintKind::none;
  std::vector<float> value;   ///< [L + 1], by cell of the reference run; NaN where there is none
  std::vector<int> hue = {};  ///< [L + 1] of experts: a hue of ExpertColours
  TintedExperts experts = {};
  TintScale scale;
  std::int64_t lastReadCell = -1;  ///< of a row: the query's own cell; what comes after, the query does not see
};

/// Lets the scale reach further, to the limit of other steps of a training.
/// @param upper  no effect if the scale reaches as far
void widen(Tint& tint, double upper);
/// Whether the scale depends on the values: gates and F have that from 0 to 1.
[[nodiscard]] bool hasOwnLimits(TintKind kind);

/// The input of a tint.
struct TintRequest {
  TintKind kind = TintKind::none;
  TintScaling scaling = TintScaling::linear;
  std::shared_ptr<const Trace> reference;  ///< whose cells are tinted
  std::shared_ptr<const Trace> run;        ///< whose values they are
  std::shared_ptr<const Trace> minus;      ///< lossDifference: whose loss is subtracted
  int layer = 0;
  int head = 0;
  std::int64_t query = 0;  ///< isRow(): a position of the reference run
};

/// The tokens of one run found by the cells of another on the same text: by number where the tokens are the same, else
/// by the first byte of the cell.
class TokenPlaces {
 public:
  TokenPlaces(const Trace& reference, const Trace& run);

  /// Whether both runs have the same tokens, so that a position of one is the same in the other.
  [[nodiscard]] bool identical() const { return m_identical; }
  /// The token of the run that a cell of the reference shows, 0 <= token < L of the run: position `token` predicts it,
  /// position `token + 1` reads it. Nothing for cell 0, and beyond the run's end.
  [[nodiscard]] std::optional<std::int64_t> tokenOfCell(std::int64_t cell) const;
  /// The position of the run that reads what a cell shows; nothing beyond the run's end.
  [[nodiscard]] std::optional<std::int64_t> readerOfCell(std::int64_t cell) const;

 private:
  const TokenTable* m_reference;
  const TokenTable* m_run;
  bool m_identical = false;
};

/// Computes a tint from exact values.
/// @returns nothing if the job was stopped
/// @throws Error for parts that the trace did not keep, with the remedy
std::optional<Tint> computeTint(const TintRequest& request, const Job& job);

}  // namespace foxscope::gui
