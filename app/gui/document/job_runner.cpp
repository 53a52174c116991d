#include "app/gui/document/job_runner.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <exception>
#include <new>

#include <QLoggingCategory>
#include <QMetaObject>
#include <QThread>

#include "backend/agent/remote.h"
#include "backend/agent/shown_names.h"
#include "backend/base/error.h"
#include "kernels/executor.h"

namespace foxscope::gui {
namespace {

Q_LOGGING_CATEGORY(jobsLog, "foxscope.jobs", QtWarningMsg)

// Threads made later by this one inherit it.
void stepBehind(int nice) { setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), nice); }

QString messageOf(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return QString::fromStdString(agent::with_names_of_copies(error.what()));
  } catch (const std::bad_alloc&) {
    return QStringLiteral("out of memory: use fewer tokens, or keep fewer parts of the run");
  } catch (const std::exception& error) {
    return QString::fromUtf8(error.what()).section('\n', 0, 0) +
           QStringLiteral(": this is a flaw of the program, please report it");
  }
}

}  // namespace

JobRunner::JobRunner(Threads team, int nice, QObject* parent) : QObject(parent), m_threads(team), m_nice(nice) {
  m_thread = std::jthread([this](const std::stop_token& ending) { loop(ending); });
}

JobRunner::~JobRunner() {
  {
    const std::lock_guard lock(m_mutex);
    m_waiting.clear();
    m_putOff.clear();
    if (m_running) {
      m_running->dropped = true;
      m_running->stop.request_stop();
    }
  }
  m_thread.request_stop();
  m_thread.join();
}

void JobRunner::enqueue(QObject* owner, int channel, Work work, Priority priority) {
  assert(QThread::currentThread() == thread() && owner->thread() == thread());
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
  qCDebug(jobsLog).noquote() << "job" << entry->id << "of" << owner->metaObject()->className() << channel
                             << "waits with" << m_waiting.size() - 1 << "others";
  if (priority == Priority::interactive && m_running && m_running->priority == Priority::background) {
    m_running->stop.request_stop();
  }
  m_wake.notify_one();
}

void JobRunner::cancel(QObject* owner, int channel) {
  assert(QThread::currentThread() == thread());
  const std::lock_guard lock(m_mutex);
  drop(owner, channel);
}

bool JobRunner::busy() const {
  const std::lock_guard lock(m_mutex);
  return m_running || !m_waiting.empty() || !m_answering.empty();
}

bool JobRunner::putOff() {
  assert(QThread::currentThread() == thread());
  const std::lock_guard lock(m_mutex);
  if (!m_running || m_running->dropped || !agent::Remote::is_asking(m_threadId)) return false;
  m_running->putOff = true;
  m_running->stop.request_stop();
  // A request that waits behind it would only ask in its place.
  for (const auto& entry : m_waiting) m_putOff.push_back(entry);
  m_waiting.clear();
  return true;
}

void JobRunner::goOn() {
  assert(QThread::currentThread() == thread());
  const std::lock_guard lock(m_mutex);
  if (m_putOff.empty()) return;
  for (const auto& entry : m_putOff) m_waiting.push_back(entry);
  m_putOff.clear();
  send([this] { emit putOffChanged(); });
  m_wake.notify_one();
}

std::size_t JobRunner::putOffCount() const {
  const std::lock_guard lock(m_mutex);
  return m_putOff.size() + (m_running && m_running->putOff ? 1 : 0);
}

// Called with the lock held.
void JobRunner::putOff(const std::shared_ptr<Entry>& entry) {
  entry->stop = std::stop_source();
  entry->putOff = false;
  m_putOff.push_back(entry);
  // Nothing may be under way any more, which nobody says where no answer comes.
  send([this] {
    emit putOffChanged();
    if (!busy()) emit idle();
  });
}

// Called with the lock held.
void JobRunner::drop(QObject* owner, int channel) {
  const auto named = [&](const std::shared_ptr<Entry>& entry) {
    return entry->owner == owner && entry->channel == channel;
  };
  std::erase_if(m_waiting, named);
  if (std::erase_if(m_putOff, named) > 0) send([this] { emit putOffChanged(); });
  for (const auto& entry : m_answering) {
    if (named(entry)) entry->dropped = true;
  }
  if (m_running && named(m_running)) {
    m_running->dropped = true;
    m_running->stop.request_stop();
  }
}

std::shared_ptr<JobRunner::Entry> JobRunner::takeNext() {
  assert(!m_waiting.empty() && !m_running);
  const auto next = std::min_element(m_waiting.begin(), m_waiting.end(), [](const auto& a, const auto& b) {
    if (a->priority != b->priority) return a->priority < b->priority;
    return a->id < b->id;
  });
  auto entry = *next;
  m_waiting.erase(next);
  return entry;
}

void JobRunner::loop(const std::stop_token& ending) {
  stepBehind(m_nice);
  m_threadId = std::this_thread::get_id();
  std::optional<kernels::ThreadPool> pool;
  if (m_threads == Threads::lent) pool.emplace();
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

/// The answer that says what was thrown.
JobRunner::Answer JobRunner::failure(const Entry& entry) {
  return [message = messageOf(std::current_exception()), failed = entry.work.failed] {
    if (failed) failed(message);
  };
}

void JobRunner::perform(const std::shared_ptr<Entry>& entry, kernels::Executor* executor) {
  assert(QThread::currentThread() != thread() && entry->id != 0);
  const auto start = std::chrono::steady_clock::now();
  const auto report = [&](const char* how) {
    const auto taken = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start);
    qCDebug(jobsLog).noquote() << "job" << entry->id << how << "after" << taken.count() << "ms";
  };
  Answer deliver;
  bool lost = false;
  QString changed;
  try {
    Job job{entry->stop.get_token(), {}, executor};
    const agent::AskingFor asking(job.stop);
    if (entry->work.progress) job.report = [this, entry](const Progress& progress) { sendProgress(entry, progress); };
    deliver = entry->work.answer(job, [this, entry](Answer stage) {
      const std::lock_guard lock(m_mutex);
      send([this, entry, stage = std::move(stage)] { show(entry, stage); });
    });
  } catch (const agent::AskingStopped&) {
    // It was replaced, or put aside.
  } catch (const agent::ConnectionLost&) {
    lost = m_putsOff;
    if (!lost) deliver = failure(*entry);
  } catch (const agent::RunChanged& error) {
    lost = m_putsOff;
    if (!lost) deliver = failure(*entry);
    changed = QString::fromUtf8(error.what());
  } catch (...) {
    deliver = failure(*entry);
  }
  const std::lock_guard lock(m_mutex);
  assert(m_running == entry);
  report(entry->dropped ? "was replaced" : deliver ? "is done" : "is put aside");
  m_running.reset();
  if (!entry->dropped && (lost || (entry->putOff && !deliver))) {
    if (!changed.isEmpty()) send([this, changed] { emit runChanged(changed); });
    return putOff(entry);
  }
  if (!entry->dropped && !deliver) {
    // Put aside for something more urgent.
    entry->stop = std::stop_source();
    m_waiting.push_back(entry);
    return;
  }
  m_answering.push_back(entry);
  send([this, entry, deliver] { answer(entry, deliver); });
}

void JobRunner::send(std::function<void()> message) {
  m_messages.push_back(std::move(message));
  QMetaObject::invokeMethod(this, "receive", Qt::QueuedConnection);
}

void JobRunner::receive() {
  std::function<void()> message;
  {
    const std::lock_guard lock(m_mutex);
    message = std::move(m_messages.front());
    m_messages.pop_front();
  }
  message();
}

// Runs on the compute thread. One message is on its way at a time, and the last word travels with it.
void JobRunner::sendProgress(const std::shared_ptr<Entry>& entry, const Progress& progress) {
  const std::lock_guard lock(m_mutex);
  entry->progress.fraction =
      progress.total > 0
          ? std::clamp(static_cast<double>(progress.done) / static_cast<double>(progress.total), 0.0, 1.0)
          : -1;
  entry->progress.stage = QString::fromUtf8(progress.stage.data(), static_cast<qsizetype>(progress.stage.size()));
  if (std::exchange(entry->progressed, true)) return;
  send([this, entry] { tellProgress(entry); });
}

void JobRunner::tellProgress(const std::shared_ptr<Entry>& entry) {
  assert(QThread::currentThread() == thread());
  JobProgress progress;
  {
    const std::lock_guard lock(m_mutex);
    entry->progressed = false;
    if (entry != m_running || entry->dropped) return;
    progress = entry->progress;
  }
  if (entry->guard) entry->work.progress(progress);
}

void JobRunner::show(const std::shared_ptr<Entry>& entry, const Answer& stage) {
  assert(QThread::currentThread() == thread());
  {
    // A later answer is on its way, or this one was put aside and begins anew: then it is of no use.
    const std::lock_guard lock(m_mutex);
    if (entry != m_running || entry->dropped) return;
  }
  if (entry->guard) stage();
}

void JobRunner::answer(const std::shared_ptr<Entry>& entry, const Answer& deliver) {
  assert(QThread::currentThread() == thread());
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
