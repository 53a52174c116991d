#include "app/gui/text/text_shape.h"

#include <algorithm>
#include <cmath>

#include <QFontMetricsF>
#include <QHash>
#include <QTextBoundaryFinder>
#include <QTextLayout>
#include <QTextOption>

#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

constexpr double kLineSpacing = 1.3;        // of the font's height, so that tints and outlines have room
constexpr double kTabBlanks = 4;            // width of a tab
constexpr std::int32_t kLongestWord = 256;  // clusters in one atom; a longer word is several
constexpr char16_t kLeftToRightMark = 0x200E;
constexpr char16_t kRightToLeftMark = 0x200F;
constexpr std::int32_t kPollClusters = 4096;  // between looks at whether the job was stopped

Atom::Kind kindOf(QChar first) {
  switch (first.unicode()) {
    case '\n':
    case '\r':
    case 0x0B:
    case 0x0C:
    case 0x85:
    case QChar::LineSeparator:
    case QChar::ParagraphSeparator:
      return Atom::Kind::lineEnd;
    case ' ':
    case '\t':
    case 0x3000:
      return Atom::Kind::blank;
    case QChar::Nbsp:
      return Atom::Kind::word;
    default:
      break;
  }
  const QChar::Category category = first.category();
  if (category == QChar::Other_Control || category == QChar::Other_Format) return Atom::Kind::unseen;
  return category == QChar::Separator_Space ? Atom::Kind::blank : Atom::Kind::word;
}

/// The direction of the first letter of a part of a text that has one (UAX #9, P2); auto: none has.
Qt::LayoutDirection firstDirection(const QString& text, qsizetype begin, qsizetype end) {
  for (qsizetype at = begin; at < end; ++at) {
    const bool pair = text[at].isHighSurrogate() && at + 1 < end;
    const char32_t code = pair ? QChar::surrogateToUcs4(text[at], text[at + 1]) : text[at].unicode();
    if (pair) ++at;
    const QChar::Direction direction = QChar::direction(code);
    if (direction == QChar::DirL) return Qt::LeftToRight;
    if (direction == QChar::DirR || direction == QChar::DirAL) return Qt::RightToLeft;
  }
  return Qt::LayoutDirectionAuto;
}

/// Digits stand from left to right, whatever stands around them.
bool beginsWithDigit(const QString& word) {
  return !word.isEmpty() && (word[0].direction() == QChar::DirEN || word[0].direction() == QChar::DirAN);
}

/// The direction of each cluster of a word: its own, that of its neighbours where they agree, else the paragraph's.
std::vector<Qt::LayoutDirection> directionsOf(const QString& word, const std::vector<int>& begins,
                                              Qt::LayoutDirection paragraph) {
  std::vector<Qt::LayoutDirection> own;
  for (std::size_t n = 0; n + 1 < begins.size(); ++n) {
    own.push_back(beginsWithDigit(word.mid(begins[n], 1)) ? Qt::LeftToRight
                                                          : firstDirection(word, begins[n], begins[n + 1]));
  }
  std::vector<Qt::LayoutDirection> all = own;
  for (std::size_t n = 0; n < all.size(); ++n) {
    if (own[n] != Qt::LayoutDirectionAuto) continue;
    std::size_t next = n;
    while (next < own.size() && own[next] == Qt::LayoutDirectionAuto) ++next;
    const auto before = n == 0 ? paragraph : all[n - 1];
    all[n] = before == (next == own.size() ? paragraph : own[next]) ? before : paragraph;
  }
  return all;
}

/// Measures words, each different one once.
class WordMeasure {
 public:
  explicit WordMeasure(const QFont& font) : m_font(font) {}

  struct Extent {
    std::vector<float> left;   ///< per cluster
    std::vector<float> width;  ///< likewise
    float total = 0;
  };

  /// @param begins  where clusters begin in `word`, and its size at the end
  /// @param paragraph  direction of the paragraph that the word stands in
  const Extent& operator()(const QString& word, const std::vector<int>& begins, Qt::LayoutDirection paragraph) {
    auto& known = paragraph == Qt::RightToLeft ? m_ofRightToLeft : m_ofLeftToRight;
    const auto found = known.constFind(word);
    if (found != known.constEnd()) return *found;
    const std::vector<Qt::LayoutDirection> directions = directionsOf(word, begins, paragraph);
    // A mark behind the word shows where its last cluster ends.
    const bool endsLeft = !directions.empty() && directions.back() == Qt::RightToLeft;
    QTextLayout layout(word + QChar(endsLeft ? kRightToLeftMark : kLeftToRightMark), m_font);
    QTextOption option;
    option.setTextDirection(paragraph);
    layout.setTextOption(option);
    layout.beginLayout();
    QTextLine line = layout.createLine();
    line.setLineWidth(kNoLimit);
    layout.endLayout();
    Extent extent;
    for (std::size_t n = 0; n + 1 < begins.size(); ++n) {
      // A cluster ends where the next one begins, unless that runs in another direction.
      const bool goesOn = n + 2 == begins.size() || directions[n] == directions[n + 1];
      const double a = line.cursorToX(begins[n]);
      const double b = goesOn ? line.cursorToX(begins[n + 1]) : line.cursorToX(begins[n + 1] - 1, QTextLine::Trailing);
      extent.left.push_back(static_cast<float>(std::min(a, b)));
      extent.width.push_back(static_cast<float>(std::abs(b - a)));
    }
    // A line that runs from right to left begins at its right edge, which is far away.
    const float first = extent.left.empty() ? 0 : *std::min_element(extent.left.begin(), extent.left.end());
    for (std::size_t n = 0; n < extent.left.size(); ++n) {
      extent.left[n] -= first;
      // The width is not the natural one, which has room for letters that lean over their own edge.
      extent.total = std::max(extent.total, extent.left[n] + extent.width[n]);
    }
    return *known.insert(word, extent);
  }

 private:
  static constexpr double kNoLimit = 1 << 24;  // pixels; half of what Qt can count
  QFont m_font;
  QHash<QString, Extent> m_ofLeftToRight;
  QHash<QString, Extent> m_ofRightToLeft;
};

std::int32_t bytesOf(const QString& text, qsizetype begin, qsizetype end) {
  std::int32_t bytes = 0;
  for (qsizetype n = begin; n < end; ++n) {
    const char16_t unit = text[n].unicode();
    // Either half of a surrogate pair stands for two of its four bytes.
    bytes += unit < 0x80 ? 1 : unit < 0x800 || QChar::isSurrogate(unit) ? 2 : 3;
  }
  return bytes;
}

void findClusters(TextShape& shape) {
  QTextBoundaryFinder finder(QTextBoundaryFinder::Grapheme, shape.text);
  qsizetype begin = 0;
  std::int32_t byte = 0;
  while (begin < shape.text.size()) {
    const qsizetype end = finder.toNextBoundary();
    shape.cluster.push_back({static_cast<std::int32_t>(begin), byte, 0, 0});
    byte += bytesOf(shape.text, begin, end);
    begin = end;
  }
  shape.cluster.push_back({static_cast<std::int32_t>(begin), byte, 0, 0});
}

/// Walks over the clusters of a text and makes atoms of them.
class AtomMaker {
 public:
  explicit AtomMaker(TextShape& shape)
      : m_shape(shape), m_measure(shape.font), m_breaks(QTextBoundaryFinder::Line, shape.text) {
    const QFontMetricsF metrics(shape.font);
    m_blank = static_cast<float>(metrics.horizontalAdvance(' '));
    m_lineEnd = static_cast<float>(metrics.averageCharWidth());
  }

  [[nodiscard]] bool atEnd() const { return m_at + 1 >= static_cast<std::int32_t>(m_shape.cluster.size()); }
  [[nodiscard]] std::int32_t at() const { return m_at; }

  void next() {
    const Atom::Kind kind = kindAt(m_at);
    Atom atom{m_at, 0, kind, mayBreakAt(m_at)};
    findParagraph();
    atom.paragraph = m_paragraph;
    if (kind == Atom::Kind::word) {
      const std::int32_t first = characterOf(m_at);
      atom.width = takeWord();
      atom.direction = firstDirection(m_shape.text, first, characterOf(m_at));
      if (atom.direction == Qt::LayoutDirectionAuto && beginsWithDigit(m_shape.text.mid(first, 1))) {
        atom.direction = Qt::LeftToRight;
      }
    } else {
      Cluster& cluster = m_shape.cluster[index_of(m_at++)];
      cluster.width = atom.width = widthOf(kind, m_shape.text[cluster.character]);
    }
    m_shape.atom.push_back(atom);
  }

  void finish() { m_shape.atom.push_back({m_at, 0, Atom::Kind::word, true}); }

 private:
  /// The sign that stands before a text says nothing of its direction.
  void findParagraph() {
    const std::int32_t begin = characterOf(m_at);
    if (begin < m_paragraphEnd) return;
    qsizetype end = begin;
    while (end < m_shape.text.size() && kindOf(m_shape.text[end]) != Atom::Kind::lineEnd) ++end;
    m_paragraphEnd = end + 1;
    const auto text = static_cast<double>(m_shape.cells->textBegin);
    const qsizetype from = std::max(begin, characterOf(m_shape.clusterAt(text)));
    m_paragraph = firstDirection(m_shape.text, from, end) == Qt::RightToLeft ? Qt::RightToLeft : Qt::LeftToRight;
  }

  [[nodiscard]] std::int32_t characterOf(std::int32_t cluster) const {
    return m_shape.cluster[index_of(cluster)].character;
  }
  [[nodiscard]] Atom::Kind kindAt(std::int32_t cluster) const { return kindOf(m_shape.text[characterOf(cluster)]); }

  bool mayBreakAt(std::int32_t cluster) {
    const qsizetype character = characterOf(cluster);
    while (m_nextBreak >= 0 && m_nextBreak < character) m_nextBreak = m_breaks.toNextBoundary();
    return m_nextBreak == character;
  }

  float widthOf(Atom::Kind kind, QChar character) const {
    if (kind == Atom::Kind::lineEnd) return m_lineEnd;
    if (kind == Atom::Kind::unseen || character == ' ') return m_blank;
    if (character == '\t') return m_blank * static_cast<float>(kTabBlanks);
    return static_cast<float>(QFontMetricsF(m_shape.font).horizontalAdvance(character));
  }

  float takeWord() {
    const std::int32_t first = m_at;
    std::vector<int> begins;
    do {
      begins.push_back(characterOf(m_at) - characterOf(first));
      ++m_at;
    } while (!atEnd() && kindAt(m_at) == Atom::Kind::word && m_at - first < kLongestWord && !mayBreakAt(m_at));
    const int size = characterOf(m_at) - characterOf(first);
    begins.push_back(size);
    const auto& extent = m_measure(m_shape.text.mid(characterOf(first), size), begins, m_paragraph);
    for (std::int32_t n = first; n < m_at; ++n) {
      Cluster& cluster = m_shape.cluster[index_of(n)];
      cluster.left = extent.left[index_of(n - first)];
      cluster.width = extent.width[index_of(n - first)];
    }
    return extent.total;
  }

  TextShape& m_shape;
  WordMeasure m_measure;
  QTextBoundaryFinder m_breaks;
  qsizetype m_nextBreak = 0;
  qsizetype m_paragraphEnd = 0;
  Qt::LayoutDirection m_paragraph = Qt::LeftToRight;
  std::int32_t m_at = 0;
  float m_blank = 0;
  float m_lineEnd = 0;
};

}  // namespace

double TextShape::byteOf(qsizetype character) const {
  const auto after = std::upper_bound(cluster.begin(), cluster.end(), character,
                                      [](qsizetype place, const Cluster& c) { return place < c.character; });
  const Cluster& holder = *(after - 1);
  return holder.byte + bytesOf(text, holder.character, character);
}

bool TextShape::runsLeft(const Cluster& of) const {
  const auto next = (&of + 1)->character;
  return firstDirection(text, of.character, next) == Qt::RightToLeft;
}

std::int32_t TextShape::clusterAt(double byte) const {
  const auto after = std::upper_bound(cluster.begin(), cluster.end() - 1, byte,
                                      [](double place, const Cluster& c) { return place < c.byte; });
  return static_cast<std::int32_t>(std::max<std::ptrdiff_t>(0, after - cluster.begin() - 1));
}

std::optional<TextShape> shapeText(std::shared_ptr<const TextCells> cells, const QFont& font, const Job& job) {
  TextShape shape;
  shape.font = font;
  shape.text = QString::fromStdString(cells->shown);
  shape.cells = std::move(cells);
  const QFontMetricsF metrics(font);
  shape.lineHeight = std::ceil(metrics.height() * kLineSpacing);
  shape.ascent = std::round((shape.lineHeight - metrics.height()) / 2 + metrics.ascent());
  findClusters(shape);
  AtomMaker maker(shape);
  std::int32_t polled = 0;
  while (!maker.atEnd()) {
    maker.next();
    if (maker.at() - polled < kPollClusters) continue;
    if (job.stopped()) return std::nullopt;
    polled = maker.at();
  }
  maker.finish();
  return shape;
}

}  // namespace foxscope::gui
