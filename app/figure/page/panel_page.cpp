#include "app/figure/page/panel_page.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "app/figure/page/axis_drawing.h"
#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope::figure {
namespace {

constexpr double kPanelGap = 0.7;    ///< between the labels of neighbouring panels, font sizes
constexpr double kLeastPanelMm = 6;  ///< below, labels are all that would be seen
constexpr int kRounds = 4;           ///< labels depend on sizes, sizes on labels: it settles in two or three
constexpr double kRightRoom = 0.3;   ///< beside the last frame, font sizes

double leastPanel() { return kLeastPanelMm / kMillimetresPerInch * kPointsPerInch; }

template <typename Lines>
double sumOf(const Lines& lines, double gap) {
  double sum = -gap;
  for (const auto& line : lines) sum += line.before + line.size + line.after + gap;
  return sum;
}

}  // namespace

PanelPage::PanelPage(const FigureStyle& style)
    : m_style(style), m_application(std::make_shared<OffscreenApplication>()), m_font(fontSize(style.format)) {
  requireValid(style.format);
  requireFont(style.format);
}

void PanelPage::arrange() {
  giveLetters();
  countLines();
  shareAcrossNames();
  shareUpNames();
  const double border = em::kBorder * m_font;
  m_page.setWidth(widthInPoints(m_style.format));
  const TextStyle titleStyle = textStyleOf(m_style.format).scaled(em::kTitleFont);
  m_title.clear();
  if (!m_style.title.empty()) m_title = wrapped(m_style.title, titleStyle, m_page.width() - 2 * border);
  for (Line& column : m_columns) column.size = m_page.width() / static_cast<double>(m_columns.size()) / 1.5;
  for (Line& row : m_rows) row.size = m_columns.front().size;
  for (int round = 0; round < kRounds; ++round) {
    // Names that take one line more in the one size and one less in the other keep the larger room.
    measureMargins(2 * round < kRounds ? Rooms::anew : Rooms::grow);
    shareWidth();
    shareHeight();
  }
  useWholeDots();
  // Titles of what is narrower now may take one line more; what is beside the panels keeps its room.
  const std::vector<Line> columns = m_columns;
  measureMargins(Rooms::anew);
  m_columns = columns;
  place();
}

void PanelPage::giveLetters() {
  const auto lettered =
      std::count_if(m_items.begin(), m_items.end(), [](const Item& i) { return i.panel->hasLetter(); });
  int index = 0;
  for (const Item& item : m_items) {
    if (!item.panel->hasLetter()) continue;
    const bool wanted = lettered > 1 && lettered <= 26 && m_style.letters == PanelLetters::whereSeveral;
    item.panel->setLetter(wanted ? fmt::format("({})", static_cast<char>('a' + index++)) : "");
  }
}

void PanelPage::countLines() {
  int rows = 0;
  int columns = 0;
  for (const Item& item : m_items) {
    rows = std::max(rows, item.place.row + item.place.rows);
    columns = std::max(columns, item.place.column + item.place.columns);
  }
  m_rows.assign(static_cast<std::size_t>(rows), {});
  m_columns.assign(static_cast<std::size_t>(columns), {});
}

void PanelPage::shareAcrossNames() {
  m_acrossNames.clear();
  for (std::size_t row = 0; row < m_rows.size(); ++row) {
    std::vector<const Item*> named;
    for (const Item& item : m_items) {
      const bool ends = item.place.row + item.place.rows == static_cast<int>(row) + 1;
      if (ends && !item.panel->acrossName().empty()) named.push_back(&item);
    }
    const auto same = [&](const Item* item) { return item->panel->acrossName() == named[0]->panel->acrossName(); };
    if (named.size() < 2 || !std::all_of(named.begin(), named.end(), same)) continue;
    SharedName shared{row, m_columns.size(), 0, QString::fromStdString(named[0]->panel->acrossName())};
    for (const Item* item : named) {
      item->panel->leaveAcrossName();
      shared.first = std::min(shared.first, static_cast<std::size_t>(item->place.column));
      shared.last = std::max(shared.last, static_cast<std::size_t>(item->place.column + item->place.columns - 1));
    }
    m_acrossNames.push_back(std::move(shared));
  }
}

// Shares names in the first column, of panels one below the other with nothing written between them.
void PanelPage::shareUpNames() {
  m_upNames.clear();
  std::vector<const Item*> below(m_rows.size(), nullptr);
  for (const Item& item : m_items) {
    if (item.place.column == 0 && item.place.rows == 1) below[index_of(item.place.row)] = &item;
  }
  const auto nameIn = [&](std::size_t row) {
    return row < below.size() && below[row] != nullptr ? below[row]->panel->upName() : std::string();
  };
  for (std::size_t row = 0; row < below.size();) {
    std::size_t end = row + 1;
    while (!nameIn(row).empty() && nameIn(end) == nameIn(row) && below[end - 1]->panel->acrossName().empty()) ++end;
    if (end > row + 1) {
      for (std::size_t each = row; each < end; ++each) below[each]->panel->leaveUpName();
      m_upNames.push_back({0, row, end - 1, QString::fromStdString(nameIn(row))});
    }
    row = end;
  }
}

QSizeF PanelPage::sizeOf(const Item& item) const {
  const double gap = kPanelGap * m_font;
  const auto span = [gap](const std::vector<Line>& lines, int first, int count) {
    double size = 0;
    for (int index = first; index < first + count; ++index) {
      const Line& line = lines[index_of(index)];
      size += line.size;
      if (index > first) size += line.before + gap;
      if (index < first + count - 1) size += line.after;
    }
    return size;
  };
  return {span(m_columns, item.place.column, item.place.columns), span(m_rows, item.place.row, item.place.rows)};
}

void PanelPage::measureMargins(Rooms rooms) {
  const std::vector<Line> rows = m_rows;
  const std::vector<Line> columns = m_columns;
  for (auto* lines : {&m_rows, &m_columns}) {
    for (Line& line : *lines) line.before = line.after = 0;
  }
  // A frame at the very edge of the page looks cut off.
  m_columns.back().after = kRightRoom * m_font;
  for (const Item& item : m_items) {
    const Margins margins = item.panel->margins(sizeOf(item));
    const auto at = [](std::vector<Line>& lines, int index) -> Line& { return lines[index_of(index)]; };
    const auto most = [](double& room, double needed) { room = std::max(room, needed); };
    most(at(m_columns, item.place.column).before, margins.left);
    most(at(m_columns, item.place.column + item.place.columns - 1).after, margins.right);
    most(at(m_rows, item.place.row).before, margins.top);
    most(at(m_rows, item.place.row + item.place.rows - 1).after, margins.bottom);
  }
  for (const SharedName& shared : m_acrossNames) m_rows[shared.line].after += nameHeight();
  for (const SharedName& shared : m_upNames) m_columns[shared.line].before += nameHeight();
  if (rooms == Rooms::anew) return;
  const auto keep = [](std::vector<Line>& lines, const std::vector<Line>& before) {
    for (std::size_t n = 0; n < lines.size(); ++n) {
      lines[n].before = std::max(lines[n].before, before[n].before);
      lines[n].after = std::max(lines[n].after, before[n].after);
    }
  };
  keep(m_rows, rows);
  keep(m_columns, columns);
}

void PanelPage::shareWidth() {
  for (Line& column : m_columns) column.fixed = false;
  for (const Item& item : m_items) {
    const auto width = item.panel->fixedWidth();
    if (!width || item.place.columns != 1) continue;
    Line& column = m_columns[index_of(item.place.column)];
    column.fixed = true;
    column.size = *width;
  }
  double flexible = 0;
  for (Line& column : m_columns) {
    if (column.fixed) continue;
    column.size = 0;
    ++flexible;
  }
  const double left = m_page.width() - 2 * em::kBorder * m_font - sumOf(m_columns, kPanelGap * m_font);
  if (flexible == 0) return;
  const double share = left / flexible;
  if (share < leastPanel()) refuse("width", m_style.format.widthMm, (leastPanel() - share) * flexible);
  for (Line& column : m_columns) {
    if (!column.fixed) column.size = share;
  }
}

void PanelPage::shareHeight() {
  for (Line& row : m_rows) row.size = 0;
  for (const Item& item : m_items) {
    const auto height = item.panel->heightFor(sizeOf(item).width());
    if (!height) continue;
    const auto first = static_cast<std::size_t>(item.place.row);
    for (std::size_t row = first; row < first + static_cast<std::size_t>(item.place.rows); ++row) {
      m_rows[row].size = std::max(m_rows[row].size, *height / item.place.rows);
    }
  }
  for (Line& row : m_rows) {
    if (row.size == 0) row.size = leastPanel();
  }
  if (!m_style.format.heightMm) return;
  const double page = *m_style.format.heightMm / kMillimetresPerInch * kPointsPerInch;
  double wanted = 0;
  for (const Line& row : m_rows) wanted += row.size;
  const double left = page - 2 * em::kBorder * m_font - titleHeight() - (sumOf(m_rows, kPanelGap * m_font) - wanted);
  const auto rows = static_cast<double>(m_rows.size());
  if (left < std::min(wanted, leastPanel() * rows)) {
    refuse("height", *m_style.format.heightMm, std::min(wanted, leastPanel() * rows) - left);
  }
  keepProportions(left / wanted);
}

void PanelPage::keepProportions(double factor) {
  for (const Item& item : m_items) {
    if (item.panel->proportions() == Panel::Proportions::free) continue;
    factor = std::min(factor, 1.0);
    for (int column = item.place.column; column < item.place.column + item.place.columns; ++column) {
      Line& line = m_columns[index_of(column)];
      if (!line.fixed) line.size = std::min(line.size, line.size * factor);
      line.fixed = true;  // once
    }
  }
  for (Line& row : m_rows) row.size *= factor;
}

void PanelPage::useWholeDots() {
  const double dots = dotsPerPoint(m_style.format);
  const auto whole = [dots](double length) { return std::floor(length * dots + 1e-6) / dots; };
  for (auto* lines : {&m_rows, &m_columns}) {
    for (Line& line : *lines) line.size = whole(line.size);
  }
  std::vector<double> widths(m_columns.size(), 0);
  std::vector<double> heights(m_rows.size(), 0);
  for (const Item& item : m_items) {
    const QSizeF used = item.panel->sizeIn(sizeOf(item));
    const auto row = static_cast<std::size_t>(item.place.row);
    const auto column = static_cast<std::size_t>(item.place.column);
    if (item.panel->proportions() == Panel::Proportions::free) continue;
    if (item.place.columns == 1) widths[column] = std::max(widths[column], used.width());
    if (item.place.rows == 1) heights[row] = std::max(heights[row], used.height());
  }
  for (std::size_t column = 0; column < widths.size(); ++column) {
    if (widths[column] > 0) m_columns[column].size = widths[column];
  }
  for (std::size_t row = 0; row < heights.size(); ++row) {
    if (heights[row] > 0) m_rows[row].size = heights[row];
  }
}

void PanelPage::place() {
  const double dots = dotsPerPoint(m_style.format);
  const auto onDot = [dots](double length) { return std::ceil(length * dots - 1e-6) / dots; };
  const double gap = kPanelGap * m_font;
  const double border = em::kBorder * m_font;
  double x = std::max(border, (m_page.width() - sumOf(m_columns, gap)) / 2);
  for (Line& column : m_columns) {
    column.start = onDot(x + column.before);
    x = column.start + column.size + column.after + gap;
  }
  double y = border + titleHeight();
  for (Line& row : m_rows) {
    row.start = onDot(y + row.before);
    y = row.start + row.size + row.after + gap;
  }
  const double bottom = y - gap + border;
  m_page.setHeight(m_style.format.heightMm ? *m_style.format.heightMm / kMillimetresPerInch * kPointsPerInch
                                           : std::ceil(bottom));
  for (Item& item : m_items) {
    const auto span = [](const std::vector<Line>& lines, int first, int count) {
      const Line& last = lines[index_of(first + count - 1)];
      const double start = lines[index_of(first)].start;
      return std::pair(start, last.start + last.size - start);
    };
    const auto [left, width] = span(m_columns, item.place.column, item.place.columns);
    const auto [top, height] = span(m_rows, item.place.row, item.place.rows);
    item.inner = QRectF(left, top, width, height);
  }
}

double PanelPage::nameHeight() const { return (em::kPad + em::kLine) * m_font; }

double PanelPage::titleHeight() const {
  return m_title.empty() ? 0 : (static_cast<double>(m_title.size()) * em::kLine * em::kTitleFont + 0.3) * m_font;
}

void PanelPage::refuse(const char* side, double millimetres, double missing) const {
  throw UsageError(fmt::format(
      "figure {} {:g} mm: labels of {:g} pt leave no room for {}: use at least {:.0f} "
      "mm, fewer panels or a smaller font",
      side, millimetres, m_font, m_items.size() > 1 ? fmt::format("{} panels", m_items.size()) : "the figure",
      std::ceil(millimetres + missing / kPointsPerInch * kMillimetresPerInch)));
}

QRectF PanelPage::inner(const Panel& panel) const {
  const auto found =
      std::find_if(m_items.begin(), m_items.end(), [&](const Item& item) { return item.panel.get() == &panel; });
  return found == m_items.end() ? QRectF() : found->inner;
}

// Where a panel's own names have their baselines.
void PanelPage::drawNames(Canvas& canvas) const {
  const TextStyle style = textStyleOf(m_style.format);
  const auto span = [](const std::vector<Line>& lines, const SharedName& shared) {
    return std::pair(lines[shared.first].start, lines[shared.last].start + lines[shared.last].size);
  };
  for (const SharedName& shared : m_acrossNames) {
    const Line& row = m_rows[shared.line];
    const auto [left, right] = span(m_columns, shared);
    const double baseline = row.start + row.size + row.after - (em::kLine - 0.95) * m_font;
    canvas.text(shared.name, {{(left + right) / 2, baseline}, Align::centre}, fitted(style, shared.name, right - left));
  }
  for (const SharedName& shared : m_upNames) {
    const Line& column = m_columns[shared.line];
    const auto [top, bottom] = span(m_rows, shared);
    const double baseline = column.start - column.before + (em::kLine - 0.25) * m_font;
    canvas.text(shared.name, {{baseline, (top + bottom) / 2}, Align::centre, Direction::upwards},
                fitted(style, shared.name, bottom - top));
  }
}

NumberTable PanelPage::numbers() const {
  NumberTable numbers;
  std::map<int, std::string> titles;  // of each column, so far
  const std::string part = m_style.part == nullptr ? std::string() : m_style.part->letter;
  for (const Item& item : m_items) {
    std::string& title = titles[item.place.column];
    if (!item.panel->title().empty()) title = item.panel->title();
    numbers.setPanel(part.empty() || title.empty() ? part + title : part + ' ' + title);
    item.panel->addNumbers(numbers);
  }
  return numbers;
}

void PanelPage::draw(Canvas& canvas) const {
  const TextStyle style = textStyleOf(m_style.format).scaled(em::kTitleFont);
  double baseline = em::kBorder * m_font + 0.95 * style.size;
  for (const QString& line : m_title) {
    canvas.text(line, {{m_page.width() / 2, baseline}, Align::centre},
                fitted(style, line, m_page.width() - 2 * em::kBorder * m_font));
    baseline += em::kLine * style.size;
  }
  for (const Item& item : m_items) {
    assert(item.inner.isValid() && "arrange() comes before paint()");
    item.panel->draw(canvas, item.inner);
  }
  drawNames(canvas);
}

std::string PanelPage::paint(const FigureOrigin& origin) {
  if (m_style.format.kind == FigureFormat::Kind::csv) {
    if (m_style.part == nullptr) return numbers().csv();
    m_style.part->numbers = numbers();
    return {};
  }
  if (m_style.part == nullptr) {
    if (m_style.height != nullptr) *m_style.height = m_page.height();
    return paintPage(m_style.format, m_page, origin, [this](Canvas& canvas) { draw(canvas); });
  }
  PagePart& part = *m_style.part;
  part.size = m_page;
  part.origin = origin;
  part.draw = [page = std::make_shared<PanelPage>(std::move(*this))](Canvas& canvas) { page->draw(canvas); };
  return {};
}

}  // namespace foxscope::figure
