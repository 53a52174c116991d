#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <QColor>
#include <QImage>
#include <QTest>

#include "app/gui/heads/heads_view.h"
#include "backend/file/run_file.h"
#include "tests/file/synthetic_trace.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {

/// The heads of a document, once every number of theirs is known.
struct ShownHeads {
  Folder folder;
  Document document;
  HeadTable table{document.runs()};
  HeadsView view{document.runs(), document.modelRuns(), table};

  bool settle() {
    return QTest::qWaitFor([&] { return table.known() == table.total() && table.total() > 0 && !document.busy(); },
                           60'000);
  }
};

/// Heads of the demo's models.
struct Heads : ShownHeads {
  bool run(std::int64_t tokens) {
    view.resize(260, 700);
    view.show();
    return runDemo(document, tokens) && settle();
  }
};

/// Heads of made-up runs.
struct FileHeads : ShownHeads {
  int files = 0;

  bool open(const foxscope::test::SyntheticRun& run) {
    const QString path = folder.path(QStringLiteral("run%1.h5").arg(++files));
    const std::shared_ptr<const Trace> traces[] = {foxscope::test::make_trace(run)};
    write_run_file(path.toStdString(), traces, {"test", ""}, Overwrite::force, {});
    document.open({path});
    return settle();
  }
};

/// A label that some heads of the listed run have and others have not, the strongest one of some of them.
inline std::optional<HeadLabel> representativeLabel(const HeadTable& table) {
  for (int number = 0; number < kHeadLabels; ++number) {
    int with = 0;
    for (int row = 0; row < table.rowCount(); ++row) {
      const int labels = table.index(row, 0).data(HeadTable::LabelsRole).toInt();
      with += labels >> number & 1;
    }
    if (with > 0 && with < table.rowCount()) return static_cast<HeadLabel>(number);
  }
  return std::nullopt;
}

/// The colour of a widget at a place, in its own coordinates.
inline QColor colourAt(QWidget& widget, const QPoint& place) {
  const QImage picture = widget.grab().toImage();
  const qreal ratio = picture.devicePixelRatio();
  return picture.pixelColor(QPoint(static_cast<int>(place.x() * ratio), static_cast<int>(place.y() * ratio)));
}

}  // namespace foxscope::gui::test
