#pragma once

#include <QDialog>

#include "app/gui/document/document.h"

class QTextBrowser;

namespace foxscope::gui {

/// What is known of a model and its run, as `foxscope info` says it; can be selected and copied. Checkpoints are read
/// on a job. It goes when it is closed.
class ModelCard : public QDialog {
  Q_OBJECT

 public:
  ModelCard(Document& document, const Document::ListRow& row, QWidget* parent);
  [[nodiscard]] QString text() const;

 private:
  void read(const Document::ListRow& row);

  Document& m_document;
  QTextBrowser* m_text = nullptr;
};

}  // namespace foxscope::gui
