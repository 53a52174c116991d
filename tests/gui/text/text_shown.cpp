#include "tests/gui/text/text_shown.h"

namespace foxscope::gui::test {

TextRun second(TextRun run) {
  run.name = "second";
  run.seed = 2;
  return run;
}

float entry(const Trace& trace, Quantity quantity, std::int64_t query, std::int64_t key) {
  MapRequest request;
  request.head.trace = std::shared_ptr<const Trace>(std::shared_ptr<const Trace>(), &trace);
  request.quantity = quantity;
  request.rows = {query, query + 1};
  request.columns = {key, key + 1};
  request.pixel_rows = request.pixel_columns = 1;
  return compute_map(request, {})->value.front();
}

}  // namespace foxscope::gui::test
