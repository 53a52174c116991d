#include "app/gui/maps/pane_controls.h"

#include <QHBoxLayout>
#include <QMenu>
#include <QVBoxLayout>
#include <QWidgetAction>

namespace foxscope::gui {
namespace {

QToolButton* menuButton(const QString& toolTip, QWidget* content, QMenu* menu) {
  auto* button = new QToolButton;
  button->setPopupMode(QToolButton::InstantPopup);
  button->setAutoRaise(true);
  button->setToolButtonStyle(Qt::ToolButtonTextOnly);
  button->setToolTip(toolTip);
  auto* action = new QWidgetAction(menu);
  action->setDefaultWidget(content);
  menu->addAction(action);
  button->setMenu(menu);
  return button;
}

QString textOf(const NamedHead& head) {
  return QStringLiteral("%1 L%2 H%3").arg(head.run).arg(head.layer).arg(head.head);
}

/// The sign of the menu is drawn over the end of the text.
QString withRoom(const QString& text) { return text + QStringLiteral("  "); }

QString letterOf(Sides sides) {
  switch (sides) {
    case Sides::left:
      return QStringLiteral("A");
    case Sides::right:
      return QStringLiteral("B");
    case Sides::splitVertically:
      return QStringLiteral("A | B");
    case Sides::splitHorizontally:
      return QStringLiteral("A / B");
    case Sides::difference:
      return QStringLiteral("A − B");
  }
  return {};
}

}  // namespace

PaneControls::PaneControls(QWidget* parent) : QWidget(parent) {
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(2);
  makeHeadButton();
  makeLists();
  makeSidesButton();
  makeColoursButton();
  row->addWidget(m_head);
  row->addWidget(m_quantity);
  row->addWidget(m_reduction);
  row->addWidget(m_sides);
  row->addWidget(m_colours);
  row->addStretch(1);
}

template <typename Change>
void PaneControls::change(Change&& what) {
  PaneState wanted = m_state;
  what(wanted);
  if (wanted != m_state) emit stateWanted(wanted);
}

void PaneControls::makeHeadButton() {
  m_headForm = new HeadForm(tr("Follow the head chosen in the window"));
  m_head = menuButton(tr("Head of this pane"), m_headForm, new QMenu(this));
  connect(m_headForm, &HeadForm::chosen, this,
          [this](const auto& head) { change([&](PaneState& state) { state.own = head; }); });
}

void PaneControls::makeLists() {
  m_quantity = new QComboBox;
  m_quantity->setToolTip(tr("Quantity (Q: the next one)"));
  m_quantity->setAccessibleName(tr("Quantity"));
  for (const auto quantity : {Quantity::forget, Quantity::log_forget, Quantity::logits, Quantity::attention,
                              Quantity::attention_without_gate, Quantity::gate_effect}) {
    m_quantity->addItem(nameOf(quantity), static_cast<int>(quantity));
  }
  connect(m_quantity, &QComboBox::activated, this, [this](int index) {
    change([&](PaneState& state) { state.setQuantity(static_cast<Quantity>(m_quantity->itemData(index).toInt())); });
  });
  m_reduction = new QComboBox;
  m_reduction->setToolTip(
      tr("How the entries of a pixel become one: the largest, their mean, the smallest, or the one "
         "of largest size with its sign"));
  m_reduction->setAccessibleName(tr("Reduction"));
  for (const auto reduction : {Reduction::max, Reduction::mean, Reduction::min, Reduction::absmax}) {
    m_reduction->addItem(nameOf(reduction), static_cast<int>(reduction));
  }
  connect(m_reduction, &QComboBox::activated, this, [this](int index) {
    change([&](PaneState& state) {
      const auto wanted = static_cast<Reduction>(m_reduction->itemData(index).toInt());
      state.reduction.reset();
      if (state.effectiveReduction() != wanted) state.reduction = wanted;
    });
  });
  for (QComboBox* list : {m_quantity, m_reduction}) {
    list->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    list->setMinimumContentsLength(list == m_quantity ? 9 : 6);
  }
}

void PaneControls::makeSidesButton() {
  auto* content = new QWidget;
  auto* column = new QVBoxLayout(content);
  column->setContentsMargins(0, 0, 0, 0);
  m_otherForm = new HeadForm(tr("B: the nearest head of another model"));
  m_nearest = new QPushButton(tr("Nearest head by distance profile"));
  m_nearest->setToolTip(
      tr("The head of the other model whose attention reaches as far: numbers of heads mean nothing "
         "across models"));
  auto* menu = new QMenu(this);
  m_sideActions = new QActionGroup(this);
  const std::pair<Sides, QString> entries[] = {{Sides::left, tr("A only\tA")},
                                               {Sides::right, tr("B only\tB")},
                                               {Sides::splitVertically, tr("A | B side by side\tV")},
                                               {Sides::splitHorizontally, tr("A over B\tH")},
                                               {Sides::difference, tr("A − B\tD")}};
  for (const auto& [sides, text] : entries) {
    QAction* action = menu->addAction(text);
    action->setCheckable(true);
    action->setData(static_cast<int>(sides));
    m_sideActions->addAction(action);
  }
  menu->addSeparator();
  column->addWidget(m_otherForm);
  column->addWidget(m_nearest);
  m_sides = menuButton(tr("Compare this head (A) with another one (B)"), content, menu);
  connect(m_sideActions, &QActionGroup::triggered, this, [this](QAction* action) {
    change([&](PaneState& state) { state.setSides(static_cast<Sides>(action->data().toInt())); });
  });
  connect(m_otherForm, &HeadForm::chosen, this,
          [this](const auto& head) { change([&](PaneState& state) { state.other = head; }); });
  connect(m_nearest, &QPushButton::clicked, this, &PaneControls::nearestWanted);
}

void PaneControls::makeColoursButton() {
  m_colourForm = new ColourForm;
  m_colours = menuButton(tr("Colours, limits, scale and threshold"), m_colourForm, new QMenu(this));
  m_colours->setText(withRoom(tr("Colours")));
  connect(m_colourForm, &ColourForm::coloursWanted, this,
          [this](const ColourState& colours) { change([&](PaneState& state) { state.colours = colours; }); });
  connect(m_colourForm, &ColourForm::contrastWanted, this, &PaneControls::contrastWanted);
}

void PaneControls::show(const PaneState& state, const ControlsContext& context) {
  m_state = state;
  m_headForm->setRuns(context.runs);
  m_headForm->setHead(state.own, context.head);
  m_otherForm->setRuns(context.runs);
  m_otherForm->setHead(state.other, context.other);
  const QString numbers = tr("L%1 H%2").arg(context.head.layer).arg(context.head.head);
  const QString kept = state.own ? numbers + QChar(' ') + QChar(0x2691) : numbers;
  m_head->setText(withRoom(context.head.run.isEmpty() ? tr("Head") : kept));
  m_head->setAccessibleName(tr("Head: %1").arg(textOf(context.head)));
  m_quantity->setCurrentIndex(m_quantity->findData(static_cast<int>(state.quantity)));
  m_reduction->setCurrentIndex(m_reduction->findData(static_cast<int>(state.effectiveReduction())));
  m_sides->setText(withRoom(letterOf(state.sides)));
  m_sides->setAccessibleName(tr("Compare: %1").arg(letterOf(state.sides)));
  for (QAction* action : m_sideActions->actions()) {
    action->setChecked(action->data().toInt() == static_cast<int>(state.sides));
  }
  m_nearest->setEnabled(context.nearestKnown);
  m_colourForm->setState(state, context.picture);
}

}  // namespace foxscope::gui
