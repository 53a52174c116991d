#pragma once

#include <optional>
#include <set>
#include <vector>

#include <QString>

#include "app/gui/atlas/atlas_model.h"
#include "backend/base/job.h"

namespace foxscope::gui::atlas {

/// A piece of a passage: a token, or several that make a character together.
struct PassagePiece {
  QString text;
  float gate = 1;       ///< f, or exp of the head's mean log f of the token (PassageAnswer::ofPlaces); NaN: not known
  bool marked = false;  ///< holds the token that the place reads
  bool found = false;   ///< holds a part of the phrase that was looked for
};

/// One passage with its text.
struct PassageRow {
  std::size_t head = 0;  ///< place
  std::size_t kind = 0;  ///< of AtlasFacts::passages
  AtlasPassage place;
  QString document;  ///< empty without a corpus
  std::vector<PassagePiece> pieces;
  std::size_t middle = 0;  ///< the piece to show first: what was found nearest to the place, else the place

  [[nodiscard]] QString text() const;
};

/// A place of a head: what a passage is about, whatever list it stands in.
struct PassagePlace {
  std::size_t head = 0;
  std::int64_t window = 0;
  std::int64_t position = 0;
  bool operator==(const PassagePlace&) const = default;
};

/// Which passages somebody wants to see.
struct PassageQuestion {
  AtlasModel model;
  std::set<std::size_t> heads;
  std::optional<std::size_t> kind;  ///< nothing: all kinds
  QString phrase;                   ///< that their text holds, whatever its case; empty: any
  bool operator==(const PassageQuestion&) const = default;
};

struct PassageAnswer {
  std::vector<PassageRow> rows;  ///< kMostRows at most, in the file's order; those of several heads by their values
  std::size_t found = 0;         ///< all that there are
  std::size_t looked = 0;        ///< passages that were looked at
  float least = 1;               ///< the smallest gate of all pieces
  bool ofPlaces = false;         ///< gates are f where the tokens stand; else means of the head at such tokens
};

/// As many passages are listed.
inline constexpr std::size_t kMostRows = 200;
/// Tokens of a passage before and behind the one that its place reads.
inline constexpr std::int64_t kTokensBefore = 40;
inline constexpr std::int64_t kTokensBehind = 40;

/// Reads the passages that a question is about, on any thread. Text is that of tokens between kTokensBefore and
/// kTokensBehind the place.
/// @returns nothing if the job was stopped. @throws Error for a damaged file
std::optional<PassageAnswer> findPassages(const PassageQuestion& question, const Job& job);

}  // namespace foxscope::gui::atlas
