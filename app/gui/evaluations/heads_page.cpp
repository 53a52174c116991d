#include "app/gui/evaluations/heads_page.h"

#include <algorithm>
#include <cmath>

#include <QComboBox>
#include <QVBoxLayout>

#include "app/figure/kinds/decay.h"
#include "app/gui/document/figure_export.h"
#include "app/gui/document/head_table.h"
#include "app/gui/evaluations/evaluation_export.h"
#include "app/gui/evaluations/grid_row.h"

namespace foxscope::gui::evaluations {
namespace {

/// The words of the heads' grid where it has the number too.
QString spelledOut(const std::string& name) {
  if (name == "rate_decay_time") return textOf(HeadQuantity::rateDecayTime).name;
  return QString::fromStdString(name).replace('_', ' ');
}

// Times spread over decades, shares do not.
figure::ScaledColours headColours(const std::vector<float>& all, bool times) {
  double lowest = 0;
  double highest = 0;
  double least = 0;
  for (const float value : all) {
    if (!std::isfinite(value)) continue;
    const auto number = static_cast<double>(value);
    lowest = std::min(lowest, number);
    highest = std::max(highest, number);
    if (number > 0) least = least == 0 ? number : std::min(least, number);
  }
  figure::ScaledColours colours;
  const bool logarithmic = times && least > 0 && highest > least;
  colours.map = &figure::viridis();
  colours.scale = logarithmic ? figure::ColourScale::logarithmic : figure::ColourScale::linear;
  colours.lower = logarithmic ? least : lowest;
  colours.upper = highest > colours.lower ? highest : colours.lower + 1;
  return colours;
}

}  // namespace

HeadsPage::HeadsPage(EvaluationList& evaluations, RunList& runs, FileWriter& files, QWidget* parent)
    : QWidget(parent),
      m_evaluations(evaluations),
      m_runs(runs),
      m_files(files),
      m_statistic(new QComboBox),
      m_row(new GridRow) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  m_statistic->setAccessibleName(tr("Statistic"));
  layout->addWidget(m_statistic, 0, Qt::AlignLeft);
  layout->addWidget(m_row, 1);
  connect(m_statistic, &QComboBox::currentIndexChanged, this, &HeadsPage::fill);
}

bool HeadsPage::isEmpty() const { return m_row->isEmpty(); }

void HeadsPage::follow() {
  const QVariant before = m_statistic->currentData();
  {
    const QSignalBlocker blocker(m_statistic);
    m_statistic->clear();
    for (const auto& evaluation : shownHeads(m_evaluations, m_runs)) {
      for (const EvaluatedHeads& model : evaluation->models) {
        for (const HeadArray& numbers : model.numbers) {
          const QString name = QString::fromStdString(numbers.name);
          if (m_statistic->findData(name) < 0) m_statistic->addItem(spelledOut(numbers.name), name);
        }
      }
    }
    const int wanted = m_statistic->findData(before.isValid() ? before : QVariant("rate_decay_time"));
    m_statistic->setCurrentIndex(std::max(0, wanted));
  }
  fill();
}

void HeadsPage::fill() {
  m_row->clear();
  const std::string name = m_statistic->currentData().toString().toStdString();
  std::vector<float> all;
  const auto evaluations = shownHeads(m_evaluations, m_runs);
  const auto each = [&](const auto& act) {
    for (const auto& evaluation : evaluations) {
      for (const EvaluatedHeads& model : evaluation->models) {
        if (const HeadArray* numbers = find_array(model.numbers, name)) act(model, *numbers);
      }
    }
  };
  each([&](const EvaluatedHeads&, const HeadArray& numbers) {
    for (const double value : numbers.value) all.push_back(static_cast<float>(value));
  });
  each([&](const EvaluatedHeads& model, const HeadArray& numbers) { add(model, numbers, all); });
}

void HeadsPage::add(const EvaluatedHeads& model, const HeadArray& numbers, const std::vector<float>& all) {
  const bool times = numbers.unit == "tokens";
  const QString unit = numbers.unit == "1" ? QString() : tr(", %1").arg(QString::fromStdString(numbers.unit));
  const QString name = QString::fromStdString(model.info.name);
  GridContent content;
  content.title = tr("%1: %2%3").arg(name, spelledOut(numbers.name), unit);
  const auto isInfinite = [](double value) { return std::isinf(value); };
  const bool ungated = !numbers.value.empty() && std::ranges::all_of(numbers.value, isInfinite);
  if (ungated) content.title = tr("%1: no gate, nothing decays").arg(name);
  content.rowTitle = tr("layer");
  content.columnTitle = tr("head");
  for (int layer = 0; layer < model.info.layers; ++layer) content.rows += QString::number(layer);
  for (int head = 0; head < model.info.heads; ++head) content.columns += QString::number(head);
  for (const double value : numbers.value) content.values.push_back(static_cast<float>(value));
  content.colours = headColours(all, times);
  const QString over = QString::fromStdString(model.windows ? groups_text(model.documents()) : std::string());
  content.reading = [name, unit, numbers, over, heads = model.info.heads](int row, int column) {
    const auto at = static_cast<std::size_t>(std::int64_t{row} * heads + column);
    QString text =
        tr("%1 L%2 H%3: %4 %5").arg(name).arg(row).arg(column).arg(spelledOut(numbers.name)).arg(numbers.value[at]);
    if (at >= numbers.error.size() || !std::isfinite(numbers.error[at])) return text + unit;
    return text + tr(" ± %1").arg(numbers.error[at], 0, 'g', 2) + unit + tr(", over %1").arg(over);
  };
  connect(&m_row->add(std::move(content)), &ValueGrid::told, this, &HeadsPage::told);
}

void HeadsPage::exportTo(const QString& path) {
  std::vector<EvaluatedHeads> models;
  std::vector<std::string> names;
  for (const auto& evaluation : shownHeads(m_evaluations, m_runs)) {
    models.insert(models.end(), evaluation->models.begin(), evaluation->models.end());
  }
  names.reserve(models.size());
  for (const EvaluatedHeads& model : models) names.push_back(model.info.name);
  const auto looks = looksOf(names, m_runs);
  exportFigure(m_files, path, [models, looks](figure::FigureStyle style) {
    style.looks = looks;
    return figure::drawDecay(models, style);
  });
}

}  // namespace foxscope::gui::evaluations
