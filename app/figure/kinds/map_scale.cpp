#include "app/figure/kinds/map_scale.h"

#include "app/figure/token_text.h"

namespace foxscope::figure {

ScaledColours sharedColours(const MapRequest& request, std::span<const Image> images, const ColourChoice& choice) {
  MapFigure all;
  all.request = request;
  all.scale = defaultScale(request);
  all.colours = choice;
  for (const Image& image : images) {
    all.image.value.insert(all.image.value.end(), image.value.begin(), image.value.end());
  }
  return chooseColours(all);
}

std::vector<std::string> tokenLabels(const Trace& trace, const Range& range, std::int64_t most) {
  std::vector<std::string> labels;
  if (range.size() > most) return labels;
  for (std::int64_t position = range.begin; position < range.end; ++position) {
    labels.push_back(readText(*trace.tokens(), position, Whitespace::visible).toStdString());
  }
  return labels;
}

}  // namespace foxscope::figure
