#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <QImage>
#include <QObject>
#include <QRect>
#include <QString>
#include <QTimer>

namespace foxscope::gui {

class FrameQueue;
class MainWindow;

/// Writes the steps of the training that is shown to a film: at each step, when everything that the window shows is
/// final, a picture of its heads, maps and curves with a caption. It goes through the steps by itself, twice, since
/// colours have the limits of all steps when all have been shown, and comes back to the one that was shown. A step that
/// cannot be shown ends it with an error, and no file is left.
class FilmExport : public QObject {
  Q_OBJECT

 public:
  explicit FilmExport(MainWindow& window);
  ~FilmExport() override;

  /// @param path  .webp or .mp4
  void write(const QString& path);
  [[nodiscard]] bool running() const { return m_clock.isActive(); }
  /// The part of the window between its bars.
  [[nodiscard]] QRect area() const;
  /// A picture of it as it is seen now, without messages, with a caption in the place of the slider.
  [[nodiscard]] QImage frame();

 private:
  void look();
  /// Asks for the next step; at the end lets the file be finished.
  void goOn();
  void fail(const QString& reason);
  void end();

  MainWindow& m_window;
  std::shared_ptr<FrameQueue> m_queue;
  QString m_path;
  QString m_folder;                   ///< of the training
  std::vector<std::int64_t> m_steps;  ///< of the film
  std::size_t m_next = 0;             ///< that is shown next
  bool m_drawing = false;             ///< all have been shown, and pictures are taken
  bool m_failed = false;
  std::int64_t m_before = 0;  ///< the step that was shown
  int m_calm = 0;             ///< how often in a row all was final
  int m_tries = 0;
  QTimer m_clock;
};

}  // namespace foxscope::gui
