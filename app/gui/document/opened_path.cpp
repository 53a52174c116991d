#include "app/gui/document/opened_path.h"

#include <filesystem>
#include <fstream>
#include <limits>

#include <QCoreApplication>
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <fmt/format.h>

#include "app/gui/document/remote/remote_model.h"
#include "app/gui/document/remote/remote_place.h"
#include "app/gui/document/session.h"
#include "backend/agent/remote_files.h"
#include "backend/agent/remote_run.h"
#include "backend/base/error.h"
#include "backend/eval/atlas/atlas_file.h"
#include "backend/file/hdf5/hdf5_file.h"
#include "backend/file/provenance.h"
#include "backend/model/weights/checkpoint.h"
#include "backend/text/json_reading.h"
#include "backend/text/read_text.h"
#include "backend/text/token_ids.h"
#include "backend/text/tokenizer.h"
#include "backend/train/remote_training.h"
#include "backend/train/training_record.h"

namespace foxscope::gui {
namespace {

constexpr std::uintmax_t kLargestText = 64U << 20U;  // far beyond what a model reads
constexpr const char* kNoCheckpoint = "{}: the training has no checkpoint yet: open it when its first is saved";
constexpr std::uintmax_t kLargestSession = 16U << 20U;

bool isHdf5(const std::string& head) { return head.starts_with("\x89HDF\r\n\x1a\n"); }

bool looksLikeSession(const std::string& head) {
  const auto first = head.find_first_not_of(" \t\r\n");
  return first != std::string::npos && head[first] == '{' && head.find(kSessionKey) != std::string::npos;
}

/// Token ids: a list of numbers, or an object with input_ids.
bool looksLikeIds(const QString& path, const std::string& head) {
  const auto first = head.find_first_not_of(" \t\r\n");
  if (!path.endsWith(QStringLiteral(".json"), Qt::CaseInsensitive) || first == std::string::npos) return false;
  if (head[first] == '{') return head.find("\"input_ids\"") != std::string::npos;
  const auto second = head[first] == '[' ? head.find_first_not_of(" \t\r\n", first + 1) : std::string::npos;
  return second != std::string::npos && head[second] >= '0' && head[second] <= '9';
}

/// A training keeps as many checkpoints as it was told to: where the one that a session shows is gone, it shows the
/// newest. @returns a note for each
QStringList replaceGoneCheckpoints(QJsonObject& session, const QString& folder) {
  QStringList notes;
  QJsonArray models = session["models"].toArray();
  const std::vector<ModelInput> inputs = Session::fromJson(session, folder).models;
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    const ModelInput& model = inputs[index];
    if (model.training.isEmpty() || isRemote(model.training) || QFileInfo::exists(model.path)) continue;
    const auto checkpoints = TrainingFolder(model.training.toStdString()).checkpoints();
    if (checkpoints.empty()) continue;
    const QString newest = QString::fromStdString(checkpoints.back().folder.string());
    QJsonObject entry = models[static_cast<qsizetype>(index)].toObject();
    entry["path"] = newest;
    models[static_cast<qsizetype>(index)] = entry;
    notes += QCoreApplication::translate("foxscope::gui::OpenedSession",
                                         "%1: checkpoint %2 is gone: the training's newest, %3, is shown instead")
                 .arg(model.name, QFileInfo(model.path).fileName(), QFileInfo(newest).fileName());
  }
  if (!notes.isEmpty()) session["models"] = models;
  return notes;
}

OpenedSession readSession(const std::filesystem::path& path, std::uintmax_t size) {
  if (size > kLargestSession) throw Error(fmt::format("{}: too large for a session", path.string()));
  const std::string content = read_text(path, InvalidUtf8::refuse);
  check_json_bounds(content, path.string());
  QJsonParseError error;
  const QJsonDocument json = QJsonDocument::fromJson(QByteArray::fromStdString(content), &error);
  if (!json.isObject()) {
    throw Error(fmt::format("{}: damaged session: {} at byte {}", path.string(), error.errorString().toStdString(),
                            error.offset));
  }
  QJsonObject session = json.object();
  const int schema = session[kSessionKey].toInt(0);
  if (schema < 1) throw Error(fmt::format("{}: damaged session: '{}' is not a number", path.string(), kSessionKey));
  if (schema > kSessionSchema) {
    throw Error(
        fmt::format("{}: this session was saved by a newer version of Foxscope (schema {}, this one reads {}): "
                    "open it there",
                    path.string(), schema, kSessionSchema));
  }
  try {
    settingsOfSession(session);
  } catch (const UsageError& wrong) {
    throw Error(fmt::format("{}: settings: {}", path.string(), wrong.what()));
  }
  const QStringList notes = replaceGoneCheckpoints(session, QFileInfo(path).absolutePath());
  return {session, notes};
}

/// The evaluation in a file; nothing for a run file.
std::optional<Evaluation> openEvaluation(const QString& path) {
  const std::filesystem::path file = path.toStdString();
  const std::string content = read_content(file);
  if (content == kLossContent) {
    return Evaluation{path, std::make_shared<const LossEvaluation>(LossEvaluation::open(file))};
  }
  if (content == kNeedleContent) {
    return Evaluation{path, std::make_shared<const NeedleEvaluation>(NeedleEvaluation::open(file))};
  }
  if (content == kEvalHeadsContent || content == kHeadsContent) {
    return Evaluation{path, std::make_shared<const HeadsEvaluation>(HeadsEvaluation::open(file))};
  }
  if (content == kAtlasContent) return Evaluation{path, AtlasReader::open(file)};
  return std::nullopt;
}

OpenedCheckpoint openCheckpoint(const QString& path) {
  const Checkpoint checkpoint = Checkpoint::open(path.toStdString());
  QStringList notes;
  for (const std::string& note : checkpoint.config().notes) notes += QString::fromStdString(note);
  if (!Tokenizer::is_in(checkpoint.folder())) {
    notes += QCoreApplication::translate("foxscope::gui",
                                         "holds no tokenizer, so it reads no text: open a .json file of token ids "
                                         "for it, as `foxscope run --ids` reads it");
  }
  return {notes};
}

OpenedTraining openTraining(const std::filesystem::path& path) {
  const TrainingRecord record = read_training(path);
  if (record.checkpoints.empty()) {
    throw Error(fmt::format(kNoCheckpoint, path.string()));
  }
  const std::filesystem::path& newest = record.checkpoints.back().folder;
  (void)Checkpoint::open(newest.string());
  return {QString::fromStdString(newest.string())};
}

OpenedRunFile openedRun(std::optional<RunFile> run, const std::stop_token& stop) {
  if (!run) return {};
  OpenedRunFile opened{std::move(*run), {}};
  for (const auto& trace : opened.file.traces) {
    if (stop.stop_requested()) return {};
    opened.representative.push_back(representativeHead(*trace));
  }
  return opened;
}

OpenedContent openRemoteTraining(const std::string& url, const Job& job) {
  const auto record = RemoteTrainingReader(agent::parse_remote_path(url)).read(job);
  if (!record) return OpenedRunFile{};
  if (record->checkpoints.empty()) throw Error(fmt::format(kNoCheckpoint, url));
  return OpenedTraining{QString::fromStdString(record->checkpoints.back().folder.string())};
}

/// The program there reads what it is.
OpenedContent openRemoteCheckpoint(const std::string& url, const Job& job) {
  const auto model = modelThere(QString::fromStdString(url), false, job);
  return model ? OpenedContent(OpenedCheckpoint{model->notes}) : OpenedRunFile{};
}

/// A run, a model and a training there stay there; of any other file a copy is opened.
OpenedContent openRemotePath(const std::string& url, const Job& job, RunCheck check) {
  auto opened = agent::open_path(url, check, job);
  if (!opened) return OpenedRunFile{};
  if (opened->run) return openedRun(std::move(opened->run), job.stop);
  const agent::FileFacts& facts = opened->facts;
  if (facts.holds == "training") return openRemoteTraining(url, job);
  if (facts.holds == "checkpoint") return openRemoteCheckpoint(url, job);
  if (facts.kind != "file") {
    throw Error(fmt::format("{}: this {} holds no model and no training: name one that has config.json, or recipe.json",
                            url, facts.kind));
  }
  const std::filesystem::path copy = agent::file_here(url, job);
  if (copy.empty()) return OpenedRunFile{};
  OpenedContent content = openPath(QString::fromStdString(copy.string()), job, check);
  if (auto* evaluation = std::get_if<Evaluation>(&content)) evaluation->path = QString::fromStdString(url);
  return content;
}

}  // namespace

OpenedContent openPath(const QString& path, const Job& job, RunCheck check) {
  const std::filesystem::path file = path.toStdString();
  if (agent::is_remote(path.toStdString())) return openRemotePath(path.toStdString(), job, check);
  std::error_code failed;
  const auto status = std::filesystem::status(file, failed);
  // A hub id "owner/name" is no path; the checkpoint's reader says what it looked for.
  if (!std::filesystem::exists(status) || std::filesystem::is_directory(status)) {
    if (!std::filesystem::exists(status) && (path.count('/') != 1 || path.startsWith('/') || path.startsWith('.'))) {
      throw Error(fmt::format("{}: there is no such file or folder", file.string()));
    }
    if (TrainingFolder::is(file)) return openTraining(file);
    return openCheckpoint(path);
  }
  if (!std::filesystem::is_regular_file(status)) {
    throw Error(fmt::format("{}: this is not an ordinary file", file.string()));
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw Error(fmt::format("{}: cannot be read: check the permissions", file.string()));
  std::string head(kSessionHead, '\0');
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(stream.gcount()));
  stream.close();
  if (isHdf5(head) && read_content(file) == kSweepContent) {
    const auto sweep = std::make_shared<const SweepEvaluation>(SweepEvaluation::open(file));
    return OpenedSweep{sweep, sweep->changes()};
  }
  if (isHdf5(head)) {
    if (auto evaluation = openEvaluation(path)) return std::move(*evaluation);
    return openedRun(RunFile::open(file, job, check), job.stop);
  }
  const auto size = std::filesystem::file_size(file, failed);
  if (looksLikeSession(head)) return readSession(file, size);
  if (size > kLargestText) {
    throw Error(fmt::format("{}: {} MB is more text than a window can show: cut it into parts of at most {} MB",
                            file.string(), size >> 20U, kLargestText >> 20U));
  }
  if (size == 0)
    throw Error(fmt::format("{}: the file is empty: choose a text with at least one token", file.string()));
  OpenedText text{read_text(file, InvalidUtf8::refuse), looksLikeIds(path, head)};
  // Which of them there may be is the model's to say, when it runs.
  if (text.ids) (void)read_token_ids(text.content, file.string(), std::numeric_limits<std::int32_t>::max());
  return text;
}

OpenedContent openKeptRun(const QString& path, const QString& name, const Job& job, RunCheck check) {
  std::ifstream stream(path.toStdString(), std::ios::binary);
  // A file that is not there, or not for this user, is no damage.
  if (!stream) return openPath(path, job, check);
  std::string head(8, '\0');
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  stream.close();
  const char* problem = "is no run file";
  if (isHdf5(head)) {
    problem = "is damaged";
    try {
      OpenedContent content = openPath(path, job, check);
      if (std::holds_alternative<OpenedRunFile>(content)) return content;
      problem = "is no run file";
    } catch (const Error& error) {
      // Other problems, such as a newer version's file, have remedies of their own.
      const std::string_view said = error.what();
      if (said.find("`foxscope run`") == said.npos && said.find(kHdf5Remedy) == said.npos) throw;
    }
  }
  throw Error(fmt::format("{}: {}, but the session keeps its run of {} there: press F5 to make the run again",
                          path.toStdString(), problem, name.toStdString()));
}

}  // namespace foxscope::gui
