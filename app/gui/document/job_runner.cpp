#include "app/gui/document/job_runner.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>

#include <QMetaObject>

#include "backend/base/error.h"
#include "kernels/executor.h"

namespace foxscope::gui {
namespace {

// Computing yields to drawing: threads made later by this one inherit it.
void stepBehindTheWindow() {
  constexpr int kNice = 5;
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
}

QString messageOf(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return QString::fromUtf8(error.what());
  } catch (const std::bad_alloc&) {
    return QStringLiteral("out of memory: use fewer tokens, or keep fewer parts of the run");
  } catch (const std::exception& error) {
    return QString::fromUtf8(error.what()).section('\n', 0, 0) +
           QStringLiteral(": this is a flaw of the program, please report it");
  }
}

}  // namespace

JobRunner::JobRunner(Team team, QObject* parent) : QObject(parent), m_team(team) {
  m_thread = std::jthread([this](const std::stop_token& ending) { loop(ending); });
}

JobRunner::~JobRunner() {
  {
    const std::lock_guard lock(m_mutex);
    m_waiting.clear();
    if (m_running) {
      m_running->dropped = true;
      m_running->stop.request_stop();
    }
  }
  m_thread.request_stop();
  m_thread.join();
}

void JobRunner::enqueue(QObject* owner, int channel, Work work, Priority priority) {
  auto entry = std::make_shared<Entry>();
  entry->owner = owner;
  entry->guard = owner;
  entry->channel = channel;
  entry->priority = priority;
  entry->work = std::move(work);
  const std::lock_guard lock(m_mutex);
  drop(owner, channel);
  entry->id = ++m_lastId;
  m_waiting.push_back(entry);
  if (priority == Priority::interactive && m_running && m_running->priority == Priority::background) {
    m_running->stop.request_stop();
  }
  m_wake.notify_one();
}

void JobRunner::cancel(QObject* owner, int channel) {
  const std::lock_guard lock(m_mutex);
  drop(owner, channel);
}

bool JobRunner::busy() const {
  const std::lock_guard lock(m_mutex);
  return m_running || !m_waiting.empty() || !m_answering.empty();
}

// Called with the lock held.
void JobRunner::drop(QObject* owner, int channel) {
  const auto named = [&](const std::shared_ptr<Entry>& entry) {
    return entry->owner == owner && entry->channel == channel;
  };
  std::erase_if(m_waiting, named);
  for (const auto& entry : m_answering) {
    if (named(entry)) entry->dropped = true;
  }
  if (m_running && named(m_running)) {
    m_running->dropped = true;
    m_running->stop.request_stop();
  }
}

std::shared_ptr<JobRunner::Entry> JobRunner::takeNext() {
  const auto next = std::min_element(m_waiting.begin(), m_waiting.end(), [](const auto& a, const auto& b) {
    if (a->priority != b->priority) return a->priority == Priority::interactive;
    return a->id < b->id;
  });
  auto entry = *next;
  m_waiting.erase(next);
  return entry;
}

void JobRunner::loop(const std::stop_token& ending) {
  stepBehindTheWindow();
  std::optional<kernels::ThreadPool> pool;
  if (m_team == Team::lent) pool.emplace();
  for (;;) {
    std::shared_ptr<Entry> entry;
    {
      std::unique_lock lock(m_mutex);
      if (!m_wake.wait(lock, ending, [this] { return !m_waiting.empty(); })) return;
      entry = takeNext();
      m_running = entry;
    }
    perform(entry, pool ? &*pool : nullptr);
  }
}

void JobRunner::perform(const std::shared_ptr<Entry>& entry, kernels::Executor* executor) {
  Answer deliver;
  try {
    Job job{entry->stop.get_token(), {}, executor};
    if (entry->work.progress) job.report = [this, entry](const Progress& progress) { sendProgress(entry, progress); };
    deliver = entry->work.answer(job);
  } catch (...) {
    const QString message = messageOf(std::current_exception());
    deliver = [message, failed = entry->work.failed] {
      if (failed) failed(message);
    };
  }
  const std::lock_guard lock(m_mutex);
  m_running.reset();
  if (!entry->dropped && !deliver) {
    // Put aside for something more urgent.
    entry->stop = std::stop_source();
    m_waiting.push_back(entry);
    return;
  }
  m_answering.push_back(entry);
  QMetaObject::invokeMethod(
      this, [this, entry, deliver] { answer(entry, deliver); }, Qt::QueuedConnection);
}

// On the compute thread. One message is on its way at a time, and the last word travels with it.
void JobRunner::sendProgress(const std::shared_ptr<Entry>& entry, const Progress& progress) {
  const std::lock_guard lock(m_mutex);
  entry->progress.fraction =
      progress.total > 0 ? static_cast<double>(progress.done) / static_cast<double>(progress.total) : -1;
  entry->progress.stage = QString::fromUtf8(progress.stage.data(), static_cast<qsizetype>(progress.stage.size()));
  if (std::exchange(entry->progressed, true)) return;
  QMetaObject::invokeMethod(
      this, [this, entry] { tellProgress(entry); }, Qt::QueuedConnection);
}

void JobRunner::tellProgress(const std::shared_ptr<Entry>& entry) {
  JobProgress progress;
  {
    const std::lock_guard lock(m_mutex);
    entry->progressed = false;
    if (entry != m_running || entry->dropped) return;
    progress = entry->progress;
  }
  if (entry->guard) entry->work.progress(progress);
}

void JobRunner::answer(const std::shared_ptr<Entry>& entry, const Answer& deliver) {
  bool wanted = false;
  {
    const std::lock_guard lock(m_mutex);
    std::erase(m_answering, entry);
    wanted = !entry->dropped;
  }
  if (wanted && deliver && entry->guard) deliver();
  if (!busy()) emit idle();
}

}  // namespace foxscope::gui
