#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace foxscope {

/// Whole numbers of a sum that does not depend on the order of its terms. A term is rounded to three whole numbers, in
/// units of 2^-2, 2^-42 and 2^-82, and these are added one by one: so sums of parts add up to the sum of the whole,
/// bit for bit, however the terms were shared out. A term keeps its 53 bits down to 2^-83.
inline constexpr std::size_t kExactLimbs = 3;

/// @throws Error for a sum that leaves the range of its numbers
[[noreturn]] void fail_range();

/// Adds a term to the sum that these numbers are.
/// @param value  finite, below 2^60 in size
/// @throws Error where the sum leaves the range of its numbers
void add_exactly(double value, std::span<std::int64_t, kExactLimbs> sum);

/// The sum as a number.
double exact_value(std::span<const std::int64_t, kExactLimbs> sum);

/// A number of 113 bits, in which differences of sums keep their digits.
__extension__ using LongNumber = __float128;
LongNumber exact_long_value(std::span<const std::int64_t, kExactLimbs> sum);

/// to[n] += more[n]
/// @throws Error where a sum leaves the range of 64 bits
void add_whole(std::span<const std::int64_t> more, std::span<std::int64_t> to);

/// Carries between the numbers of a sum, so that equal sums are equal numbers, which compress well: those of 2^-42 and
/// 2^-82 become 0 to 2^40 - 1.
/// @throws Error where the sum leaves the range of its numbers
void carry(std::span<std::int64_t, kExactLimbs> sum);

/// Log f of a reading, nats, as a whole number of 2^-24 nats.
inline constexpr double kLogGateUnit = 0x1p-24;
/// The same for sums by token, of which a file holds millions: a mean is good to 4e-6 nats.
inline constexpr int kTokenLogGateBits = 17;
inline constexpr double kTokenLogGateUnit = 1.0 / (1 << kTokenLogGateBits);
/// Attention that the readings of a token in a window get, as a whole number of 2^-17, up or down by chance: a mean is
/// good to 8e-6.
inline constexpr int kMassBits = 17;
inline constexpr double kMassUnit = 1.0 / (1 << kMassBits);

}  // namespace foxscope
