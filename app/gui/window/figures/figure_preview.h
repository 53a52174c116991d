#pragma once

#include <functional>
#include <optional>
#include <string>

#include <QImage>
#include <QTimer>
#include <QWidget>

#include "app/figure/figure_format.h"
#include "app/gui/document/job_runner.h"

class QLabel;

namespace foxscope::gui {

/// Draws a page in this format, on a job's thread. @returns the file's bytes; nothing if the job was stopped
using DrawPage = std::function<std::optional<std::string>(const figure::FigureFormat& format, const Job& job)>;

/// A page as it will be, drawn in the background a moment after the last change, with its size below it; where it
/// cannot be drawn, why.
class FigurePreview : public QWidget {
  Q_OBJECT

 public:
  explicit FigurePreview(JobRunner& jobs, QWidget* parent = nullptr);

  /// Shows this page, in the place of whatever was asked for before.
  void setPage(DrawPage draw, const figure::FigureFormat& format);
  /// A picture that is there already.
  void setPicture(const QImage& picture, const QString& caption);
  /// Words instead of a picture.
  void setWords(const QString& words);

  /// Whether the preview shows the last request.
  [[nodiscard]] bool isSettled() const { return m_settled; }
  /// Null where there are words instead.
  [[nodiscard]] const QImage& picture() const { return m_picture; }
  /// The page's size, or the words.
  [[nodiscard]] QString caption() const;

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void ask();
  void take(const std::string& png, double dpi);
  [[nodiscard]] QRectF room() const;

  JobRunner& m_jobs;
  DrawPage m_draw;
  figure::FigureFormat m_format;
  QImage m_picture;
  QString m_words;
  QLabel* m_caption;
  QTimer m_rest;  ///< no change for this long
  bool m_settled = true;
};

}  // namespace foxscope::gui
