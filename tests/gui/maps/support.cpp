#include "tests/gui/maps/support.h"

#include <algorithm>
#include <cmath>

#include <QApplication>
#include <QTest>

#include "app/gui/views/theme.h"
#include "backend/file/run_file.h"

namespace foxscope::gui::test {
namespace {

constexpr int kPictureMs = 60'000;
constexpr int kNotch = 120;

}  // namespace

std::shared_ptr<const Trace> traceOf(std::int64_t length) {
  foxscope::test::SyntheticRun run;
  run.length = length;
  return foxscope::test::make_trace(run);
}

OpenMaps::OpenMaps(const std::vector<std::shared_ptr<const Trace>>& traces, std::optional<MapAxes> axes)
    : view(document.runs()) {
  for (int index = 0; index < MapsView::kMostPanes; ++index) {
    PaneState state = view.paneState(index);
    state.axes = axes;
    view.setPaneState(index, state);
  }
  view.setPalette(lightPalette());
  view.resize(900, 560);
  view.show();
  if (!QTest::qWaitForWindowExposed(&view) || traces.empty()) return;
  const QString path = m_folder.path(QStringLiteral("run.h5"));
  write_run_file(path.toStdString(), traces, {"test", ""}, Overwrite::force, {});
  document.open({path});
  if (!waitUntilIdle(document)) return;
  document.runs().selection().setHead({document.runs().front().id, 0, 0});
  settle();
}

bool OpenMaps::settle() {
  QCoreApplication::processEvents();
  if (!QTest::qWaitFor([this] { return view.isSettled() && !document.busy(); }, kPictureMs)) return false;
  // What was shown is announced when it is on the screen.
  for (int index = 0; index < view.paneCount(); ++index) plot(index).repaint();
  return true;
}

void OpenMaps::moveTo(const QPoint& at, int index) {
  QMouseEvent move(QEvent::MouseMove, at, plot(index).mapToGlobal(at), Qt::NoButton, Qt::NoButton, Qt::NoModifier);
  QCoreApplication::sendEvent(&plot(index), &move);
}

QPoint OpenMaps::cell(std::int64_t row, std::int64_t column, int index) {
  const PlotGeometry& geometry = plot(index).geometryOfView();
  const QPointF middle = geometry.cell(row, column).center();
  return {static_cast<int>(std::floor(middle.x())), static_cast<int>(std::floor(middle.y()))};
}

void OpenMaps::setQuantity(Quantity quantity, int index) {
  PaneState state = view.paneState(index);
  state.setQuantity(quantity);
  view.setPaneState(index, state);
}

void OpenMaps::wheel(const QPoint& at, int notches, Qt::KeyboardModifiers modifiers) {
  QWheelEvent event(at, plot().mapToGlobal(at), {}, {0, notches * kNotch}, Qt::NoButton, modifiers, Qt::NoScrollPhase,
                    false);
  QCoreApplication::sendEvent(&plot(), &event);
}

void OpenMaps::drag(const QPoint& from, const QPoint& to, Qt::MouseButton button) {
  QTest::mousePress(&plot(), button, {}, from);
  // QTest::mouseMove tells no buttons.
  for (const QPoint& at : {(from + to) / 2, to}) {
    QMouseEvent move(QEvent::MouseMove, at, plot().mapToGlobal(at), Qt::NoButton, button, Qt::NoModifier);
    QCoreApplication::sendEvent(&plot(), &move);
  }
  QTest::mouseRelease(&plot(), button, {}, to);
}

QImage OpenMaps::grabPlot(int index) {
  document.runs().selection().setHover({});
  document.runs().selection().setPin({});
  plot(index).replot(QCustomPlot::rpImmediateRefresh);
  return plot(index).grab().toImage();
}

std::shared_ptr<const Trace> withPairedTokens(const Trace& run, const std::string& name) {
  const TokenTable& from = *run.tokens();
  auto tokens = std::make_shared<TokenTable>();
  for (std::size_t p = 0; p + 1 < from.id.size(); p += 2) {
    tokens->input_id.push_back(p == 0 ? 0 : tokens->id.back());
    tokens->id.push_back(from.id[p] * 100 + from.id[p + 1]);
    tokens->byte_start.push_back(from.byte_start[p]);
    tokens->byte_end.push_back(from.byte_end[p + 1]);
    tokens->string.push_back(from.string[p] + from.string[p + 1]);
  }
  TraceInfo info = run.info();
  info.name = name;
  info.length = static_cast<std::int64_t>(tokens->id.size());
  Recorder recorder(info, {Keep::gates}, nullptr);
  for (int layer = 0; layer < info.layers; ++layer) {
    const std::span<double> c = recorder.cumulative_log_gate(layer);
    for (std::size_t n = 0; n < c.size(); ++n) {
      c[n] = -0.02 * static_cast<double>(n % static_cast<std::size_t>(info.length)) * (layer + 1);
    }
  }
  return recorder.finish(run.text(), tokens);
}

std::shared_ptr<const Trace> withFirstTokens(const Trace& run, std::int64_t tokens, const std::string& name) {
  auto table = std::make_shared<TokenTable>(*run.tokens());
  const auto count = static_cast<std::size_t>(tokens);
  table->id.resize(count);
  table->input_id.resize(count);
  table->byte_start.resize(count);
  table->byte_end.resize(count);
  table->string.resize(count);
  TraceInfo info = run.info();
  info.name = name;
  info.length = tokens;
  Recorder recorder(info, {Keep::gates}, nullptr);
  for (int layer = 0; layer < info.layers; ++layer) {
    const std::span<double> to = recorder.cumulative_log_gate(layer);
    for (int head = 0; head < info.heads; ++head) {
      const std::span<const double> from = run.cumulative_log_gate(layer, head).first(count);
      std::copy(from.begin(), from.end(), to.begin() + head * tokens);
    }
  }
  return recorder.finish(run.text(), table);
}

bool sameColour(QRgb a, QRgb b) {
  return std::abs(qRed(a) - qRed(b)) <= 1 && std::abs(qGreen(a) - qGreen(b)) <= 1 && std::abs(qBlue(a) - qBlue(b)) <= 1;
}

}  // namespace foxscope::gui::test
