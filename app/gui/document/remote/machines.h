#pragma once

#include <map>
#include <memory>
#include <vector>

#include <QElapsedTimer>
#include <QObject>
#include <QString>
#include <QTimer>

#include "app/gui/document/job_runner.h"
#include "backend/agent/remote_path.h"

namespace foxscope::agent {
class Remote;
}

namespace foxscope::gui {

class RunList;

/// The connection to a machine, as it is shown.
struct MachineStatus {
  QString name;  ///< "USER@HOST:PORT"
  bool connected = false;
  bool connecting = false;  ///< once more, after it was lost
  quint64 received = 0;     ///< bytes
  double delay = -1;        ///< milliseconds there and back, as measured last; negative: not yet
  bool asking = false;      ///< requests of views and files are on their way
  double silent = 0;        ///< seconds for which nothing was answered, where that is long
  QString lost;             ///< the reason why the connection could not be made anew; empty: it was not lost
  bool operator==(const MachineStatus&) const = default;
};

/// The other machines that a window has asked: bytes, delay, connections that ended and come back. A connection that
/// ends is made anew once by itself. Where that fails, requests of views are put off (JobRunner), and everything stays
/// as it is shown until somebody reconnects.
class Machines : public QObject {
  Q_OBJECT

 public:
  explicit Machines(RunList& runs, QObject* parent = nullptr);
  ~Machines() override;

  /// Looks after the machine of a path from now on; nothing for a path here.
  void follow(const QString& path);
  /// Machines that there was a connection to.
  [[nodiscard]] const std::vector<MachineStatus>& status() const { return m_status; }
  /// The thread that asks a machine for folders, trainings and the like, and never for pictures.
  JobRunner& jobs(const agent::RemoteHost& host);

  /// The next request to a machine makes a connection, also after one was lost.
  void tryAgain(const agent::RemoteHost& host);
  /// Makes the connection anew, and asks for what was put off.
  void reconnect(const QString& name);
  /// Stops the requests of views that wait for other machines, and puts them off.
  void cancel();
  /// Whether somebody has cancelled requests that were not made again.
  [[nodiscard]] bool cancelled() const { return m_cancelled; }
  /// Makes requests again that were cancelled.
  void goOn();
  /// Files of runs that have changed there since they were opened, or are gone, each with a line that says so.
  [[nodiscard]] const std::map<QString, QString>& changedFiles() const { return m_changedFiles; }

  /// Times in milliseconds: between two looks, between two measurements, of a silence that is said.
  struct Pace {
    int look = 250;
    int measure = 5000;
    int silence = 20000;
  };
  void setPace(const Pace& pace);

 signals:
  void changed();

 private:
  enum Channel { kMeasure };
  struct Machine;
  void takeChanged(const QString& message);
  void followRuns();
  Machine& at(const agent::RemoteHost& host);
  void look();
  void measure(Machine& machine);

  RunList& m_runs;
  Pace m_pace;
  QTimer m_timer;
  bool m_cancelled = false;
  std::map<QString, QString> m_changedFiles;
  std::vector<MachineStatus> m_status;
  std::map<agent::RemoteHost, std::unique_ptr<Machine>> m_machines;
};

}  // namespace foxscope::gui
