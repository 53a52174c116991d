#include "app/gui/curves/token_list.h"

#include <algorithm>

#include <QHeaderView>
#include <QSplitter>

#include "app/gui/curves/plot_style.h"

namespace foxscope::gui::curves {
namespace {

constexpr int kListEms = 30;  // width of the list

/// The range of the same size around a position.
Range around(std::int64_t position, std::int64_t size, std::int64_t length) {
  const std::int64_t begin = std::clamp<std::int64_t>(position - size / 2, 0, std::max<std::int64_t>(0, length - size));
  return {begin, std::min(length, begin + size)};
}

}  // namespace

TokenListModel::TokenListModel(Words words, QObject* parent) : QAbstractTableModel(parent), m_words(std::move(words)) {}

void TokenListModel::setTokens(std::vector<ListedToken> tokens) {
  beginResetModel();
  m_tokens = std::move(tokens);
  endResetModel();
}

int TokenListModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(m_tokens.size());
}

int TokenListModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : columns; }

QVariant TokenListModel::data(const QModelIndex& index, int role) const {
  if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
  const ListedToken& listed = m_tokens[static_cast<std::size_t>(index.row())];
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
      return numberText(listed.value);
  }
}

QVariant TokenListModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  if (section == token) return m_words.token;
  return section == position ? tr("position") : m_words.value;
}

TokenList::TokenList(Document& document, TokenListModel::Words words, QWidget* parent)
    : QTableView(parent), m_document(document), m_model(new TokenListModel(std::move(words), this)) {
  setModel(m_model);
  setSelectionBehavior(QAbstractItemView::SelectRows);
  setSelectionMode(QAbstractItemView::SingleSelection);
  setShowGrid(false);
  setTabKeyNavigation(false);
  verticalHeader()->hide();
  verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 4);
  horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  horizontalHeader()->setSectionResizeMode(TokenListModel::token, QHeaderView::Stretch);
  horizontalHeader()->setHighlightSections(false);
  setMinimumWidth(0);
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

void TokenList::jump(const QModelIndex& index) {
  const auto row = static_cast<std::size_t>(index.row());
  if (!index.isValid() || row >= m_model->tokens().size()) return;
  const std::int64_t position = m_model->tokens()[row].position;
  Selection& selection = m_document.selection();
  selection.pinQuery(position);
  View view = selection.view();
  if (position >= view.rows.begin && position < view.rows.end) return;
  view.rows = around(position, view.rows.size(), m_document.length());
  selection.endMovement();
  selection.setView(view);
  selection.endMovement();
}

}  // namespace foxscope::gui::curves
