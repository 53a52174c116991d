#include "app/gui/heads/head_grid.h"

#include <algorithm>
#include <cmath>

#include <QEvent>
#include <QPainter>

#include "app/figure/heads/head_label_colour.h"
#include "app/gui/document/shown_choices.h"
#include "app/gui/views/theme.h"
#include "backend/trace/mixer_text.h"

namespace foxscope::gui {
namespace {

constexpr int kLargestCell = 44;
constexpr int kSmallestCell = 4;
constexpr int kLowestCell = 8;  // pixels: narrow cells are higher than wide, to be hit and to have their layer's number
constexpr int kFramedCell = 9;  // pixels from which the mark of a head is drawn inside its cell
constexpr int kNumberedCell = 26;  // pixels across from which a cell holds its number
constexpr double kSmallFont = 0.85;
constexpr int kStrip = 4;        // pixels across, the colour of a kind of layer
constexpr int kRing = 4;         // pixels to the left of a cell that the mark of the chosen head takes
constexpr double kFaded = 0.82;  ///< of the ground over heads without the label that is looked for

/// Two digits that count; of shares two decimals.
QString numberOf(HeadQuantity quantity, double value) {
  if (std::isnan(value) || isSaliency(quantity)) return {};
  if (std::isinf(value)) return QStringLiteral("∞");
  if (textOf(quantity).isShare) {
    if (value == 0) return QStringLiteral("0");
    return value < 0.005 ? QStringLiteral("<.01") : QString::number(value, 'f', 2);
  }
  if (value >= 1e6) return QString::number(value / 1e6, 'g', 2) + QLatin1Char('M');
  if (value >= 1e4) return QString::number(value / 1e3, 'f', 0) + QLatin1Char('k');
  if (value >= 1e3) return QString::number(value / 1e3, 'f', 1) + QLatin1Char('k');
  if (value >= 10) return QString::number(value, 'f', 0);
  if (value != 0 && value < 0.01) return QStringLiteral("<.01");
  return QString::number(value, 'f', value < 1 ? 2 : 1);
}

/// Black or white, whichever is read more easily on a colour (Rec. 709 weights).
QColor inkOn(const QColor& ground) {
  const double light = 0.2126 * ground.red() + 0.7152 * ground.green() + 0.0722 * ground.blue();
  return light > 128 ? Qt::black : Qt::white;
}

}  // namespace

HeadGrid::HeadGrid(RunList& runs, HeadTable& table, HeadPictures& pictures, QWidget* parent)
    : HeadCells(runs, parent), m_runs(runs), m_table(table), m_pictures(pictures), m_colours(m_colouring, {}) {
  setAccessibleName(tr("Heads"));
  connect(&m_table, &HeadTable::valuesChanged, this, &HeadGrid::recolour);
  connect(&m_pictures, &HeadPictures::changed, this, qOverload<>(&QWidget::update));
  connect(&m_runs, &RunList::runsChanged, this, &QWidget::updateGeometry);
  connect(&m_runs.selection(), &Selection::markedChanged, this, qOverload<>(&QWidget::update));
  // A number that has not come by then will not come.
  for (const JobRunner* runner : {&m_runs.jobs(), &m_runs.quickJobs()}) {
    connect(runner, &JobRunner::idle, this, [this] {
      if (!shownSteps(m_runs).of.isEmpty()) recolour();
    });
  }
}

void HeadGrid::setColouring(const HeadColouring& colouring) {
  const bool other = colouring.kind != m_colouring.kind || colouring.quantity != m_colouring.quantity;
  if (other) m_whole = {};
  m_colouring = colouring;
  recolour();
  updateGeometry();
}

void HeadGrid::setLabel(std::optional<HeadLabel> label) {
  if (label != m_label) m_whole = {};
  m_label = label;
  update();
}

bool HeadGrid::isFaded(const HeadChoice& head) const {
  if (!m_label) return false;
  const std::vector<HeadLabel> labels = m_table.labels(head);
  return std::find(labels.begin(), labels.end(), *m_label) == labels.end();
}

bool HeadGrid::hasNothingToShow(const HeadChoice& head) const {
  const Run* run = m_runs.run(head.run);
  return run != nullptr && m_colouring.kind == HeadColouring::Kind::quantity && isOfGate(m_colouring.quantity) &&
         !forgets(run->trace->info(), head.layer);
}

double HeadGrid::shownValue(const HeadChoice& head) const {
  switch (m_colouring.kind) {
    case HeadColouring::Kind::quantity:
      return m_table.value(head, m_colouring.quantity);
    case HeadColouring::Kind::difference:
      // One sign for all grids: a head of a run less its nearest one of the subtracted run, whose own heads are
      // subtracted from the first of the others.
      if (head.run == m_colouring.other) return -m_table.difference(head, m_colouring.of, m_colouring.quantity);
      return m_table.difference(head, m_colouring.other, m_colouring.quantity);
    case HeadColouring::Kind::forgetPicture:
    case HeadColouring::Kind::attentionPicture:
    case HeadColouring::Kind::label:
      break;
  }
  return std::nan("");
}

bool HeadGrid::isKnown(const HeadChoice& head) const {
  if (hasNothingToShow(head)) return true;
  if (const auto quantity = m_colouring.picture()) return m_pictures.of(head, *quantity) != nullptr;
  const HeadStatistics* known = m_table.statistics(head);
  if (known != nullptr && known->has_attention) return true;
  return m_colouring.kind != HeadColouring::Kind::label && !std::isnan(shownValue(head));
}

bool HeadGrid::isWhole() const {
  if (!m_runs.busy()) return true;
  bool whole = true;
  for (const Run& run : m_runs) {
    if (run.look.hidden) continue;
    forShownHeads(run, [&](const HeadChoice& head) { whole = whole && isKnown(head); });
  }
  return whole;
}

bool HeadGrid::isHeld() const {
  if (m_whole.isNull() || m_whole.deviceIndependentSize().toSize() != size()) return false;
  return m_wholeOf == shownSteps(m_runs).of && !isWhole();
}

void HeadGrid::recolour() {
  if (isHeld()) return;
  std::vector<double> values;
  for (const Run& run : m_runs) {
    if (run.look.hidden) continue;
    forShownHeads(run, [&](const HeadChoice& head) {
      if (!hasNothingToShow(head)) values.push_back(shownValue(head));
    });
  }
  m_steps.widen(
      shownSteps(m_runs),
      QStringLiteral("%1 %2").arg(static_cast<int>(m_colouring.kind)).arg(static_cast<int>(m_colouring.quantity)),
      values);
  m_colours = HeadColours(m_colouring, values, divergingColours(palette()));
  emit coloursChanged();
  update();
}

int HeadGrid::labelWidth() const { return fontMetrics().horizontalAdvance(QStringLiteral("000")) + 4; }

int HeadGrid::mostHeads() const {
  int most = 1;
  for (const Run& run : m_runs) {
    if (!run.look.hidden) most = std::max(most, most_shown_heads(run.trace->info()));
  }
  return most;
}

QSize HeadGrid::cellSize(int width) const {
  const int wide = std::clamp((width - labelWidth() - 2) / mostHeads(), kSmallestCell, kLargestCell);
  return {wide, std::max(wide, kLowestCell)};
}

std::vector<HeadGrid::Block> HeadGrid::layOut(int width) const {
  std::vector<Block> blocks;
  const QSize size = cellSize(width);
  const int line = fontMetrics().height();
  int top = 0;
  for (const Run& run : m_runs) {
    if (run.look.hidden) continue;
    const TraceInfo& info = run.trace->info();
    Block block{run.id,
                run.name,
                info.layers,
                most_shown_heads(info),
                {},
                figure::kindsOf(info),
                hasNothingToShow({run.id, 0, 0}) && !forgets(info),
                QRect(0, top, width, line + 4),
                {}};
    for (int layer = 0; layer < info.layers; ++layer) block.steps.push_back(shown_step(info.mixer(layer)));
    // The title, a line for each kind of layer and for the lack of gates, and the heads' numbers.
    top += line + 4 + line * (static_cast<int>(block.kinds.size()) + (block.ungated ? 1 : 0)) + line;
    block.corner = {labelWidth(), top};
    top += size.height() * info.layers + line / 2;
    blocks.push_back(block);
  }
  return blocks;
}

int HeadGrid::heightForWidth(int width) const {
  const auto blocks = layOut(width);
  if (blocks.empty()) return fontMetrics().height() * 4;
  return blocks.back().corner.y() + blocks.back().layers * cellSize(width).height() + 4;
}

QSize HeadGrid::sizeHint() const { return {240, heightForWidth(240)}; }

QSize HeadGrid::minimumSizeHint() const {
  return {labelWidth() + mostHeads() * kSmallestCell + 2, fontMetrics().height() * 4};
}

QRect HeadGrid::cell(const HeadChoice& head) const {
  const QSize size = cellSize(width());
  for (const Block& block : layOut(width())) {
    if (block.run != head.run || head.layer >= block.layers) continue;
    const int column = head.head / block.step(head.layer);
    if (column >= block.heads) continue;
    return {block.corner + QPoint(column * size.width(), head.layer * size.height()), size};
  }
  return {};
}

std::optional<HeadChoice> HeadGrid::headAt(const QPoint& place) const {
  const QSize size = cellSize(width());
  for (const Block& block : layOut(width())) {
    const QRect area(block.corner, QSize(block.heads * size.width(), block.layers * size.height()));
    if (!area.contains(place)) continue;
    const QPoint inside = place - block.corner;
    const int layer = inside.y() / size.height();
    const HeadChoice head{block.run, layer, inside.x() / size.width() * block.step(layer)};
    return m_runs.headOf(head) ? std::optional(head) : std::nullopt;
  }
  return std::nullopt;
}

// The strongest label's colour and letter.
void HeadGrid::paintLabel(QPainter& painter, const QRect& inner, const HeadChoice& head) const {
  const std::vector<HeadLabel> labels = m_table.labels(head);
  const HeadStatistics* known = m_table.statistics(head);
  if (labels.empty()) {
    QColor none = lineColour(palette());
    none.setAlphaF(0.25F);
    painter.fillRect(inner, none);
    painter.setPen(mutedTextColour(palette()));
    // Known to have none, or not known.
    if (known == nullptr || !known->has_attention) painter.drawPoint(inner.center());
    return;
  }
  // The label that is looked for, where it is not the strongest.
  const bool wanted = m_label && std::find(labels.begin(), labels.end(), *m_label) != labels.end();
  const HeadLabel label = wanted ? *m_label : labels.front();
  const figure::Rgb rgb = figure::labelColour(label);
  painter.fillRect(inner, QColor(rgb.red, rgb.green, rgb.blue));
  if (inner.height() < fontMetrics().height()) return;
  painter.setPen(figure::letterOn(rgb) == figure::Letter::white ? Qt::white : Qt::black);
  painter.drawText(inner, Qt::AlignCenter, QString(QLatin1Char(text_of(label).letter)));
}

void HeadGrid::paintCell(QPainter& painter, const QRect& cell, const HeadChoice& head) const {
  const QRect inner = cell.adjusted(0, 0, -1, -1);
  if (m_colouring.kind == HeadColouring::Kind::label) return paintLabel(painter, inner, head);
  if (const auto quantity = m_colouring.picture()) {
    painter.fillRect(inner, palette().color(QPalette::AlternateBase));
    if (const QImage* picture = m_pictures.of(head, *quantity)) painter.drawImage(inner, *picture);
    return;
  }
  if (hasNothingToShow(head)) {
    painter.fillRect(inner, palette().color(QPalette::Window));
    QColor hatch = mutedTextColour(palette());
    hatch.setAlphaF(0.4F);
    painter.fillRect(inner, QBrush(hatch, Qt::BDiagPattern));
    painter.setPen(lineColour(palette()));
    painter.setBrush(Qt::NoBrush);
    if (inner.width() >= kFramedCell) painter.drawRect(inner.adjusted(0, 0, -1, -1));
    return;
  }
  const double value = shownValue(head);
  if (std::isnan(value)) {
    painter.fillRect(inner, palette().color(QPalette::AlternateBase));
    painter.setPen(mutedTextColour(palette()));
    painter.drawPoint(inner.center());
    return;
  }
  const QColor colour = m_colours.colour(value);
  painter.fillRect(inner, colour);
}

QString HeadGrid::cellText(const HeadChoice& head) const {
  if (m_colouring.kind != HeadColouring::Kind::quantity || hasNothingToShow(head) || !fontOfNumbers()) return {};
  return numberOf(m_colouring.quantity, shownValue(head));
}

std::optional<QFont> HeadGrid::fontOfNumbers() const {
  const int room = cellSize(width()).width() - 3;
  if (m_colouring.kind != HeadColouring::Kind::quantity || room + 3 < kNumberedCell) return std::nullopt;
  // Numbers in some of the cells alone would look like a finding.
  QStringList texts;
  for (const Run& run : m_runs) {
    if (run.look.hidden) continue;
    forShownHeads(run, [&](const HeadChoice& head) {
      if (!hasNothingToShow(head)) texts += numberOf(m_colouring.quantity, shownValue(head));
    });
  }
  QFont small = font();
  small.setPointSizeF(small.pointSizeF() * kSmallFont);
  for (const QFont& one : {font(), small}) {
    const QFontMetrics metrics(one);
    if (std::ranges::all_of(texts, [&](const QString& text) { return metrics.horizontalAdvance(text) <= room; })) {
      return one;
    }
  }
  return std::nullopt;
}

// Names the mixer of each layer; where there are several kinds each has a colour, as a strip beside its layers.
void HeadGrid::paintKinds(QPainter& painter, const Block& block) const {
  const int line = fontMetrics().height();
  const int square = block.kinds.size() > 1 ? line / 2 : 0;
  int top = block.title.bottom() + 1;
  for (const figure::LayerKind& kind : block.kinds) {
    const QRect place(0, top, width(), line);
    if (square > 0) {
      painter.fillRect(QRect(place.left(), place.center().y() - square / 2, square, square),
                       QColor(kind.colour.red, kind.colour.green, kind.colour.blue));
    }
    const QRect words = place.adjusted(square > 0 ? square + 5 : 0, 0, 0, 0);
    painter.drawText(words, Qt::AlignLeft | Qt::AlignVCenter,
                     fontMetrics().elidedText(QString::fromStdString(kind.words), Qt::ElideRight, words.width()));
    top += line;
  }
  if (block.ungated) {
    painter.setPen(mutedTextColour(palette()));
    painter.drawText(QRect(0, top, width(), line), Qt::AlignLeft | Qt::AlignVCenter,
                     fontMetrics().elidedText(tr("no gate: nothing decays"), Qt::ElideRight, width()));
  }
  if (square == 0) return;
  const int size = cellSize(width()).height();
  const TraceInfo& info = m_runs.run(block.run)->trace->info();
  for (int layer = 0; layer < block.layers; ++layer) {
    const figure::Rgb colour = figure::kindColour(info, layer);
    painter.fillRect(QRect(block.corner.x() - kStrip - kRing, block.corner.y() + layer * size, kStrip, size - 1),
                     QColor(colour.red, colour.green, colour.blue));
  }
}

void HeadGrid::paintBlock(QPainter& painter, const Block& block) const {
  const QSize size = cellSize(width());
  QFont bold = font();
  bold.setBold(true);
  painter.setFont(bold);
  painter.setPen(palette().color(QPalette::WindowText));
  painter.drawText(block.title, Qt::AlignLeft | Qt::AlignVCenter,
                   QFontMetrics(bold).elidedText(block.name, Qt::ElideMiddle, block.title.width()));
  painter.setFont(font());
  painter.setPen(mutedTextColour(palette()));
  const int line = fontMetrics().height();
  // Where layers differ in it a column has a number of its own.
  const bool alike = std::ranges::all_of(block.steps, [&](int each) { return each == block.step(0); });
  const int step = alike ? block.step(0) : 1;
  const int wide = size.width();
  const int high = size.height();
  const int everyHead = std::max(1, (fontMetrics().horizontalAdvance("00") + 4 + wide - 1) / wide);
  for (int head = 0; head < block.heads; head += everyHead) {
    const QRect label(block.corner.x() + head * wide - line, block.corner.y() - line, wide + 2 * line, line);
    painter.drawText(label, Qt::AlignHCenter | Qt::AlignVCenter, QString::number(head * step));
  }
  paintKinds(painter, block);
  const int everyLayer = std::max(1, (line + high - 1) / high);
  const int strip = block.kinds.size() > 1 ? kStrip + 2 : 0;
  for (int layer = 0; layer < block.layers; ++layer) {
    if (layer % everyLayer == 0) {
      const int middle = block.corner.y() + layer * high + high / 2;
      const QRect label(0, middle - line / 2, block.corner.x() - 4 - strip, line);
      painter.drawText(label, Qt::AlignRight | Qt::AlignVCenter, QString::number(layer));
    }
    for (int column = 0; column < block.heads; ++column) {
      const int head = column * block.step(layer);
      if (!m_runs.headOf({block.run, layer, head})) break;  // a layer of fewer heads
      const QRect cell(block.corner + QPoint(column * wide, layer * high), size);
      paintCell(painter, cell, {block.run, layer, head});
      if (isFaded({block.run, layer, head})) {
        QColor ground = palette().color(QPalette::Window);
        ground.setAlphaF(static_cast<float>(kFaded));
        painter.fillRect(cell, ground);
      }
      painter.setPen(mutedTextColour(palette()));
    }
  }
}

void HeadGrid::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  const std::vector<Block> blocks = layOut(width());
  if (blocks.empty()) {
    painter.setPen(mutedTextColour(palette()));
    painter.drawText(rect(), Qt::AlignCenter | Qt::TextWordWrap,
                     m_runs.empty() ? tr("The heads of a run appear here")
                                    : tr("All runs are hidden: the eye in the list of runs shows them"));
    return;
  }
  if (!isHeld()) keepWhole(blocks);
  if (m_whole.isNull()) {
    paintCells(painter, blocks);
  } else {
    painter.drawPixmap(0, 0, m_whole);
  }
  paintMarks(painter);
}

void HeadGrid::keepWhole(const std::vector<Block>& blocks) {
  m_wholeOf = shownSteps(m_runs).of;
  m_whole = {};
  if (m_wholeOf.isEmpty() || !isWhole()) return;
  m_whole = QPixmap(size() * devicePixelRatioF());
  m_whole.setDevicePixelRatio(devicePixelRatioF());
  m_whole.fill(Qt::transparent);
  QPainter painter(&m_whole);
  painter.setFont(font());
  paintCells(painter, blocks);
}

void HeadGrid::paintCells(QPainter& painter, const std::vector<Block>& blocks) const {
  painter.setRenderHint(QPainter::SmoothPixmapTransform, false);
  for (const Block& block : blocks) paintBlock(painter, block);
  paintNumbers(painter, blocks);
}

void HeadGrid::paintNumbers(QPainter& painter, const std::vector<Block>& blocks) const {
  const auto used = fontOfNumbers();
  if (!used) return;
  painter.setFont(*used);
  for (const Block& block : blocks) {
    forShownHeads(*m_runs.run(block.run), [&](const HeadChoice& head) {
      if (hasNothingToShow(head) || isFaded(head)) return;
      const double value = shownValue(head);
      painter.setPen(inkOn(m_colours.colour(value)));
      painter.drawText(cell(head).adjusted(0, 0, -1, -1), Qt::AlignCenter, numberOf(m_colouring.quantity, value));
    });
  }
  painter.setFont(font());
}

// A cell of a few pixels is framed from outside, so that its colour is still seen.
void HeadGrid::paintMarks(QPainter& painter) const {
  const int outside = cellSize(width()).width() < kFramedCell ? 2 : 0;
  const auto outline = [&](const QRect& cell, const QColor& colour, int thickness) {
    if (cell.isEmpty()) return;
    painter.setPen(QPen(colour, thickness, Qt::SolidLine, Qt::SquareCap, Qt::MiterJoin));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(cell.adjusted(-outside, -outside, outside - 2, outside - 2));
  };
  for (const HeadChoice& head : m_runs.selection().marked()) outline(cell(head), pinnedKeyColour(palette()), 2);
  if (hovered()) outline(cell(*hovered()), hoverColour(palette()), 1);
  const QRect chosen = cell(m_runs.selection().head());
  if (outside == 0) outline(chosen.adjusted(-1, -1, 1, 1), palette().color(QPalette::Base), 4);
  outline(chosen, pinnedQueryColour(palette()), 2);
}

// The colours of differences belong to the ground.
void HeadGrid::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) {
    m_whole = {};
    recolour();
  }
  HeadCells::changeEvent(event);
}

QString HeadGrid::description(const HeadChoice& head) const {
  const Run* run = m_runs.run(head.run);
  if (run == nullptr) return {};
  QString text =
      QStringLiteral("<b>%1, %2</b><table>")
          .arg(run->name.toHtmlEscaped(), tr("layer %1, head %2: %3")
                                              .arg(head.layer)
                                              .arg(head.head)
                                              .arg(QString::fromStdString(mixer_text(run->trace->info(), head.layer))));
  for (int number = 0; number < kHeadQuantities; ++number) {
    const auto quantity = static_cast<HeadQuantity>(number);
    const double value = m_table.value(head, quantity);
    if (std::isnan(value)) continue;
    text += QStringLiteral("<tr><td>%1&nbsp;&nbsp;</td><td align='right'>%2</td></tr>")
                .arg(textOf(quantity).name.toHtmlEscaped(), valueText(quantity, value));
  }
  const bool gated = forgets(run->trace->info(), head.layer);
  if (const HeadStatistics* known = m_table.statistics(head); known != nullptr && gated) {
    text += QStringLiteral("<tr><td>%1&nbsp;&nbsp;</td><td align='right'>%2 … %3 … %4</td></tr>")
                .arg(tr("f: least, median, largest"))
                .arg(known->gate_quantile[0], 0, 'g', 3)
                .arg(known->gate_quantile[2], 0, 'g', 3)
                .arg(known->gate_quantile[4], 0, 'g', 3);
  }
  if (const HeadStatistics* known = m_table.statistics(head); known != nullptr && !known->channel_log_decay.empty()) {
    const std::vector<double> times = channel_decay_times(*known);
    text += QStringLiteral("<tr><td>%1&nbsp;&nbsp;</td><td align='right'>%2 … %3 … %4</td></tr>")
                .arg(tr("decay times of channels: least, median, largest"))
                .arg(valueText(HeadQuantity::rateDecayTime, times.front()),
                     valueText(HeadQuantity::rateDecayTime, times[times.size() / 2]),
                     valueText(HeadQuantity::rateDecayTime, times.back()));
  }
  if (const std::vector<HeadLabel> labels = m_table.labels(head); !labels.empty()) {
    text += QStringLiteral("<tr><td>%1&nbsp;&nbsp;</td><td align='right'>%2</td></tr>")
                .arg(tr("labels"), QString::fromStdString(names_of(labels, ", ")));
  }
  text += "</table>";
  for (const Run& other : m_runs) {
    if (other.id == head.run || other.look.hidden) continue;
    if (const auto nearest = m_table.nearestHead(head, other.id)) {
      text += tr("nearest in %1: layer %2, head %3<br>")
                  .arg(other.name.toHtmlEscaped())
                  .arg(nearest->layer)
                  .arg(nearest->head);
    }
  }
  return text;
}

// Up and down go on from one run's last layer to the next run's first.
std::optional<HeadChoice> HeadGrid::beside(const HeadChoice& from, Qt::Key arrow) const {
  HeadChoice head = from;
  const auto blocks = layOut(width());
  auto block = std::find_if(blocks.begin(), blocks.end(), [&](const Block& entry) { return entry.run == head.run; });
  if (block == blocks.end()) return std::nullopt;
  const int step = block->step(from.layer);
  int column = from.head / step + (arrow == Qt::Key_Right ? 1 : arrow == Qt::Key_Left ? -1 : 0);
  const int down = arrow == Qt::Key_Down ? 1 : arrow == Qt::Key_Up ? -1 : 0;
  int heads = 0;
  // A layer without heads is passed over.
  do {
    head.layer += down;
    if (head.layer >= block->layers) {
      if (block + 1 == blocks.end()) return from;
      ++block;
      head.layer = 0;
    } else if (head.layer < 0) {
      if (block == blocks.begin()) return from;
      --block;
      head.layer = block->layers - 1;
    }
    heads = shown_heads(m_runs.run(block->run)->trace->info().mixer(head.layer));
  } while (heads == 0 && down != 0);
  column = std::clamp(column, 0, std::max(0, heads - 1));
  return HeadChoice{block->run, head.layer, column * block->step(head.layer)};
}

}  // namespace foxscope::gui
