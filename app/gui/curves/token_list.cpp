#include "app/gui/curves/token_list.h"

#include <QHeaderView>
#include <QSplitter>

#include "app/gui/views/plot_style.h"

namespace foxscope::gui::curves {
namespace {

constexpr int kListEms = 34;  // width of the list
constexpr int kTokenEms = 9;  // least width of a column

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
      // Decimals of a column stand below one another.
      return m_words.decimals ? QString::number(listed.value, 'f', *m_words.decimals) : numberText(listed.value);
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
  horizontalHeader()->setMinimumSectionSize(kTokenEms * fontMetrics().averageCharWidth());
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
  m_document.selection().goTo(m_model->tokens()[row].position, m_document.length());
}

}  // namespace foxscope::gui::curves
