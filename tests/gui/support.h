#pragma once

#include <memory>
#include <string>

#include <QString>
#include <QTemporaryDir>

#include "app/gui/document/document.h"

namespace foxscope::gui::test {

/// Paths of the checkout.
QString source(const QString& path);
inline QString foxModel() { return source("resources/models/fox-pro-12m"); }
inline QString transformerModel() { return source("resources/models/transformer-pro-12m"); }
inline QString sampleText() { return source("resources/texts/black-beauty-1-3.txt"); }

/// A folder that goes away with the test, and files in it.
class Folder {
 public:
  [[nodiscard]] QString path(const QString& name) const { return m_folder.filePath(name); }
  QString write(const QString& name, const QByteArray& content) const;

 private:
  QTemporaryDir m_folder;
};

/// Runs both demo models on the first tokens of a sample text, and waits for them.
/// @returns false if they did not come
bool runDemo(Document& document, std::int64_t tokens);

/// Waits until the document's jobs have all been answered.
bool waitUntilIdle(Document& document);

}  // namespace foxscope::gui::test
