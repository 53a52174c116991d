#pragma once

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <QAction>
#include <QApplication>
#include <QTest>
#include <QToolBar>
#include <QWheelEvent>

#include "app/gui/curves/curves_view.h"
#include "app/gui/curves/decay_plot.h"
#include "app/gui/curves/position_plot.h"
#include "app/gui/curves/read_out.h"
#include "app/gui/curves/tabs/context_tab.h"
#include "app/gui/curves/tabs/decay_tab.h"
#include "app/gui/curves/tabs/gate_tab.h"
#include "app/gui/curves/tabs/loss_tab.h"
#include "app/gui/curves/tabs/profile_tab.h"
#include "app/gui/curves/tabs/saliency_tab.h"
#include "app/gui/views/plot_style.h"
#include "backend/file/run_file.h"
#include "tests/file/synthetic_trace.h"
#include "tests/gui/support.h"

namespace foxscope::gui::test {

using curves::CurveTab;
using curves::PositionPlot;
using curves::Side;
using foxscope::test::make_trace;
using foxscope::test::SyntheticRun;
using Tab = CurvesView::Tab;

constexpr int kPatienceMs = 60'000;

inline SyntheticRun named(std::string name, std::int64_t length) {
  SyntheticRun run;
  run.name = std::move(name);
  run.length = length;
  return run;
}

/// A run of two layers of Mamba-2.
inline SyntheticRun linearRun() {
  SyntheticRun run = named("mamba", 80);
  LayerMixer mixer;
  mixer.mixer = Mixer::mamba2;
  mixer.decay = Decay::head;
  mixer.heads = 4;
  mixer.query_heads = mixer.key_heads = mixer.value_heads = 4;
  mixer.head_dim = mixer.value_dim = 8;
  run.mixers = {mixer, mixer};
  run.keep = {Keep::loss, Keep::gates, Keep::query_key, Keep::values};
  return run;
}

/// A run of a layer of linear attention that decays by channel, and one of softmax attention without a gate.
inline SyntheticRun hybridRun() {
  SyntheticRun run = named("hybrid", 80);
  run.gated = false;
  run.mixers = {foxscope::test::all_mixers()[2], attention_layer(4, 2, 8)};
  run.keep = {Keep::loss, Keep::gates, Keep::rows, Keep::query_key, Keep::values};
  return run;
}

/// A document with runs, and the view on it.
class Scene {
 public:
  explicit Scene(const std::vector<SyntheticRun>& runs) {
    if (!runs.empty()) open(runs);
    view.resize(900, 400);
    view.show();
  }

  void open(const std::vector<SyntheticRun>& runs) {
    std::vector<std::shared_ptr<const Trace>> traces;
    for (const SyntheticRun& run : runs) traces.push_back(make_trace(run));
    const QString path = folder.path(QStringLiteral("run%1.h5").arg(++files));
    write_run_file(path.toStdString(), traces, {"test", ""}, Overwrite::force, {});
    document.open({path});
    waitUntilIdle(document);
  }

  bool settle() {
    return QTest::qWaitFor([&] { return view.isSettled() && !document.busy(); }, kPatienceMs);
  }
  bool show(Tab tab) {
    view.setTab(tab);
    return settle();
  }

  template <typename TabType>
  TabType& tab() {
    return *view.findChild<TabType*>();
  }
  template <typename TabType>
  PositionPlot& plot() {
    return *view.findChild<TabType*>()->template findChild<PositionPlot*>();
  }

  Folder folder;
  Document document;
  CurvesView view{document.runs(), document.modelRuns()};
  int files = 0;
};

inline QPoint at(const PositionPlot& plot, double position) {
  return {static_cast<int>(std::lround(plot.pixelOf(position))), plot.height() / 3};
}

// From elsewhere: a pointer that is there already does not move.
inline void moveMouse(QWidget& widget, const QPoint& place) {
  QTest::mouseMove(&widget, {2, 2});
  QTest::mouseMove(&widget, place);
}

inline void wheel(QWidget& widget, const QPoint& place, int notches, Qt::KeyboardModifiers modifiers = Qt::NoModifier) {
  QWheelEvent event(place, widget.mapToGlobal(place), {}, {0, 120 * notches}, Qt::NoButton, modifiers,
                    Qt::NoScrollPhase, false);
  QApplication::sendEvent(&widget, &event);
}

inline QAction& choice(QWidget& view, const QString& text) {
  for (QAction* action : view.findChildren<QAction*>()) {
    if (action->text() == text && action->isVisible()) {
      // Choices of equal name belong to different tabs.
      auto* controls = qobject_cast<QToolBar*>(action->parent());
      if (controls != nullptr && controls->isVisible()) return *action;
    }
  }
  qFatal("no such choice");
}

}  // namespace foxscope::gui::test
