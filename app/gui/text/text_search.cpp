#include "app/gui/text/text_search.h"

#include <cmath>

#include "backend/base/index.h"

namespace foxscope::gui {

std::optional<std::vector<Stretch>> findInText(const TextShape& shape, const QString& words,
                                               Qt::CaseSensitivity sensitivity, const Job& job) {
  std::vector<Stretch> found;
  if (words.isEmpty()) return found;
  const auto textBegin =
      shape.cluster[index_of(shape.clusterAt(static_cast<double>(shape.cells->textBegin)))].character;
  qsizetype from = textBegin;
  while ((from = shape.text.indexOf(words, from, sensitivity)) >= 0) {
    if (job.stopped()) return std::nullopt;
    found.push_back({shape.byteOf(from), shape.byteOf(from + words.size())});
    from += words.size();
  }
  return found;
}

std::optional<std::int64_t> positionFromInput(const QString& input, std::int64_t length, std::int64_t from) {
  QString number = input.trimmed();
  bool isNumber = false;
  if (number.endsWith('%')) {
    number.chop(1);
    const double percentage = number.trimmed().replace(',', '.').toDouble(&isNumber);
    if (!isNumber || !(percentage >= 0 && percentage <= 100) || length < 1) return std::nullopt;
    return std::llround(percentage / 100 * static_cast<double>(length - 1));
  }
  number.replace(QChar(0x2212), QLatin1Char('-'));
  const bool isDistance = number.startsWith(QLatin1Char('+')) || number.startsWith(QLatin1Char('-'));
  qlonglong position = number.toLongLong(&isNumber);
  if (isNumber && isDistance && qAbs(position) <= length) position += from;
  if (!isNumber || position < 0 || position >= length) return std::nullopt;
  return position;
}

}  // namespace foxscope::gui
