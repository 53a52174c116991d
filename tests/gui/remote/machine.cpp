#include "tests/gui/remote/machine.h"

#include <csignal>

#include <QFile>
#include <QPushButton>

#include "app/gui/window/remote/machine_bar.h"
#include "backend/agent/remote.h"

namespace foxscope::gui::test {
namespace {

// As ssh says it, and with its exit status.
constexpr const char* kSsh = R"sh(#!/bin/sh
cd "$(dirname "$0")"
if [ -e down ]; then echo "ssh: connect to host $1 port 22: No route to host" >&2; exit 255; fi
echo $$ >> agents
shift
exec "$@"
)sh";

}  // namespace

Machine::Machine() {
  const QString script = folder.write(QStringLiteral("ssh"), kSsh);
  QFile::setPermissions(script, QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner);
  qputenv("FOXSCOPE_SSH", script.toUtf8());
  qputenv("FOXSCOPE_REMOTE_PROGRAM", FOXSCOPE_PROGRAM);
}

Machine::~Machine() {
  agent::Remote::close_all();
  qunsetenv("FOXSCOPE_SSH");
  qunsetenv("FOXSCOPE_REMOTE_PROGRAM");
}

QString Machine::url(const QString& name) const {
  const QString path = folder.path(QStringLiteral("."));
  return urlOf(path.left(path.size() - 2) + (name.isEmpty() ? QString() : '/' + name));
}

void Machine::setReachable(bool reachable) const {
  if (reachable) {
    QFile::remove(folder.path(QStringLiteral("down")));
  } else {
    folder.write(QStringLiteral("down"), "");
  }
}

QList<qint64> Machine::agents() const {
  QFile file(folder.path(QStringLiteral("agents")));
  QList<qint64> ids;
  if (!file.open(QIODevice::ReadOnly)) return ids;
  for (const QByteArray& line : file.readAll().split('\n')) {
    if (!line.isEmpty()) ids += line.toLongLong();
  }
  return ids;
}

void Machine::cut() const { kill(static_cast<pid_t>(agents().back()), SIGKILL); }
void Machine::freeze() const { kill(static_cast<pid_t>(agents().back()), SIGSTOP); }
void Machine::thaw() const { kill(static_cast<pid_t>(agents().back()), SIGCONT); }

QStringList RemoteWindow::lines() const { return window.findChild<MachineBar*>()->texts(); }

bool RemoteWindow::shows(const QString& words) {
  return QTest::qWaitFor(
      [&] {
        const QStringList shown = lines();
        return std::any_of(shown.begin(), shown.end(), [&](const QString& line) { return line.startsWith(words); });
      },
      kPatience);
}

bool RemoteWindow::showsNoLine() {
  return QTest::qWaitFor([&] { return lines().isEmpty(); }, kPatience);
}

void RemoteWindow::pressButton() { window.findChild<MachineBar*>()->findChild<QPushButton*>()->click(); }

}  // namespace foxscope::gui::test
