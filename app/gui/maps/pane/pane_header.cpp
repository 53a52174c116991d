#include "app/gui/maps/pane/pane_header.h"

#include <algorithm>
#include <cmath>

#include <QEvent>
#include <QHBoxLayout>
#include <QMenu>
#include <QPainter>
#include <QVBoxLayout>
#include <QWidgetAction>

#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

constexpr int kAutomaticAxes = -1;

/// A menu's content that is more than a list.
void addContent(QMenu& menu, QWidget* content) {
  auto* action = new QWidgetAction(&menu);
  action->setDefaultWidget(content);
  menu.addAction(action);
}

/// Says that a pane keeps its head, in the colour that says what is active. A click lets the head go.
class KeptPill : public QToolButton {
 public:
  [[nodiscard]] QSize sizeHint() const override {
    return {fontMetrics().horizontalAdvance(text()) + 2 * kRoom + 2 * kBeside, fontMetrics().height() + 4};
  }
  [[nodiscard]] QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* /*event*/) override {
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const QRectF pill = QRectF(rect()).adjusted(kBeside, 1.5, -kBeside, -1.5);
    const QColor accent = palette().color(QPalette::Highlight);
    painter.setPen(QPen(hasFocus() ? palette().color(QPalette::WindowText) : accent, hasFocus() ? 2 : 1));
    painter.setBrush(underMouse() ? accent.lighter(115) : accent);
    painter.drawRoundedRect(pill, pill.height() / 2, pill.height() / 2);
    painter.setPen(palette().color(QPalette::HighlightedText));
    painter.drawText(pill, Qt::AlignCenter, text());
  }

 private:
  static constexpr int kRoom = 6;
  static constexpr int kBeside = 3;
};

/// Which of the two heads is shown, and the same in a narrow header, whose title tells the rest. "A" alone would be
/// taken for attention.
struct SidesText {
  QString whole;
  QString brief;
};
SidesText textsOf(Sides sides) {
  switch (sides) {
    case Sides::left:
      return {PaneHeader::tr("Compare"), PaneHeader::tr("vs.")};
    case Sides::right:
      return {QStringLiteral("B"), QStringLiteral("B")};
    case Sides::splitVertically:
      return {QStringLiteral("A | B"), QStringLiteral("|")};
    case Sides::splitHorizontally:
      return {QStringLiteral("A / B"), QStringLiteral("/")};
    case Sides::difference:
      return {QStringLiteral("A − B"), QStringLiteral("−")};
  }
  return {};
}

QString wordsOf(Reduction reduction) {
  switch (reduction) {
    case Reduction::max:
      return PaneHeader::tr("the largest of its entries (max)");
    case Reduction::mean:
      return PaneHeader::tr("their mean");
    case Reduction::min:
      return PaneHeader::tr("the smallest (min)");
    case Reduction::absmax:
      return PaneHeader::tr("the one of largest size, with its sign (absmax)");
  }
  return {};
}

/// A strip of a colour map.
QPixmap swatchOf(const figure::ColourMap& map, const QColor& frame, double ratio) {
  constexpr int kWidth = 26;
  constexpr int kHeight = 10;
  QPixmap swatch(static_cast<int>(std::lround(kWidth * ratio)), static_cast<int>(std::lround(kHeight * ratio)));
  swatch.setDevicePixelRatio(ratio);
  QPainter painter(&swatch);
  for (int x = 0; x < kWidth; ++x) {
    const figure::Rgb colour = figure::colourAt(map, (x + 0.5) / kWidth);
    painter.fillRect(QRect(x, 0, 1, kHeight), QColor(colour.red, colour.green, colour.blue));
  }
  painter.setPen(QPen(frame, 1));
  painter.drawRect(QRectF(0.5, 0.5, kWidth - 1, kHeight - 1));
  return swatch;
}

}  // namespace

PaneHeader::PaneHeader(QWidget* parent) : QWidget(parent), m_note(new QLabel), m_readout(new PaneReadout) {
  makeHeadButton();
  makeKeptPill();
  makeQuantityButton();
  makeSidesButton();
  makeColoursButton();
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(0, 0, 2, 0);
  row->setSpacing(0);
  for (HeaderButton* button : {m_head, m_quantity, m_sides, m_colours}) {
    row->addWidget(button);
    connect(button, &QToolButton::pressed, this, &PaneHeader::touched);
    connect(button->menu(), &QMenu::aboutToShow, this, &PaneHeader::touched);
  }
  row->insertWidget(1, m_kept, 0, Qt::AlignVCenter);
  QFont small = m_note->font();
  small.setItalic(true);
  m_note->setFont(small);
  m_note->setTextFormat(Qt::PlainText);
  m_note->setContentsMargins(6, 0, 6, 0);
  m_note->hide();
  row->addWidget(m_note);
  row->addWidget(m_readout, 1);
  setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
}

template <typename Change>
void PaneHeader::change(Change&& what) {
  PaneState wanted = m_state;
  what(wanted);
  if (wanted != m_state) emit stateWanted(wanted);
}

void PaneHeader::makeHeadButton() {
  auto* menu = new QMenu(this);
  m_headForm = new HeadForm(tr("Follow the head chosen in the window"));
  addContent(*menu, m_headForm);
  m_head = new HeaderButton(HeaderButton::Weight::title, menu);
  connect(m_headForm, &HeadForm::chosen, this,
          [this](const auto& head) { change([&](PaneState& state) { state.own = head; }); });
}

void PaneHeader::makeKeptPill() {
  m_kept = new KeptPill;
  m_kept->setObjectName(QStringLiteral("kept"));
  m_kept->setAccessibleName(tr("This pane keeps its head: let it go"));
  m_kept->setToolTip(
      tr("This pane keeps its head, whichever is chosen. Click: it shows the chosen head again (K, for the active "
         "pane)"));
  m_kept->hide();
  connect(m_kept, &QToolButton::clicked, this, [this] { change([](PaneState& state) { state.own.reset(); }); });
}

void PaneHeader::makeQuantityButton() {
  auto* menu = new QMenu(this);
  const auto add = [menu](QActionGroup* group, const QString& text, int value) {
    QAction* action = menu->addAction(text);
    action->setCheckable(true);
    action->setData(value);
    group->addAction(action);
  };
  m_quantityActions = new QActionGroup(this);
  menu->setToolTipsVisible(true);
  menu->addSection(tr("Quantity (Q: the next one)"));
  for (const auto quantity : {Quantity::forget, Quantity::log_forget, Quantity::logits, Quantity::attention,
                              Quantity::attention_without_gate, Quantity::gate_effect, Quantity::mixing}) {
    add(m_quantityActions, nameOf(quantity), static_cast<int>(quantity));
  }
  connect(m_quantityActions, &QActionGroup::triggered, this, [this](const QAction* action) {
    change([&](PaneState& state) { state.setQuantity(static_cast<Quantity>(action->data().toInt())); });
  });
  menu->addSeparator();
  m_firstKey = menu->addAction(tr("Without key 0 (rows divided by the rest)\t0"));
  m_firstKey->setCheckable(true);
  connect(m_firstKey, &QAction::triggered, this, [this](bool without) {
    change([&](PaneState& state) { state.setFirstKey(without ? FirstKey::left_out : FirstKey::counted); });
  });
  m_axesActions = new QActionGroup(this);
  menu->addSection(tr("Axes (X: the other ones)"));
  add(m_axesActions, tr("As suits the head's decay time"), kAutomaticAxes);
  add(m_axesActions, tr("Key: keys across, queries down"), static_cast<int>(MapAxes::key));
  add(m_axesActions, tr("Distance: queries across, distances up"), static_cast<int>(MapAxes::distance));
  connect(m_axesActions, &QActionGroup::triggered, this, [this](const QAction* action) {
    const int wanted = action->data().toInt();
    change([&](PaneState& state) {
      state.axes = wanted == kAutomaticAxes ? std::nullopt : std::optional(static_cast<MapAxes>(wanted));
    });
  });
  m_reductionActions = new QActionGroup(this);
  menu->addSection(tr("A pixel of many entries shows"));
  for (const auto reduction : {Reduction::max, Reduction::mean, Reduction::min, Reduction::absmax}) {
    add(m_reductionActions, wordsOf(reduction), static_cast<int>(reduction));
  }
  connect(m_reductionActions, &QActionGroup::triggered, this, [this](const QAction* action) {
    change([&](PaneState& state) {
      const auto wanted = static_cast<Reduction>(action->data().toInt());
      state.reduction.reset();
      if (state.effectiveReduction() != wanted) state.reduction = wanted;
    });
  });
  m_quantity = new HeaderButton(HeaderButton::Weight::regular, menu);
}

void PaneHeader::makeSidesButton() {
  auto* content = new QWidget;
  auto* column = new QVBoxLayout(content);
  column->setContentsMargins(0, 0, 0, 0);
  m_otherForm = new HeadForm(tr("B: the nearest head of another model"));
  m_nearest = new QPushButton(tr("Nearest head by distance profile"));
  m_nearest->setToolTip(
      tr("The head of the other model whose attention reaches as far: heads of different models do not correspond by "
         "number"));
  column->addWidget(m_otherForm);
  column->addWidget(m_nearest);
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
  addContent(*menu, content);
  m_sides = new HeaderButton(HeaderButton::Weight::regular, menu);
  m_sides->setToolTip(tr("Compare this head (A) with another one (B)"));
  connect(m_sideActions, &QActionGroup::triggered, this, [this](const QAction* action) {
    change([&](PaneState& state) { state.setSides(static_cast<Sides>(action->data().toInt())); });
  });
  connect(m_otherForm, &HeadForm::chosen, this,
          [this](const auto& head) { change([&](PaneState& state) { state.other = head; }); });
  connect(m_nearest, &QPushButton::clicked, this, &PaneHeader::nearestWanted);
}

void PaneHeader::makeColoursButton() {
  auto* menu = new QMenu(this);
  m_colourForm = new ColourForm;
  addContent(*menu, m_colourForm);
  m_colours = new HeaderButton(HeaderButton::Weight::regular, menu);
  m_colours->setToolTip(tr("Colours, limits, scale and threshold"));
  m_colours->setAccessibleName(tr("Colours"));
  connect(m_colourForm, &ColourForm::coloursWanted, this,
          [this](const ColourState& colours) { change([&](PaneState& state) { state.colours = colours; }); });
  connect(m_colourForm, &ColourForm::contrastWanted, this, &PaneHeader::contrastWanted);
}

void PaneHeader::show(const PaneState& state, const HeaderContext& context) {
  m_state = state;
  m_picture = context.picture;
  m_headForm->setRuns(context.runs);
  m_headForm->setHead(state.own, context.head);
  m_otherForm->setRuns(context.runs);
  m_otherForm->setHead(state.other, context.other);
  m_nearest->setEnabled(context.nearestKnown);
  const SidesText sides = textsOf(state.sides);
  m_sides->setTexts(sides.whole, sides.brief);
  m_sides->setAccessibleName(state.sides == Sides::left ? sides.whole : tr("Compare: %1").arg(sides.whole));
  const auto check = [](const QActionGroup& group, int value) {
    for (QAction* action : group.actions()) action->setChecked(action->data().toInt() == value);
  };
  check(*m_sideActions, static_cast<int>(state.sides));
  check(*m_quantityActions, static_cast<int>(state.quantity));
  for (QAction* action : m_quantityActions->actions()) {
    const auto reason = context.lacks.find(static_cast<Quantity>(action->data().toInt()));
    action->setEnabled(reason == context.lacks.end());
    action->setToolTip(reason == context.lacks.end() ? action->text() : reason->second);
  }
  check(*m_reductionActions, static_cast<int>(state.effectiveReduction()));
  check(*m_axesActions, state.axes ? static_cast<int>(*state.axes) : kAutomaticAxes);
  m_firstKey->setChecked(state.effectiveFirstKey() == FirstKey::left_out);
  m_firstKey->setEnabled(is_of_attention(state.quantity));
  m_colourForm->setState(state, context.picture);
  showQuantity();
  showColours();
  setTexts(m_texts);
}

void PaneHeader::showQuantity() {
  // The header names choices made by hand, not defaults.
  const QString name = nameOf(m_state.quantity);
  QString how = m_state.effectiveFirstKey() == FirstKey::left_out ? tr(" − key 0") : QString();
  if (m_state.reduction) how += QStringLiteral(", ") + nameOf(*m_state.reduction);
  m_quantity->setTexts(name + how, shortNameOf(m_state.quantity) + how);
  m_quantity->setAccessibleName(tr("Quantity: %1").arg(name + how));
}

void PaneHeader::showColours() {
  const figure::ColourMap* map = m_picture ? m_picture->colours.map : &figure::viridis();
  if (map == m_shownMap) return;
  m_shownMap = map;
  m_colours->setPicture(swatchOf(*map, mutedTextColour(palette()), devicePixelRatioF()));
}

void PaneHeader::setTexts(const HeaderTexts& texts) {
  m_texts = texts;
  std::vector<TitlePart> title = texts.heads;
  if (title.empty()) title.push_back({tr("Head")});
  m_head->setTitle(title);
  m_head->setAccessibleName(tr("Head: %1").arg(textOf(texts.heads)));
  m_note->setText(texts.note);
  showToolTips();
  fitParts();
}

void PaneHeader::fitParts() {
  const int value = m_readout->sizeHint().width();
  const int margin = layout()->contentsMargins().right();
  const bool isKept = m_state.own.has_value();
  m_kept->setVisible(isKept);
  m_kept->setText(tr("kept ×"));
  const int brief = m_head->briefWidth() + m_quantity->briefWidth() + margin;
  if (brief + m_kept->sizeHint().width() > width()) m_kept->setText(QStringLiteral("×"));
  const int kept = isKept ? m_kept->sizeHint().width() : 0;
  // The read-out comes before the choices, in another pane or by keys.
  const int named = brief + kept + value;
  const bool sided = m_state.sides != Sides::left;
  m_sides->setVisible(sided || named + m_sides->briefWidth() <= width());
  const int briefSides = m_sides->isHidden() ? 0 : m_sides->briefWidth();
  m_colours->setVisible(named + briefSides + m_colours->wholeWidth() <= width());
  const int swatch = m_colours->isHidden() ? 0 : m_colours->wholeWidth();
  int note = m_texts.note.isEmpty() ? 0 : std::min(m_note->sizeHint().width(), width() / 3);
  const int least = m_head->briefWidth() + kept + briefSides + m_quantity->briefWidth() + swatch;
  // Names of what is compared come before what is to be known of it, which the tooltip has too.
  if (note > 0 && least + note + margin > width()) note = 0;
  m_note->setVisible(note > 0);
  m_note->setMinimumWidth(std::max(note, 1));
  const int room = width() - margin - swatch - note - kept;
  const auto taken = [this](int sides, int quantity) { return m_head->wholeWidth() + sides + quantity; };
  int sides = m_sides->isHidden() ? 0 : m_sides->wholeWidth();
  int quantity = m_quantity->wholeWidth();
  // The read-out is worth more than the words.
  if (taken(sides, quantity) + m_readout->roomyWidth() > room) sides = briefSides;
  if (taken(sides, quantity) + value > room) quantity = m_quantity->briefWidth();
  if (sides > 0) m_sides->setFixedWidth(sides);
  m_quantity->setFixedWidth(quantity);
  const int left = std::max(0, room - sides - quantity);
  const int head = std::min(left, std::clamp(left - value, m_head->briefWidth(), m_head->wholeWidth()));
  m_head->setMinimumWidth(head);
  m_readout->setMinimumWidth(std::clamp(left - head, 0, value));
}

void PaneHeader::resizeEvent(QResizeEvent* event) {
  fitParts();
  QWidget::resizeEvent(event);
}

void PaneHeader::showToolTips() {
  const QString lines =
      QStringLiteral("%1 · %2\n%3").arg(textOf(m_texts.heads), nameOf(m_state.quantity), m_texts.detail);
  setToolTip(lines);
  m_note->setToolTip(lines);
  m_head->setToolTip(tr("%1\nClick: choose the head of this pane").arg(lines));
  m_quantity->setToolTip(tr("%1\nClick: choose the quantity (Q: the next one), and what a pixel shows").arg(lines));
}

void PaneHeader::mousePressEvent(QMouseEvent* /*event*/) { emit touched(); }

void PaneHeader::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) {
    m_shownMap = nullptr;
    showColours();
  }
  QWidget::changeEvent(event);
}

}  // namespace foxscope::gui
