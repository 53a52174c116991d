#include "app/gui/curves/token_list.h"

#include <algorithm>
#include <cmath>

#include <QHeaderView>
#include <QSplitter>

#include "backend/base/index.h"

namespace foxscope::gui::curves {
namespace {

constexpr int kListEms = 38;  // width of the list
constexpr int kLeastEms = 4;  // least width of a column

/// The fewest decimals that leave the smallest value two digits that count, but none beyond the sixth digit of the
/// largest.
int decimalsOf(const std::vector<ListedToken>& tokens) {
  constexpr int kMostDigits = 6;
  double least = 0;
  double most = 0;
  for (const ListedToken& token : tokens) {
    const double size = std::abs(token.value);
    if (!std::isfinite(size) || size == 0) continue;
    least = least == 0 ? size : std::min(least, size);
    most = std::max(most, size);
  }
  if (most == 0) return 0;
  const auto exponent = [](double size) { return static_cast<int>(std::floor(std::log10(size))); };
  return std::max(0, std::min(1 - exponent(least), kMostDigits - 1 - std::max(0, exponent(most))));
}

}  // namespace

TokenListModel::TokenListModel(Words words, QObject* parent) : QAbstractTableModel(parent), m_words(std::move(words)) {}

void TokenListModel::setTokens(std::vector<ListedToken> tokens) {
  beginResetModel();
  m_tokens = std::move(tokens);
  m_decimals = m_words.decimals.value_or(decimalsOf(m_tokens));
  endResetModel();
}

int TokenListModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(m_tokens.size());
}

int TokenListModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : columns; }

QVariant TokenListModel::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
  const ListedToken& listed = m_tokens[index_of(index.row())];
  if (role == Qt::TextAlignmentRole) {
    return QVariant(index.column() == token ? Qt::AlignLeft | Qt::AlignVCenter : Qt::AlignRight | Qt::AlignVCenter);
  }
  if (role == Qt::ToolTipRole) return m_words.tip(listed);
  if (role == Qt::UserRole) return index.column() == value ? QVariant(listed.value) : QVariant();
  if (role != Qt::DisplayRole) return {};
  switch (index.column()) {
    case token:
      return listed.token;
    case position:
      return QString::number(listed.position);
    default:
      return QString::number(listed.value, 'f', m_decimals).replace('-', QChar(0x2212));
  }
}

QVariant TokenListModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  if (section == token) return m_words.token;
  return section == position ? tr("position") : m_words.value;
}

TokenList::TokenList(RunList& runs, TokenListModel::Words words, QWidget* parent)
    : QTableView(parent), m_runs(runs), m_model(new TokenListModel(std::move(words), this)) {
  setModel(m_model);
  setSelectionBehavior(QAbstractItemView::SelectRows);
  setSelectionMode(QAbstractItemView::SingleSelection);
  setShowGrid(false);
  setWordWrap(false);  // else a token that is cut loses all its letters
  setTabKeyNavigation(false);
  verticalHeader()->hide();
  verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 4);
  horizontalHeader()->setSectionResizeMode(QHeaderView::Fixed);
  horizontalHeader()->setSectionResizeMode(TokenListModel::token, QHeaderView::Stretch);
  horizontalHeader()->setTextElideMode(Qt::ElideRight);
  horizontalHeader()->setHighlightSections(false);
  setMinimumWidth(0);
  horizontalHeader()->setMinimumSectionSize(kLeastEms * fontMetrics().averageCharWidth());
  connect(this, &QTableView::clicked, this, &TokenList::jump);
  connect(this, &QTableView::activated, this, &TokenList::jump);
}

QSplitter* TokenList::beside(QWidget* plot, QWidget* parent) {
  auto* both = new QSplitter(parent);
  both->setChildrenCollapsible(true);
  both->addWidget(plot);
  both->addWidget(this);
  both->setStretchFactor(0, 1);
  both->setStretchFactor(1, 0);
  const int list = kListEms * fontMetrics().averageCharWidth();
  both->setSizes({2 * list, list});
  return both;
}

// Numbers have the width of numbers, and tokens all else: a column's long title gives way to them.
void TokenList::shareWidth() {
  int spare = viewport()->width() - sizeHintForColumn(TokenListModel::token);
  for (const int column : {TokenListModel::position, TokenListModel::value}) spare -= sizeHintForColumn(column);
  for (const int column : {TokenListModel::value, TokenListModel::position}) {
    const int least = sizeHintForColumn(column);
    const int more = std::clamp(horizontalHeader()->sectionSizeHint(column) - least, 0, std::max(0, spare));
    horizontalHeader()->resizeSection(column, least + more);
    spare -= more;
  }
}

void TokenList::resizeEvent(QResizeEvent* event) {
  QTableView::resizeEvent(event);
  shareWidth();
}

void TokenList::jump(const QModelIndex& index) {
  const auto row = static_cast<std::size_t>(index.row());
  if (!index.isValid() || row >= m_model->tokens().size()) return;
  m_runs.selection().goTo(m_model->tokens()[row].position, m_runs.length());
}

}  // namespace foxscope::gui::curves
