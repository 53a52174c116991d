#include "app/gui/curves/forgetting_events_model.h"

#include "app/gui/curves/plot_style.h"

namespace foxscope::gui::curves {

void ForgettingEventsModel::setEvents(std::vector<ListedEvent> events) {
  beginResetModel();
  m_events = std::move(events);
  endResetModel();
}

int ForgettingEventsModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(m_events.size());
}

int ForgettingEventsModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : columns; }

QVariant ForgettingEventsModel::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
  const ListedEvent& event = m_events[static_cast<std::size_t>(index.row())];
  if (role == Qt::TextAlignmentRole) {
    return QVariant(index.column() == token ? Qt::AlignLeft | Qt::AlignVCenter : Qt::AlignRight | Qt::AlignVCenter);
  }
  if (role == Qt::ToolTipRole) {
    return tr("position %1 reads “%2”: f = %3, all that came before is kept by this factor. Click to go there")
        .arg(event.position)
        .arg(event.token, numberText(event.forgetGate));
  }
  if (role != Qt::DisplayRole) return {};
  switch (index.column()) {
    case token:
      return event.token;
    case position:
      return QString::number(event.position);
    default:
      return numberText(event.forgetGate);
  }
}

QVariant ForgettingEventsModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  switch (section) {
    case token:
      return tr("reads");
    case position:
      return tr("position");
    default:
      return tr("f");
  }
}

}  // namespace foxscope::gui::curves
