#include "app/gui/document/job_runner.h"

#include <atomic>
#include <semaphore>
#include <vector>

#include <QSignalSpy>
#include <QTest>

#include "backend/agent/remote.h"
#include "backend/base/error.h"
#include "tests/gui/subject.h"

namespace foxscope::gui::test {

class JobRunnerTest : public QObject {
  Q_OBJECT

 private slots:
  void answersOnTheOwnersThread();
  void aNewerRequestReplacesARunningOne();
  void aNewerRequestReplacesAnAnswerOnItsWay();
  void requestsOfOtherChannelsAreLeftAlone();
  void interactiveWorkPutsBackgroundWorkAside();
  void errorsBecomeOneLine();
  void anOwnerThatIsGoneIsNotAnswered();
  void cancelledWorkIsNotAnswered();
  void endsWhileWorkRuns();
  void saysWhenItIsIdle();
  void progressArrivesOnTheOwnersThread();
  void stagesArriveBeforeTheAnswer();
  void refiningWaitsForWhatIsInteractive();
  void whatIsLostIsPutOffUntilItGoesOn();
  void aNewerRequestReplacesOneThatIsPutOff();
  void whatIsLostFailsWhereNothingIsPutOff();
  void aRunThatChangedIsPutOffAndSaid();
  void requestsWithoutAJobAreStoppedWithTheirs();
};

namespace {

JobRunner::Request<int> answering(int value, std::vector<int>& answers) {
  JobRunner::Request<int> request;
  request.work = [value](const Job&) { return std::optional(value); };
  request.done = [&answers](int answer) { answers.push_back(answer); };
  return request;
}

// Runs until it is stopped.
JobRunner::Request<int> endless(std::binary_semaphore& started, std::vector<int>& answers) {
  JobRunner::Request<int> request;
  request.work = [&started](const Job& job) -> std::optional<int> {
    started.release();
    while (!job.stopped()) std::this_thread::yield();
    return std::nullopt;
  };
  request.done = [&answers](int answer) { answers.push_back(answer); };
  return request;
}

}  // namespace

void JobRunnerTest::answersOnTheOwnersThread() {
  JobRunner runner(Threads::lent);
  std::thread::id worked;
  std::thread::id answered;
  JobRunner::Request<int> request;
  request.work = [&](const Job& job) {
    worked = std::this_thread::get_id();
    return std::optional(job.executor != nullptr ? 7 : 0);
  };
  int value = 0;
  request.done = [&](int answer) {
    answered = std::this_thread::get_id();
    value = answer;
  };
  runner.submit(this, 0, request);
  QTRY_COMPARE(value, 7);
  QVERIFY(worked != std::this_thread::get_id());
  QVERIFY(answered == std::this_thread::get_id());
}

void JobRunnerTest::aNewerRequestReplacesARunningOne() {
  JobRunner runner(Threads::own);
  std::vector<int> answers;
  std::binary_semaphore started(0);
  runner.submit(this, 1, endless(started, answers));
  started.acquire();
  runner.submit(this, 1, answering(2, answers));
  QTRY_COMPARE(answers, std::vector<int>{2});
  QTRY_VERIFY(!runner.busy());
}

void JobRunnerTest::aNewerRequestReplacesAnAnswerOnItsWay() {
  JobRunner runner(Threads::own);
  std::vector<int> answers;
  std::binary_semaphore done(0);
  JobRunner::Request<int> first = answering(1, answers);
  first.work = [&](const Job&) {
    done.release();
    return std::optional(1);
  };
  runner.submit(this, 1, first);
  done.acquire();
  // No event is handled in between: the first answer waits, or is about to.
  runner.submit(this, 1, answering(2, answers));
  QTRY_VERIFY(!runner.busy());
  QCOMPARE(answers, std::vector<int>{2});
}

void JobRunnerTest::requestsOfOtherChannelsAreLeftAlone() {
  JobRunner runner(Threads::own);
  std::vector<int> answers;
  QObject other;
  for (int channel = 0; channel < 5; ++channel) runner.submit(this, channel, answering(channel, answers));
  runner.submit(&other, 0, answering(9, answers));
  QTRY_COMPARE(answers, (std::vector<int>{0, 1, 2, 3, 4, 9}));
}

void JobRunnerTest::interactiveWorkPutsBackgroundWorkAside() {
  JobRunner runner(Threads::own);
  std::vector<int> answers;
  std::binary_semaphore started(0);
  int beginnings = 0;
  JobRunner::Request<int> slow;
  slow.priority = Priority::background;
  slow.work = [&](const Job& job) -> std::optional<int> {
    if (++beginnings > 1) return 1;
    started.release();
    while (!job.stopped()) std::this_thread::yield();
    return std::nullopt;
  };
  slow.done = [&](int answer) { answers.push_back(answer); };
  runner.submit(this, 0, slow);
  started.acquire();
  runner.submit(this, 1, answering(2, answers));
  QTRY_COMPARE(answers, (std::vector<int>{2, 1}));
  QCOMPARE(beginnings, 2);
}

void JobRunnerTest::errorsBecomeOneLine() {
  JobRunner runner(Threads::own);
  QStringList messages;
  const auto failing = [&](auto thrown) {
    JobRunner::Request<int> request;
    request.work = [thrown](const Job&) -> std::optional<int> { throw thrown; };
    request.done = [](int) {};
    request.failed = [&](const QString& message) { messages += message; };
    return request;
  };
  runner.submit(this, 0, failing(Error("book.txt: there is no such file")));
  runner.submit(this, 1, failing(std::bad_alloc()));
  runner.submit(this, 2, failing(std::runtime_error("first\nsecond")));
  QTRY_COMPARE(messages.size(), 3);
  QCOMPARE(messages[0], "book.txt: there is no such file");
  QCOMPARE(messages[1], "out of memory: use fewer tokens, or keep fewer parts of the run");
  QCOMPARE(messages[2], "first: this is a flaw of the program, please report it");
}

void JobRunnerTest::anOwnerThatIsGoneIsNotAnswered() {
  JobRunner runner(Threads::own);
  std::vector<int> answers;
  {
    QObject owner;
    runner.submit(&owner, 0, answering(1, answers));
  }
  QTRY_VERIFY(!runner.busy());
  QVERIFY(answers.empty());
}

void JobRunnerTest::cancelledWorkIsNotAnswered() {
  JobRunner runner(Threads::own);
  std::vector<int> answers;
  std::binary_semaphore started(0);
  runner.submit(this, 0, endless(started, answers));
  started.acquire();
  runner.submit(this, 1, answering(1, answers));
  runner.cancel(this, 0);
  runner.cancel(this, 1);
  QTRY_VERIFY(!runner.busy());
  QVERIFY(answers.empty());
}

void JobRunnerTest::endsWhileWorkRuns() {
  std::vector<int> answers;
  std::binary_semaphore started(0);
  {
    JobRunner runner(Threads::lent);
    runner.submit(this, 0, endless(started, answers));
    runner.submit(this, 1, answering(1, answers));
    started.acquire();
  }
  QCoreApplication::processEvents();
  QVERIFY(answers.empty());
}

void JobRunnerTest::saysWhenItIsIdle() {
  JobRunner runner(Threads::own);
  QSignalSpy idle(&runner, &JobRunner::idle);
  std::vector<int> answers;
  runner.submit(this, 0, answering(1, answers));
  runner.submit(this, 1, answering(2, answers));
  QVERIFY(runner.busy());
  QTRY_VERIFY(!idle.isEmpty() && !runner.busy());
  QCOMPARE(answers.size(), 2U);
}

void JobRunnerTest::progressArrivesOnTheOwnersThread() {
  JobRunner runner(Threads::own);
  std::binary_semaphore told(0);
  JobRunner::Request<int> request;
  request.work = [&told](const Job& job) {
    // A stage's name that is gone when the message arrives.
    job.tell({1, 4, "tokens", std::string("reading")});
    told.acquire();
    return std::optional(1);
  };
  std::vector<JobProgress> heard;
  std::thread::id thread;
  request.progress = [&](const JobProgress& progress) {
    heard.push_back(progress);
    thread = std::this_thread::get_id();
    told.release();
  };
  int value = 0;
  request.done = [&](int answer) { value = answer; };
  runner.submit(this, 0, request);
  QTRY_COMPARE(value, 1);
  QCOMPARE(heard.size(), 1U);
  QCOMPARE(heard[0].fraction, 0.25);
  QCOMPARE(heard[0].stage, "reading");
  QVERIFY(thread == std::this_thread::get_id());
}

void JobRunnerTest::stagesArriveBeforeTheAnswer() {
  JobRunner runner(Threads::own);
  std::vector<int> heard;
  std::binary_semaphore shown(0);
  JobRunner::Request<int> request;
  request.stages = [&](const Job&, const std::function<void(int)>& show) {
    show(1);
    show(2);
    shown.acquire();
    return std::optional(3);
  };
  request.shown = [&](int stage) {
    QVERIFY(QThread::currentThread() == thread());
    heard.push_back(stage);
    if (stage == 2) shown.release();
  };
  request.done = [&](int answer) { heard.push_back(answer); };
  runner.submit(this, 0, request);
  QTRY_COMPARE(heard.size(), 3U);
  QCOMPARE(heard, (std::vector<int>{1, 2, 3}));
  // Of what was replaced nothing is shown.
  std::binary_semaphore begun(0);
  heard.clear();
  request.stages = [&](const Job&, const std::function<void(int)>& show) {
    show(4);
    begun.release();
    return std::optional(5);
  };
  runner.submit(this, 0, request);
  begun.acquire();
  request.stages = [](const Job&, const std::function<void(int)>&) { return std::optional(6); };
  runner.submit(this, 0, request);
  QTRY_VERIFY(!runner.busy());
  QCOMPARE(heard, std::vector<int>{6});
}

void JobRunnerTest::refiningWaitsForWhatIsInteractive() {
  JobRunner runner(Threads::own);
  std::binary_semaphore queued(0);
  std::vector<int> order;
  const auto request = [&](int number, Priority priority) {
    JobRunner::Request<int> one;
    one.work = [&, number](const Job&) {
      if (number == 0) queued.acquire();
      return std::optional(number);
    };
    one.done = [&](int answer) { order.push_back(answer); };
    one.priority = priority;
    return one;
  };
  runner.submit(this, 0, request(0, Priority::interactive));
  runner.submit(this, 1, request(1, Priority::background));
  runner.submit(this, 2, request(2, Priority::refining));
  runner.submit(this, 3, request(3, Priority::interactive));
  queued.release();
  QTRY_COMPARE(order.size(), 4U);
  QCOMPARE(order, (std::vector<int>{0, 3, 2, 1}));
}

namespace {

/// Loses the connection as long as it is down.
JobRunner::Request<int> losing(const std::atomic<bool>& down, std::vector<int>& answers, QStringList& failures) {
  JobRunner::Request<int> request = answering(7, answers);
  request.work = [&down](const Job&) {
    if (down) throw agent::ConnectionLost("box: the connection has ended");
    return std::optional(7);
  };
  request.failed = [&failures](const QString& message) { failures += message; };
  return request;
}

}  // namespace

void JobRunnerTest::whatIsLostIsPutOffUntilItGoesOn() {
  JobRunner runner(Threads::lent);
  runner.putOffWhatIsLost();
  QObject owner;
  std::atomic<bool> down = true;
  std::vector<int> answers;
  QStringList failures;
  runner.submit(&owner, 0, losing(down, answers, failures));
  QVERIFY(QTest::qWaitFor([&] { return runner.putOffCount() == 1; }));
  QVERIFY(QTest::qWaitFor([&] { return !runner.busy(); }));
  runner.goOn();
  QVERIFY(QTest::qWaitFor([&] { return runner.putOffCount() == 1 && !runner.busy(); }));
  down = false;
  runner.goOn();
  QVERIFY(QTest::qWaitFor([&] { return !answers.empty(); }));
  QCOMPARE(runner.putOffCount(), 0U);
  QVERIFY(failures.isEmpty());
}

void JobRunnerTest::aNewerRequestReplacesOneThatIsPutOff() {
  JobRunner runner(Threads::lent);
  runner.putOffWhatIsLost();
  QObject owner;
  const std::atomic<bool> down = true;
  std::vector<int> answers;
  QStringList failures;
  runner.submit(&owner, 0, losing(down, answers, failures));
  QVERIFY(QTest::qWaitFor([&] { return runner.putOffCount() == 1; }));
  QSignalSpy changes(&runner, &JobRunner::putOffChanged);
  runner.submit(&owner, 0, answering(3, answers));
  QCOMPARE(runner.putOffCount(), 0U);
  QVERIFY(QTest::qWaitFor([&] { return answers == std::vector<int>{3} && !changes.isEmpty(); }));
  runner.goOn();
  QVERIFY(!runner.busy());
}

void JobRunnerTest::whatIsLostFailsWhereNothingIsPutOff() {
  JobRunner runner(Threads::lent);
  QObject owner;
  const std::atomic<bool> down = true;
  std::vector<int> answers;
  QStringList failures;
  runner.submit(&owner, 0, losing(down, answers, failures));
  QVERIFY(QTest::qWaitFor([&] { return !failures.isEmpty(); }));
  QCOMPARE(failures, QStringList{"box: the connection has ended"});
}

void JobRunnerTest::aRunThatChangedIsPutOffAndSaid() {
  JobRunner runner(Threads::lent);
  runner.putOffWhatIsLost();
  QSignalSpy changed(&runner, &JobRunner::runChanged);
  QObject owner;
  std::vector<int> answers;
  JobRunner::Request<int> request = answering(1, answers);
  request.work = [](const Job&) -> std::optional<int> { throw agent::RunChanged("box: /run.h5: has changed"); };
  runner.submit(&owner, 0, std::move(request));
  QVERIFY(QTest::qWaitFor([&] { return !changed.isEmpty(); }));
  QCOMPARE(changed.front().front().toString(), "box: /run.h5: has changed");
  QCOMPARE(runner.putOffCount(), 1U);
}

void JobRunnerTest::requestsWithoutAJobAreStoppedWithTheirs() {
  JobRunner runner(Threads::lent);
  QObject owner;
  std::vector<int> answers;
  QStringList failures;
  std::binary_semaphore started(0);
  JobRunner::Request<int> request = endless(started, answers);
  request.stages = nullptr;
  request.work = [inner = request.work](const Job& job) -> std::optional<int> {
    static_cast<void>(inner(job));
    throw agent::AskingStopped();
  };
  request.failed = [&failures](const QString& message) { failures += message; };
  runner.submit(&owner, 0, std::move(request));
  started.acquire();
  runner.submit(&owner, 0, answering(2, answers));
  QVERIFY(QTest::qWaitFor([&] { return !answers.empty(); }));
  QCOMPARE(answers, std::vector<int>{2});
  QVERIFY(failures.isEmpty());
}

}  // namespace foxscope::gui::test

FOXSCOPE_GUILESS_SUBJECT(job_runner, foxscope::gui::test::JobRunnerTest)
#include "job_runner_test.moc"
