#include "app/gui/window/figures/page_export.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "app/figure/figure_words.h"
#include "app/gui/document/document.h"
#include "app/page/page.h"
#include "backend/agent/remote_path.h"
#include "backend/base/atomic_file.h"
#include "backend/base/command_line.h"

namespace foxscope::gui {
namespace {

/// The runs on the text shown, the chosen head's first.
std::vector<const Run*> runsInOrder(const RunList& list) {
  std::vector<const Run*> runs = list.runsOnText();
  const RunId chosen = list.selection().head().run;
  std::ranges::stable_partition(runs, [&](const Run* run) { return run->id == chosen; });
  return runs;
}

/// The run file that holds all of them under the names that they are shown by; empty: there is none.
QString fileOfAll(const std::vector<const Run*>& runs) {
  const QString file = runs.front()->file;
  const bool all = std::ranges::all_of(runs, [&](const Run* run) { return run->file == file; });
  return all ? file : QString();
}

/// The command that writes this page. Heads of other models are named by them.
std::string pageCommandOf(const page::PageRequest& request, const QString& file, const QString& path) {
  std::string heads;
  for (const page::PageModel& model : request.models) {
    for (const figure::HeadIndex& head : model.heads) {
      if (!heads.empty()) heads += ',';
      if (&model != &request.models.front()) heads += model.trace->info().name + ':';
      heads += figure::wordOf(head);
    }
  }
  std::vector<std::string> words{"foxscope", "page", agent::name_without_folder(file.toStdString()), "--heads", heads};
  if (request.models.size() > 1) {
    words.insert(words.end(),
                 {"--model", request.models[0].trace->info().name, "--minus", request.models[1].trace->info().name});
  }
  words.insert(words.end(), {"-o", agent::name_without_folder(path.toStdString())});
  return quoted_command_line(words);
}

}  // namespace

void exportPage(Document& document, const QString& path) {
  const RunList& list = document.runs();
  const std::vector<const Run*> runs = runsInOrder(list);
  const auto head = list.headOf(list.selection().head());
  if (runs.empty() || !head) return;
  page::PageRequest request;
  for (const Run* run : runs) {
    request.models.push_back({{run->trace, std::nullopt}, run->name.toStdString(), run->look.colour, {}});
  }
  if (runs.front()->trace == head->trace) request.first = figure::HeadIndex{head->layer, head->head};
  const Cursor& pin = list.selection().pin();
  if (pin.query && pin.key) {
    const auto query = list.positionIn(runs.front()->id, *pin.query);
    const auto key = list.positionIn(runs.front()->id, *pin.key);
    if (query && key) request.pin = {*query, *key};
  }
  const QString file = fileOfAll(runs);
  request.run_command = file.isEmpty() ? std::string() : runs.front()->command.toStdString();
  document.files().writeFile(path, [request, file, path](const Job& job) mutable -> std::optional<bool> {
    page::chooseHeads(request.models);
    auto& heads = request.models.front().heads;
    if (request.first && std::ranges::find(heads, *request.first) == heads.end()) {
      heads.insert(heads.begin(), *request.first);
    }
    if (!file.isEmpty()) request.command = pageCommandOf(request, file, path);
    const auto html = page::makePage(request, job);
    if (!html) return std::nullopt;
    AtomicFile written(path.toStdString(), true);
    written.write(html->data(), html->size());
    written.commit();
    return true;
  });
}

}  // namespace foxscope::gui
