#include "app/gui/document/number_text.h"

#include <cmath>

#include <QRegularExpression>

#include "app/figure/page/axis_ticks.h"

namespace foxscope::gui {

QString withPowers(QString number) {
  static const QRegularExpression power(QStringLiteral("(?<![\\d.])(1|[\\d.]+)e([+-]?\\d+)"));
  for (auto match = power.match(number); match.hasMatch(); match = power.match(number)) {
    const QString exponent = QString::fromStdString(figure::powerOfTen(match.captured(2).toInt()));
    const bool one = match.captured(1) == QStringLiteral("1");
    number.replace(match.capturedStart(), match.capturedLength(),
                   one ? exponent : match.captured(1) + QChar(0x00B7) + exponent);
  }
  return number.replace('-', QChar(0x2212));
}

QString numberOf(double value, int digits) {
  if (std::isnan(value)) return QStringLiteral("–");
  if (std::isinf(value)) return value > 0 ? QStringLiteral("∞") : QStringLiteral("−∞");
  return withPowers(QString::number(value, 'g', digits));
}

QString numberText(double value) {
  constexpr int kDigits = 4;
  const double size = std::abs(value);
  if (size >= 1e4 && size < 1e7) return withPowers(QString::number(value, 'f', 0));
  return numberOf(value, kDigits);
}

QString shortened(const QString& text, qsizetype letters) {
  return text.size() <= letters ? text : text.left(letters - 1) + QStringLiteral("…");
}

QString parametersText(std::int64_t parameters) {
  const auto count = static_cast<double>(parameters);
  const auto scaled = [](double value, const char* unit) {
    return QString::number(value, 'f', value < 100 ? 1 : 0) + QLatin1String(unit);
  };
  if (parameters < 1'000'000) return scaled(count / 1e3, "k");
  return parameters < 1'000'000'000 ? scaled(count / 1e6, "M") : scaled(count / 1e9, "B");
}

}  // namespace foxscope::gui
