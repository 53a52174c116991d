#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <QLabel>
#include <QWidget>

#include "app/figure/kinds/training.h"
#include "app/gui/document/trainings.h"
#include "app/gui/training/film_player.h"
#include "app/gui/training/training_bar.h"
#include "app/gui/training/training_plot.h"
#include "app/gui/views/view_part.h"

namespace foxscope::gui {

class FileWriter;

/// Losses of the trainings that are open, and decay times of the heads of the one that is shown, over the tokens seen,
/// with a line at the chosen checkpoint. The chosen head's curve is thick; a click chooses the nearest checkpoint.
class TrainingView : public QWidget, public ViewPart {
  Q_OBJECT

 public:
  TrainingView(RunList& runs, FileWriter& files, Trainings& trainings, QWidget* parent = nullptr);

  /// Above the plots, unless the window puts it elsewhere.
  [[nodiscard]] TrainingBar& bar() { return *m_bar; }
  [[nodiscard]] FilmPlayer& player() { return *m_player; }
  [[nodiscard]] TrainingPlot& losses() { return *m_losses; }
  [[nodiscard]] TrainingPlot& decayTimes() { return *m_decays; }
  /// The reading below the plots.
  [[nodiscard]] QString reading() const { return m_reading->text(); }

  [[nodiscard]] QJsonObject saveState() const override { return {}; }
  void restoreState(const QJsonObject& /*state*/) override {}
  /// Writes the figure of the trainings that are shown, as `foxscope figure training` draws it.
  void exportTo(const QString& path);
  [[nodiscard]] QList<QAction*> commands() const override { return m_commands; }
  [[nodiscard]] bool isSettled() const override;

 signals:
  /// The steps of the training are to be written to an animated picture or a film.
  void filmWanted(const QString& path);

 protected:
  void changeEvent(QEvent* event) override;

 private:
  enum Channel { kPlots };
  /// The content of the plots; a new one makes them anew.
  struct Content {
    std::vector<std::pair<QString, std::shared_ptr<const TrainingRecord>>> records;
    std::vector<std::pair<std::string, figure::CurveLook>> looks;
    std::optional<std::size_t> shown = {};  ///< place of the one whose decay times are drawn
    figure::Ground ground = figure::Ground::light;
    [[nodiscard]] bool operator==(const Content& other) const;
  };
  /// Both plots, made on a job.
  struct Plots {
    figure::TokenUnit unit;
    figure::CurvePlot losses;
    figure::CurvePlot decays;
  };
  void makeCommands();
  void follow();
  [[nodiscard]] Content content() const;
  static std::vector<figure::TrainingSource> sourcesOf(const Content& content);
  static Plots plotsOf(const Content& content);
  void choosePath();
  void chooseFilm(const QString& name, const QString& filter);
  void take(Plots plots);
  void followHead();
  void followMark();
  void chooseNearest(double x);
  void tell(double x);
  [[nodiscard]] std::optional<std::size_t> strongCurve() const;

  RunList& m_runs;
  FileWriter& m_files;
  Trainings& m_trainings;
  FilmPlayer* m_player;
  TrainingBar* m_bar;
  TrainingPlot* m_losses;
  TrainingPlot* m_decays;
  QLabel* m_none;
  QLabel* m_reading;
  QList<QAction*> m_commands;
  QAction* m_noFilm = nullptr;  ///< cannot be done; null: it can
  Content m_content;
  figure::TokenUnit m_unit;
  bool m_waiting = false;
};

}  // namespace foxscope::gui
