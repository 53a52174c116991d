#pragma once

#include <set>

#include <QJsonObject>
#include <QStringList>
#include <QWidget>

#include "app/gui/text/text_tint.h"

class QAction;
class QBoxLayout;
class QCheckBox;
class QComboBox;
class QLabel;
class QToolButton;

namespace foxscope::gui {

class ElidedLabel;
class TintBar;
class TintLegend;

/// The query of a row.
enum class RowQuery { pinned, pointer };

/// The user's choice of a tint behind the words. Runs are chosen by name; a name that no run has stands for the first
/// (minus: the second).
struct TintChoice {
  TintKind kind = TintKind::loss;
  QString run;
  QString minus;
  RowQuery query = RowQuery::pinned;
  std::set<TintKind> logarithmic{TintKind::attentionRow, TintKind::ungatedRow, TintKind::gate};
  bool operator==(const TintChoice&) const = default;

  [[nodiscard]] TintScaling scaling() const {
    return logarithmic.contains(kind) ? TintScaling::logarithmic : TintScaling::linear;
  }
  [[nodiscard]] QJsonObject toJson() const;
  /// The choice in a session; keys that are missing or not understood keep the value in `before`.
  static TintChoice fromJson(const QJsonObject& json, const TintChoice& before);
};

/// The name of a tint, for menus.
QString tintName(TintKind kind);

/// The lines above the text: choice of the tint, its scale and what it means; or, over the editor, how to get back.
class TextToolRow : public QWidget {
  Q_OBJECT

 public:
  explicit TextToolRow(QWidget* parent = nullptr);

  /// run: the run's text with tints; editor: the text to be run, and a run to go back to; empty: no run.
  enum class Mode { run, editor, empty };
  void setMode(Mode mode);
  void setRuns(const QStringList& names);
  /// The run whose loss is shown where none was chosen here.
  void setFollowed(const QString& name);
  void setChoice(const TintChoice& choice);
  [[nodiscard]] const TintChoice& choice() const { return m_choice; }

  /// Shows the scale; none where there is nothing to be read off it.
  void setScale(const TintScale* scale, const QString& unit);
  /// Shows which colours experts have; null: the tint is of none.
  void setExperts(const TintedExperts* experts);
  /// Whether experts are among the tints to choose from: some run has kept them.
  void offerExperts(bool offers);
  void setCaption(const QString& caption);
  /// Keeps scale and caption in one line: the text is low.
  void setLow(bool low);
  /// Sets the remedy for what the caption calls missing: a button beside it, hidden until it is shown.
  void setRemedy(QAction* remedy);
  void showRemedy(bool shows);
  /// A word that stands out: the text was edited. Empty: none.
  void setNotice(const QString& notice);
  [[nodiscard]] QString caption() const;
  [[nodiscard]] QString notice() const;

 signals:
  void choiceChanged();
  void modeToggled();

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void fillKinds();
  void addKind(TintKind kind);
  void showChoice();
  void choose(const TintChoice& choice);
  void showRun(QComboBox* combo, const QString& name, int otherwise) const;
  void colourTexts();

  TintChoice m_choice;
  QString m_followed;
  Mode m_mode = Mode::empty;
  QComboBox* m_kind;
  QComboBox* m_run;
  QWidget* m_minusPart;  ///< the sign and its box
  QComboBox* m_minus;
  QCheckBox* m_pointer;
  QCheckBox* m_log;
  QToolButton* m_edit;
  TintBar* m_bar;
  TintLegend* m_legend;
  ElidedLabel* m_caption;
  QToolButton* m_remedy;
  bool m_isRemedied = false;
  bool m_offersExperts = false;
  bool m_low = false;
  QBoxLayout* m_scaleRow = nullptr;
  QLabel* m_notice;
};

}  // namespace foxscope::gui
