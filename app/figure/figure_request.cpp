#include "app/figure/figure_request.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/figure/kinds/atlas/atlas_heads.h"
#include "app/figure/source_names.h"
#include "backend/agent/remote_files.h"
#include "backend/agent/remote_run.h"
#include "backend/base/error.h"
#include "backend/base/nearest_name.h"
#include "backend/eval/heads/heads_file.h"
#include "backend/file/provenance.h"

namespace foxscope::figure {
namespace {

const std::string& nameOf(const LossSource& source) { return source.name; }
const std::string& nameOf(const EvaluatedHeads& model) { return model.info.name; }
const std::string& nameOf(const AtlasModel& model) { return model.info.name; }
const std::string& nameOf(const RunOnDevice& run) { return run->info().name; }

template <typename Of>
std::vector<std::string> namesIn(const std::vector<Of>& all) {
  std::vector<std::string> names;
  for (const Of& one : all) names.push_back(nameOf(one));
  return names;
}

template <typename Of>
std::string namesOf(const std::vector<Of>& all) {
  return fmt::format("{}", fmt::join(namesIn(all), ", "));
}

/// The sources that --models names, or all of them where no name is given.
template <typename Of>
std::vector<Of> chosenOf(const std::vector<Of>& all, const FigureSpec& spec) {
  std::vector<Of> chosen;
  for (const std::string& name : spec.list("models")) {
    const auto found = std::ranges::find_if(all, [&](const Of& one) { return nameOf(one) == name; });
    if (found == all.end()) {
      throw UsageError(
          fmt::format("--models {}: the files have {}{}", name, namesOf(all), nearest_question(name, namesIn(all))));
    }
    chosen.push_back(*found);
  }
  return spec.has("models") ? chosen : all;
}

const TraceInfo& infoOf(const EvaluatedHeads& model) { return model.info; }
const TraceInfo& infoOf(const AtlasModel& model) { return model.info; }
const TraceInfo& infoOf(const RunOnDevice& run) { return run->info(); }

/// The first that has a gate, else the first of all, with a note if there was a choice.
/// @throws UsageError where other files were named too, of which nothing would be drawn
template <typename Of>
const Of& firstGated(const std::vector<Of>& all, const FigureSources& sources, std::vector<std::string>& notes) {
  if (sources.files.size() > 1 && all.size() > 1) {
    throw UsageError(fmt::format("{}: one model is drawn, and there are {}: --model names one, or name its file alone",
                                 fmt::join(sources.files, ", "), namesOf(all)));
  }
  const auto gated = std::ranges::find_if(all, [](const Of& one) { return forgets(infoOf(one)); });
  const Of& chosen = gated == all.end() ? all.front() : *gated;
  if (all.size() > 1) {
    notes.push_back(fmt::format("of {} this is {}: --model chooses another", namesOf(all), nameOf(chosen)));
  }
  return chosen;
}

/// The model that --model names, or firstGated.
template <typename Of>
const Of& chosenModel(const std::vector<Of>& models, const FigureSpec& spec, const FigureSources& sources,
                      std::vector<std::string>& notes) {
  if (!spec.has("model")) return firstGated(models, sources, notes);
  const std::string name = spec.text("model");
  const auto found = std::ranges::find_if(models, [&](const auto& model) { return nameOf(model) == name; });
  if (found != models.end()) return *found;
  throw UsageError(fmt::format("--model {}: there is no such model: use one of {}{}", name, namesOf(models),
                               nearest_question(name, namesIn(models))));
}

RunCheck checkOf(const FigureSpec& spec) { return spec.has("unchecked") ? RunCheck::none : RunCheck::whole; }

std::string deviceOf(const FigureSpec& spec) { return spec.text("device", "auto"); }

std::vector<LossSource> lossesIn(const std::string& file, RunCheck check) {
  const std::string content = agent::content_of(file);
  if (content == kLossContent) return lossesOf(LossEvaluation::open(agent::file_here(file)));
  if (!content.empty()) {
    throw Error(fmt::format("{}: holds {} and no losses: name a file that `foxscope eval loss` or `foxscope run` wrote",
                            file, content_words(content)));
  }
  std::vector<LossSource> sources;
  for (const auto& run : agent::open_run(file, check).traces) sources.push_back(lossesOf(run));
  return sources;
}

/// The statistics of heads that a file holds, or of its runs. @returns nothing if the job was stopped
std::optional<std::vector<EvaluatedHeads>> headsIn(const std::string& file, const FigureSpec& spec, const Job& job) {
  std::vector<EvaluatedHeads> models;
  const std::string content = agent::content_of(file);
  if (content == kHeadsContent || content == kEvalHeadsContent) {
    return HeadsEvaluation::open(agent::file_here(file)).models;
  }
  if (content == kAtlasContent) {
    for (const AtlasModel& model : Atlas::open(agent::file_here(file)).models) models.push_back(headsOf(model));
    return models;
  }
  if (!content.empty()) {
    throw Error(
        fmt::format("{}: holds {} and no statistics of heads: name a file that `foxscope eval heads`, `foxscope heads "
                    "-o` or `foxscope run` wrote",
                    file, content_words(content)));
  }
  const std::optional<int> gpu = agent::gpu_for(file, deviceOf(spec));
  const std::optional<RunFile> opened = agent::open_run(file, checkOf(spec), job, deviceOf(spec));
  if (!opened) return std::nullopt;
  for (const auto& trace : opened->traces) {
    auto heads = evaluate_run({trace, gpu}, job);
    if (!heads) return std::nullopt;
    models.push_back(std::move(*heads));
  }
  return models;
}

SourceName sourceName(const FigureSources& sources, std::size_t file, const std::string& own, std::size_t models) {
  const std::string given = sources.names.empty() ? "" : sources.names[file];
  return {nameInFile(given, own, models), sources.files[file], own, models == 1};
}

}  // namespace

std::shared_ptr<const EvaluatedHeads> EvaluatedRuns::of(const std::shared_ptr<const Trace>& trace, const Job& job) {
  {
    const std::lock_guard lock(m_mutex);
    const auto known = m_known.find(trace);
    if (known != m_known.end()) return known->second;
  }
  auto heads = evaluate_run(trace, job);
  if (!heads) return nullptr;
  const std::lock_guard lock(m_mutex);
  return m_known[trace] = std::make_shared<const EvaluatedHeads>(std::move(*heads));
}

std::optional<FigureRequest::Runs> FigureRequest::runs() const {
  Runs all;
  for (const FigureRun& run : sources.runs) all.emplace_back(run.trace);
  if (!all.empty()) return all;
  std::set<std::string> names;
  for (const std::string& file : sources.files) {
    const std::optional<int> gpu = agent::gpu_for(file, deviceOf(spec));
    const std::optional<RunFile> opened = agent::open_run(file, checkOf(spec), job, deviceOf(spec));
    if (!opened) return std::nullopt;
    for (const auto& run : opened->traces) {
      if (!names.insert(run->info().name).second) {
        throw UsageError(
            fmt::format("{}: another file has a model {} too, and this figure tells models by their names: draw each "
                        "file in a panel of its own (foxscope figure spec); foxscope compare NAME={} names one",
                        file, run->info().name, file));
      }
      all.emplace_back(run, gpu);
    }
  }
  style.requireLabels(namesIn(all));
  return all;
}

RunOnDevice FigureRequest::named(const Runs& runs, const char* option, const std::string& name) const {
  const auto found = std::ranges::find_if(runs, [&](const auto& run) { return nameOf(run) == name; });
  if (found != runs.end()) return *found;
  throw UsageError(fmt::format("{} {}: {} has {}{}", option, name, fmt::join(sources.files, ", "), namesOf(runs),
                               nearest_question(name, namesIn(runs))));
}

RunOnDevice FigureRequest::run(const Runs& runs) {
  if (!sources.runs.empty()) return runs.front();
  if (spec.has("model")) return named(runs, "--model", spec.text("model"));
  if (runs.empty()) throw UsageError(fmt::format("{}: there is no run in it", fmt::join(sources.files, ", ")));
  return firstGated(runs, sources, notes);
}

std::optional<RunOnDevice> FigureRequest::run() {
  const std::optional<Runs> all = runs();
  return all ? std::optional(run(*all)) : std::nullopt;
}

const EvaluatedHeads& FigureRequest::model(const std::vector<EvaluatedHeads>& models) {
  if (!sources.runs.empty()) return models.front();
  return chosenModel(models, spec, sources, notes);
}

const AtlasModel& FigureRequest::model(const std::vector<AtlasModel>& models) {
  return chosenModel(models, spec, sources, notes);
}

bool FigureRequest::ofAtlas() const {
  return sources.runs.empty() && sources.files.size() == 1 && agent::content_of(sources.files.front()) == kAtlasContent;
}

bool FigureRequest::ofRuns() const {
  return !sources.runs.empty() ||
         std::ranges::any_of(sources.files, [](const std::string& file) { return agent::content_of(file).empty(); });
}

Atlas FigureRequest::atlas() const {
  if (sources.files.size() != 1) {
    throw UsageError(fmt::format("{}: name one atlas: `foxscope eval atlas --merge` makes one of several",
                                 fmt::join(sources.files, ", ")));
  }
  Atlas atlas = Atlas::open(agent::file_here(sources.files.front()));
  style.requireLabels(namesIn(atlas.models));
  return atlas;
}

std::optional<std::pair<RunOnDevice, RunOnDevice>> FigureRequest::twoRuns() {
  const std::optional<Runs> opened = runs();
  if (!opened) return std::nullopt;
  const Runs& all = *opened;
  if (!sources.runs.empty()) return std::pair(all.at(0), all.at(1));
  const std::vector<std::string> names = spec.list("models");
  if (!names.empty() && names.size() != 2) {
    throw UsageError(fmt::format("--models {}: write two names, as in fox,base", fmt::join(names, ",")));
  }
  if (!names.empty()) return std::pair(named(all, "--models", names[0]), named(all, "--models", names[1]));
  if (all.size() < 2) {
    throw UsageError(fmt::format("{}: comparing takes two models, here is {}: name another run file too",
                                 fmt::join(sources.files, ", "), all.empty() ? "none" : namesOf(all)));
  }
  if (all.size() > 2) {
    notes.push_back(fmt::format("of {} these are the first two: --models chooses others", namesOf(all)));
  }
  const bool swapped = !forgets(all[0]->info()) && forgets(all[1]->info());
  return std::pair(all[swapped ? 1 : 0], all[swapped ? 0 : 1]);
}

std::optional<std::vector<EvaluatedHeads>> FigureRequest::heads() const {
  std::vector<EvaluatedHeads> models;
  for (const FigureRun& run : sources.runs) {
    const auto heads = sources.evaluated->of(run.trace, job);
    if (!heads) return std::nullopt;
    models.push_back(*heads);
  }
  if (!models.empty()) return models;
  std::vector<SourceName> names;
  for (std::size_t n = 0; n < sources.files.size(); ++n) {
    auto found = headsIn(sources.files[n], spec, job);
    if (!found) return std::nullopt;
    for (EvaluatedHeads& model : *found) {
      names.push_back(sourceName(sources, n, model.info.name, found->size()));
      models.push_back(std::move(model));
    }
  }
  const std::vector<std::string> apart = namesToldApart(names);
  for (std::size_t n = 0; n < models.size(); ++n) models[n].info.name = apart[n];
  style.requireLabels(namesIn(models));
  return models;
}

std::optional<std::vector<EvaluatedHeads>> FigureRequest::chosenHeads() const {
  auto all = heads();
  if (!all || !sources.runs.empty()) return all;
  return chosenOf(*all, spec);
}

std::vector<LossSource> FigureRequest::losses() const {
  std::vector<LossSource> all;
  for (const FigureRun& run : sources.runs) {
    all.push_back(lossesOf(run.trace));
    all.back().name = run.name;
  }
  if (!all.empty()) return all;
  std::vector<SourceName> names;
  for (std::size_t n = 0; n < sources.files.size(); ++n) {
    const auto losses = lossesIn(sources.files[n], checkOf(spec));
    for (const LossSource& source : losses) {
      names.push_back(sourceName(sources, n, source.name, losses.size()));
      all.push_back(source);
    }
  }
  const std::vector<std::string> apart = namesToldApart(names);
  for (std::size_t n = 0; n < all.size(); ++n) all[n].name = apart[n];
  return chosenOf(all, spec);
}

}  // namespace foxscope::figure
