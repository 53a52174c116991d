#include "app/gui/text/text_tinter.h"

#include <algorithm>
#include <utility>

#include "app/gui/document/number_text.h"
#include "app/gui/document/places.h"
#include "app/gui/document/runs/gateless_name.h"
#include "app/gui/document/runs/without_experts.h"
#include "backend/map/statistics/head_saliency.h"

namespace foxscope::gui {

TextTinter::TextTinter(RunList& runs, const ModelRuns& modelRuns, TextToolRow& tools, TextPage& page)
    : QObject(&page), m_runs(runs), m_modelRuns(modelRuns), m_tools(tools), m_page(page) {
  connect(&m_tools, &TextToolRow::choiceChanged, this, &TextTinter::request);
  connect(&m_runs.selection(), &Selection::headChanged, this, [this] {
    const TintKind kind = m_tools.choice().kind;
    if (isOfHead(kind) || kind == TintKind::loss) request();
  });
}

void TextTinter::followPin() {
  if (isRow(m_tools.choice().kind)) request();
}

void TextTinter::followHover() {
  const bool follows = m_tools.choice().query == RowQuery::pointer || !m_runs.selection().pin().query;
  if (isRow(m_tools.choice().kind) && follows) request();
}

// The loss shown is that of the run that is looked at, until another one is chosen here.
const Run* TextTinter::lossRun() const {
  const Run* chosen = m_runs.run(m_runs.selection().head().run);
  const bool follows = m_tools.choice().kind == TintKind::loss && m_runs.runNamed(m_tools.choice().run) == nullptr;
  return chosenRun(follows && chosen != nullptr ? chosen->name : m_tools.choice().run, 0);
}

const Run* TextTinter::chosenRun(const QString& name, std::size_t otherwise) const {
  const Run* named = m_runs.runNamed(name);
  if (named != nullptr && m_runs.isOnText(named->id) && !named->look.hidden) return named;
  const std::vector<const Run*> runs = m_runs.runsOnText();
  // With all runs hidden the text is still that of the first.
  return runs.empty() ? m_runs.reference() : runs[std::min(otherwise, runs.size() - 1)];
}

std::optional<std::int64_t> TextTinter::rowQuery() const {
  const auto& pinned = m_runs.selection().pin().query;
  const auto& hovered = m_runs.selection().hover().query;
  const bool pointerFirst = m_tools.choice().query == RowQuery::pointer;
  const auto query = pointerFirst ? (hovered ? hovered : pinned) : (pinned ? pinned : hovered);
  return query && *query < m_runs.length() ? query : std::nullopt;
}

std::optional<TintRequest> TextTinter::tintRequest() const {
  const TintChoice& choice = m_tools.choice();
  TintRequest request;
  request.kind = choice.kind;
  request.scaling = choice.scaling();
  request.reference = m_reference;
  if (!m_reference) return std::nullopt;
  if (isOfHead(choice.kind)) {
    const auto head = m_runs.headOf(m_runs.selection().head());
    if (!head) return std::nullopt;
    request.run = head->trace;
    request.layer = head->layer;
    request.head = head->head;
    if (isOwed(choice.kind) && !head->trace->has(TraceArray::log_forget_gradient)) return std::nullopt;
    if (choice.kind == TintKind::expert && !head->trace->has(TraceArray::expert)) return std::nullopt;
  } else {
    request.run = lossRun()->trace;
    request.minus = chosenRun(choice.minus, 1)->trace;
  }
  if (isRow(choice.kind)) {
    const auto query = rowQuery();
    if (!query) return std::nullopt;
    request.query = *query;
  }
  return request;
}

void TextTinter::request() {
  if (m_reference) m_tools.setFollowed(lossRun()->name);
  m_tools.setCaption(caption());
  const Run* chosen = m_runs.run(m_runs.selection().head().run);
  const bool lacksSaliency = m_reference && chosen != nullptr && isOwed(m_tools.choice().kind) &&
                             !chosen->trace->has(TraceArray::log_forget_gradient);
  m_tools.showRemedy(lacksSaliency && m_modelRuns.saliencyObstacle(chosen->id).isEmpty());
  // Views hear of other runs before the head is one of theirs: it is asked for then, and the tint stays until it comes.
  if (isOfHead(m_tools.choice().kind) && chosen == nullptr && !m_runs.empty()) {
    return m_runs.quickJobs().cancel(this, kTint);
  }
  const auto wanted = tintRequest();
  m_pending = wanted.has_value();
  if (!wanted) {
    m_runs.quickJobs().cancel(this, kTint);
    m_page.setTint(nullptr);
    m_tools.setScale(nullptr, {});
    m_tools.setExperts(nullptr);
    return;
  }
  JobRunner::Request<Tint> request;
  request.work = [wanted = *wanted](const Job& job) { return computeTint(wanted, job); };
  request.done = [this](Tint tint) { takeTint(std::move(tint)); };
  request.failed = [this](const QString& message) { failTint(message); };
  m_runs.quickJobs().submit(this, kTint, std::move(request));
}

void TextTinter::takeTint(Tint tint) {
  m_pending = false;
  const QString note = widenOverSteps(tint);
  m_page.setTint(std::make_shared<const Tint>(std::move(tint)));
  m_tools.setCaption(caption() + note);
  showScale();
}

QString TextTinter::widenOverSteps(Tint& tint) {
  if (tint.kind == TintKind::none || !hasOwnLimits(tint.kind)) return {};
  const TintChoice& choice = m_tools.choice();
  const HeadChoice& head = m_runs.selection().head();
  QStringList what{toString(choice.kind), QString::number(static_cast<int>(choice.scaling()))};
  if (isOfHead(choice.kind)) {
    const Run* run = m_runs.run(head.run);
    what += {run == nullptr ? QString() : run->name, QString::number(head.layer), QString::number(head.head)};
  } else {
    what += lossRun()->name;
  }
  if (choice.kind == TintKind::lossDifference) what += chosenRun(choice.minus, 1)->name;
  if (isRow(choice.kind)) what += QString::number(tint.lastReadCell);
  const ShownSteps shown = shownSteps(m_runs);
  m_steps.take(shown, what.join(QLatin1Char(' ')), {tint.scale.lower, tint.scale.upper});
  const auto limits = m_steps.limits(shown, what.join(QLatin1Char(' ')));
  if (!limits) return {};
  widen(tint, limits->second);
  return m_steps.note();
}

void TextTinter::showScale() {
  const Tint* tint = m_page.tint();
  const bool isShown = tint != nullptr && tint->kind != TintKind::none;
  const bool inNats = isShown && (tint->kind == TintKind::loss || hasSigns(tint->kind));
  const bool ofExperts = isShown && tint->kind == TintKind::expert;
  // Hues have no scale that a bar shows.
  m_tools.setScale(isShown && !ofExperts ? &tint->scale : nullptr, inNats ? tr("nats") : QString());
  m_tools.setExperts(ofExperts ? &tint->experts : nullptr);
}

void TextTinter::failTint(const QString& message) {
  m_pending = false;
  m_page.setTint(nullptr);
  m_tools.setScale(nullptr, {});
  m_tools.setExperts(nullptr);
  m_tools.setCaption(message);
}

QString TextTinter::headName() const {
  const HeadChoice& choice = m_runs.selection().head();
  const Run* run = m_runs.run(choice.run);
  if (run == nullptr) return {};
  return QStringLiteral("%1 L%2 H%3").arg(run->name).arg(choice.layer).arg(choice.head);
}

QString TextTinter::placesNote() const {
  const auto differs = [this](const Run* run) {
    return run != nullptr && !TokenPlaces(*m_reference, *run->trace).identical();
  };
  const TintChoice& choice = m_tools.choice();
  const bool any = isOfHead(choice.kind) ? differs(m_runs.run(m_runs.selection().head().run))
                                         : differs(lossRun()) || (choice.kind == TintKind::lossDifference &&
                                                                  differs(chosenRun(choice.minus, 1)));
  return any ? tr(" · other tokens, matched by their place in the text") : QString();
}

QString TextTinter::expertCaption(const Run& run) const {
  if (!run.trace->has(TraceArray::expert)) return withoutExperts(run);
  const Tint* tint = m_page.tint();
  if (m_pending || tint == nullptr || tint->kind != TintKind::expert) {
    return tr("heaviest expert of %1, at the word read").arg(run.name) + placesNote();
  }
  return tr("heaviest expert of %1 L%2, at the word read; the stronger, the more weight, up to %3")
             .arg(run.name)
             .arg(tint->experts.layer)
             .arg(numberOf(tint->scale.upper, 3)) +
         placesNote();
}

QString TextTinter::caption() const {
  const TintChoice& choice = m_tools.choice();
  if (!m_reference || choice.kind == TintKind::none) return {};
  const Run* first = lossRun();
  const Run* second = chosenRun(choice.minus, 1);
  if (choice.kind == TintKind::loss) {
    return tr("loss of %1, at the word predicted").arg(first->name) + placesNote();
  }
  if (choice.kind == TintKind::lossDifference) {
    if (first == second && m_runs.size() > 1) {
      return tr("only %1 read this text: a difference needs two runs on one text").arg(first->name);
    }
    if (first == second) return tr("%1 is the only run: a difference needs two").arg(first->name);
    return tr("loss of %1 minus %2, at the word predicted").arg(first->name, second->name) + placesNote();
  }
  const Run* run = m_runs.run(m_runs.selection().head().run);
  if (run == nullptr) return tr("no head is chosen");
  if (isOwed(choice.kind)) {
    if (!run->trace->has(TraceArray::log_forget_gradient)) {
      const QString obstacle = m_modelRuns.saliencyObstacle(run->id);
      return obstacle.isEmpty() ? tr("%1 has no saliency yet").arg(run->name) : obstacle;
    }
    const QString target = QString::fromStdString(saliency_target_words(run->trace->info()));
    const QString sentence = choice.kind == TintKind::saliency
                                 ? tr("raising f of %1 at a word by 1\u00a0% changes %2 by this")
                                 : tr("0.01 more in the logits of a word as a key of %1 changes %2 by this");
    return sentence.arg(headName(), target) + placesNote();
  }
  if (choice.kind == TintKind::expert) return expertCaption(*run);
  const int layer = m_runs.selection().head().layer;
  const bool ofGate = choice.kind != TintKind::ungatedRow && choice.kind != TintKind::attentionRow;
  if (ofGate && !forgets(run->trace->info(), layer)) {
    const TraceInfo& info = run->trace->info();
    return tr("%1 has no forget gate: f = 1, F = 1 %2")
        .arg(gatelessName(run->name, info, layer), everywhereSeen(info, layer));
  }
  if (choice.kind == TintKind::gate) {
    return tr("1 − f of %1, at the word read").arg(headName()) + placesNote();
  }
  const auto query = rowQuery();
  if (!query) return tr("click a word to pin it as query");
  const bool pinned = m_runs.selection().pin().query == query;
  return tr("%1 of %2, query %3 “%4” (%5), at the word read")
             .arg(tintName(choice.kind), headName())
             .arg(*query)
             .arg(readText(*m_reference->tokens(), *query, Whitespace::visible),
                  pinned ? tr("pinned") : tr("under the pointer")) +
         placesNote();
}

}  // namespace foxscope::gui
