#include "app/gui/text/text_layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/base/index.h"

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
  [[nodiscard]] const Atom& at(std::int32_t atom) const { return m_shape.atom[index_of(atom)]; }

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
      const auto width = static_cast<double>(m_shape.cluster[index_of(cluster)].width);
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

TextLayout::TextLayout(std::shared_ptr<const TextShape> shape, double width)
    : m_shape(std::move(shape)), m_width(width) {
  Breaker(*m_shape, width, m_lines)();
}

std::vector<TextLayout::Piece> TextLayout::pieces(std::int64_t line) const {
  std::vector<Piece> found;
  const std::int32_t end = lineAt(line + 1).cluster;
  double x = 0;
  std::int32_t cluster = lineAt(line).cluster;
  for (std::int32_t index = lineAt(line).atom; cluster < end; ++index) {
    const Atom& atom = m_shape->atom[index_of(index)];
    const std::int32_t atomEnd = m_shape->atom[static_cast<std::size_t>(index) + 1].cluster;
    Piece piece{index, cluster, std::min(atomEnd, end), x, x};
    if (piece.begin == atom.cluster && piece.end == atomEnd) {
      piece.right += static_cast<double>(atom.width);
    } else {
      for (std::int32_t n = piece.begin; n < piece.end; ++n)
        piece.right += static_cast<double>(m_shape->cluster[index_of(n)].width);
    }
    x = piece.right;
    cluster = piece.end;
    found.push_back(piece);
  }
  placeByDirection(found);
  return found;
}

void TextLayout::placeByDirection(std::vector<Piece>& pieces) const {
  const auto atomOf = [&](std::size_t n) -> const Atom& { return m_shape->atom[index_of(pieces[n].atom)]; };
  const std::size_t count = pieces.size();
  const bool left = count > 0 && atomOf(0).paragraph == Qt::RightToLeft;
  bool plain = !left;
  for (std::size_t n = 0; n < count; ++n) plain = plain && atomOf(n).direction != Qt::RightToLeft;
  if (plain) return;
  const int base = left ? 1 : 0;
  const auto levelOf = [&](Qt::LayoutDirection direction) {
    if (direction == Qt::RightToLeft) return 1;
    return direction == Qt::LeftToRight ? 2 * base : base;
  };
  // Clusters without a direction take that of their neighbours where these agree, else the paragraph's.
  std::vector<int> level(count, base);
  for (std::size_t n = 0; n < count;) {
    std::size_t end = n;
    while (end < count && atomOf(end).direction == Qt::LayoutDirectionAuto) ++end;
    const bool between = n > 0 && end < count && end > n && atomOf(n - 1).direction == atomOf(end).direction;
    for (; n < end; ++n) level[n] = between ? levelOf(atomOf(end).direction) : base;
    if (n < count) {
      level[n] = levelOf(atomOf(n).direction);
      ++n;
    }
  }
  // From the highest level down, clusters of at least that level are turned round (L2).
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (int turned = 2; turned >= 1; --turned) {
    for (auto from = order.begin(); from != order.end();) {
      const auto isTurned = [&](std::size_t n) { return level[n] >= turned; };
      from = std::find_if(from, order.end(), isTurned);
      const auto to = std::find_if_not(from, order.end(), isTurned);
      std::reverse(from, to);
      from = to;
    }
  }
  // Blanks and signs at the line's end stand before its left edge.
  double solid = 0;
  for (std::size_t n = 0; n < count; ++n) {
    if (atomOf(n).kind == Atom::Kind::word || atomOf(n).kind == Atom::Kind::unseen) solid = pieces[n].right;
  }
  double x = left ? std::max(0.0, m_width - solid) - (pieces.back().right - solid) : 0;
  for (const std::size_t n : order) {
    const double width = pieces[n].right - pieces[n].left;
    pieces[n].left = x;
    pieces[n].right = x += width;
  }
}

template <typename Visit>
void TextLayout::eachCluster(std::int64_t line, const Visit& visit) const {
  for (const Piece& piece : pieces(line)) {
    const auto* const begin = m_shape->cluster.data() + piece.begin;
    const auto* const end = m_shape->cluster.data() + piece.end;
    const auto atom = static_cast<std::size_t>(piece.atom);
    const bool whole = piece.begin == m_shape->atom[atom].cluster && piece.end == m_shape->atom[atom + 1].cluster;
    if (whole) {
      for (const Cluster* cluster = begin; cluster != end; ++cluster)
        visit(*cluster, (cluster + 1)->byte, piece.left + static_cast<double>(cluster->left));
      continue;
    }
    // A broken word: clusters stand side by side as in the whole word, where others may lie between them.
    for (const Cluster* cluster = begin; cluster != end; ++cluster) {
      double before = 0;
      for (const Cluster* other = begin; other != end; ++other) {
        const bool first = other->left < cluster->left || (other->left == cluster->left && other < cluster);
        if (first) before += static_cast<double>(other->width);
      }
      visit(*cluster, (cluster + 1)->byte, piece.left + before);
    }
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
      const bool turned = m_shape->runsLeft(cluster);
      const double before = (turned ? end - to : from - begin) * scale;
      const Span span{static_cast<std::int64_t>(n), left + before, left + before + (to - from) * scale};
      const bool same = !found.empty() && found.back().cell == span.cell;
      if (same && std::abs(found.back().right - span.left) < kSlack) {
        found.back().right = span.right;
      } else if (same && std::abs(found.back().left - span.right) < kSlack) {
        found.back().left = span.left;
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
    if (m_shape->cluster[index_of(lineAt(line).cluster)].byte >= stretch.end) break;
    bool isFirst = true;
    eachCluster(line, [&](const Cluster& cluster, std::int32_t endByte, double left) {
      const double from = std::max<double>(cluster.byte, stretch.begin);
      const double to = std::min<double>(endByte, stretch.end);
      if (to <= from) return;
      const double scale = static_cast<double>(cluster.width) / (endByte - cluster.byte);
      const double before = (m_shape->runsLeft(cluster) ? endByte - to : from - cluster.byte) * scale;
      const QRectF rect(left + before, top, (to - from) * scale, lineHeight());
      if (!isFirst && std::abs(found.back().right() - rect.left()) < kSlack) {
        found.back().setRight(rect.right());
      } else if (!isFirst && std::abs(found.back().left() - rect.right()) < kSlack) {
        found.back().setLeft(rect.left());
      } else {
        found.push_back(rect);
      }
      isFirst = false;
    });
  }
  return found;
}

std::vector<QRectF> TextLayout::cellRects(std::int64_t cell) const { return rects(cells().cell[index_of(cell)]); }

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
  const double byte = m_shape->cluster[index_of(lineAt(line).cluster)].byte;
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
