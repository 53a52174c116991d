#include "app/gui/effects/change_card.h"

#include <algorithm>

#include <QHeaderView>
#include <QLocale>
#include <QVBoxLayout>

#include "app/gui/views/estimate_text.h"

namespace foxscope::gui {

ChangeCard::ChangeCard(QWidget* parent) : QWidget(parent), m_sentence(new QLabel), m_tokens(new QTableWidget) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(8, 0, 0, 0);
  constexpr int kLeast = 34;  // letters: two tokens and their numbers
  setMinimumWidth(kLeast * fontMetrics().averageCharWidth());
  m_sentence->setWordWrap(true);
  m_sentence->setTextFormat(Qt::RichText);
  m_sentence->setTextInteractionFlags(Qt::TextSelectableByMouse);
  layout->addWidget(m_sentence);
  m_tokens->setColumnCount(kColumns);
  m_tokens->setHorizontalHeaderLabels(
      {tr("hurts most"), tr("position"), tr("nats"), {}, tr("helps most"), tr("position"), tr("nats")});
  for (const Column column : {kHurtToken, kHelpedToken}) {
    m_tokens->horizontalHeaderItem(column)->setTextAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  }
  m_tokens->horizontalHeader()->setTextElideMode(Qt::ElideRight);
  m_tokens->setAccessibleName(tr("Tokens whose loss changes most"));
  m_tokens->setToolTip(tr("A click pins the position that predicts the token"));
  m_tokens->setEditTriggers(QAbstractItemView::NoEditTriggers);
  m_tokens->setSelectionMode(QAbstractItemView::SingleSelection);
  m_tokens->setShowGrid(false);
  m_tokens->setWordWrap(false);
  m_tokens->setTabKeyNavigation(false);
  m_tokens->verticalHeader()->hide();
  m_tokens->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 4);
  m_tokens->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  m_tokens->horizontalHeader()->setSectionResizeMode(kHurtToken, QHeaderView::Stretch);
  m_tokens->horizontalHeader()->setSectionResizeMode(kHelpedToken, QHeaderView::Stretch);
  m_tokens->horizontalHeader()->setSectionResizeMode(kBetween, QHeaderView::Fixed);
  m_tokens->horizontalHeader()->setMinimumSectionSize(0);
  m_tokens->setColumnWidth(kBetween, fontMetrics().averageCharWidth());
  m_tokens->horizontalHeader()->setHighlightSections(false);
  layout->addWidget(m_tokens, 1);
  const auto go = [this](int row, int column) {
    const QTableWidgetItem* item = m_tokens->item(row, column);
    if (item != nullptr && item->data(Qt::UserRole).isValid()) {
      emit positionChosen(item->data(Qt::UserRole).toLongLong());
    }
  };
  connect(m_tokens, &QTableWidget::cellClicked, this, go);
  connect(m_tokens, &QTableWidget::cellActivated, this, go);
}

// Tokens come before their positions, which a click pins.
void ChangeCard::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  constexpr int kRoomy = 60;  // letters
  const bool narrow = width() < kRoomy * fontMetrics().averageCharWidth();
  for (const Column column : {kHurtPosition, kHelpedPosition}) m_tokens->setColumnHidden(column, narrow);
}

void ChangeCard::fill(int column, const std::vector<TokenChange>& tokens,
                      const std::function<QString(std::int64_t position)>& token) {
  for (std::size_t n = 0; n < tokens.size(); ++n) {
    const QString change = signedText(tokens[n].change, 3);
    int place = column;
    for (const QString& text : {token(tokens[n].position), QString::number(tokens[n].position), change}) {
      auto* item = new QTableWidgetItem(text);
      if (place > column) item->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
      item->setData(Qt::UserRole, static_cast<qint64>(tokens[n].position));
      m_tokens->setItem(static_cast<int>(n), place++, item);
    }
  }
}

void ChangeCard::show(const QString& name, const LossChange& change, const QString& text,
                      const std::function<QString(std::int64_t position)>& token, const QString& others) {
  QString words = tr("<b>%1:</b> %2 nats/token (perplexity × %3) over %4 tokens")
                      .arg(name.toHtmlEscaped(), estimateText(change.mean))
                      .arg(change.perplexity_factor(), 0, 'f', 4)
                      .arg(QLocale(QLocale::English).toString(change.tokens));
  if (!text.isEmpty()) words += tr(" of %1").arg(text.toHtmlEscaped());
  words += QStringLiteral("; ") + chanceText(change.mean);
  if (!others.isEmpty()) words += QStringLiteral("<br>") + others.toHtmlEscaped();
  m_sentence->setText(words);
  m_sentence->setAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  m_tokens->clearContents();
  m_tokens->setRowCount(static_cast<int>(std::max(change.hurt.size(), change.helped.size())));
  fill(kHurtToken, change.hurt, token);
  fill(kHelpedToken, change.helped, token);
  m_tokens->setVisible(true);
}

void ChangeCard::showHint(const QString& words) {
  m_sentence->setText(words.toHtmlEscaped());
  m_sentence->setAlignment(Qt::AlignCenter);
  m_tokens->setRowCount(0);
  m_tokens->setVisible(false);
}

}  // namespace foxscope::gui
