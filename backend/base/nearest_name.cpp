#include "backend/base/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace foxscope {
namespace {

constexpr std::size_t kLongestName = 64;
constexpr std::size_t kShortestBeginning = 3;

/// A name as it is compared.
std::string as_compared(std::string_view name) {
  std::string letters(name);
  for (char& letter : letters) {
    if (letter == '-') letter = '_';
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return letters;
}

std::size_t letters_to_change(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_before(b.size() + 1);
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_before.swap(before);
    before.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({before[j] + 1, row[j - 1] + 1, before[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], two_before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view given, std::span<const std::string> known) {
  if (given.empty() || given.size() > kLongestName) return std::nullopt;
  const std::string wanted = as_compared(given);
  const std::string* nearest = nullptr;
  std::size_t least = kLongestName;
  const std::string* continued = nullptr;
  std::size_t continuations = 0;
  for (const std::string& name : known) {
    if (name.empty() || name.size() > kLongestName) continue;
    const std::string other = as_compared(name);
    const std::size_t changes = letters_to_change(wanted, other);
    if (changes < least && changes <= std::max(wanted.size(), other.size()) / 3) {
      least = changes;
      nearest = &name;
    }
    const bool begins = other.starts_with(wanted) || (other.size() >= kShortestBeginning && wanted.starts_with(other));
    if (!begins) continue;
    continued = &name;
    ++continuations;
  }
  if (nearest != nullptr) return *nearest;
  if (continuations == 1 && wanted.size() >= kShortestBeginning) return *continued;
  return std::nullopt;
}

std::optional<std::string> misspelt_name(std::string_view given, std::span<const std::string> known) {
  constexpr std::size_t kMostChanges = 2;
  const std::optional<std::string> nearest = nearest_name(given, known);
  if (!nearest) return std::nullopt;
  const std::string wanted = as_compared(given);
  const std::string other = as_compared(*nearest);
  const std::size_t changes = letters_to_change(wanted, other);
  const bool misspelt =
      given != *nearest && changes <= std::min(kMostChanges, std::max(wanted.size(), other.size()) / 3);
  return misspelt ? nearest : std::nullopt;
}

std::string did_you_mean(std::string_view given, std::span<const std::string> known) {
  const std::optional<std::string> nearest = nearest_name(given, known);
  return nearest ? "did you mean " + *nearest + "? else " : "";
}

std::string nearest_question(std::string_view given, std::span<const std::string> known) {
  const std::optional<std::string> nearest = nearest_name(given, known);
  return nearest ? ": did you mean " + *nearest + "?" : "";
}

}  // namespace foxscope
