#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/page/page_heads.h"

namespace foxscope::page {

/// A page of runs on one text.
struct PageRequest {
  std::vector<PageModel> models;  ///< one at least; foxscope.value of the page is about the first
  std::string title;              ///< empty: the models and the beginning of the text
  std::string command;            ///< that makes the page, files named without folders
  std::string run_command;        ///< that made the run file, likewise; may be empty
  std::optional<std::pair<std::int64_t, std::int64_t>> pin;  ///< query and key that are marked when it opens
  std::optional<figure::HeadIndex> first;  ///< of the first model, shown first; none: one that shows its memory
};

/// One HTML file that shows F and A of heads, the text and the losses in a browser, and asks no network for anything.
/// It is resources/page with the numbers in it: sums of log gates as float64, queries and keys as round_group leaves
/// them, losses and normalisers as float32, each deflated, in base64. Equal requests give equal bytes.
/// @returns nothing if the job was stopped
/// @throws UsageError for heads that do not exist and a page that would be larger than kLargestPage; Error for a file
///         that cannot be read
std::optional<std::string> makePage(const PageRequest& request, const Job& job);

}  // namespace foxscope::page
