#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <QImage>
#include <QObject>
#include <QString>
#include <QTimer>

namespace foxscope::gui {

class FrameQueue;
class MainWindow;

/// Writes the steps of the training that is shown to a film: at each step, when everything that the window shows is
/// final, a picture of its heads, maps and curves with a caption. It goes through the steps by itself, and comes back
/// to the one that was shown.
class FilmExport : public QObject {
  Q_OBJECT

 public:
  explicit FilmExport(MainWindow& window);
  ~FilmExport() override;

  /// @param path  .webp or .mp4
  void write(const QString& path);
  [[nodiscard]] bool running() const { return m_clock.isActive(); }

 private:
  void look();
  /// Asks for the next step; at the end lets the file be finished.
  void goOn();
  void end();
  [[nodiscard]] QImage picture() const;

  MainWindow& m_window;
  std::shared_ptr<FrameQueue> m_queue;
  QString m_path;
  QString m_folder;                   ///< of the training
  std::vector<std::int64_t> m_steps;  ///< of the film
  std::size_t m_next = 0;             ///< whose picture is wanted
  std::int64_t m_before = 0;          ///< the step that was shown
  int m_calm = 0;                     ///< how often in a row all was final
  int m_tries = 0;
  QTimer m_clock;
};

}  // namespace foxscope::gui
