#include "app/figure/maps/map_numbers.h"

#include <fmt/format.h>

#include "backend/base/index.h"

namespace foxscope::figure {

std::string positionsText(const Range& range, std::int64_t pixels, std::int64_t pixel) {
  const std::int64_t begin = bin_begin(range, pixels, pixel);
  const std::int64_t end = bin_begin(range, pixels, pixel + 1);
  return end == begin + 1 ? std::to_string(begin) : fmt::format("{}:{}", begin, end);
}

void addPixels(NumberTable& numbers, const std::string& series, const Image& image,
               const std::function<std::string(std::int64_t)>& row,
               const std::function<std::string(std::int64_t)>& column) {
  for (std::int64_t i = 0; i < image.rows; ++i) {
    for (std::int64_t j = 0; j < image.columns; ++j) {
      numbers.add({series, row(i), column(j), static_cast<double>(image.value[index_of(i * image.columns + j)])});
    }
  }
}

}  // namespace foxscope::figure
