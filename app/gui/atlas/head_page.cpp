#include "app/gui/atlas/head_page.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <QCheckBox>
#include <QComboBox>
#include <QHBoxLayout>
#include <QLineEdit>
#include <QLocale>
#include <QScrollArea>
#include <QSplitter>
#include <QTabWidget>
#include <QVBoxLayout>

#include "app/figure/kinds/atlas/tokens.h"
#include "app/figure/token_text.h"
#include "app/gui/atlas/passage_list.h"
#include "app/gui/atlas/reset_bars.h"
#include "app/gui/document/number_text.h"
#include "app/gui/views/elided_combo.h"
#include "app/gui/views/elided_label.h"
#include "app/gui/views/flow_layout.h"
#include "app/gui/views/message_pages.h"
#include "backend/base/index.h"

namespace foxscope::gui::atlas {
namespace {

constexpr std::size_t kMostBars = 1000;

enum class TokenMeasure { logGate, resets };

/// Which tokens of a head are asked for.
struct TokenQuestion {
  AtlasModel model;
  std::size_t head = 0;
  TokenMeasure measure = TokenMeasure::logGate;
  bool rare = false;
  QString filter;
};

/// Discoveries are of mean log f: they say nothing of a share of resets.
bool marksDiscoveries(const TokenQuestion& question, const AtlasHeadTokens& tokens) {
  return question.measure == TokenMeasure::logGate && !tokens.discovered.empty();
}

TokenBar barOf(const TokenQuestion& question, const AtlasHeadTokens& tokens, std::size_t place) {
  const AtlasFacts& facts = question.model.facts();
  TokenBar bar;
  bar.id = facts.token_id[place];
  bar.text = tokenTitle(facts, bar.id);
  bar.gate = std::exp(static_cast<double>(tokens.mean_log_gate[place]));
  bar.resets = static_cast<double>(tokens.share_below_half[place]);
  bar.error = std::nan("");
  if (question.measure == TokenMeasure::logGate) {
    bar.value = -static_cast<double>(tokens.mean_log_gate[place]);
    if (!tokens.error.empty()) bar.error = static_cast<double>(tokens.error[place]);
  } else {
    bar.value = bar.resets;
  }
  bar.count = facts.token_count[place];
  bar.discovered = marksDiscoveries(question, tokens) && tokens.discovered[place] != 0;
  return bar;
}

/// The mean over all readings of what the bars show.
double meanOf(const AtlasFacts& facts, const std::vector<double>& values) {
  double sum = 0;
  double count = 0;
  for (std::size_t n = 0; n < values.size(); ++n) {
    if (!std::isfinite(values[n])) continue;
    sum += values[n] * static_cast<double>(facts.token_count[n]);
    count += static_cast<double>(facts.token_count[n]);
  }
  return count > 0 ? sum / count : std::nan("");
}

QString countText(std::int64_t count) { return QLocale().toString(static_cast<qlonglong>(count)); }

/// As many rows as are in sight, of what a page has room for.
std::string rowsOfFigure(const RowList& list, std::size_t most) {
  constexpr std::size_t kFewest = 12;
  const auto [first, last] = list.rowsInSight();
  return std::to_string(std::clamp(index_of(std::max(0, last - first + 1)), std::min(kFewest, most), most));
}

QWidget* withPages(QWidget* content, MessagePages*& pages) {
  auto* view = new QWidget;
  pages = new MessagePages(content, view);
  return view;
}

}  // namespace

/// Both lists of a head's tokens.
struct HeadPage::Lists {
  QString words;  ///< of both
  TokenList forgets;
  TokenList keeps;
};

struct HeadPage::Resets {
  AtlasHeadResets resets;
  AtlasHistogram histogram;
};

HeadPage::HeadPage(JobRunner& jobs, QWidget* parent)
    : QWidget(parent),
      m_jobs(jobs),
      m_heading(new ElidedLabel),
      m_tabs(new QTabWidget),
      m_filter(new QLineEdit),
      m_rare(new QCheckBox(tr("Rare tokens"))),
      m_measure(new ElidedCombo),
      m_tokenWords(new ElidedLabel),
      m_forgets(new TokenBars),
      m_keeps(new TokenBars),
      m_phrase(new QLineEdit),
      m_kind(new ElidedCombo),
      m_scope(new ElidedCombo),
      m_found(new ElidedLabel),
      m_passages(new PassageList),
      m_resetWords(new ElidedLabel),
      m_resets(new ResetBars),
      m_histogram(new ElidedCombo),
      m_gateWords(new ElidedLabel),
      m_gates(new GateBars) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(2);
  QFont bold = font();
  bold.setWeight(QFont::DemiBold);
  m_heading->setFont(bold);
  layout->addWidget(m_heading);
  m_tabs->setDocumentMode(true);
  m_tabs->addTab(tokensTab(), tr("Tokens"));
  m_tabs->addTab(passagesTab(), tr("Passages"));
  m_tabs->addTab(resetsTab(), tr("Resets"));
  m_tabs->addTab(gatesTab(), tr("Gates"));
  layout->addWidget(m_tabs, 1);
  for (auto* bars : {m_forgets, m_keeps}) {
    connect(bars, &TokenBars::hovered, this, &HeadPage::told);
    connect(bars, &TokenBars::tokenChosen, this,
            [this](const QString& text) { search(QString(text).replace(QChar(0x2423), ' ')); });
  }
  connect(m_passages, &PassageList::hovered, this, &HeadPage::told);
  connect(m_passages, &PassageList::passageChosen, this,
          [this](int row) { emit passageWanted(m_passages->answer().rows[index_of(row)]); });
  connect(m_resets, &ResetBars::hovered, this, &HeadPage::told);
  connect(m_gates, &GateBars::hovered, this, &HeadPage::told);
  connect(m_tabs, &QTabWidget::currentChanged, this, &HeadPage::askStale);
  fill();
}

QWidget* HeadPage::tokensTab() {
  auto* content = new QWidget;
  auto* layout = new QVBoxLayout(content);
  layout->setContentsMargins(0, 2, 0, 0);
  layout->setSpacing(2);
  auto* bar = new QHBoxLayout;
  m_measure->addItem(tr("by mean log f"));
  m_measure->addItem(tr("by share of resets"));
  m_measure->setAccessibleName(tr("Tokens by"));
  m_filter->setPlaceholderText(tr("Tokens that hold…"));
  m_filter->setAccessibleName(tr("Tokens that hold"));
  m_filter->setClearButtonEnabled(true);
  m_rare->setToolTip(
      tr("Lists tokens that were read fewer than %1 times too, in grey: their means say little").arg(kFewestReadings));
  bar->addWidget(m_measure, 1);
  bar->addWidget(m_filter, 1);
  bar->addWidget(m_rare);
  layout->addLayout(bar);
  m_tokenWords->setWrapped(true);
  layout->addWidget(m_tokenWords);
  auto* both = new QSplitter;
  both->setChildrenCollapsible(false);
  both->addWidget(m_forgets);
  both->addWidget(m_keeps);
  layout->addWidget(both, 1);
  connect(m_measure, &QComboBox::currentIndexChanged, this, &HeadPage::askTokens);
  connect(m_filter, &QLineEdit::textChanged, this, &HeadPage::askTokens);
  connect(m_rare, &QCheckBox::toggled, this, &HeadPage::askTokens);
  return withPages(content, m_pages[kTokens]);
}

QWidget* HeadPage::passagesTab() {
  auto* content = new QWidget;
  auto* layout = new QVBoxLayout(content);
  layout->setContentsMargins(0, 2, 0, 0);
  layout->setSpacing(2);
  auto* bar = new QHBoxLayout;
  m_kind->setAccessibleName(tr("Kind of passages"));
  m_scope->setAccessibleName(tr("Heads whose passages are listed"));
  m_phrase->setPlaceholderText(tr("Passages that hold…"));
  m_phrase->setAccessibleName(tr("Passages that hold"));
  m_phrase->setClearButtonEnabled(true);
  bar->addWidget(m_kind, 1);
  bar->addWidget(m_scope, 1);
  bar->addWidget(m_phrase, 1);
  layout->addLayout(bar);
  layout->addWidget(m_found);
  layout->addWidget(m_passages, 1);
  connect(m_kind, &QComboBox::currentIndexChanged, this, &HeadPage::askPassages);
  connect(m_scope, &QComboBox::currentIndexChanged, this, &HeadPage::askPassages);
  connect(m_phrase, &QLineEdit::textChanged, this, &HeadPage::askPassages);
  return withPages(content, m_pages[kPassages]);
}

QWidget* HeadPage::resetsTab() {
  auto* content = new QWidget;
  auto* layout = new QVBoxLayout(content);
  layout->setContentsMargins(0, 2, 0, 0);
  layout->setSpacing(2);
  layout->addWidget(m_resetWords);
  auto* area = new QScrollArea;
  area->setWidget(m_resets);
  area->setWidgetResizable(true);
  area->setFrameShape(QFrame::NoFrame);
  layout->addWidget(area, 1);
  return withPages(content, m_pages[kResets]);
}

QWidget* HeadPage::gatesTab() {
  auto* content = new QWidget;
  auto* layout = new QVBoxLayout(content);
  layout->setContentsMargins(0, 2, 0, 0);
  layout->setSpacing(2);
  auto* bar = new QHBoxLayout;
  m_histogram->setAccessibleName(tr("Histogram of"));
  m_histogram->addItem(tr("−log f"));
  m_histogram->addItem(tr("decay time"));
  m_histogram->addItem(tr("distance of resets"));
  bar->addWidget(m_histogram);
  bar->addStretch(1);
  layout->addLayout(bar);
  layout->addWidget(m_gateWords);
  layout->addWidget(m_gates, 1);
  connect(m_histogram, &QComboBox::currentIndexChanged, this,
          [this](int shown) { m_gates->show(static_cast<GateBars::Shown>(shown)); });
  return withPages(content, m_pages[kGates]);
}

std::set<std::size_t> HeadPage::headsInScope() const {
  const auto scope = static_cast<Scope>(m_scope->currentData().toInt());
  if (scope == Scope::chosen) return m_chosen;
  if (scope == Scope::head) return {*m_head};
  std::set<std::size_t> all;
  for (std::size_t head = 0; head < m_model.facts().head_count(); ++head) all.insert(all.end(), head);
  return all;
}

figure::FigureSpec HeadPage::passagesFigure() const {
  figure::FigureSpec spec{"passages"};
  const std::set<std::size_t> scope = headsInScope();
  std::vector<std::string> heads;
  for (const std::size_t head : scope) heads.push_back(headWord(m_model.facts(), head));
  spec.set("head", scope.size() == m_model.facts().head_count() ? std::vector<std::string>{"all"} : heads);
  const auto& kinds = m_model.facts().passages;
  const auto kind = index_of(std::max(0, m_kind->currentIndex()));
  spec.set("kind", kind < kinds.size() ? kinds[kind].name : "all");
  if (!m_phrase->text().isEmpty()) spec.set("holding", m_phrase->text().toStdString());
  constexpr std::size_t kMostLines = 60;  // of all kinds together
  const std::size_t lists = kind < kinds.size() ? 1 : std::max<std::size_t>(1, kinds.size());
  spec.set("count", rowsOfFigure(*m_passages, kMostLines / lists));
  return spec;
}

figure::FigureSpec HeadPage::tokensFigure() const {
  figure::FigureSpec spec{"tokens"};
  if (static_cast<TokenMeasure>(m_measure->currentIndex()) == TokenMeasure::resets) spec.set("by", "resets");
  if (!m_filter->text().isEmpty()) spec.set("holding", m_filter->text().toStdString());
  if (m_rare->isChecked()) spec.set("fewest", "1");
  spec.set("count", rowsOfFigure(*m_forgets, figure::TokensOptions{}.count));
  return spec;
}

figure::FigureSpec HeadPage::gatesFigure() const {
  const GateBars::Shown shown = m_gates->shown();
  if (shown == GateBars::Shown::gaps) return resetsFigure("distances");
  figure::FigureSpec spec{"gates"};
  spec.set("by", shown == GateBars::Shown::logGate ? "log" : "time");
  return spec;
}

figure::FigureSpec HeadPage::resetsFigure(const char* of) {
  figure::FigureSpec spec{"resets"};
  spec.set("of", of);
  return spec;
}

std::optional<figure::FigureSpec> HeadPage::shownFigure() const {
  const auto tab = static_cast<Tab>(m_tabs->currentIndex());
  if (!m_head || !message(tab).isEmpty()) return std::nullopt;
  if (tab == kPassages) return passagesFigure();
  if (tab == kGates && m_gates->ends().isEmpty()) return std::nullopt;
  figure::FigureSpec spec = tab == kTokens ? tokensFigure() : tab == kGates ? gatesFigure() : resetsFigure("classes");
  spec.set("head", headWord(m_model.facts(), *m_head));
  return spec;
}

QString HeadPage::heading() const { return m_heading->text(); }

QString HeadPage::message(Tab tab) const { return m_pages[tab]->message(); }

void HeadPage::setHead(const AtlasModel& model, std::optional<std::size_t> head) {
  if (model == m_model && head == m_head) return;
  const bool other = !(model == m_model);
  m_model = model;
  m_head = head;
  if (other) {
    const QSignalBlocker blocker(m_kind);
    const QString before = m_kind->currentText();
    m_kind->clear();
    for (const AtlasPassageKind& kind : m_model.facts().passages) m_kind->addItem(kindTitle(kind.name));
    // Where it forgets most is what one looks for first.
    const auto resets = std::ranges::find(m_model.facts().passages, "resets", &AtlasPassageKind::name);
    const int kept = m_kind->findText(before);
    const auto first = resets - m_model.facts().passages.begin();
    if (m_kind->count() > 1) m_kind->addItem(tr("all kinds"));
    m_kind->setCurrentIndex(kept >= 0 ? kept : first < m_kind->count() ? static_cast<int>(first) : 0);
    m_chosen.clear();
  }
  fill();
}

void HeadPage::setChosen(const std::set<std::size_t>& heads) {
  if (heads == m_chosen) return;
  m_chosen = heads;
  const auto scope = static_cast<Scope>(m_scope->currentData().toInt());
  fillScopes();
  if (scope == Scope::chosen) askPassages();
}

void HeadPage::search(const QString& phrase) {
  m_tabs->setCurrentIndex(kPassages);
  m_phrase->setText(phrase);
}

void HeadPage::fillScopes() {
  const QSignalBlocker blocker(m_scope);
  const QVariant before = m_scope->currentData();
  m_scope->clear();
  if (!m_head) return;
  m_scope->addItem(tr("of %1").arg(headName(m_model.facts(), *m_head)), static_cast<int>(Scope::head));
  if (!m_chosen.empty()) {
    m_scope->addItem(tr("of the %1 chosen heads").arg(m_chosen.size()), static_cast<int>(Scope::chosen));
  }
  m_scope->addItem(tr("of all heads"), static_cast<int>(Scope::all));
  m_scope->setCurrentIndex(std::max(0, m_scope->findData(before)));
}

QString HeadPage::obstacle(const QString& what) const {
  if (!m_model.reader) return tr("No atlas is open.");
  const AtlasFacts& facts = m_model.facts();
  if (!facts.has_tokens) return tr("%1 has no gate that forgets: there are no %2.").arg(m_model.name(), what);
  if (!m_head) return tr("Choose a head: a click in the scatter, or in the map of similarity.");
  const auto gates = numbersOf(facts, "mean_log_gate");
  if (gates && std::isnan(gates->values[*m_head])) {
    return tr("%1 has no gate that forgets: there are no %2.").arg(headName(facts, *m_head), what);
  }
  return {};
}

void HeadPage::fill() {
  fillScopes();
  if (m_model.reader && m_head) {
    const AtlasFacts& facts = m_model.facts();
    QString words = tr("%1 of %2").arg(headName(facts, *m_head), m_model.name());
    if (const auto time = numbersOf(facts, "rate_decay_time"); time && std::isfinite(time->values[*m_head])) {
      const double error = time->errors.empty() ? std::nan("") : time->errors[*m_head];
      words += tr(": decay time %1 tokens").arg(withError(time->values[*m_head], error));
    }
    m_heading->setFullText(words);
  } else {
    m_heading->setFullText({});
  }
  askTokens();
  askPassages();
  askResets();
}

bool HeadPage::isSeen(Channel channel, std::initializer_list<Tab> tabs) {
  m_stale[channel] = std::ranges::find(tabs, static_cast<Tab>(m_tabs->currentIndex())) == tabs.end();
  if (m_stale[channel]) {
    m_jobs.cancel(this, channel);
    m_waiting[channel] = false;
  }
  return !m_stale[channel];
}

void HeadPage::askStale() {
  if (m_stale[kTokenJob]) askTokens();
  if (m_stale[kPassageJob]) askPassages();
  if (m_stale[kResetJob]) askResets();
}

void HeadPage::say(Channel channel, std::initializer_list<Tab> tabs, const QString& line) {
  m_jobs.cancel(this, channel);
  m_waiting[channel] = m_stale[channel] = false;
  for (const Tab tab : tabs) m_pages[tab]->showMessage(line);
}

template <typename Result>
void HeadPage::ask(Channel channel, std::initializer_list<Tab> tabs,
                   std::function<std::optional<Result>(const Job&)> work, std::function<void(Result)> done) {
  m_waiting[channel] = true;
  typename JobRunner::Request<Result> request;
  request.work = std::move(work);
  request.done = [this, channel, pages = std::vector<Tab>(tabs), done = std::move(done)](Result result) {
    m_waiting[channel] = false;
    for (const Tab tab : pages) m_pages[tab]->showContent();
    done(std::move(result));
  };
  request.failed = [this, channel, pages = std::vector<Tab>(tabs)](const QString& message) {
    m_waiting[channel] = false;
    for (const Tab tab : pages) m_pages[tab]->showMessage(message);
  };
  m_jobs.submit(this, channel, std::move(request));
}

void HeadPage::askTokens() {
  const QString why = obstacle(tr("tokens that it forgets"));
  if (!why.isEmpty()) return say(kTokenJob, {kTokens}, why);
  if (!isSeen(kTokenJob, {kTokens})) return;
  const TokenQuestion question{m_model, *m_head, static_cast<TokenMeasure>(m_measure->currentIndex()),
                               m_rare->isChecked(), m_filter->text()};
  ask<Lists>(
      kTokenJob, {kTokens},
      [question](const Job&) -> std::optional<Lists> {
        const AtlasFacts& facts = question.model.facts();
        const AtlasHeadTokens tokens = question.model.reader->tokens(question.model.index, question.head);
        const bool byResets = question.measure == TokenMeasure::resets;
        std::vector<double> values;
        values.reserve(facts.token_id.size());
        for (std::size_t n = 0; n < facts.token_id.size(); ++n) {
          values.push_back(static_cast<double>(byResets ? tokens.share_below_half[n] : -tokens.mean_log_gate[n]));
        }
        std::vector<std::size_t> places;
        std::size_t rare = 0;
        for (std::size_t n = 0; n < values.size(); ++n) {
          if (!std::isfinite(values[n])) continue;
          if (facts.token_count[n] < kFewestReadings && !question.rare) {
            ++rare;
            continue;
          }
          if (!question.filter.isEmpty() && !facts.token_string.empty() &&
              !figure::tokenText(facts.token_string[n], figure::Whitespace::asIs)
                   .contains(question.filter, Qt::CaseInsensitive)) {
            continue;
          }
          places.push_back(n);
        }
        Lists lists;
        const std::size_t most = std::min(kMostBars, places.size());
        const auto fillList = [&](TokenList& list, bool forgets) {
          const auto before = [&](std::size_t a, std::size_t b) {
            if (values[a] != values[b]) return forgets ? values[a] > values[b] : values[a] < values[b];
            return facts.token_count[a] > facts.token_count[b];
          };
          std::ranges::partial_sort(places, places.begin() + static_cast<std::ptrdiff_t>(most), before);
          for (std::size_t n = 0; n < most; ++n) list.bars.push_back(barOf(question, tokens, places[n]));
          list.mean = meanOf(facts, values);
          list.hasDiscoveries = marksDiscoveries(question, tokens);
          const QString what = byResets ? tr("share of resets") : tr("−log f, nats");
          list.title = (forgets ? tr("Forgets most: %1") : tr("Keeps most: %1")).arg(what);
        };
        lists.words = tr("%1 tokens").arg(countText(static_cast<std::int64_t>(places.size())));
        if (rare > 0) {
          lists.words += tr("; %1 more were read fewer than %2 times")
                             .arg(countText(static_cast<std::int64_t>(rare)))
                             .arg(kFewestReadings);
        }
        if (marksDiscoveries(question, tokens)) lists.words += tr("; •: mean log f beyond chance");
        fillList(lists.forgets, true);
        fillList(lists.keeps, false);
        // Both have one scale.
        double longest = 0;
        for (const TokenBar& bar : lists.forgets.bars) longest = std::max(longest, bar.value);
        lists.forgets.most = lists.keeps.most = longest;
        return lists;
      },
      [this](Lists lists) {
        m_tokenWords->setText(lists.words);
        m_forgets->setList(std::move(lists.forgets));
        m_keeps->setList(std::move(lists.keeps));
      });
}

void HeadPage::askPassages() {
  // Passages of attention need no gate, and other heads have passages where this one has none.
  if (!m_model.reader || m_model.facts().passages.empty() || !m_head) {
    const QString why = obstacle(tr("passages"));
    return say(kPassageJob, {kPassages}, why.isEmpty() ? tr("This atlas has no passages.") : why);
  }
  if (!isSeen(kPassageJob, {kPassages})) return;
  PassageQuestion question{m_model, headsInScope(), std::nullopt, m_phrase->text()};
  if (index_of(m_kind->currentIndex()) < m_model.facts().passages.size())
    question.kind = index_of(m_kind->currentIndex());
  ask<PassageAnswer>(
      kPassageJob, {kPassages}, [question](const Job& job) { return findPassages(question, job); },
      [this, question](PassageAnswer answer) { takePassages(question, std::move(answer)); });
}

void HeadPage::takePassages(const PassageQuestion& question, PassageAnswer answer) {
  QString words = question.phrase.isEmpty()
                      ? tr("%1 passages").arg(countText(static_cast<std::int64_t>(answer.found)))
                      : tr("%1 of %2 passages hold “%3”")
                            .arg(countText(static_cast<std::int64_t>(answer.found)),
                                 countText(static_cast<std::int64_t>(answer.looked)), question.phrase);
  if (answer.found > answer.rows.size()) words += tr(", the first %1 are listed").arg(answer.rows.size());
  const QString range = numberOf(1 - static_cast<double>(answer.least), 2);
  if (answer.ofPlaces) {
    words += tr("; tint: 1 − f from 0 to %1").arg(range);
  } else if (m_model.facts().has_tokens) {
    words += tr("; tint: 1 − f from 0 to %1, f of the outlined place, else the head's mean at the token").arg(range);
  }
  m_found->setFullText(words);
  m_passages->setAnswer(std::move(answer), m_model);
}

void HeadPage::askResets() {
  const QString why = obstacle(tr("resets"));
  if (!why.isEmpty()) return say(kResetJob, {kResets, kGates}, why);
  if (!m_model.facts().has_resets || !m_model.facts().has_histogram) {
    return say(kResetJob, {kResets, kGates}, tr("This atlas has no resets and no histograms."));
  }
  if (!isSeen(kResetJob, {kResets, kGates})) return;
  ask<Resets>(
      kResetJob, {kResets, kGates},
      [model = m_model, head = *m_head](const Job&) -> std::optional<Resets> {
        return Resets{model.reader->resets(model.index, head), model.reader->histogram(model.index, head)};
      },
      [this](Resets answer) {
        const AtlasFacts& facts = m_model.facts();
        const QString words = tr("%1 resets (f < 1/2), %2 % of positions")
                                  .arg(countText(answer.resets.count),
                                       numberOf(100.0 * static_cast<double>(answer.resets.count) /
                                                    static_cast<double>(std::max<std::int64_t>(1, facts.positions)),
                                                3));
        m_resetWords->setFullText(words);
        m_resetWords->setToolTip(tr("%1, of %2; chance: the gate shifted along the text, %3 times")
                                     .arg(words, countText(facts.positions))
                                     .arg(facts.shifts));
        m_gates->setHistogram(std::move(answer.histogram), answer.resets);
        m_gateWords->setFullText(tr("f is 1 to float32's precision at %1 % of the positions; dashed: f = 1/2")
                                     .arg(numberOf(100 * m_gates->keptShare(), 3)));
        if (answer.resets.share.empty()) {
          m_pages[kResets]->showMessage(
              tr("This atlas is of token ids: there is no text whose classes resets fall on."));
        } else if (answer.resets.count == 0) {
          m_pages[kResets]->showMessage(tr("This head has no resets: f is 1/2 or more at every position."));
        } else {
          m_resets->setResets(std::move(answer.resets), facts.false_discovery_rate);
        }
      });
}

}  // namespace foxscope::gui::atlas
