#pragma once

#include <vector>

#include <QAbstractTableModel>
#include <QString>

namespace foxscope::gui::curves {

/// A position where the chosen head forgets, as it is listed.
struct ListedEvent {
  std::int64_t position = 0;  ///< of the reference run
  QString token;              ///< that the head's run reads there
  double forgetGate = 1;
};

/// The strongest forgetting events of a head: token, position, f.
class ForgettingEventsModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { token, position, forgetGate, columns };

  using QAbstractTableModel::QAbstractTableModel;

  void setEvents(std::vector<ListedEvent> events);
  [[nodiscard]] const std::vector<ListedEvent>& events() const { return m_events; }

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  std::vector<ListedEvent> m_events;
};

}  // namespace foxscope::gui::curves
