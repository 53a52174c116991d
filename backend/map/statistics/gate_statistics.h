#pragma once

#include <span>

#include "backend/map/statistics/head_statistics.h"

namespace foxscope {
namespace kernels {
struct GateOfHead;
struct GateSums;
}  // namespace kernels

/// Fills the gate's part of the statistics of heads from c alone, in O(length) each. If c is not a number somewhere,
/// nothing is known: all are NaN, and there are no events. f_0, which is in no F, does not count.
/// @param c  [L] nats, non-increasing, of each head
/// @returns false if the job was stopped
bool gate_statistics(std::span<const std::span<const double>> c, int events, const Job& job,
                     std::span<HeadStatistics> statistics);

/// Sets the levels and ranks of the order statistics that set_gate_statistics needs.
void ask_for_order(kernels::GateSums& sums);
/// The same as gate_statistics without events, from order statistics that a kernel has taken.
/// @param gate  of a c that does not rise
/// @param c     [L] nats
void set_gate_statistics(const kernels::GateOfHead& gate, std::span<const double> c, HeadStatistics& statistics);

/// The p-quantile of values, 0 <= p <= 1: the order statistic at p (n - 1), linearly interpolated between its two
/// neighbours where that is no whole number. The median of an even number of values is the mean of the middle two.
/// @param values  at least one
double quantile(std::span<const double> values, double p);

}  // namespace foxscope
