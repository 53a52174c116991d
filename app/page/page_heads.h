#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/figure/heads/head_choice.h"
#include "app/page/rounded_heads.h"

namespace foxscope::page {

/// A model of a page: its run, and the heads whose maps the page holds.
struct PageModel {
  RunOnDevice trace;
  std::string name;  ///< as the page shows it
  int colour = 0;    ///< of figure::curveColour
  std::vector<figure::HeadIndex> heads;
};

/// A page is made to stay below the first number of bytes, and may have the second at most.
inline constexpr double kWantedPage = 5e6;
inline constexpr double kLargestPage = 64e6;
/// Heads of a page that nobody has chosen.
inline constexpr std::size_t kChosenHeads = 8;
/// The longest text whose A and M can be computed while somebody looks, tokens.
inline constexpr std::int64_t kLongestMixing = 16384;

/// The reason why a head's F is not in a page, one sentence; empty: it is. A head without a gate has F = 1.
std::string why_no_decay(const TraceInfo& info, const Trace& trace, int layer);
/// The same of A, or M of a linear mixer.
std::string why_no_mixing(const TraceInfo& info, const Trace& trace, int layer);

/// The heads of a model whose queries and keys a page holds, together with those that read the same keys.
std::vector<HeadGroup> groupsOf(const PageModel& model);

/// About how many bytes a page of these models takes.
double pageBytes(const std::vector<PageModel>& models);

/// Chooses heads for models that have none: kChosenHeads in all, fewer where the page would become larger than
/// kWantedPage, two of a model at least. Each kind of layer has some; of heads that forget they are from the fastest to
/// the slowest, evenly among the heads in this order; of others evenly among all.
/// @throws Error for a file that cannot be read
void chooseHeads(std::vector<PageModel>& models);

}  // namespace foxscope::page
