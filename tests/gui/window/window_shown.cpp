#include "tests/gui/window/window_shown.h"

#include <QApplication>
#include <QFileInfo>
#include <QTemporaryDir>

#include "app/gui/views/theme.h"
#include "backend/eval/atlas/atlas.h"
#include "backend/eval/atlas/atlas_file.h"
#include "backend/model/session/engine.h"

namespace foxscope::gui::test {

void useOwnSettings() {
  static QTemporaryDir config;
  for (const char* home : {"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"})
    qputenv(home, config.path().toUtf8());
  QApplication::setPalette(lightPalette());
}

bool makeAtlas(const QString& path, const QStringList& models) {
  AtlasRequest request;
  for (const QString& folder : models) {
    ModelRequest model;
    model.name = folder == models.front() ? "fox" : QFileInfo(folder).fileName().toStdString();
    model.model = folder.toStdString();
    request.models.push_back(Engine().open(model));
  }
  EvaluationInput input;
  input.corpus = sampleText().toStdString();
  input.windows.length = 128;
  input.windows.windows = 6;
  request.inputs = {input};
  request.passages = 4;
  request.rows = 0;
  request.output = path.toStdString();
  const auto atlas = evaluate_atlas(request, {}, {});
  if (!atlas) return false;
  write_atlas_file(request.output, *atlas, {"foxscope", ""}, Overwrite::force);
  return true;
}

void press(QWidget& window, const QKeySequence& keys) {
  window.activateWindow();
  window.setFocus();
  QTest::keySequence(&window, keys);
}

}  // namespace foxscope::gui::test
