#pragma once

#include <cstdint>

namespace foxscope::hdf5 {

/// Types of the messages in an object header (format specification, IV.A.2).
inline constexpr std::uint16_t kNil = 0x00;
inline constexpr std::uint16_t kDataspace = 0x01;
inline constexpr std::uint16_t kLinkInfo = 0x02;
inline constexpr std::uint16_t kDatatype = 0x03;
inline constexpr std::uint16_t kLink = 0x06;
inline constexpr std::uint16_t kOldFillValue = 0x04;
inline constexpr std::uint16_t kFillValue = 0x05;
inline constexpr std::uint16_t kExternalFiles = 0x07;
inline constexpr std::uint16_t kLayout = 0x08;
inline constexpr std::uint16_t kFilters = 0x0b;
inline constexpr std::uint16_t kAttribute = 0x0c;
inline constexpr std::uint16_t kContinuation = 0x10;
inline constexpr std::uint16_t kSymbolTable = 0x11;
inline constexpr std::uint16_t kAttributeInfo = 0x15;

/// Most axes that a dataset can have.
inline constexpr std::uint8_t kMostAxes = 32;
/// A string of variable length: its length, the address of its block, and its number there.
inline constexpr std::uint32_t kReferenceBytes = 16;

}  // namespace foxscope::hdf5
