#include "app/gui/window/run_numbers.h"

#include <cmath>
#include <utility>
#include <vector>

#include <QLocale>
#include <QStringList>

#include "app/gui/document/number_text.h"
#include "backend/base/error.h"
#include "backend/eval/loss/loss_change.h"
#include "backend/model/spec/model_config.h"
#include "backend/model/spec/parameters.h"

namespace foxscope::gui {
namespace {

constexpr int kLossDecimals = 3;

/// The parameters that a configuration counts; 0 where it cannot be read, which is said elsewhere.
std::int64_t parametersOf(const TraceInfo& info) {
  if (info.config.empty()) return 0;
  try {
    std::int64_t count = 0;
    for (const Parameter& parameter : parameters(ModelConfig::from_json(info.config, info.name))) {
      count += parameter.elements();
    }
    return count;
  } catch (const Error&) {
    return 0;
  }
}

RunNumber numbersOf(const Trace& trace) {
  RunNumber number;
  number.tokens = trace.info().length;
  number.parameters = parametersOf(trace.info());
  const std::span<const float> losses = trace.per_token_loss();
  if (!losses.empty()) {
    // The mean of what is lost beyond nothing.
    const std::vector<float> nothing(losses.size(), 0.0F);
    number.loss = loss_change(losses, nothing, 0).mean;
  }
  return number;
}

}  // namespace

QString lossText(const Estimate& loss) {
  const QString value = QString::number(loss.value, 'f', kLossDecimals);
  const QString error = QString::number(loss.error, 'f', kLossDecimals);
  constexpr QChar kFigureSpace(0x2007);
  if (std::isnan(loss.error)) return value + QString(3, QChar(0x00a0)) + QString(kLossDecimals + 2, kFigureSpace);
  return QStringLiteral("%1 ± %2").arg(value, error);
}

RunNumbers::RunNumbers(RunList& runs, QObject* parent) : QObject(parent), m_runs(runs) {
  connect(&m_runs, &RunList::runsChanged, this, &RunNumbers::follow);
  follow();
}

const RunNumber* RunNumbers::of(RunId run) const {
  const auto found = m_numbers.find(run);
  return found == m_numbers.end() ? nullptr : &found->second;
}

QString RunNumbers::textOf(RunId run) const {
  const RunNumber* number = of(run);
  if (number == nullptr) return {};
  QStringList lines;
  if (number->loss) {
    QString loss = tr("mean loss %1 nats/token").arg(lossText(*number->loss).trimmed());
    if (number->best) loss += tr(", the lowest");
    lines += loss;
  }
  lines += tr("%1 tokens").arg(QLocale().toString(static_cast<qlonglong>(number->tokens)));
  if (number->parameters > 0) lines += tr("%1 parameters").arg(parametersText(number->parameters));
  if (number->seconds > 0) lines += tr("%1 s").arg(number->seconds, 0, 'f', 1);
  return lines.join('\n');
}

void RunNumbers::follow() {
  std::erase_if(m_numbers, [this](const auto& known) { return std::as_const(m_runs).run(known.first) == nullptr; });
  findBest();
  std::vector<Run> unknown;
  for (const Run& run : std::as_const(m_runs)) {
    if (of(run.id) == nullptr) unknown.push_back(run);
  }
  if (unknown.empty()) {
    emit changed();
    return;
  }
  using Numbers = std::vector<std::pair<RunId, RunNumber>>;
  JobRunner::Request<Numbers> request;
  request.work = [unknown](const Job& job) -> std::optional<Numbers> {
    Numbers numbers;
    for (const Run& run : unknown) {
      if (job.stopped()) return std::nullopt;
      numbers.emplace_back(run.id, numbersOf(*run.trace));
      numbers.back().second.seconds = run.forwardSeconds;
    }
    return numbers;
  };
  request.done = [this](const Numbers& numbers) {
    for (const auto& [id, number] : numbers) m_numbers[id] = number;
    findBest();
    emit changed();
  };
  request.failed = [](const QString& /*message*/) {};  // a file that cannot be read is told of by what shows it
  m_runs.quickJobs().submit(this, 0, std::move(request));
}

void RunNumbers::findBest() {
  for (auto& [id, number] : m_numbers) {
    const Run* own = std::as_const(m_runs).run(id);
    int others = 0;
    number.best = own != nullptr && number.loss.has_value();
    for (const auto& [otherId, other] : m_numbers) {
      const Run* run = std::as_const(m_runs).run(otherId);
      if (!number.best || otherId == id || run == nullptr || !other.loss) continue;
      if (run->text != own->text || other.tokens != number.tokens) continue;
      ++others;
      number.best = number.loss->value < other.loss->value;
    }
    number.best = number.best && others > 0;
  }
}

}  // namespace foxscope::gui
