#pragma once

#include <QDir>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>

#include "tests/gui/support.h"

namespace foxscope::gui::test {

/// A folder as `foxscope train` writes it. Checkpoints are the demo model; those of odd tens lack its last weights.
struct WrittenTraining {
  Folder folder;
  QString name;

  explicit WrittenTraining(const QString& called = QStringLiteral("out")) : name(called) {
    QDir().mkpath(path() + "/checkpoints");
    folder.write(name + "/recipe.json", "{}");
  }
  [[nodiscard]] QString path() const { return folder.path(name); }
  [[nodiscard]] QString checkpoint(int step) const {
    return path() + QStringLiteral("/checkpoints/step-%1").arg(step, 6, 10, QLatin1Char('0'));
  }
  void append(const QString& file, const QJsonObject& line) const {
    QFile log(path() + '/' + file);
    QVERIFY(log.open(QIODevice::Append));
    log.write(QJsonDocument(line).toJson(QJsonDocument::Compact) + '\n');
  }
  /// Steps up to this one, and measures at every tenth.
  void log(int first, int last) const {
    for (int step = first; step <= last; ++step) {
      const QJsonObject line{
          {"step", step}, {"tokens", 8192 * step}, {"loss", 9 - step / 10.0}, {"grad_norm", 1.0}, {"lr", 0.001}};
      append("log.jsonl", line);
      if (step % 10 != 0) continue;
      QJsonArray layers;
      for (int layer = 0; layer < 8; ++layer) layers.append(QJsonArray{layer + 1.5, step, 3.0, QJsonValue()});
      append("evaluation.jsonl",
             {{"step", step},
              {"tokens", 8192 * step},
              {"loss", 9.5 - step / 10.0},
              {"loss_error", 0.02},
              {"rows", 4},
              {"loss_by_position", QJsonObject{{"edges", QJsonArray{0, 1}}, {"loss", QJsonArray{9}}}},
              {"decay_time", layers}});
    }
  }
  void save(int step) const {
    const QString unfinished = path() + QStringLiteral("/checkpoints/.unfinished");
    QDir().mkpath(unfinished);
    const bool whole = step / 10 % 2 == 0;
    const QString last = QStringLiteral("model-00002-of-00002.safetensors");
    for (const QFileInfo& file : QDir(foxModel()).entryInfoList(QDir::Files)) {
      const QString copy = unfinished + '/' + file.fileName();
      const bool changed = !whole && file.fileName() == last;
      QVERIFY(changed ? QFile::copy(file.filePath(), copy) : QFile::link(file.filePath(), copy));
    }
    if (!whole) {
      constexpr qint64 kLacking = 200'000;
      QFile weights(unfinished + '/' + last);
      weights.setPermissions(weights.permissions() | QFile::WriteOwner);
      QVERIFY(weights.open(QIODevice::ReadWrite));
      QVERIFY(weights.seek(weights.size() - kLacking));
      weights.write(QByteArray(kLacking, '\0'));
    }
    QVERIFY(QDir().rename(unfinished, checkpoint(step)));
  }
  /// Thirty steps with three checkpoints.
  void make() const {
    log(1, 30);
    for (const int step : {10, 20, 30}) save(step);
  }
};

}  // namespace foxscope::gui::test
