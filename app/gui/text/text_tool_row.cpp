#include "app/gui/text/text_tool_row.h"

#include <QCheckBox>
#include <QComboBox>
#include <QCoreApplication>
#include <QEvent>
#include <QHBoxLayout>
#include <QJsonArray>
#include <QLabel>
#include <QToolButton>
#include <QVBoxLayout>

#include "app/gui/text/tint_bar.h"
#include "app/gui/text/tint_legend.h"
#include "app/gui/views/elided_combo.h"
#include "app/gui/views/elided_label.h"
#include "app/gui/views/flow_layout.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

constexpr int kGap = 6;  ///< between choices, logical pixels

QString tintTip(TintKind kind) {
  switch (kind) {
    case TintKind::none:
      return TextToolRow::tr("The plain text");
    case TintKind::loss:
      return TextToolRow::tr("How badly each word was predicted, by the position before it");
    case TintKind::lossDifference:
      return TextToolRow::tr("Where one run predicts worse (red) or better (blue) than another");
    case TintKind::gate:
      return TextToolRow::tr("How much the chosen head forgets where it reads each word");
    case TintKind::forgetRow:
      return TextToolRow::tr("How much of each word the gates of the chosen head leave to one query");
    case TintKind::attentionRow:
      return TextToolRow::tr("How much one query of the chosen head attends to each word");
    case TintKind::ungatedRow:
      return TextToolRow::tr("The same from queries and keys alone, as if nothing was forgotten");
    case TintKind::saliency:
      return TextToolRow::tr(
          "The effect of raising the chosen head's gate at each word by 1 %: the loss rises (red) or falls (blue)");
    case TintKind::keyLogit:
      return TextToolRow::tr(
          "The effect of adding 0.01 to every logit of each word as a key of the chosen head, in the same colours");
    case TintKind::expert:
      return TextToolRow::tr("The heaviest expert where each word is read, in the layer of the chosen head");
  }
  return {};
}

QCheckBox* toggle(QWidget* parent, const QString& text, const QString& tip) {
  auto* button = new QCheckBox(text, parent);
  button->setToolTip(tip);
  button->setAccessibleName(text);
  return button;
}

}  // namespace

QString tintName(TintKind kind) {
  switch (kind) {
    case TintKind::none:
      return TextToolRow::tr("No tint");
    case TintKind::loss:
      return TextToolRow::tr("Loss");
    case TintKind::lossDifference:
      return TextToolRow::tr("Loss difference");
    case TintKind::gate:
      return TextToolRow::tr("Forgetting 1 − f");
    case TintKind::forgetRow:
      return TextToolRow::tr("Row of F");
    case TintKind::attentionRow:
      return TextToolRow::tr("Row of A");
    case TintKind::ungatedRow:
      return TextToolRow::tr("Row of A without gate");
    case TintKind::saliency:
      return TextToolRow::tr("Saliency of gates");
    case TintKind::keyLogit:
      return TextToolRow::tr("Saliency of keys");
    case TintKind::expert:
      return TextToolRow::tr("Expert of the layer");
  }
  return {};
}

QJsonObject TintChoice::toJson() const {
  QJsonArray logs;
  for (const TintKind each : logarithmic) logs += toString(each);
  return {{"tint", toString(kind)},
          {"run", run},
          {"minus", minus},
          {"follow_pointer", query == RowQuery::pointer},
          {"logarithmic", logs}};
}

TintChoice TintChoice::fromJson(const QJsonObject& json, const TintChoice& before) {
  TintChoice choice = before;
  if (const auto kind = tintKindFromString(json["tint"].toString())) choice.kind = *kind;
  choice.run = json["run"].toString(before.run);
  choice.minus = json["minus"].toString(before.minus);
  if (json["follow_pointer"].isBool())
    choice.query = json["follow_pointer"].toBool() ? RowQuery::pointer : RowQuery::pinned;
  if (json["logarithmic"].isArray()) {
    choice.logarithmic.clear();
    for (const QJsonValue word : json["logarithmic"].toArray()) {
      if (const auto kind = tintKindFromString(word.toString())) choice.logarithmic.insert(*kind);
    }
  }
  return choice;
}

TextToolRow::TextToolRow(QWidget* parent)
    : QWidget(parent),
      m_kind(new ElidedCombo(this)),
      m_run(new ElidedCombo(this)),
      m_minusPart(new QWidget(this)),
      m_minus(new ElidedCombo),
      m_pointer(toggle(this, tr("Follow pointer"), tr("The row of the word under the pointer, not of the pinned one"))),
      m_log(toggle(this, tr("Log"), tr("Logarithmic scale, four decades"))),
      m_edit(new QToolButton(this)),
      m_bar(new TintBar(this)),
      m_legend(new TintLegend(this)),
      m_caption(new ElidedLabel(this)),
      m_remedy(new QToolButton(this)),
      m_notice(new QLabel(this)) {
  m_caption->setObjectName(QStringLiteral("tintCaption"));
  m_notice->setObjectName(QStringLiteral("textNotice"));
  m_kind->setToolTip(tr("What words are tinted by"));
  m_kind->setAccessibleName(tr("Tint"));
  m_run->setToolTip(tr("Run whose loss is shown"));
  m_run->setAccessibleName(tr("Run"));
  m_minus->setToolTip(tr("Run whose loss is subtracted"));
  m_minus->setAccessibleName(tr("Subtracted run"));
  for (QComboBox* combo : {m_kind, m_run, m_minus}) {
    combo->setSizeAdjustPolicy(QComboBox::AdjustToContents);
  }
  fillKinds();

  auto* minus = new QHBoxLayout(m_minusPart);
  minus->setContentsMargins(0, 0, 0, 0);
  minus->addWidget(new QLabel(QStringLiteral("−")));
  minus->addWidget(m_minus);
  auto* first = new FlowLayout(kGap, kGap / 2);
  for (QWidget* widget : {static_cast<QWidget*>(m_kind), static_cast<QWidget*>(m_edit), static_cast<QWidget*>(m_run),
                          m_minusPart, static_cast<QWidget*>(m_pointer), static_cast<QWidget*>(m_log)}) {
    first->addWidget(widget);
  }
  first->setAlignment(m_edit, Qt::AlignRight);
  m_scaleRow = new QHBoxLayout;
  m_scaleRow->setSpacing(fontMetrics().averageCharWidth());
  m_scaleRow->addWidget(m_bar);
  m_scaleRow->addWidget(m_caption, 1);
  m_scaleRow->addWidget(m_remedy, 0, Qt::AlignLeft);
  auto* rows = new QVBoxLayout(this);
  rows->setContentsMargins(6, 4, 6, 4);
  rows->setSpacing(3);
  rows->addLayout(first);
  rows->addWidget(m_legend);
  rows->addLayout(m_scaleRow);
  rows->addWidget(m_notice);
  m_notice->hide();
  m_legend->hide();
  m_remedy->setObjectName(QStringLiteral("tintRemedy"));
  m_remedy->hide();

  connect(m_run, &QComboBox::textActivated, this, [this](const QString& name) {
    TintChoice choice = m_choice;
    choice.run = name;
    choose(choice);
  });
  connect(m_minus, &QComboBox::textActivated, this, [this](const QString& name) {
    TintChoice choice = m_choice;
    choice.minus = name;
    choose(choice);
  });
  connect(m_pointer, &QCheckBox::clicked, this, [this](bool checked) {
    TintChoice choice = m_choice;
    choice.query = checked ? RowQuery::pointer : RowQuery::pinned;
    choose(choice);
  });
  connect(m_log, &QCheckBox::clicked, this, [this](bool checked) {
    TintChoice choice = m_choice;
    if (checked) {
      choice.logarithmic.insert(choice.kind);
    } else {
      choice.logarithmic.erase(choice.kind);
    }
    choose(choice);
  });
  connect(m_edit, &QToolButton::clicked, this, &TextToolRow::modeToggled);
  colourTexts();
  setMode(Mode::empty);
}

void TextToolRow::fillKinds() {
  for (const TintKind kind : kTintKinds) {
    if (kind != TintKind::expert) addKind(kind);
  }
  connect(m_kind, &QComboBox::activated, this, [this](int index) {
    const auto kind = tintKindFromString(m_kind->itemData(index).toString());
    if (!kind) return;
    TintChoice choice = m_choice;
    choice.kind = *kind;
    choose(choice);
  });
}

void TextToolRow::addKind(TintKind kind) {
  m_kind->addItem(tintName(kind), toString(kind));
  m_kind->setItemData(m_kind->count() - 1, tintTip(kind), Qt::ToolTipRole);
}

void TextToolRow::offerExperts(bool offers) {
  m_offersExperts = offers;
  showChoice();
}

void TextToolRow::choose(const TintChoice& choice) {
  if (choice == m_choice) return;
  m_choice = choice;
  showChoice();
  emit choiceChanged();
}

void TextToolRow::setChoice(const TintChoice& choice) {
  m_choice = choice;
  showChoice();
}

void TextToolRow::setMode(Mode mode) {
  m_mode = mode;
  m_edit->setVisible(mode != Mode::empty);
  const bool shows = mode == Mode::run;
  m_edit->setText(shows ? tr("Edit text") : tr("Show run"));
  m_edit->setToolTip(shows ? tr("Change the text that the next run (F5) reads")
                           : tr("Back to the text that was run, with its tints"));
  setVisible(mode != Mode::empty);
  showChoice();
}

void TextToolRow::setRuns(const QStringList& names) {
  for (QComboBox* combo : {m_run, m_minus}) {
    combo->clear();
    combo->addItems(names);
  }
  showChoice();
}

void TextToolRow::setFollowed(const QString& name) {
  if (name == m_followed) return;
  m_followed = name;
  showChoice();
}

void TextToolRow::showRun(QComboBox* combo, const QString& name, int otherwise) const {
  const int found = combo->findText(name);
  combo->setCurrentIndex(found >= 0 ? found : std::min(otherwise, combo->count() - 1));
}

void TextToolRow::showChoice() {
  const bool shows = m_mode == Mode::run;
  const TintKind kind = m_choice.kind;
  const bool experts = m_offersExperts || kind == TintKind::expert;
  const int ofExperts = m_kind->findData(toString(TintKind::expert));
  if (experts && ofExperts < 0) addKind(TintKind::expert);
  if (!experts && ofExperts >= 0) m_kind->removeItem(ofExperts);
  m_kind->setCurrentIndex(m_kind->findData(toString(kind)));
  const bool follows = kind == TintKind::loss && m_run->findText(m_choice.run) < 0;
  showRun(m_run, follows ? m_followed : m_choice.run, 0);
  showRun(m_minus, m_choice.minus, 1);
  m_kind->setVisible(shows);
  m_run->setVisible(shows && (kind == TintKind::loss || kind == TintKind::lossDifference));
  m_minusPart->setVisible(shows && kind == TintKind::lossDifference);
  m_pointer->setVisible(shows && isRow(kind));
  m_pointer->setChecked(m_choice.query == RowQuery::pointer);
  m_log->setVisible(shows && kind != TintKind::none && kind != TintKind::expert && !hasSigns(kind));
  m_log->setChecked(m_choice.scaling() == TintScaling::logarithmic);
  m_caption->setVisible(shows);
  // The meaning of saliency's numbers is shown whole, below their scale, where the text has room for that.
  const bool whole = isOwed(kind) && !m_low;
  m_scaleRow->setDirection(whole ? QBoxLayout::TopToBottom : QBoxLayout::LeftToRight);
  m_caption->setWrapped(whole);
  m_remedy->setVisible(shows && m_isRemedied);
  if (!shows) m_bar->hide();
  if (!shows || kind != TintKind::expert) m_legend->hide();
}

void TextToolRow::setScale(const TintScale* scale, const QString& unit) {
  m_bar->setVisible(scale != nullptr && m_mode == Mode::run);
  if (scale != nullptr) m_bar->setScale(*scale, unit);
}

void TextToolRow::setExperts(const TintedExperts* experts) {
  m_legend->setVisible(experts != nullptr && m_mode == Mode::run);
  if (experts != nullptr) m_legend->setExperts(*experts);
}

void TextToolRow::setCaption(const QString& caption) { m_caption->setFullText(caption); }
void TextToolRow::setLow(bool low) {
  if (low == m_low) return;
  m_low = low;
  showChoice();
}

void TextToolRow::setRemedy(QAction* remedy) { m_remedy->setDefaultAction(remedy); }

void TextToolRow::showRemedy(bool shows) {
  m_isRemedied = shows;
  m_remedy->setVisible(m_isRemedied && m_mode == Mode::run);
}
void TextToolRow::setNotice(const QString& notice) {
  m_notice->setText(notice);
  m_notice->setVisible(!notice.isEmpty());
}
QString TextToolRow::caption() const { return m_caption->text(); }
QString TextToolRow::notice() const { return m_notice->text(); }

void TextToolRow::colourTexts() {
  muteText(*m_caption, palette());
  QPalette noticed = palette();
  noticed.setColor(QPalette::WindowText, pinnedQueryColour(noticed));
  m_notice->setPalette(noticed);
}

void TextToolRow::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) colourTexts();
}

}  // namespace foxscope::gui
