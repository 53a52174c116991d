#pragma once

namespace foxscope {

/// P(|T| >= |t|) of Student's t distribution: with nu degrees of freedom it is the regularized incomplete beta function
/// I_x(nu / 2, 1 / 2) at x = nu / (nu + t^2) (DLMF 8.17(i), https://dlmf.nist.gov/8.17; Abramowitz and Stegun 26.7.1
/// and 26.5.27). Small probabilities keep their digits.
/// @param t        may be infinite
/// @param degrees  nu > 0, need not be whole
double student_t_outside(double t, double degrees);

/// The t > 0 with P(|T| < t) = covered: half the width of a two-sided interval, in standard errors.
/// @param covered  above 0, below 1
/// @param degrees  nu > 0, need not be whole
double student_t_half_width(double covered, double degrees);

}  // namespace foxscope
