#include "app/gui/evaluations/evaluation_export.h"

#include <algorithm>
#include <array>
#include <map>

#include <QFileInfo>

#include "backend/base/atomic_file.h"
#include "backend/base/index.h"

namespace foxscope::gui::evaluations {

std::vector<std::string> hiddenModels(const RunList& runs) {
  std::vector<std::string> names;
  for (const ListRow& row : runs.listRows()) {
    if (runs.lookOf(row).hidden) names.push_back(runs.nameOf(row).toStdString());
  }
  return names;
}

std::vector<figure::LossSource> lossSources(const std::vector<Evaluation>& evaluations,
                                            const std::vector<std::string>& hidden) {
  std::vector<figure::LossSource> all;
  std::vector<std::string> files;
  std::map<std::string, int> count;
  for (const Evaluation& evaluation : evaluations) {
    const auto* losses = evaluation.as<LossEvaluation>();
    if (losses == nullptr) continue;
    for (figure::LossSource& source : figure::lossesOf(*losses)) {
      if (std::find(hidden.begin(), hidden.end(), source.name) != hidden.end()) continue;
      ++count[source.name];
      files.push_back(QFileInfo(evaluation.path).completeBaseName().toStdString());
      all.push_back(std::move(source));
    }
  }
  std::map<std::string, int> taken;
  for (std::size_t index = 0; index < all.size(); ++index) {
    std::string& name = all[index].name;
    if (count[name] > 1) name += " · " + files[index];
    const int number = ++taken[name];
    if (number > 1) name += " (" + std::to_string(number) + ")";
  }
  return all;
}

namespace {

/// Copies of evaluations without the models that are hidden; nothing of those that have no others.
template <typename Content>
std::vector<std::shared_ptr<const Content>> shownOf(const EvaluationList& evaluations, const RunList& runs) {
  std::vector<std::shared_ptr<const Content>> all;
  const std::vector<std::string> names = hiddenModels(runs);
  for (const Evaluation& evaluation : evaluations) {
    const auto* content = std::get_if<std::shared_ptr<const Content>>(&evaluation.content);
    if (content == nullptr) continue;
    const auto hidden = [&](const auto& model) {
      return std::find(names.begin(), names.end(), model.info.name) != names.end();
    };
    const auto& models = (*content)->models;
    if (std::none_of(models.begin(), models.end(), hidden)) {
      all.push_back(*content);
      continue;
    }
    auto left = std::make_shared<Content>(**content);
    std::erase_if(left->models, hidden);
    if (!left->models.empty()) all.push_back(std::move(left));
  }
  return all;
}

}  // namespace

std::vector<std::shared_ptr<const NeedleEvaluation>> shownNeedles(const EvaluationList& evaluations,
                                                                  const RunList& runs) {
  return shownOf<NeedleEvaluation>(evaluations, runs);
}

std::vector<std::shared_ptr<const HeadsEvaluation>> shownHeads(const EvaluationList& evaluations, const RunList& runs) {
  return shownOf<HeadsEvaluation>(evaluations, runs);
}

std::vector<std::pair<std::string, figure::CurveLook>> looksOf(const std::vector<std::string>& names,
                                                               const RunList& runs) {
  std::vector<std::pair<std::string, figure::CurveLook>> looks;
  std::array<int, figure::kCurveColours> uses{};
  std::vector<std::string> others;
  for (const std::string& name : names) {
    const Run* run = runs.runNamed(QString::fromStdString(name));
    if (run == nullptr) {
      others.push_back(name);
      continue;
    }
    looks.emplace_back(name, figure::CurveLook{run->look.colour, run->look.change});
    ++uses[index_of(run->look.colour % figure::kCurveColours)];
  }
  for (const std::string& name : others) {
    const auto free = std::min_element(uses.begin(), uses.end());
    ++*free;
    looks.emplace_back(name, figure::CurveLook{static_cast<int>(free - uses.begin()), 0});
  }
  return looks;
}

void exportText(FileWriter& files, const QString& path, const std::string& text) {
  files.writeFile(path, [path, text](const Job&) -> std::optional<bool> {
    AtomicFile file(path.toStdString(), true);
    file.write(text.data(), text.size());
    file.commit();
    return true;
  });
}

}  // namespace foxscope::gui::evaluations
