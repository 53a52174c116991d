#include "app/figure/figure_parts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "app/figure/figure_words.h"
#include "app/figure/page/axis_drawing.h"
#include "app/figure/page/canvas.h"
#include "app/figure/page/number_table.h"
#include "app/figure/page/page.h"
#include "app/figure/page/panel_page.h"
#include "backend/base/index.h"

namespace foxscope::figure {
namespace {

constexpr double kBetweenParts = 0.8;  ///< font sizes

/// A part with its place on the page.
struct PlacedPart {
  PagePart part;
  QPointF corner;
};

/// A page of parts before it is painted.
class PartsPage {
 public:
  PartsPage(const FigureStyle& style, bool letters) : m_style(style), m_letters(letters) {
    requireValid(style.format);
    requireFont(style.format);
    m_width = widthInPoints(style.format);
    const double border = em::kBorder * m_font;
    if (!style.title.empty()) m_title = wrapped(style.title, titleStyle(), m_width - 2 * border);
    if (!m_title.empty()) m_y = border + static_cast<double>(m_title.size()) * em::kLine * titleStyle().size;
  }

  /// Draws a row below the last. @returns false if the job was stopped
  bool addRow(const std::vector<PartRequest>& row, const Job& job) {
    double shares = 0;
    for (const PartRequest& part : row) shares += part.share;
    const double room = m_width - kBetweenParts * m_font * static_cast<double>(row.size() - 1);
    const double top = m_letters ? m_y + em::kLine * m_font : m_y;
    double left = 0;
    double height = 0;
    for (const PartRequest& request : row) {
      const double width = onDot(room * request.share / shares);
      PlacedPart& placed = m_parts.emplace_back();
      placed.corner = {onDot(left), onDot(top)};
      if (m_letters) placed.part.letter = fmt::format("({})", static_cast<char>('a' + m_parts.size() - 1));
      if (!addPart(request, width, placed.part, job)) return false;
      left += width + kBetweenParts * m_font;
      height = std::max(height, placed.part.size.height());
    }
    m_y = top + height;
    return true;
  }

  [[nodiscard]] DrawnFigure draw() {
    DrawnFigure drawn;
    drawn.notes = std::move(m_notes);
    if (m_style.format.kind == FigureFormat::Kind::csv) {
      drawn.file = m_numbers.csv();
      return drawn;
    }
    if (m_style.height != nullptr) *m_style.height = std::ceil(m_y);
    drawn.file = paintPage(m_style.format, {m_width, std::ceil(m_y)}, origin(), [this](Canvas& canvas) {
      double baseline = em::kBorder * m_font + 0.95 * titleStyle().size;
      for (const QString& line : m_title) {
        canvas.text(line, {{m_width / 2, baseline}, Align::centre},
                    fitted(titleStyle(), line, m_width - 2 * em::kBorder * m_font));
        baseline += em::kLine * titleStyle().size;
      }
      for (const PlacedPart& placed : m_parts) {
        const QPointF letter(placed.corner.x() + em::kBorder * m_font, placed.corner.y() - 0.1 * m_font);
        if (m_letters) canvas.text(QString::fromStdString(placed.part.letter), {letter}, textStyleOf(m_style.format));
        canvas.moved(placed.corner, placed.part.draw);
      }
    });
    return drawn;
  }

 private:
  [[nodiscard]] TextStyle titleStyle() const { return textStyleOf(m_style.format).scaled(em::kTitleFont); }
  // Rasters keep their dots only where a part begins on one.
  [[nodiscard]] double onDot(double length) const {
    const double dots = dotsPerPoint(m_style.format);
    return std::floor(length * dots) / dots;
  }

  bool addPart(const PartRequest& request, double width, PagePart& part, const Job& job) {
    FigureStyle style = styleOf(request.spec, "");
    const std::optional<double> height = style.format.heightMm;
    const std::optional<double> lines = style.format.lineWidthPt;
    style.format = m_style.format;
    style.format.widthMm = width / kPointsPerInch * kMillimetresPerInch;
    style.format.heightMm = height;
    style.format.lineWidthPt = lines;
    style.format.fontSizePt = m_font;
    style.letters = PanelLetters::none;
    style.part = &part;
    FigureRequest asked{request.spec, request.sources, style, job};
    auto drawn = request.kind->draw(asked);
    if (!drawn) return false;
    std::vector<std::string> notes = std::move(asked.notes);
    notes.insert(notes.end(), drawn->notes.begin(), drawn->notes.end());
    for (const std::string& note : notes) m_notes.push_back(part.letter.empty() ? note : part.letter + ' ' + note);
    m_numbers.add(part.numbers);
    return true;
  }

  [[nodiscard]] FigureOrigin origin() const {
    FigureOrigin origin;
    origin.title = m_style.title;
    origin.command = m_style.command;
    for (const PlacedPart& placed : m_parts) {
      const FigureOrigin& one = placed.part.origin;
      if (m_style.title.empty()) origin.title += (origin.title.empty() ? "" : "; ") + one.title;
      if (!placed.part.letter.empty()) origin.facts.emplace_back("panel", placed.part.letter + ' ' + one.title);
      origin.facts.insert(origin.facts.end(), one.facts.begin(), one.facts.end());
      if (!one.mark.empty()) origin.mark = one.mark;
    }
    return origin;
  }

  const OffscreenApplication m_application;
  const FigureStyle& m_style;
  bool m_letters;
  double m_font = fontSize(m_style.format);
  double m_width = 0;
  double m_y = 0;  ///< lower edge of what is there, points
  std::vector<QString> m_title;
  std::vector<PlacedPart> m_parts;
  std::vector<std::string> m_notes;
  NumberTable m_numbers;
};

}  // namespace

std::optional<DrawnFigure> drawParts(const std::vector<std::vector<PartRequest>>& rows, const FigureStyle& style,
                                     const Job& job) {
  std::size_t count = 0;
  for (const auto& row : rows) count += row.size();
  PartsPage page(style, count > 1 && style.letters == PanelLetters::whereSeveral);
  for (const auto& row : rows) {
    if (!page.addRow(row, job)) return std::nullopt;
  }
  return page.draw();
}

}  // namespace foxscope::figure
