#include "app/gui/curves/tabs/decay_tab.h"

#include <algorithm>
#include <cmath>

#include "app/figure/heads/head_choice.h"
#include "app/gui/curves/decay_plot.h"
#include "app/gui/curves/read_out.h"
#include "app/gui/document/number_text.h"
#include "app/gui/document/runs/gateless_name.h"
#include "app/gui/views/plot_style.h"
#include "app/gui/views/theme.h"
#include "backend/base/number_ranges.h"

namespace foxscope::gui::curves {
namespace {

enum { kSpectra };

}  // namespace

DecayTab::DecayTab(RunList& runs, const ModelRuns& modelRuns, QWidget* parent)
    : CurveTab(runs, modelRuns, tr("Decay: choices"), parent), m_plot(new DecayPlot(this)) {
  m_plot->setAccessibleName(tr("Decay times of all heads"));
  setPlot(m_plot);
  Selection& selection = runs.selection();
  connect(m_plot, &DecayPlot::hoveredChanged, this, &DecayTab::showReading);
  connect(m_plot, &DecayPlot::headClicked, &selection, &Selection::setHead);
}

void DecayTab::refresh() {
  const std::vector<CurveRun> runs = curveRuns(list());
  if (runs.empty()) {
    list().quickJobs().cancel(this, kSpectra);
    m_spectra.clear();
    m_plot->setSpectra({});
    return showMessage(noRunText());
  }
  JobRunner::Request<std::vector<DecaySpectrum>> request;
  request.work = [runs](const Job& job) { return decaySpectra(runs, job); };
  request.done = [this](std::vector<DecaySpectrum> spectra) { take(std::move(spectra)); };
  request.failed = [this](const QString& message) { showMessage(message); };
  list().quickJobs().submit(this, kSpectra, std::move(request));
}

void DecayTab::take(std::vector<DecaySpectrum> spectra) {
  QStringList ungated;
  QStringList notes;
  for (const DecaySpectrum& spectrum : spectra) {
    const auto never = std::count_if(spectrum.heads.begin(), spectrum.heads.end(),
                                     [](const HeadDecay& head) { return std::isinf(head.time); });
    if (spectrum.heads.empty()) {
      ungated += spectrum.run.name;
      continue;
    }
    if (never > 0) {
      notes += tr("%n head(s) of %1 never forget and are not drawn.", nullptr, static_cast<int>(never))
                   .arg(spectrum.run.name);
    }
    const std::vector<int> without = figure::layersWithoutGate(spectrum.run.trace->info());
    if (!without.empty()) {
      notes +=
          (without.size() == 1 ? tr("No forget gate in layer %1 of %2.") : tr("No forget gate in layers %1 of %2."))
              .arg(QString::fromStdString(ranges_text(without)), spectrum.run.name);
    }
  }
  if (!ungated.empty()) notes.prepend(tr("No forget gate, so nothing decays: %1.").arg(ungated.join(tr(", "))));
  const bool none = ungated.size() == static_cast<qsizetype>(spectra.size());
  m_spectra = std::move(spectra);
  if (none) return showMessage(notes.join(' '));
  showPlot(notes.join(' '));
}

void DecayTab::restyle() {
  std::vector<DecaySpectrum> shown = m_spectra;
  std::erase_if(shown, [this](const DecaySpectrum& spectrum) { return readOut().isHidden(spectrum.run.name); });
  m_plot->setSpectra(std::move(shown));
  m_plot->setChosen(list().selection().head());
}

void DecayTab::showReading() {
  const HeadChoice chosen = list().selection().head();
  m_plot->setChosen(chosen);
  std::optional<HeadDecay> told = m_plot->hovered();
  std::vector<ReadOut::Entry> entries;
  for (const DecaySpectrum& spectrum : m_spectra) {
    if (spectrum.heads.empty()) continue;
    entries.push_back(
        {spectrum.run.name, runColour(spectrum.run.look.colour, palette()), runLine(spectrum.run.look.change), {}});
    const auto found = std::find_if(spectrum.heads.begin(), spectrum.heads.end(),
                                    [&](const HeadDecay& head) { return head.head == chosen; });
    if (!told && found != spectrum.heads.end()) told = *found;
  }
  readOut().setEntries(entries);
  const Run* run = list().run(chosen.run);
  if (!told && run != nullptr && !forgets(run->trace->info(), chosen.layer)) {
    return readOut().setPlace(
        tr("%1 has no forget gate").arg(gatelessName(run->name, run->trace->info(), chosen.layer)));
  }
  if (!told || list().run(told->head.run) == nullptr) {
    return readOut().setPlace(tr("T = −1 / mean(log f): after T tokens 1/e (37 %) of a token is left"));
  }
  QString place = tr("%1, layer %2, head %3: decay time %4 tokens")
                      .arg(list().run(told->head.run)->name)
                      .arg(told->head.layer)
                      .arg(told->head.head)
                      .arg(numberText(told->time));
  if (!told->channels.empty()) {
    place +=
        tr(", of its channels %1 to %2").arg(numberText(told->channels.front()), numberText(told->channels.back()));
  }
  readOut().setPlace(place);
}

QString DecayTab::data() const {
  if (!message().isEmpty()) return {};
  QString csv = tr("run,layer,head,decay time (tokens)") + '\n';
  for (const DecaySpectrum& spectrum : m_spectra) {
    for (const HeadDecay& head : spectrum.heads) {
      csv += QStringLiteral("%1,%2,%3,%4\n")
                 .arg(csvField(spectrum.run.name))
                 .arg(head.head.layer)
                 .arg(head.head.head)
                 .arg(std::isinf(head.time) ? QStringLiteral("inf") : QString::number(head.time, 'g', 9));
    }
  }
  return csv;
}

}  // namespace foxscope::gui::curves
