#include "app/gui/window/help/question_answer.h"

#include <algorithm>
#include <cmath>

#include <QCoreApplication>
#include <QLocale>
#include <QStringList>

#include "app/figure/token_text.h"
#include "app/gui/views/estimate_text.h"
#include "backend/base/count_text.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

constexpr double kHeld = 0.01;  // from which a head is named
constexpr std::size_t kMostNamed = 4;
constexpr double kLeastNamed = 1e-6;

QString words(const char* text) { return QCoreApplication::translate("foxscope::gui::QuestionAnswer", text); }

QString count_text(std::int64_t count) { return QLocale(QLocale::English).toString(static_cast<qlonglong>(count)); }

QString headText(const HeadChoice& head) { return QStringLiteral("L%1 H%2").arg(head.layer).arg(head.head); }

/// "a", "a and b", "a, b and c"
QString listed(const QStringList& parts) {
  if (parts.size() < 2) return parts.join(QString());
  return parts.mid(0, parts.size() - 1).join(QStringLiteral(", ")) + words(" and ") + parts.back();
}

QString twoDigits(double value) { return QString::number(value, 'g', 2); }

/// A round number above: 0.00064 is less than 0.0007.
QString boundText(double value) {
  const double least = std::max(value, kLeastNamed);
  const double unit = std::pow(10.0, std::floor(std::log10(least)));
  const double bound = (std::floor(least / unit) + 1) * unit;
  return bound < 1e-4 ? words("a ten-thousandth") : QString::number(bound, 'g', 1);
}

QString octaveText(const LossOctave& octave) {
  return words("%1 ± %2 in positions %3 to %4")
      .arg(signedText(octave.difference.value, 3), QString::number(octave.difference.error, 'f', 3),
           count_text(octave.positions.begin), count_text(octave.positions.end - 1));
}

}  // namespace

QString heldAnswer(const QString& run, std::int64_t distance, std::vector<HeldShare> heads) {
  std::stable_sort(heads.begin(), heads.end(),
                   [](const HeldShare& a, const HeldShare& b) { return a.forget > b.forget; });
  QStringList names;
  QStringList values;
  std::size_t named = 0;
  for (; named < heads.size() && named < kMostNamed && heads[named].forget >= kHeld; ++named) {
    names += headText(heads[named].head);
    values += twoDigits(heads[named].forget);
  }
  if (names.empty()) {
    return words("After %1 tokens no head of %2 holds more than F = %3 of the title.")
        .arg(count_text(distance), run, twoDigits(heads.front().forget));
  }
  QString text = words(names.size() == 1 ? "After %1 tokens, %2 of %3 still holds F = %4 of the title"
                                         : "After %1 tokens, %2 of %3 still hold F = %4 of the title")
                     .arg(count_text(distance), listed(names), run, listed(values));
  if (named < heads.size()) text += words("; every other head less than %1").arg(boundText(heads[named].forget));
  return text + QLatin1Char('.');
}

QString forgottenAnswer(const Run& run, const HeadChoice& head, const HeadStatistics& statistics) {
  const double time = statistics.rate_decay_time;
  QString text = std::isinf(time) ? words("%1 of %2 never forgets.").arg(headText(head), run.name)
                                  : words("%1 of %2 keeps 1/e (37 %) of a token for %3 tokens, its decay time.")
                                        .arg(headText(head), run.name, QString::fromStdString(tokens_text(time)));
  if (statistics.strongest_events.empty()) return text;
  const ForgettingEvent& event = statistics.strongest_events.front();
  return text + words(
                    " Half of its gates let f = %1 or more through; it forgets most where it reads “%2” (position "
                    "%3): f = %4.")
                    .arg(QString::number(statistics.gate_quantile[2], 'f', 3),
                         figure::readText(*run.trace->tokens(), event.position, figure::Whitespace::visible),
                         count_text(event.position), twoDigits(event.forget_gate));
}

QString comparedAnswer(const QString& model, const QString& minus, const LossComparison& comparison) {
  const Estimate& mean = comparison.difference.mean;
  QString text = words("Over these %1 tokens, %2 − %3: %4 nats/token; %5.")
                     .arg(count_text(comparison.difference.tokens), model, minus, estimateText(mean), chanceText(mean));
  const LossOctave* largest = nullptr;
  for (const LossOctave& octave : comparison.octaves) {
    if (!beyond_chance(octave.difference)) continue;
    if (largest == nullptr || std::abs(octave.difference.value) > std::abs(largest->difference.value)) {
      largest = &octave;
    }
  }
  if (largest != nullptr) text += words(" Farthest apart: %1.").arg(octaveText(*largest));
  return text;
}

QString evaluatedAnswer(const LossEvaluation& evaluation) {
  if (evaluation.models.size() < 2) return {};
  const EvaluatedModel& model = evaluation.models[0];
  const EvaluatedModel& minus = evaluation.models[1];
  const std::int64_t length = std::min(model.losses.common_length(), minus.losses.common_length());
  constexpr std::int64_t kShortest = 16;
  if (length < kShortest || !same_tokens(model, minus)) return {};
  QStringList parts;
  for (const auto& [begin, end] :
       {std::pair{std::int64_t{0}, length / 4}, {length / 4, length / 2}, {length / 2, length}}) {
    std::vector<double> difference = window_means(model.losses, begin, end);
    const std::vector<double> subtracted = window_means(minus.losses, begin, end);
    for (std::size_t window = 0; window < difference.size(); ++window) difference[window] -= subtracted[window];
    const Estimate mean = clustered_mean(difference, model.documents());
    parts += words("%1 in positions %2 to %3").arg(estimateText(mean), count_text(begin), count_text(end - 1));
  }
  return words("On %1 windows of %2 tokens of other books (Evaluations), %3 − %4: %5.")
      .arg(count_text(model.losses.windows), count_text(length), QString::fromStdString(model.info.name),
           QString::fromStdString(minus.info.name), parts.join(QStringLiteral(", ")));
}

}  // namespace foxscope::gui
