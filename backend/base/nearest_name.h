#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace foxscope {

/// The known name that was probably meant by a misspelt one, for "did you mean". Names are compared by the letters that
/// have to be put in, left out, replaced or exchanged with the next one (optimal string alignment distance); capitals
/// and small letters are the same, and so are - and _.
///
/// Near enough is a name that needs at most a third of the longer one's letters, rounded down. Where there is none, it
/// is the only known name that begins with the given one, or that the given one begins with, if what they share has
/// three letters or more. Else nothing is near
/// enough, nor to what is longer than 64 bytes, and the result is empty.
/// @param given  as it was written, without the dashes before an option
/// @param known  names, likewise; of equally near ones the first is taken
std::optional<std::string> nearest_name(std::string_view given, std::span<const std::string> known);

/// The known name that a given one is misspelt from, beyond doubt: the nearest, if at most two of its letters, and at
/// most a third, have to be put in, left out, replaced or exchanged with the next one. Empty also for a known name.
std::optional<std::string> misspelt_name(std::string_view given, std::span<const std::string> known);

/// "did you mean maps? else ", before what else to do; empty where no known name is near.
std::string did_you_mean(std::string_view given, std::span<const std::string> known);
/// ": did you mean fox?", behind a message that names the known ones; empty where none is near.
std::string nearest_question(std::string_view given, std::span<const std::string> known);

}  // namespace foxscope
