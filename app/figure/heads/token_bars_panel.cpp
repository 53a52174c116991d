#include "app/figure/heads/token_bars_panel.h"

#include <algorithm>
#include <cmath>

#include "app/figure/page/axis_drawing.h"

namespace foxscope::figure {
namespace {

constexpr double kBarLine = 1.35;  ///< from bar to bar, font sizes
constexpr double kBarThickness = 0.8;
constexpr double kMostTokenWidth = 8;
constexpr double kErrorCap = 0.22;  ///< half the cap of an error
constexpr double kErrorStroke = 0.09;
constexpr int kMostAcrossTicks = 6;
constexpr double kChanceMark = 0.55;  ///< half its height
const QColor kLevelLine(232, 232, 232);
const QColor kUncertain(200, 200, 200);

QString besideOf(const TokenBar& bar) {
  if (!bar.chance) return QString::number(bar.count);
  return QStringLiteral("p %1").arg(QString::fromStdString(writtenNumber(bar.chance->p, 2)));
}

}  // namespace

TokenBarsPanel::TokenBarsPanel(const FigureFormat& format, Content content)
    : m_content(std::move(content)), m_style(textStyleOf(format)), m_tokenStyle(m_style.scaled(em::kSmallFont)) {
  m_tokenStyle.markup = Markup::none;
  for (const TokenBar& bar : m_content.bars) {
    m_upper = std::max(m_upper, bar.value + (std::isnan(bar.error) ? 0 : bar.error));
    if (bar.chance) m_upper = std::max(m_upper, bar.chance->value + bar.chance->spread);
  }
  m_upper = m_upper > 0 ? 1.05 * m_upper : 1;
}

QString TokenBarsPanel::shown(const QString& token) const {
  const double room = kMostTokenWidth * m_style.size;
  if (textWidth(token, m_tokenStyle) <= room) return token;
  for (qsizetype kept = token.size() - 1; kept > 0; --kept) {
    if (token[kept].isLowSurrogate()) continue;
    const QString part = token.left(kept) + QChar(0x2026);
    if (textWidth(part, m_tokenStyle) <= room) return part;
  }
  return QStringLiteral("\u2026");
}

Ticks TokenBarsPanel::ticks(double width) const {
  const auto place = [this](double value) { return position(value); };
  for (int most = kMostAcrossTicks;; --most) {
    Ticks ticks = linearTicks(0, m_upper, most, TickValues::any);
    if (most == 2 || labelsApart(ticks, place, width, m_style)) return ticks;
  }
}

Margins TokenBarsPanel::margins(const QSizeF& inner) const {
  const double font = m_style.size;
  Margins margins;
  double count = 0;
  for (const TokenBar& bar : m_content.bars) {
    margins.left = std::max(margins.left, textWidth(shown(bar.token), m_tokenStyle));
    count = std::max(count, textWidth(besideOf(bar), m_tokenStyle));
  }
  margins.left += 2 * em::kPad * font;
  margins.right = count + 2 * em::kPad * font;
  margins.bottom = (em::kDigitHeight + em::kTick + em::kPad) * font +
                   axisNameDepth(axisName(ownAcrossName(), ticks(inner.width()), inner.width(), m_style), m_style);
  margins.top = 0.4 * font;
  if (const std::string title = lettered(m_content.title); !title.empty()) {
    margins.top += (static_cast<double>(titleLinesOf(title, m_style, inner.width()).size()) * em::kLine + 0.1) * font;
  }
  return margins;
}

std::optional<double> TokenBarsPanel::heightFor(double /*width*/) const {
  return static_cast<double>(std::max<std::size_t>(1, m_content.bars.size())) * kBarLine * m_style.size;
}

void TokenBarsPanel::draw(Canvas& canvas, const QRectF& inner) const {
  const double font = m_style.size;
  const auto xOf = [&](double value) { return inner.left() + position(value) * inner.width(); };
  const Ticks across = ticks(inner.width());
  for (const Tick& tick : across.major) {
    canvas.line({xOf(tick.value), inner.top()}, {xOf(tick.value), inner.bottom()},
                QPen(kLevelLine, em::kStroke * font, Qt::SolidLine, Qt::FlatCap));
  }
  const double line = inner.height() / static_cast<double>(std::max<std::size_t>(1, m_content.bars.size()));
  const QColor own(m_content.colour.red, m_content.colour.green, m_content.colour.blue);
  double middle = inner.top() + line / 2;
  for (const TokenBar& bar : m_content.bars) {
    const double half = kBarThickness * line / kBarLine / 2;
    canvas.fill(QRectF(QPointF(xOf(0), middle - half), QPointF(xOf(bar.value), middle + half)),
                bar.certain ? own : kUncertain);
    if (!std::isnan(bar.error)) {
      const double from = std::max(0.0, bar.value - bar.error);
      const QPen pen(Qt::black, kErrorStroke * font, Qt::SolidLine, Qt::FlatCap);
      canvas.line({xOf(from), middle}, {xOf(bar.value + bar.error), middle}, pen);
      for (const double end : {from, bar.value + bar.error}) {
        canvas.line({xOf(end), middle - kErrorCap * font}, {xOf(end), middle + kErrorCap * font}, pen);
      }
    }
    if (bar.chance) {
      const QPen pen(Qt::black, 1.4 * kErrorStroke * font, Qt::SolidLine, Qt::FlatCap);
      const double x = xOf(bar.chance->value);
      canvas.line({x, middle - kChanceMark * font}, {x, middle + kChanceMark * font}, pen);
      canvas.line({xOf(std::max(0.0, bar.chance->value - bar.chance->spread)), middle},
                  {xOf(bar.chance->value + bar.chance->spread), middle}, pen);
    }
    const double baseline = middle + kHalfDigit * m_tokenStyle.size;
    canvas.text(shown(bar.token), {{inner.left() - em::kPad * font, baseline}, Align::right}, m_tokenStyle);
    canvas.text(besideOf(bar), {{inner.right() + em::kPad * font, baseline}}, m_tokenStyle);
    middle += line;
  }
  if (hasMark()) {
    canvas.line({xOf(*m_content.mark), inner.top()}, {xOf(*m_content.mark), inner.bottom()},
                QPen(Qt::black, kErrorStroke * font, Qt::DashLine, Qt::FlatCap));
  }
  canvas.frame(inner, em::kStroke * font, Qt::black);
  drawAxis(canvas, {AxisEdge::Side::bottom, inner, [this](double value) { return position(value); }}, across,
           ownAcrossName(), em::kDigitHeight * font, m_style);
  drawTitleAbove(canvas, inner, lettered(m_content.title), m_style);
}

void TokenBarsPanel::addNumbers(NumberTable& numbers) const {
  numbers.setQuantity(m_content.across);
  for (const TokenBar& bar : m_content.bars) {
    numbers.add({m_content.series, bar.token.toStdString(), std::to_string(bar.count), bar.value, bar.value - bar.error,
                 bar.value + bar.error});
  }
  for (const TokenBar& bar : m_content.bars) {
    if (!bar.chance) continue;
    const auto& [value, spread, p] = *bar.chance;
    numbers.add(
        {"by chance", bar.token.toStdString(), std::to_string(bar.count), value, value - spread, value + spread});
  }
  numbers.setQuantity("p");
  for (const TokenBar& bar : m_content.bars) {
    if (bar.chance) numbers.add({"by chance", bar.token.toStdString(), std::to_string(bar.count), bar.chance->p});
  }
}

}  // namespace foxscope::figure
