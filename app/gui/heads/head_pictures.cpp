#include "app/gui/heads/head_pictures.h"

#include <algorithm>
#include <cmath>

#include "app/figure/colour_map.h"
#include "app/gui/document/head_table.h"
#include "app/gui/document/shown_choices.h"

namespace foxscope::gui {
namespace {

constexpr std::int64_t kPictureSide = 64;  // pixels

/// Place on the colour scale: F as it is; the largest A of a pixel by its logarithm, from kLeastAttention on.
double placeOf(double value, Quantity quantity) {
  if (quantity == Quantity::forget) return value;
  return value <= kLeastAttention ? 0 : 1 - std::log(value) / std::log(kLeastAttention);
}

QImage paintPicture(const Image& image, Quantity quantity) {
  QImage picture(static_cast<int>(image.columns), static_cast<int>(image.rows), QImage::Format_ARGB32);
  const float* value = image.value.data();
  for (int row = 0; row < picture.height(); ++row) {
    for (int column = 0; column < picture.width(); ++column, ++value) {
      if (std::isnan(*value)) {
        picture.setPixelColor(column, row, Qt::transparent);
      } else {
        const figure::Rgb rgb = figure::colourAt(figure::viridis(), placeOf(static_cast<double>(*value), quantity));
        picture.setPixel(column, row, qRgb(rgb.red, rgb.green, rgb.blue));
      }
    }
  }
  return picture;
}

}  // namespace

HeadPictures::HeadPictures(RunList& runs, QObject* parent) : QObject(parent), m_runs(runs) {
  connect(&m_runs, &RunList::runsChanged, this, [this] {
    std::erase_if(m_pictures, [&](const auto& entry) { return m_runs.run(std::get<0>(entry.first)) == nullptr; });
    request();
  });
}

int HeadPictures::channel(const HeadChoice& head, const TraceInfo& info, Quantity quantity) {
  const int own = headChannel(head, info);
  return quantity == Quantity::attention ? -1 - own : own;
}

void HeadPictures::want(std::optional<Quantity> quantity) {
  if (quantity == m_wanted) return;
  if (m_wanted) {
    for (const Run& run : m_runs) {
      forShownHeads(run, [&](const HeadChoice& head) {
        m_runs.jobs().cancel(this, channel(head, run.trace->info(), *m_wanted));
      });
    }
  }
  m_wanted = quantity;
  request();
}

void HeadPictures::request() {
  if (!m_wanted) return;
  for (const Run& run : m_runs) {
    if (run.look.hidden) continue;
    forShownHeads(run, [&](const HeadChoice& head) { request(run, head); });
  }
}

void HeadPictures::request(const Run& run, const HeadChoice& head) {
  const TraceInfo& info = run.trace->info();
  const Key key{head.run, head.layer, head.head, *m_wanted};
  if (m_pictures.contains(key)) return;
  MapRequest wanted;
  wanted.head = {run.trace, head.layer, head.head};
  wanted.quantity = *m_wanted;
  wanted.reduction = wanted.quantity == Quantity::forget ? Reduction::mean : Reduction::max;
  // Values darker than the darkest colour need not be known.
  wanted.skip_tolerance = wanted.quantity == Quantity::forget ? 0 : kLeastAttention;
  wanted.rows = wanted.columns = {0, info.length};
  wanted.pixel_rows = wanted.pixel_columns = std::min(kPictureSide, info.length);
  JobRunner::Request<QImage> request;
  request.priority = Priority::background;
  request.work = [wanted](const Job& job) -> std::optional<QImage> {
    const auto image = compute_map(wanted, job);
    if (!image) return std::nullopt;
    return paintPicture(*image, wanted.quantity);
  };
  request.done = [this, key](const QImage& picture) {
    m_pictures[key] = picture;
    emit changed();
  };
  // Arrays that were not kept have no picture; the maps say why.
  request.failed = [](const QString&) {};
  m_runs.jobs().submit(this, channel(head, info, wanted.quantity), std::move(request));
}

const QImage* HeadPictures::of(const HeadChoice& head, Quantity quantity) const {
  const auto found = m_pictures.find({head.run, head.layer, head.head, quantity});
  return found == m_pictures.end() ? nullptr : &found->second;
}

}  // namespace foxscope::gui
