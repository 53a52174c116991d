#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <QObject>
#include <QPointer>
#include <QString>

#include "backend/base/job.h"

namespace foxscope::gui {

/// interactive: somebody waits for the answer. It puts background work aside, which begins anew afterwards. refining:
/// somebody has a first answer already, and waits for a better one.
enum class Priority { interactive, refining, background };

/// The threads that the work computes on: those that the runner lends it, or the callee's own team (LibTorch's).
enum class Threads { lent, own };

/// The nice values by which computing yields the processor (setpriority): to drawing, and to pictures that somebody
/// waits for.
inline constexpr int kBehindTheWindow = 5;
inline constexpr int kBehindPictures = 15;

/// How far a request is.
struct JobProgress {
  double fraction = -1;  ///< of the stage's work, 0 to 1; negative: not known
  QString stage;         ///< what is being done
};

/// One permanent compute thread and its queue. A request is named by its owner and a channel of the owner's choosing; a
/// newer request of the same name replaces the older, queued or running. Answers arrive on the window's thread, and
/// only while the request is the newest of its name and the owner lives. Waiting requests are served by their priority,
/// then in their order.
class JobRunner : public QObject {
  Q_OBJECT

 public:
  explicit JobRunner(Threads team, int nice = kBehindTheWindow, QObject* parent = nullptr);
  /// Stops what runs and waits for it; nothing is answered any more.
  ~JobRunner() override;

  /// A request to the runner: `work` runs on the compute thread and returns nothing when it was stopped; then one of
  /// `done` and `failed` (with an error's one line) is called on the window's thread, or neither when the request was
  /// replaced.
  template <typename Result>
  struct Request {
    std::function<std::optional<Result>(const Job&)> work;
    /// The work of an answer that has stages, in the place of `work`: what it gives to `show` while it runs arrives as
    /// `shown`, before the answer.
    std::function<std::optional<Result>(const Job&, const std::function<void(Result)>& show)> stages;
    std::function<void(Result)> shown;
    std::function<void(Result)> done;
    std::function<void(const QString&)> failed;
    std::function<void(const JobProgress&)> progress;  ///< on the window's thread; may be empty
    Priority priority = Priority::interactive;
  };

  template <typename Result>
  void submit(QObject* owner, int channel, Request<Result> request) {
    // A result may be movable only, and std::function wants copies: so it travels by pointer.
    const auto handing = [](const std::function<void(Result)>& to, Result&& result) -> Answer {
      auto held = std::make_shared<Result>(std::move(result));
      return [to, held] { to(std::move(*held)); };
    };
    auto answer = [handing, work = std::move(request.work), stages = std::move(request.stages),
                   shown = std::move(request.shown),
                   done = std::move(request.done)](const Job& job, const Deliver& deliver) -> Answer {
      const auto show = [&](Result result) { deliver(handing(shown, std::move(result))); };
      std::optional<Result> result = stages ? stages(job, show) : work(job);
      return result ? handing(done, std::move(*result)) : Answer();
    };
    enqueue(owner, channel, {std::move(answer), std::move(request.failed), std::move(request.progress)},
            request.priority);
  }

  /// Forgets a request, queued, put off or running; it is not answered.
  void cancel(QObject* owner, int channel);

  /// From now on a request that fails because the connection to another machine was lost, or a run's file there has
  /// changed, is put off: it is neither answered nor fails, so that its owner keeps what it shows. It begins anew with
  /// goOn().
  void putOffWhatIsLost() { m_putsOff = true; }
  /// Stops the request that runs if it waits for another machine, and puts it off. @returns whether there was one
  bool putOff();
  /// Begins anew what was put off.
  void goOn();
  /// Requests that are put off.
  [[nodiscard]] std::size_t putOffCount() const;
  /// True while any request is queued, running, or its answer is on its way; not for those put off.
  [[nodiscard]] bool busy() const;

 signals:
  void runChanged(const QString& message);  ///< a request was put off because its run's file there is another one now
  void putOffChanged();                     ///< a request was put off, or is not any more
  /// Says that nothing is queued, runs or waits to be answered.
  void idle();

 private:
  using Answer = std::function<void()>;
  using Deliver = std::function<void(Answer)>;  ///< on the way, before the answer
  struct Work {
    std::function<Answer(const Job&, const Deliver&)> answer;
    std::function<void(const QString&)> failed;
    std::function<void(const JobProgress&)> progress;
  };
  struct Entry {
    quint64 id = 0;
    QObject* owner = nullptr;  ///< compared, never followed, on the compute thread
    QPointer<QObject> guard;   ///< looked at on the window's thread only
    int channel = 0;
    Priority priority = Priority::interactive;
    Work work;
    std::stop_source stop;
    bool dropped = false;     ///< not to be answered, nor begun anew
    bool putOff = false;      ///< to be put off where it has no answer
    bool progressed = false;  ///< its progress is on its way to the window's thread
    JobProgress progress;
  };

  void enqueue(QObject* owner, int channel, Work work, Priority priority);
  void loop(const std::stop_token& ending);
  static Answer failure(const Entry& entry);
  void perform(const std::shared_ptr<Entry>& entry, kernels::Executor* executor);
  void answer(const std::shared_ptr<Entry>& entry, const Answer& deliver);
  void sendProgress(const std::shared_ptr<Entry>& entry, const Progress& progress);
  void tellProgress(const std::shared_ptr<Entry>& entry);
  void show(const std::shared_ptr<Entry>& entry, const Answer& stage);
  /// Has the window's thread call this, with the mutex held. The receiver stays behind that mutex: the thread sanitizer
  /// does not see Qt's queue.
  void send(std::function<void()> message);
  Q_INVOKABLE void receive();
  void putOff(const std::shared_ptr<Entry>& entry);
  [[nodiscard]] std::shared_ptr<Entry> takeNext();
  void drop(QObject* owner, int channel);

  const Threads m_threads;
  const int m_nice;
  std::atomic<bool> m_putsOff = false;
  mutable std::mutex m_mutex;
  std::condition_variable_any m_wake;
  std::deque<std::shared_ptr<Entry>> m_waiting;
  std::deque<std::shared_ptr<Entry>> m_putOff;
  std::shared_ptr<Entry> m_running;
  std::deque<std::shared_ptr<Entry>> m_answering;  ///< done, on the way to the window's thread
  std::deque<std::function<void()>> m_messages;    ///< to the window's thread
  quint64 m_lastId = 0;
  std::atomic<std::thread::id> m_threadId;
  std::jthread m_thread;
};

}  // namespace foxscope::gui
