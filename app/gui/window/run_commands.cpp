#include "app/gui/window/run_commands.h"

#include <algorithm>

#include <QCoreApplication>
#include <QDir>
#include <QFileInfo>

#include "app/gui/document/runs/sweeps.h"
#include "backend/base/command_line.h"

namespace foxscope::gui {
namespace {

QString why(const char* text) { return QCoreApplication::translate("foxscope::gui::RunCommands", text); }

/// The reason why a run that is in no file cannot be made again; empty where it can.
QString obstacleOf(const TextInput& text, const Run& run) {
  if (!run.trace->text() || text.file.isEmpty() || !is_read_of(*run.trace->text(), text.content)) {
    return why("%1 and its text are in no file yet: save the run file first.").arg(run.name);
  }
  for (const QString& path : {text.file, run.model}) {
    const bool hubId = path == run.model && !QDir::isAbsolutePath(path);
    if (hubId || QFileInfo::exists(path)) continue;
    return why("%1 is in no file yet, and %2 no longer exists: save the run file first.").arg(run.name, path);
  }
  return {};
}

}  // namespace

RunCommands::RunCommands(const RunList& runs, const TextInput& text, const Traces& shown, const QString& output) {
  m_text = QFileInfo(text.file).absoluteFilePath();
  for (const auto& trace : shown) {
    const auto run = std::find_if(runs.begin(), runs.end(), [&](const Run& one) { return one.trace == trace; });
    if (run == runs.end() || m_files.contains(trace.get())) continue;
    if (!run->file.isEmpty()) {
      m_files[trace.get()] = run->file;
      continue;
    }
    const QString obstacle = obstacleOf(text, *run);
    if (obstacle.isEmpty()) {
      make(*run, output);
    } else if (m_obstacle.isEmpty()) {
      m_obstacle = obstacle;
    }
  }
}

void RunCommands::make(const Run& run, const QString& output) {
  const TraceInfo& info = run.trace->info();
  auto same = std::find_if(m_made.begin(), m_made.end(), [&](const Made& made) {
    const TraceInfo& other = made.runs.front()->trace->info();
    const bool alike = other.intervention == info.intervention && other.length == info.length;
    return alike && other.device == info.device && other.dtype == info.dtype;
  });
  if (same == m_made.end()) {
    const QFileInfo figure(output);
    QString name = figure.completeBaseName();
    if (!m_made.empty()) name += QStringLiteral("-%1").arg(m_made.size() + 1);
    name += QStringLiteral(".h5");
    m_made.push_back({figure.path() == QStringLiteral(".") ? name : figure.path() + '/' + name, {}});
    same = m_made.end() - 1;
  }
  same->runs.push_back(&run);
  m_files[run.trace.get()] = same->file;
}

QString RunCommands::fileOf(const Trace& trace) const {
  const auto found = m_files.find(&trace);
  return found == m_files.end() ? QString() : found->second;
}

std::string RunCommands::commandOf(const Made& made) const {
  std::vector<std::string> words{"foxscope", "run"};
  const auto option = [&](const char* name, const std::string& value) { words.insert(words.end(), {name, value}); };
  for (const Run* run : made.runs) {
    const QFileInfo folder(run->model);
    const QString path = folder.exists() ? folder.absoluteFilePath() : run->model;
    option("--model", run->trace->info().name + '=' + path.toStdString());
  }
  option("--text", m_text.toStdString());
  const Trace& first = *made.runs.front()->trace;
  option("--length", std::to_string(first.info().length));
  option("--device", first.info().device);
  option("--dtype", to_string(first.info().dtype));
  for (const Intervention& change : interventionsOf(first.info())) option("--intervene", change.text());
  if (first.query_key() == nullptr) option("--keep", "loss,gates,rows");
  option("-o", made.file.toStdString());
  return quoted_command_line(words);
}

QString RunCommands::before() const {
  QString commands;
  for (const Made& made : m_made) commands += QString::fromStdString(commandOf(made)) + QStringLiteral(" && ");
  return commands;
}

}  // namespace foxscope::gui
