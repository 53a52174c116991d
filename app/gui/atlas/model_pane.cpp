#include "app/gui/atlas/model_pane.h"

#include <algorithm>
#include <utility>

#include <QComboBox>
#include <QListWidget>
#include <QSplitter>
#include <QTabWidget>
#include <QVBoxLayout>

#include "app/gui/atlas/colour_strip.h"
#include "app/gui/atlas/similarity_map.h"
#include "app/gui/views/elided_combo.h"
#include "app/gui/views/flow_layout.h"
#include "app/gui/views/message_pages.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"

namespace foxscope::gui::atlas {
namespace {

std::vector<QString> namesOf(const AtlasFacts& facts) {
  std::vector<QString> names;
  for (std::size_t place = 0; place < facts.head_count(); ++place) names.push_back(headName(facts, place));
  return names;
}

}  // namespace

ModelPane::ModelPane(RunList& runs, QWidget* parent)
    : QWidget(parent),
      m_runs(runs),
      m_split(new QSplitter),
      m_maps(new QTabWidget),
      m_scatterBar(new QWidget),
      m_scatter(new HeadScatter),
      m_similarity(new SimilarityMap),
      m_kind(new ElidedCombo),
      m_colours(new ColourStrip),
      m_correlations(new ColourStrip),
      m_list(new QListWidget),
      m_page(new HeadPage(runs.quickJobs())) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(m_split);
  m_split->setChildrenCollapsible(false);
  auto* heads = new QWidget;
  auto* column = new QVBoxLayout(heads);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(2);
  m_maps->setDocumentMode(true);
  const auto add = [this](const QString& title, std::initializer_list<QWidget*> parts, std::size_t tab) {
    auto* content = new QWidget;
    auto* rows = new QVBoxLayout(content);
    rows->setContentsMargins(0, 2, 0, 0);
    rows->setSpacing(0);
    for (QWidget* part : parts) rows->addWidget(part, part == m_scatter || part == m_similarity ? 1 : 0);
    auto* view = new QWidget;
    m_pages[tab] = new MessagePages(content, view);
    m_maps->addTab(view, title);
  };
  auto* bar = new FlowLayout(10, 2);
  bar->setContentsMargins(0, 0, 0, 0);
  m_scatterBar->setLayout(bar);
  add(tr("Scatter"), {m_scatterBar, m_scatter, m_colours}, 0);
  add(tr("Similarity"), {m_kind, m_similarity, m_correlations}, 1);
  m_kind->setAccessibleName(tr("Heads are compared by"));
  column->addWidget(m_maps, 1);
  m_list->setFlow(QListView::LeftToRight);
  m_list->setWrapping(true);
  m_list->setResizeMode(QListView::Adjust);
  m_list->setSpacing(2);
  // Two rows of names, one in a low dock; the rest is scrolled to.
  m_list->setMinimumHeight(fontMetrics().height() + 10);
  m_list->setAccessibleName(tr("Chosen heads"));
  m_list->setToolTip(tr("The heads that were chosen in the scatter: a click shows one"));
  m_list->hide();
  column->addWidget(m_list);
  m_split->addWidget(heads);
  m_split->addWidget(m_page);
  m_split->setStretchFactor(0, 1);
  m_split->setStretchFactor(1, 1);
  m_split->setSizes({1000, 1000});
  connect(m_scatter, &HeadScatter::headClicked, this, &ModelPane::choose);
  connect(m_scatter, &HeadScatter::headsEnclosed, this, [this](const std::set<std::size_t>& enclosed) {
    setChosen(enclosed);
    emit headsChosen(enclosed);
    if (enclosed.size() == 1) choose(*enclosed.begin());
  });
  connect(m_similarity, &SimilarityMap::headClicked, this, &ModelPane::choose);
  connect(m_kind, &QComboBox::currentIndexChanged, this, &ModelPane::askSimilarity);
  const auto showItem = [this](const QListWidgetItem* item) {
    if (item != nullptr) choose(item->data(Qt::UserRole).toULongLong());
  };
  connect(m_list, &QListWidget::itemClicked, this, showItem);
  connect(m_list, &QListWidget::itemActivated, this, showItem);
  connect(m_scatter, &HeadScatter::hovered, this, &ModelPane::told);
  connect(m_similarity, &SimilarityMap::hovered, this, &ModelPane::told);
  connect(m_page, &HeadPage::told, this, &ModelPane::told);
  connect(m_page, &HeadPage::passageWanted, this, &ModelPane::passageWanted);
}

bool ModelPane::pageIsTab() const { return m_maps->indexOf(m_page) >= 0; }

void ModelPane::setModel(const AtlasModel& model, std::optional<std::size_t> head) {
  if (model == m_model) return;
  m_model = model;
  m_head.reset();
  setChosen({});
  {
    const QSignalBlocker blocker(m_kind);
    m_kind->clear();
    for (const std::string& kind : model.facts().similarities) {
      m_kind->addItem(similarityTitle(kind), QString::fromStdString(kind));
    }
    m_kind->setVisible(m_kind->count() > 1);
  }
  askSimilarity();
  setHead(head);
}

const AtlasFacts& ModelPane::firstFacts() const { return m_model.reader->models()[m_model.facts().first]; }

QString ModelPane::similarityTitle(const std::string& kind) const {
  const bool withFirst = is_with_first(kind);
  const std::string of = withFirst ? kind.substr(kind.find('_') + 1) : kind;
  const QString title = of == "log_gate" ? tr("correlation of log f") : tr("correlation of %1").arg(numberTitle(of));
  return withFirst ? tr("%1 with %2").arg(title, QString::fromStdString(firstFacts().info.name)) : title;
}

void ModelPane::setScatter(const ScatterContent& content) {
  std::size_t left = 0;
  for (std::size_t head = 0; head < content.names.size(); ++head) left += content.has(head) ? 0 : 1;
  QString title = content.colourName;
  if (left > 0) title = tr("%1 of %2 heads have no place here · %3").arg(left).arg(content.names.size()).arg(title);
  m_colours->setColours(content.colours, title);
  m_scatter->setContent(content);
  m_scatter->setHead(m_head);
  m_pages[0]->showContent();
}

void ModelPane::setObstacle(const QString& words) { m_pages[0]->showMessage(words); }

void ModelPane::setHead(std::optional<std::size_t> head) {
  m_head = head;
  m_scatter->setHead(head);
  m_similarity->setHead(head);
  m_page->setHead(m_model, head);
  for (int row = 0; row < m_list->count(); ++row) {
    if (head && m_list->item(row)->data(Qt::UserRole).toULongLong() == *head) m_list->setCurrentRow(row);
  }
}

void ModelPane::choose(std::size_t head) {
  setHead(head);
  emit headChosen(head);
}

void ModelPane::setChosen(const std::set<std::size_t>& heads) {
  m_chosen = heads;
  m_scatter->setChosen(heads);
  m_similarity->setChosen(heads);
  m_page->setChosen(heads);
  m_list->clear();
  for (const std::size_t head : heads) {
    auto* item = new QListWidgetItem(headName(m_model.facts(), head), m_list);
    item->setData(Qt::UserRole, static_cast<qulonglong>(head));
  }
  m_list->setVisible(!heads.empty());
}

QString ModelPane::message(int tab) const { return m_pages[index_of(tab)]->message(); }

void ModelPane::askSimilarity() {
  const AtlasFacts& facts = m_model.facts();
  if (facts.similarities.empty()) {
    m_runs.quickJobs().cancel(this, kSimilarity);
    m_waiting = false;
    return m_pages[1]->showMessage(
        facts.has_tokens ? tr("This atlas does not compare heads.")
                         : tr("%1 has no gate that forgets: heads are not compared.").arg(m_model.name()));
  }
  m_waiting = true;
  JobRunner::Request<AtlasSimilarity> request;
  request.work = [model = m_model,
                  name = m_kind->currentData().toString().toStdString()](const Job&) -> std::optional<AtlasSimilarity> {
    return model.reader->similarity(model.index, name);
  };
  request.done = [this](AtlasSimilarity similarity) {
    m_waiting = false;
    figure::ScaledColours colours;
    colours.map = &divergingColours(palette());
    colours.lower = -1;
    QString title = tr("%1, heads in the order of a tree").arg(m_kind->currentText());
    if (is_with_first(m_kind->currentData().toString().toStdString())) {
      title += tr("; down %1, across %2").arg(m_model.name(), QString::fromStdString(firstFacts().info.name));
    }
    m_correlations->setColours(colours, title);
    const bool withFirst = is_with_first(m_kind->currentData().toString().toStdString());
    m_similarity->setSimilarity(std::move(similarity), namesOf(m_model.facts()),
                                withFirst ? namesOf(firstFacts()) : std::vector<QString>());
    m_pages[1]->showContent();
  };
  request.failed = [this](const QString& message) {
    m_waiting = false;
    m_pages[1]->showMessage(message);
  };
  m_runs.quickJobs().submit(this, kSimilarity, std::move(request));
}

void ModelPane::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  constexpr int kLow = 400;
  const int line = fontMetrics().height();
  m_list->setMaximumHeight(height() < kLow ? line + 12 : 2 * line + 20);
  arrange();
}

void ModelPane::arrange() {
  // A half of this width still shows a bar with its token and numbers, and one of this height a scatter.
  constexpr double kWide = 1.2;
  constexpr QSize kLeastHalf(300, 280);
  const bool beside = width() >= 2 * kLeastHalf.width();
  // The scatter's bar stands above both halves where the page is no tab.
  const int bar = pageIsTab() ? m_scatterBar->heightForWidth(width()) : 0;
  const bool above = height() - bar >= 2 * kLeastHalf.height();
  const bool asTab = !beside && !above;
  if (asTab != pageIsTab()) {
    if (asTab) {
      m_maps->addTab(m_page, tr("Head"));
    } else {
      m_maps->removeTab(m_maps->indexOf(m_page));
      m_split->addWidget(m_page);
      m_page->show();
      m_split->setSizes({1000, 1000});
    }
    emit pageMoved();
  }
  const bool across = beside && (width() > kWide * height() || !above);
  const auto wanted = across || asTab ? Qt::Horizontal : Qt::Vertical;
  if (m_split->orientation() == wanted) return;
  m_split->setOrientation(wanted);
  m_split->setSizes({1000, 1000});
}

}  // namespace foxscope::gui::atlas
