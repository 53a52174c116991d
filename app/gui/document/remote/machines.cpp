#include "app/gui/document/remote/machines.h"

#include <algorithm>
#include <utility>

#include "app/gui/document/remote/remote_place.h"
#include "app/gui/document/runs/run_list.h"
#include "backend/agent/remote.h"
#include "backend/agent/remote_files.h"
#include "backend/base/error.h"

namespace foxscope::gui {

struct Machines::Machine {
  explicit Machine(const agent::RemoteHost& host) : remote(agent::Remote::at(host)), jobs(Threads::own) {}

  std::shared_ptr<agent::Remote> remote;
  MachineStatus status;
  bool measuring = false;
  QElapsedTimer since;      ///< the last measurement began
  bool triedAgain = false;  ///< the connection ended, and was asked for once more
  JobRunner jobs;           ///< last, so that its thread ends first
};

Machines::Machines(RunList& runs, QObject* parent) : QObject(parent), m_runs(runs) {
  agent::Remote::stay_lost(true);
  for (JobRunner* runner : {&m_runs.jobs(), &m_runs.quickJobs()}) {
    runner->putOffWhatIsLost();
    connect(runner, &JobRunner::putOffChanged, this, &Machines::look);
    connect(runner, &JobRunner::runChanged, this, &Machines::takeChanged);
  }
  connect(&m_runs, &RunList::runsChanged, this, &Machines::followRuns);
  m_timer.setInterval(m_pace.look);
  connect(&m_timer, &QTimer::timeout, this, &Machines::look);
}

Machines::~Machines() = default;

void Machines::setPace(const Pace& pace) {
  m_pace = pace;
  m_timer.setInterval(pace.look);
}

Machines::Machine& Machines::at(const agent::RemoteHost& host) {
  std::unique_ptr<Machine>& machine = m_machines[host];
  if (!machine) {
    machine = std::make_unique<Machine>(host);
    machine->status.name = QString::fromStdString(host.words());
  }
  if (!m_timer.isActive()) m_timer.start();
  return *machine;
}

void Machines::follow(const QString& path) {
  if (!agent::is_remote(path.toStdString())) return;
  try {
    at(agent::parse_remote_path(path.toStdString()).host);
  } catch (const Error&) {
    // Who opens it says why it is no path.
  }
}

JobRunner& Machines::jobs(const agent::RemoteHost& host) { return at(host).jobs; }

// The line begins with the file's URL, perhaps by a longer path.
void Machines::takeChanged(const QString& message) {
  for (const Run& run : std::as_const(m_runs)) {
    const QString host = hostOf(run.file);
    const QString name = '/' + shownUrl(run.file).section('/', -1) + ':';
    if (host.isEmpty() || !message.startsWith(QStringLiteral("ssh://") + host + '/') || !message.contains(name))
      continue;
    m_changedFiles[run.file] = message;
    emit changed();
  }
}

void Machines::followRuns() {
  const auto isGone = [this](const auto& file) {
    return std::ranges::none_of(std::as_const(m_runs), [&](const Run& run) { return run.file == file.first; });
  };
  if (std::erase_if(m_changedFiles, isGone) > 0) emit changed();
}

void Machines::look() {
  std::vector<MachineStatus> shown;
  bool back = false;
  for (auto& [host, machine] : m_machines) {
    const agent::RemoteState state = machine->remote->state();
    if (!state.was_connected) continue;
    MachineStatus& status = machine->status;
    const bool came = !status.connected && state.connected;
    back = back || came;
    status.connected = state.connected;
    status.received = state.received;
    status.lost = QString::fromStdString(state.lost);
    status.asking = state.asking > (machine->measuring ? 1 : 0);
    const double waited = machine->measuring ? static_cast<double>(machine->since.elapsed()) : 0;
    constexpr double kMillisecondsOfSecond = 1000;
    status.silent = state.connected && waited >= m_pace.silence ? waited / kMillisecondsOfSecond : 0;
    if (state.connected) machine->triedAgain = false;
    const bool due = !machine->since.isValid() || machine->since.elapsed() >= m_pace.measure;
    const bool ended = !state.connected && state.lost.empty() && !machine->triedAgain;
    if (ended) machine->triedAgain = true;
    if (!machine->measuring && ((state.connected && (came || due)) || ended)) measure(*machine);
    shown.push_back(status);
  }
  const bool allThere = std::ranges::all_of(shown, &MachineStatus::connected);
  const std::size_t waiting = m_runs.jobs().putOffCount() + m_runs.quickJobs().putOffCount();
  if (!m_cancelled && waiting > 0 && (back || (allThere && m_changedFiles.empty()))) goOn();
  if (m_cancelled && waiting == 0) {
    m_cancelled = false;  // something newer was asked for in their place
    emit changed();
  }
  if (shown == m_status) return;
  m_status = std::move(shown);
  emit changed();
}

/// Asks for next to nothing, and takes the time.
void Machines::measure(Machine& machine) {
  machine.measuring = true;
  machine.since.start();
  JobRunner::Request<double> request;
  request.work = [remote = machine.remote](const Job& job) { return agent::round_trip(*remote, job); };
  const auto end = [this, &machine] {
    machine.measuring = false;
    machine.status.connecting = false;
    look();
  };
  request.done = [&machine, end](double seconds) {
    constexpr double kMillisecondsOfSecond = 1000;
    machine.status.delay = seconds * kMillisecondsOfSecond;
    end();
  };
  // The reason is in the connection's state.
  request.failed = [end](const QString& /*message*/) { end(); };
  machine.jobs.submit(this, kMeasure, std::move(request));
}

void Machines::tryAgain(const agent::RemoteHost& host) { at(host).remote->reconnect(); }

void Machines::reconnect(const QString& name) {
  for (auto& [host, machine] : m_machines) {
    if (machine->status.name != name) continue;
    if (machine->remote->state().connected) machine->remote->disconnect();
    machine->remote->reconnect();
    machine->status.connecting = true;
    if (!machine->measuring) measure(*machine);
  }
  m_cancelled = false;
  look();
}

void Machines::cancel() {
  const bool pictures = m_runs.jobs().putOff();
  const bool quick = m_runs.quickJobs().putOff();
  m_cancelled = m_cancelled || pictures || quick;
  look();
  emit changed();
}

void Machines::goOn() {
  m_cancelled = false;
  m_runs.jobs().goOn();
  m_runs.quickJobs().goOn();
  emit changed();
}

}  // namespace foxscope::gui
