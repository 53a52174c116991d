#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "backend/eval/atlas/atlas_file.h"

namespace foxscope {

/// A field of a table; NaN: there is no value.
using AtlasField = std::variant<std::int64_t, double, std::string>;

/// The heads that a table is of; nothing: all.
struct AtlasChoice {
  std::optional<std::string> model = {};
  std::optional<std::pair<int, int>> head = {};  ///< layer and head
};

/// A table of an atlas as rows of fields, for CSV and JSON. docs/files.md names the columns.
class AtlasTable {
 public:
  /// Names of the tables: heads, distances, tokens, classes, resets, gaps, histogram, passages, similarity,
  /// first_similarity.
  static std::vector<std::string> names();

  /// @param atlas  must outlive the table
  /// @throws UsageError naming the tables, models or heads that there are
  AtlasTable(const Atlas& atlas, std::string_view name, AtlasChoice choice = {});

  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }
  using Row = std::function<void(std::span<const AtlasField> fields)>;
  /// Gives the rows, of a model after the other and of a head after the other; heads of which a table
  /// knows nothing have none.
  void each_row(const Row& row) const;

 private:
  struct Kind;
  static const std::vector<Kind>& kinds();

  const Atlas& atlas_;
  const Kind* kind_;
  AtlasChoice choice_;
  std::vector<std::string> columns_;
};

/// The table as CSV (RFC 4180): numbers have enough digits to be read back, and a field is empty where there is none.
/// @param write  gets it piece by piece
void write_csv(const AtlasTable& table, const std::function<void(std::string_view text)>& write);

}  // namespace foxscope
