#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <QElapsedTimer>
#include <QObject>

#include "app/gui/document/runs/run_list.h"
#include "app/gui/maps/map_picture.h"

namespace foxscope::gui {

/// The pictures of a pane: which one is wanted, which are on their way, and which are there. Where the exact picture
/// takes a pass over queries and keys, a coarse one comes first.
class PanePictures : public QObject {
  Q_OBJECT

 public:
  /// @param shading  how the pane wants its pictures coloured now
  PanePictures(RunList& runs, std::function<Shading()> shading);

  /// Entries of attention that a picture of this request may leave out, since no colour shows less (docs/maps.md).
  [[nodiscard]] static double toleranceOf(const PictureRequest& request);

  /// Asks for this picture from now on.
  void want(const PictureRequest& wanted);
  /// Lets go of pictures on their way; those that are there stay.
  void cancel();
  /// Removes the picture and the wish for one.
  void clear();
  /// Lets go of pictures that are there. @returns whether there were some
  bool drop(const std::function<bool(const PictureContent& content)>& isGone);
  /// Colours that could not be are tried again.
  void retryColours() { m_refused.reset(); }
  /// The pane has painted what is there.
  void announcePainted();

  /// The newest one; null until there is one.
  [[nodiscard]] PicturePointer newest() const { return m_coarse ? m_coarse : m_exact; }
  /// The last exact one of what is shown, maybe of another range; null until there is one.
  [[nodiscard]] const PicturePointer& exact() const { return m_exact; }
  /// The pictures to be painted, the finer one last.
  [[nodiscard]] std::vector<PicturePointer> layers() const;
  [[nodiscard]] const std::optional<PictureRequest>& wanted() const { return m_wanted; }
  /// The exact picture of what is wanted is there.
  [[nodiscard]] bool isExact() const;
  /// Whether no picture is on its way.
  [[nodiscard]] bool isSettled() const { return !m_coarseFlight && !m_exactFlight && !m_colourFlight; }
  /// How far the exact picture is that is on its way; empty: nothing needs to be told.
  [[nodiscard]] const QString& progress() const { return m_progress; }

 signals:
  void picturesChanged();
  void progressed();
  /// Tells why a picture or its colours could not be made; empty: all is well again.
  void told(const QString& message);
  /// A picture came that is not wanted any more.
  void outdated();
  /// A picture that was not painted yet is about to be replaced by a better one.
  void overtaken();
  void firstPictureShown();  ///< of a wanted one; it may be coarse
  void exactPictureShown();

 private:
  enum Channel { kCoarse, kExact, kColours };
  /// Its exact picture is there so soon that none is made before it: known of closed forms and few entries, expected
  /// by the time that the last one of the same values took.
  [[nodiscard]] bool soon(const PictureRequest& request) const;
  void submitCoarse(const PictureRequest& wanted);
  void submitExact(const PictureRequest& wanted, Priority priority);
  void showProgress(const JobProgress& progress);
  void take(const PicturePointer& picture);
  void fail(const QString& message);
  void recolour();

  RunList& m_runs;
  std::function<Shading()> m_shading;
  PicturePointer m_exact;
  PicturePointer m_coarse;  ///< the last coarse one; none once the exact one is there
  std::optional<PictureRequest> m_wanted;
  std::optional<PictureRequest> m_coarseFlight;  ///< being computed
  std::optional<PictureRequest> m_exactFlight;
  QElapsedTimer m_exactSince;
  std::optional<Shading> m_colourFlight;
  std::optional<Shading> m_refused;  ///< colours that cannot be: their message stands until others are chosen
  QString m_progress;
  bool m_firstDue = false;      ///< no picture of what is wanted has come yet
  bool m_firstPending = false;  ///< it came, and is to be announced when it is painted
  bool m_exactPending = false;
};

}  // namespace foxscope::gui
