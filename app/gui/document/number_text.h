#pragma once

#include <cstdint>

#include <QString>

namespace foxscope::gui {

/// Powers of ten as they are written by hand, and true minus signs: "1e-06" becomes "10⁻⁶", "-3.02e-05" becomes
/// "−3.02·10⁻⁵". Everything else stays.
QString withPowers(QString number);

/// A number of so many significant digits, from 0.0001 to 99999 written out.
QString numberOf(double value, int digits);

/// "0.0123", "12345", "−3.2·10⁻⁹": four significant digits, true minus signs; "∞" and "–" for what is none.
QString numberText(double value);

/// "12.4M", "760M", "1.3B"
QString parametersText(std::int64_t parameters);

/// A text as it is, or cut to so many letters, of which the last is then "…".
QString shortened(const QString& text, qsizetype letters);

}  // namespace foxscope::gui
