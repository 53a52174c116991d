#include "app/gui/text/text_layout.h"

#include <algorithm>
#include <cmath>

namespace foxscope::gui {
namespace {

constexpr double kHang = 0.6;    // of a line's height: how far blanks may stand over the right edge
constexpr double kSlack = 0.01;  // differences of sums that are no difference

}  // namespace

/// Puts atoms on lines.
class TextLayout::Breaker {
 public:
  Breaker(const TextShape& shape, double width, std::vector<Line>& lines)
      : m_shape(shape), m_width(width + kSlack), m_hang(shape.lineHeight * kHang), m_lines(lines) {}

  void operator()() {
    const auto count = static_cast<std::int32_t>(m_shape.atom.size()) - 1;
    for (std::int32_t begin = 0; begin < count;) {
      const std::int32_t end = groupEnd(begin, count);
      if (m_ended) start(begin, at(begin).cluster);
      if (m_x > 0 && m_x + solidWidth(begin, end) > m_width) start(begin, at(begin).cluster);
      for (std::int32_t atom = begin; atom < end; ++atom) place(atom);
      begin = end;
    }
    m_lines.push_back({m_shape.atom.back().cluster, count});
  }

 private:
  [[nodiscard]] const Atom& at(std::int32_t atom) const { return m_shape.atom[static_cast<std::size_t>(atom)]; }

  /// One past the last atom that stays with `begin` if it can.
  [[nodiscard]] std::int32_t groupEnd(std::int32_t begin, std::int32_t count) const {
    std::int32_t end = begin;
    do {
      if (at(end).kind == Atom::Kind::lineEnd) return end + 1;
      ++end;
    } while (end < count && !at(end).mayBreakBefore);
    return end;
  }

  /// Width without the blanks at the end.
  [[nodiscard]] double solidWidth(std::int32_t begin, std::int32_t end) const {
    double width = 0;
    double solid = 0;
    for (std::int32_t atom = begin; atom < end; ++atom) {
      width += static_cast<double>(at(atom).width);
      const bool solidKind = at(atom).kind == Atom::Kind::word || at(atom).kind == Atom::Kind::unseen;
      if (solidKind) solid = width;
    }
    return solid;
  }

  void start(std::int32_t atom, std::int32_t cluster) {
    m_lines.push_back({cluster, atom});
    m_x = 0;
    m_ended = false;
  }

  void place(std::int32_t index) {
    const Atom& atom = at(index);
    const auto width = static_cast<double>(atom.width);
    if (atom.kind == Atom::Kind::word) {
      if (m_x + width > m_width) return placeBroken(index);
    } else if (atom.kind != Atom::Kind::lineEnd) {
      const double room = atom.kind == Atom::Kind::blank ? m_width + m_hang : m_width;
      if (m_x > 0 && m_x + width > room) start(index, atom.cluster);
    }
    m_x += width;
    m_ended = atom.kind == Atom::Kind::lineEnd;
  }

  /// A word that is wider than the line: as many clusters on each as fit, at least one.
  void placeBroken(std::int32_t index) {
    for (std::int32_t cluster = at(index).cluster; cluster < at(index + 1).cluster; ++cluster) {
      const auto width = static_cast<double>(m_shape.cluster[static_cast<std::size_t>(cluster)].width);
      if (m_x > 0 && m_x + width > m_width) start(index, cluster);
      m_x += width;
    }
  }

  const TextShape& m_shape;
  double m_width;
  double m_hang;
  std::vector<Line>& m_lines;
  double m_x = 0;
  bool m_ended = true;  // the next atom begins a line
};

TextLayout::TextLayout(std::shared_ptr<const TextShape> shape, double width) : m_shape(std::move(shape)) {
  Breaker(*m_shape, width, m_lines)();
}

std::vector<TextLayout::Piece> TextLayout::pieces(std::int64_t line) const {
  std::vector<Piece> found;
  const std::int32_t end = lineAt(line + 1).cluster;
  double x = 0;
  std::int32_t cluster = lineAt(line).cluster;
  for (std::int32_t index = lineAt(line).atom; cluster < end; ++index) {
    const Atom& atom = m_shape->atom[static_cast<std::size_t>(index)];
    const std::int32_t atomEnd = m_shape->atom[static_cast<std::size_t>(index) + 1].cluster;
    Piece piece{index, cluster, std::min(atomEnd, end), x, x};
    if (piece.begin == atom.cluster && piece.end == atomEnd) {
      piece.right += static_cast<double>(atom.width);
    } else {
      for (std::int32_t n = piece.begin; n < piece.end; ++n)
        piece.right += static_cast<double>(m_shape->cluster[static_cast<std::size_t>(n)].width);
    }
    x = piece.right;
    cluster = piece.end;
    found.push_back(piece);
  }
  return found;
}

template <typename Visit>
void TextLayout::eachCluster(std::int64_t line, const Visit& visit) const {
  for (const Piece& piece : pieces(line)) {
    const auto* const begin = m_shape->cluster.data() + piece.begin;
    const auto* const end = m_shape->cluster.data() + piece.end;
    const auto atom = static_cast<std::size_t>(piece.atom);
    const bool whole = piece.begin == m_shape->atom[atom].cluster && piece.end == m_shape->atom[atom + 1].cluster;
    const float origin =
        whole ? 0
              : std::min_element(begin, end, [](const Cluster& a, const Cluster& b) { return a.left < b.left; })->left;
    for (const Cluster* cluster = begin; cluster != end; ++cluster)
      visit(*cluster, (cluster + 1)->byte, piece.left + static_cast<double>(cluster->left - origin));
  }
}

std::vector<TextLayout::Span> TextLayout::spans(std::int64_t line) const {
  std::vector<Span> found;
  const std::vector<Stretch>& cell = cells().cell;
  auto first = static_cast<std::size_t>(firstCell(line));
  eachCluster(line, [&](const Cluster& cluster, std::int32_t endByte, double left) {
    const double begin = cluster.byte;
    const double end = endByte;
    const double scale = static_cast<double>(cluster.width) / (end - begin);
    while (first + 1 < cell.size() && cell[first].end <= begin) ++first;
    for (std::size_t n = first; n < cell.size() && cell[n].begin < end; ++n) {
      const double from = std::max(begin, cell[n].begin);
      const double to = std::min(end, cell[n].end);
      if (to <= from) continue;
      const Span span{static_cast<std::int64_t>(n), left + (from - begin) * scale, left + (to - begin) * scale};
      const bool continues =
          !found.empty() && found.back().cell == span.cell && std::abs(found.back().right - span.left) < kSlack;
      if (continues) {
        found.back().right = span.right;
      } else {
        found.push_back(span);
      }
    }
  });
  return found;
}

std::vector<QRectF> TextLayout::rects(const Stretch& stretch) const {
  std::vector<QRectF> found;
  if (lineCount() == 0) return found;
  for (std::int64_t line = lineOfByte(stretch.begin); line < lineCount(); ++line) {
    const double top = static_cast<double>(line) * lineHeight();
    if (m_shape->cluster[static_cast<std::size_t>(lineAt(line).cluster)].byte >= stretch.end) break;
    bool isFirst = true;
    eachCluster(line, [&](const Cluster& cluster, std::int32_t endByte, double left) {
      const double from = std::max<double>(cluster.byte, stretch.begin);
      const double to = std::min<double>(endByte, stretch.end);
      if (to <= from) return;
      const double scale = static_cast<double>(cluster.width) / (endByte - cluster.byte);
      const QRectF rect(left + (from - cluster.byte) * scale, top, (to - from) * scale, lineHeight());
      if (!isFirst && std::abs(found.back().right() - rect.left()) < kSlack) {
        found.back().setRight(rect.right());
      } else {
        found.push_back(rect);
      }
      isFirst = false;
    });
  }
  return found;
}

std::vector<QRectF> TextLayout::cellRects(std::int64_t cell) const {
  return rects(cells().cell[static_cast<std::size_t>(cell)]);
}

std::int64_t TextLayout::lineOfByte(double byte) const {
  const std::int32_t cluster = m_shape->clusterAt(byte);
  const auto after = std::upper_bound(m_lines.begin(), m_lines.end() - 1, cluster,
                                      [](std::int32_t wanted, const Line& line) { return wanted < line.cluster; });
  return std::max<std::int64_t>(0, after - m_lines.begin() - 1);
}

QRectF TextLayout::mainRect(std::int64_t cell) const {
  QRectF main;
  for (const QRectF& rect : cellRects(cell)) {
    if (rect.width() > main.width()) main = rect;
  }
  return main;
}

std::int64_t TextLayout::lineOfCell(std::int64_t cell) const {
  return static_cast<std::int64_t>(std::floor(mainRect(cell).center().y() / lineHeight()));
}

std::int64_t TextLayout::firstCell(std::int64_t line) const {
  const std::vector<Stretch>& cell = cells().cell;
  const double byte = m_shape->cluster[static_cast<std::size_t>(lineAt(line).cluster)].byte;
  const auto found = std::upper_bound(cell.begin(), cell.end(), byte,
                                      [](double place, const Stretch& stretch) { return place < stretch.end; });
  return found - cell.begin();
}

std::optional<std::int64_t> TextLayout::cellAt(const QPointF& point) const {
  const double line = std::floor(point.y() / lineHeight());
  if (line < 0 || line >= static_cast<double>(lineCount())) return std::nullopt;
  for (const Span& span : spans(static_cast<std::int64_t>(line))) {
    if (point.x() >= span.left && point.x() < span.right) return span.cell;
  }
  return std::nullopt;
}

std::optional<std::int64_t> TextLayout::nearestCell(std::int64_t line, double x) const {
  std::optional<std::int64_t> nearest;
  double least = 0;
  for (const Span& span : spans(line)) {
    const double distance = std::max({0.0, span.left - x, x - span.right});
    if ((nearest && distance >= least) || lineOfCell(span.cell) != line) continue;
    nearest = span.cell;
    least = distance;
  }
  return nearest;
}

}  // namespace foxscope::gui
