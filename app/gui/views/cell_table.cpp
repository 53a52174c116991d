#include "app/gui/views/cell_table.h"

#include <optional>
#include <utility>

#include <QAccessible>
#include <QAccessibleWidget>
#include <QHash>
#include <QPointer>
#include <QWidget>
#include <QWindow>

namespace foxscope::gui {
namespace {

QHash<const QObject*, CellTable>& cellTables() {
  static QHash<const QObject*, CellTable> tables;
  return tables;
}

bool isInside(const QSize& size, int row, int column) {
  return row >= 0 && column >= 0 && row < size.height() && column < size.width();
}

/// One cell. It knows its place alone, and asks the widget's table for all else.
class AccessibleCell final : public QAccessibleInterface,
                             public QAccessibleTableCellInterface,
                             public QAccessibleActionInterface {
 public:
  AccessibleCell(QWidget& widget, int row, int column) : m_widget(&widget), m_row(row), m_column(column) {}

  [[nodiscard]] bool isValid() const override {
    const CellTable* cells = known();
    return cells != nullptr && isInside(cells->size(), m_row, m_column);
  }
  [[nodiscard]] QObject* object() const override { return nullptr; }
  [[nodiscard]] QWindow* window() const override {
    return m_widget == nullptr ? nullptr : m_widget->window()->windowHandle();
  }
  [[nodiscard]] QAccessibleInterface* parent() const override {
    return QAccessible::queryAccessibleInterface(m_widget.data());
  }
  [[nodiscard]] QAccessibleInterface* child(int /*index*/) const override { return nullptr; }
  [[nodiscard]] QAccessibleInterface* childAt(int /*x*/, int /*y*/) const override { return nullptr; }
  [[nodiscard]] int childCount() const override { return 0; }
  [[nodiscard]] int indexOfChild(const QAccessibleInterface* /*child*/) const override { return -1; }
  [[nodiscard]] QAccessible::Role role() const override { return QAccessible::Cell; }
  [[nodiscard]] QString text(QAccessible::Text part) const override {
    return part == QAccessible::Name && isValid() ? known()->text(m_row, m_column) : QString();
  }
  void setText(QAccessible::Text /*part*/, const QString& /*text*/) override {}
  [[nodiscard]] QRect rect() const override {
    if (!isValid()) return {};
    const QRect place = known()->place(m_row, m_column);
    return place.isEmpty() ? QRect() : QRect(m_widget->mapToGlobal(place.topLeft()), place.size());
  }
  [[nodiscard]] QAccessible::State state() const override {
    QAccessible::State state;
    state.invalid = !isValid();
    if (state.invalid) return state;
    state.selectable = state.focusable = true;
    state.selected = isSelected();
    state.focused = state.selected && m_widget->hasFocus();
    state.invisible = !m_widget->isVisible() || known()->place(m_row, m_column).isEmpty();
    return state;
  }
  void* interface_cast(QAccessible::InterfaceType type) override {
    if (type == QAccessible::TableCellInterface) return static_cast<QAccessibleTableCellInterface*>(this);
    if (type == QAccessible::ActionInterface) return static_cast<QAccessibleActionInterface*>(this);
    return nullptr;
  }

  [[nodiscard]] bool isSelected() const override { return isValid() && known()->isChosen(m_row, m_column); }
  [[nodiscard]] QList<QAccessibleInterface*> columnHeaderCells() const override { return {}; }
  [[nodiscard]] QList<QAccessibleInterface*> rowHeaderCells() const override { return {}; }
  [[nodiscard]] int columnIndex() const override { return m_column; }
  [[nodiscard]] int rowIndex() const override { return m_row; }
  [[nodiscard]] int columnExtent() const override { return 1; }
  [[nodiscard]] int rowExtent() const override { return 1; }
  [[nodiscard]] QAccessibleInterface* table() const override { return parent(); }

  [[nodiscard]] QStringList actionNames() const override { return {pressAction()}; }
  void doAction(const QString& name) override {
    if (name == pressAction() && isValid()) known()->choose(m_row, m_column);
  }
  [[nodiscard]] QStringList keyBindingsForAction(const QString& /*name*/) const override { return {}; }

 private:
  [[nodiscard]] const CellTable* known() const {
    if (m_widget == nullptr) return nullptr;
    const auto found = cellTables().constFind(m_widget.data());
    return found == cellTables().constEnd() ? nullptr : &*found;
  }

  QPointer<QWidget> m_widget;
  int m_row;
  int m_column;
};

/// The widget itself. Cells are made when they are asked for.
class AccessibleCells final : public QAccessibleWidget, public QAccessibleTableInterface {
 public:
  explicit AccessibleCells(QWidget* widget) : QAccessibleWidget(widget, QAccessible::Table) {}
  ~AccessibleCells() override { forget(); }

  void* interface_cast(QAccessible::InterfaceType type) override {
    if (type == QAccessible::TableInterface) return static_cast<QAccessibleTableInterface*>(this);
    return QAccessibleWidget::interface_cast(type);
  }

  [[nodiscard]] int childCount() const override { return size().width() * size().height(); }
  [[nodiscard]] QAccessibleInterface* child(int index) const override {
    const int columns = size().width();
    return columns <= 0 || index < 0 ? nullptr : cellAt(index / columns, index % columns);
  }
  [[nodiscard]] int indexOfChild(const QAccessibleInterface* child) const override {
    const auto* cell = child == nullptr ? nullptr : const_cast<QAccessibleInterface*>(child)->tableCellInterface();
    const bool own = cell != nullptr && child->parent() == this;
    return own ? cell->rowIndex() * size().width() + cell->columnIndex() : -1;
  }
  [[nodiscard]] QAccessibleInterface* childAt(int x, int y) const override {
    const QPoint place = widget()->mapFromGlobal(QPoint(x, y));
    const auto found = find([&](int row, int column) { return cells().place(row, column).contains(place); });
    return found ? cellAt(found->first, found->second) : nullptr;
  }
  [[nodiscard]] QAccessibleInterface* focusChild() const override {
    return widget()->hasFocus() ? chosenCell() : nullptr;
  }

  [[nodiscard]] QAccessibleInterface* caption() const override { return nullptr; }
  [[nodiscard]] QAccessibleInterface* summary() const override { return nullptr; }
  [[nodiscard]] QAccessibleInterface* cellAt(int row, int column) const override {
    if (!isInside(size(), row, column)) return nullptr;
    const std::pair place(row, column);
    if (const auto known = m_cells.constFind(place); known != m_cells.constEnd()) {
      if (QAccessibleInterface* cell = QAccessible::accessibleInterface(*known)) return cell;
    }
    auto* cell = new AccessibleCell(*widget(), row, column);  // owned by Qt's list of interfaces
    m_cells.insert(place, QAccessible::registerAccessibleInterface(cell));
    return cell;
  }
  [[nodiscard]] int rowCount() const override { return size().height(); }
  [[nodiscard]] int columnCount() const override { return size().width(); }
  [[nodiscard]] QString rowDescription(int row) const override {
    return cells().rowName ? cells().rowName(row) : QString();
  }
  [[nodiscard]] QString columnDescription(int column) const override {
    return cells().columnName ? cells().columnName(column) : QString();
  }
  [[nodiscard]] int selectedCellCount() const override { return static_cast<int>(selectedCells().size()); }
  [[nodiscard]] QList<QAccessibleInterface*> selectedCells() const override {
    QAccessibleInterface* cell = chosenCell();
    return cell == nullptr ? QList<QAccessibleInterface*>() : QList<QAccessibleInterface*>{cell};
  }
  [[nodiscard]] int selectedColumnCount() const override { return 0; }
  [[nodiscard]] int selectedRowCount() const override { return 0; }
  [[nodiscard]] QList<int> selectedColumns() const override { return {}; }
  [[nodiscard]] QList<int> selectedRows() const override { return {}; }
  [[nodiscard]] bool isColumnSelected(int /*column*/) const override { return false; }
  [[nodiscard]] bool isRowSelected(int /*row*/) const override { return false; }
  bool selectRow(int /*row*/) override { return false; }
  bool selectColumn(int /*column*/) override { return false; }
  bool unselectRow(int /*row*/) override { return false; }
  bool unselectColumn(int /*column*/) override { return false; }
  void modelChange(QAccessibleTableModelChangeEvent* /*event*/) override { forget(); }

 private:
  [[nodiscard]] const CellTable& cells() const {
    static const CellTable none{[] { return QSize(0, 0); }};  // of a widget that goes
    const auto found = cellTables().constFind(widget());
    return found == cellTables().constEnd() ? none : *found;
  }
  [[nodiscard]] QSize size() const { return cells().size(); }
  template <typename Is>
  [[nodiscard]] std::optional<std::pair<int, int>> find(const Is& is) const {
    const QSize all = size();
    for (int row = 0; row < all.height(); ++row) {
      for (int column = 0; column < all.width(); ++column) {
        if (is(row, column)) return std::pair(row, column);
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] QAccessibleInterface* chosenCell() const {
    const auto found = find([&](int row, int column) { return cells().isChosen(row, column); });
    return found ? cellAt(found->first, found->second) : nullptr;
  }
  void forget() {
    for (const QAccessible::Id id : std::as_const(m_cells)) QAccessible::deleteAccessibleInterface(id);
    m_cells.clear();
  }

  mutable QHash<std::pair<int, int>, QAccessible::Id> m_cells;
};

QAccessibleInterface* makeCells(const QString& /*key*/, QObject* object) {
  if (object == nullptr || !object->isWidgetType() || !cellTables().contains(object)) return nullptr;
  return new AccessibleCells(static_cast<QWidget*>(object));
}

}  // namespace

void describeCells(QWidget& widget, CellTable table) {
  static const bool installed = [] {
    QAccessible::installFactory(&makeCells);
    return true;
  }();
  static_cast<void>(installed);
  const bool known = cellTables().contains(&widget);
  cellTables().insert(&widget, std::move(table));
  if (known) return;
  // A widget that was given a name before has an interface already, without cells.
  QAccessibleInterface* made = QAccessible::queryAccessibleInterface(&widget);
  if (made != nullptr && made->tableInterface() == nullptr) {
    QAccessible::deleteAccessibleInterface(QAccessible::uniqueId(made));
  }
  QObject::connect(&widget, &QObject::destroyed, &widget, [](QObject* gone) { cellTables().remove(gone); });
}

void announceCell(QWidget& widget, int row, int column) {
  if (!QAccessible::isActive() || !widget.hasFocus()) return;
  QAccessibleInterface* table = QAccessible::queryAccessibleInterface(&widget);
  if (table == nullptr || table->tableInterface() == nullptr) return;
  QAccessibleInterface* cell = table->tableInterface()->cellAt(row, column);
  if (cell == nullptr) return;
  QAccessibleEvent event(cell, QAccessible::Focus);
  QAccessible::updateAccessibility(&event);
}

void announceCells(QWidget& widget) {
  if (!QAccessible::isActive() || !cellTables().contains(&widget)) return;
  QAccessibleTableModelChangeEvent event(&widget, QAccessibleTableModelChangeEvent::ModelReset);
  QAccessible::updateAccessibility(&event);
}

}  // namespace foxscope::gui
