#include "tests/gui/support.h"

#include <QFile>
#include <QTest>

namespace foxscope::gui::test {
namespace {

constexpr int kRunMs = 120'000;

}  // namespace

QString source(const QString& path) { return QStringLiteral(FOXSCOPE_SOURCE_DIR "/") + path; }

QString Folder::write(const QString& name, const QByteArray& content) const {
  QFile file(path(name));
  if (!file.open(QIODevice::WriteOnly) || file.write(content) != content.size()) return {};
  return path(name);
}

bool waitUntilIdle(Document& document) {
  return QTest::qWaitFor([&] { return !document.busy() && !document.modelRuns().runStatus().running; }, kRunMs);
}

bool runDemo(Document& document, std::int64_t tokens) {
  document.open({foxModel(), transformerModel(), sampleText()});
  if (!waitUntilIdle(document)) return false;
  RunSettings settings = document.modelRuns().settings();
  settings.limit = tokens;
  document.modelRuns().setSettings(settings);
  document.modelRuns().startRun();
  return QTest::qWaitFor([&] { return document.runs().size() == 2 && !document.modelRuns().runStatus().running; },
                         kRunMs);
}

}  // namespace foxscope::gui::test
