#include "backend/eval/student_t.h"

#include <cassert>
#include <cmath>

namespace foxscope {
namespace {

/// The continued fraction of DLMF 8.17.22 by the modified Lentz method (DLMF 3.10(iii)). It converges fast for
/// x < (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  constexpr double kEnough = 1e-15;
  constexpr int kMostTerms = 100000;
  const auto not_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1;
  double d = 1 / not_zero(1 - (a + b) * x / (a + 1));
  double fraction = d;
  for (int m = 1; m < kMostTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double factor = 1;
    for (const double numerator : {even, odd}) {
      d = 1 / not_zero(1 + numerator * d);
      c = not_zero(1 + numerator / c);
      factor = c * d;
      fraction *= factor;
    }
    if (std::abs(factor - 1) < kEnough) break;
  }
  return fraction;
}

/// I_x(a, b); y = 1 - x is given apart, since x may be near 1.
double regularized_beta(double a, double b, double x, double y) {
  if (x <= 0) return 0;
  if (y <= 0) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log(y));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, y) / b;
}

}  // namespace

double student_t_outside(double t, double degrees) {
  assert(degrees > 0);
  if (std::isinf(t)) return 0;
  const double square = t * t;
  return regularized_beta(degrees / 2, 0.5, degrees / (degrees + square), square / (degrees + square));
}

double student_t_half_width(double covered, double degrees) {
  assert(covered > 0 && covered < 1);
  double above = 1;
  while (student_t_outside(above, degrees) > 1 - covered) above *= 2;
  double below = 0;
  // Bisection down to neighbouring numbers: the function falls everywhere.
  while (true) {
    const double middle = (below + above) / 2;
    if (middle <= below || middle >= above) return middle;
    (student_t_outside(middle, degrees) > 1 - covered ? below : above) = middle;
  }
}

}  // namespace foxscope
