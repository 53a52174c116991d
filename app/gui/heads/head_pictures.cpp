#include "app/gui/heads/head_pictures.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "app/figure/colour_map.h"
#include "app/gui/document/head_table.h"
#include "app/gui/document/shown_choices.h"
#include "backend/trace/shown_heads.h"

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

struct Made {
  QImage picture;
  MapAxes axes = MapAxes::key;
};

/// By distance where one of the run's shown heads is a thin diagonal on keys.
MapAxes axesOf(const RunOnDevice& run) {
  const TraceInfo& info = run->info();
  for (int layer = 0; layer < info.layers; ++layer) {
    const LayerMixer mixer = info.mixer(layer);
    for (int head = 0; head < mixer.heads; head += shown_step(mixer)) {
      if (default_axes(Quantity::forget, {run, layer, head}, info.length) == MapAxes::distance) {
        return MapAxes::distance;
      }
    }
  }
  return MapAxes::key;
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
  std::vector<std::pair<RunId, RunOnDevice>> runs;
  for (const Run& one : m_runs) {
    if (!one.look.hidden) runs.emplace_back(one.id, one.trace);
  }
  JobRunner::Request<Made> request;
  request.priority = Priority::background;
  request.work = [wanted, runs, found = m_found](const Job& job) mutable -> std::optional<Made> {
    const bool byDistance = std::ranges::any_of(runs, [&](const auto& other) {
      const auto known = found->find(other.first);
      const MapAxes own =
          known != found->end() ? known->second : found->emplace(other.first, axesOf(other.second)).first->second;
      return own == MapAxes::distance;
    });
    if (byDistance) wanted.set_distances(DistanceAxis{{1, wanted.rows.end + 1}, kPictureSide}.edges());
    const auto image = compute_map(wanted, job);
    if (!image) return std::nullopt;
    return Made{paintPicture(byDistance ? drawn_by_distance(*image) : *image, wanted.quantity),
                byDistance ? MapAxes::distance : MapAxes::key};
  };
  request.done = [this, key](const Made& made) {
    // Another run may have changed the axes of all.
    const bool others = m_axes && *m_axes != made.axes;
    if (others) m_pictures.clear();
    m_axes = made.axes;
    m_pictures[key] = made.picture;
    emit changed();
    if (others) this->request();
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
