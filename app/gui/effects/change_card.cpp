#include "app/gui/effects/change_card.h"

#include <algorithm>
#include <tuple>

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
  m_tokens->setHorizontalHeaderLabels({tr("hurts most"),
                                       tr("token"),
                                       tr("position"),
                                       tr("nats"),
                                       {},
                                       tr("helps most"),
                                       tr("token"),
                                       tr("position"),
                                       tr("nats")});
  for (const Column column : {kHurtBefore, kHurtToken, kHelpedBefore, kHelpedToken}) {
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
  // The end of the words before a token is seen.
  m_tokens->setTextElideMode(Qt::ElideLeft);
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

void ChangeCard::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  layColumns();
}

// Tokens come before what stands before them, and that before their positions, which a click pins.
void ChangeCard::layColumns() {
  const int letters = width() / fontMetrics().averageCharWidth();
  constexpr int kRoomForBefore = 50;
  constexpr int kRoomy = 76;
  const bool before = m_hasBefore && letters >= kRoomForBefore;
  const bool positions = letters >= (before ? kRoomy : 60);
  QHeaderView& header = *m_tokens->horizontalHeader();
  for (const auto& [context, token, position] :
       {std::tuple(kHurtBefore, kHurtToken, kHurtPosition), std::tuple(kHelpedBefore, kHelpedToken, kHelpedPosition)}) {
    m_tokens->setColumnHidden(context, !before);
    m_tokens->setColumnHidden(position, !positions);
    header.setSectionResizeMode(context, before ? QHeaderView::Stretch : QHeaderView::Fixed);
    header.setSectionResizeMode(token, before ? QHeaderView::ResizeToContents : QHeaderView::Stretch);
    m_tokens->horizontalHeaderItem(token)->setText(before ? tr("token")
                                                          : m_tokens->horizontalHeaderItem(context)->text());
  }
}

void ChangeCard::fill(int column, const std::vector<TokenChange>& tokens, const Words& words) {
  for (std::size_t n = 0; n < tokens.size(); ++n) {
    const std::int64_t position = tokens[n].position;
    const QString before = words.before(position);
    const QString token = words.token(position);
    m_hasBefore = m_hasBefore || !before.isEmpty();
    int place = column;
    for (const QString& text : {before, token, QString::number(position), signedText(tokens[n].change, 3)}) {
      auto* item = new QTableWidgetItem(text);
      if (place != column + 1) item->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
      item->setData(Qt::UserRole, static_cast<qint64>(position));
      item->setToolTip(before.isEmpty() ? tr("%1, position %2").arg(token).arg(position)
                                        : tr("…%1 → %2, position %3").arg(before, token).arg(position));
      m_tokens->setItem(static_cast<int>(n), place++, item);
    }
  }
}

void ChangeCard::show(const QString& name, const LossChange& change, const QString& text, const Words& words,
                      const QString& others) {
  QString sentence = tr("<b>%1:</b> %2 nats/token (perplexity × %3) over %4 tokens")
                         .arg(name.toHtmlEscaped(), estimateText(change.mean))
                         .arg(change.perplexity_factor(), 0, 'f', 4)
                         .arg(QLocale(QLocale::English).toString(change.tokens));
  if (!text.isEmpty()) sentence += tr(" of %1").arg(text.toHtmlEscaped());
  sentence += QStringLiteral("; ") + chanceText(change.mean);
  if (!others.isEmpty()) sentence += QStringLiteral("<br>") + others.toHtmlEscaped();
  m_sentence->setText(sentence);
  m_sentence->setAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  m_tokens->clearContents();
  m_tokens->setRowCount(static_cast<int>(std::max(change.hurt.size(), change.helped.size())));
  m_hasBefore = false;
  fill(kHurtBefore, change.hurt, words);
  fill(kHelpedBefore, change.helped, words);
  layColumns();
  m_tokens->setVisible(true);
}

void ChangeCard::showHint(const QString& words) {
  m_sentence->setText(words.toHtmlEscaped());
  m_sentence->setAlignment(Qt::AlignCenter);
  m_tokens->setRowCount(0);
  m_tokens->setVisible(false);
}

}  // namespace foxscope::gui
