// The window's own speed, driven as a user drives it, without a display: the offscreen platform paints the same pixels.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <QAbstractScrollArea>
#include <QApplication>
#include <QScrollBar>
#include <QStyleFactory>
#include <QTemporaryDir>
#include <QTest>
#include <QTimer>

#include "app/gui/application.h"
#include "app/gui/atlas/atlas_view.h"
#include "app/gui/atlas/head_page.h"
#include "app/gui/atlas/model_pane.h"
#include "app/gui/atlas/passage_list.h"
#include "app/gui/curves/curves_view.h"
#include "app/gui/evaluations/evaluations_view.h"
#include "app/gui/maps/maps_view.h"
#include "app/gui/text/text_view.h"
#include "app/gui/window/help/start_page.h"
#include "app/gui/window/main_window.h"
#include "backend/base/index.h"
#include "backend/base/sha256.h"
#include "backend/eval/atlas/atlas.h"
#include "backend/eval/atlas/atlas_file.h"
#include "backend/file/run_file.h"
#include "backend/model/session/engine.h"
#include "backend/trace/recorder.h"

namespace {

using namespace foxscope;
using namespace foxscope::gui;
using Clock = std::chrono::steady_clock;

constexpr QSize kWindow(1600, 1000);
constexpr int kPatience = 300'000;
constexpr int kLook = 50;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[index_of(place)];
}

void report(const char* what, double value, const char* unit, double target, bool most = true) {
  const bool met = most ? value <= target : value >= target;
  std::printf("%-64s %9.1f %-12s %s %g %s\n", what, value, unit, most ? "<=" : ">=", target, met ? "met" : "MISSED");
  std::fflush(stdout);
}

void note(const char* what, double value, const char* unit) {
  std::printf("%-64s %9.1f %s\n", what, value, unit);
  std::fflush(stdout);
}

/// As a program waits: events are served when they come. (QTest::qWaitFor sleeps 10 ms between two looks, which a
/// movement's two pictures would show as their own time.)
bool waitFor(const std::function<bool()>& condition) {
  QTimer wake;
  wake.start(kLook);
  const auto start = Clock::now();
  while (!condition()) {
    if (millisecondsSince(start) > kPatience) return false;
    QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents);
  }
  return true;
}

void settle(MainWindow& window) {
  if (!waitFor([&] { return window.isSettled(); })) std::printf("the window did not come to rest\n");
  for (const QString& message : window.messages()) std::printf("message: %s\n", message.toUtf8().constData());
}

QString resource(const char* path) { return QStringLiteral(FOXSCOPE_SOURCE_DIR "/resources/") + path; }

std::unique_ptr<MainWindow> openWindow(const QString& demo = {}) {
  auto window = std::make_unique<MainWindow>(demo);
  window->setRemembering(MainWindow::Remembering::off);
  window->resize(kWindow);
  window->show();
  return window;
}

/// A trace of a text of one short word a token.
std::shared_ptr<const Trace> withText(Recorder& recorder, std::int64_t length) {
  std::mt19937_64 random(3);
  auto text = std::make_shared<Text>();
  auto tokens = std::make_shared<TokenTable>();
  const std::vector<std::string> words{" the",  " fox", " ran",    " over", " a",   " green",
                                       " hill", ".",    " Nobody", " saw",  " it\n"};
  std::int32_t before = 0;
  for (std::int64_t position = 0; position < length; ++position) {
    const auto id = static_cast<std::int32_t>(random() % words.size());
    const std::string& word = words[index_of(id)];
    tokens->id.push_back(id);
    tokens->input_id.push_back(before);
    tokens->byte_start.push_back(static_cast<std::int64_t>(text->content.size()));
    text->content += word;
    tokens->byte_end.push_back(static_cast<std::int64_t>(text->content.size()));
    tokens->string.push_back(word);
    before = id;
  }
  text->sha256 = sha256(text->content);
  return recorder.finish(text, tokens);
}

/// A model of one head.
TraceInfo oneHead(const char* name, std::int64_t length, int headDim) {
  TraceInfo info;
  info.name = name;
  info.layers = info.heads = info.key_heads = 1;
  info.head_dim = headDim;
  info.length = length;
  info.softmax_scale = 1 / std::sqrt(static_cast<float>(headDim));
  return info;
}

/// Random gates of one head, nothing else: what F needs; and a text.
std::shared_ptr<const Trace> longRun(std::int64_t length) {
  const TraceInfo info = oneHead("long", length, 1);
  Recorder recorder(info, {Keep::gates, Keep::loss}, nullptr);
  std::mt19937_64 random(3);
  std::exponential_distribution<double> step(1.0);
  double c = 0;
  for (double& value : recorder.cumulative_log_gate(0)) value = c -= step(random) / 3000;
  std::exponential_distribution<float> loss(0.3F);
  for (float& value : recorder.per_token_loss()) value = loss(random);
  return withText(recorder, length);
}

/// One random head: queries and keys of unit root mean square, gates that fall by `rate` nats a token, or none.
std::shared_ptr<const Trace> longHead(std::int64_t length, double rate) {
  const TraceInfo info = oneHead("head", length, 64);
  auto store = std::make_shared<HostQueryKeyStore>(QueryKeyStore::Shape{1, 1, 1, length, info.head_dim}, DType::float32,
                                                   std::size_t{1} << 40U, ".");
  Recorder recorder(info, {Keep::gates, Keep::rows, Keep::loss}, store);
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  for (const auto part : {QueryKeyStore::Part::query, QueryKeyStore::Part::key}) {
    const std::span<std::byte> bytes = store->layer(part, 0);
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
      const float value = normal(random);
      std::memcpy(bytes.data() + at, &value, sizeof(float));
    }
  }
  double c = 0;
  for (double& value : recorder.cumulative_log_gate(0)) value = c -= rate;
  // As of keys that are alike, of which a row sees as many as its gate lets it.
  double row = 0;
  for (float& value : recorder.log_normalizer(0)) {
    const double seen = rate > 0 ? std::min(++row, 1 / rate) : ++row;
    value = static_cast<float>(std::log(seen) + 0.5);
  }
  return withText(recorder, length);
}

// From calling the program to its end, which comes after the window is shown, empty, and its picture is saved.
void measureStart(const std::filesystem::path& program) {
  const QTemporaryDir folder;
  const std::string picture = folder.filePath("start.png").toStdString();
  std::vector<double> times;
  for (int time = 0; time < 6; ++time) {
    const auto start = Clock::now();
    const pid_t child = fork();
    if (child == 0) {
      execl(program.c_str(), "foxscope", "open", "--screenshot", picture.c_str(), "--size", "1600x1000", nullptr);
      _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) {
      std::printf("start: %s failed\n", program.c_str());
      return;
    }
    if (time > 0) times.push_back(millisecondsSince(start) / 1000);
  }
  report("start to a usable window, its picture saved (median of 5)", percentile(times, 0.5), "s", 1.0);
}

void measureDemo() {
  std::vector<double> firsts;
  std::vector<double> both;
  for (int time = 0; time < 3; ++time) {
    auto window = openWindow(resource("demo.json"));
    QCoreApplication::processEvents();
    const auto start = Clock::now();
    double map = 0;
    QObject::connect(&window->maps(), &MapsView::exactPictureShown, window.get(), [&] {
      if (map == 0) map = millisecondsSince(start);
    });
    emit window->findChild<StartPage*>()->demoWanted();
    waitFor(
        [&] { return map > 0 && window->curves().isSettled() && window->curves().figureOfCurrentTab().has_value(); });
    firsts.push_back(millisecondsSince(start) / 1000);
    waitFor([&] { return window->document().runs().size() == 2; });
    settle(*window);
    both.push_back(millisecondsSince(start) / 1000);
  }
  report("demo, 2048 tokens: click to first exact map and curve (median of 3)", percentile(firsts, 0.5), "s", 4.0);
  note("demo: click to everything of both models, statistics included", percentile(both, 0.5), "s");
}

/// An atlas of the demo model over the sample texts, in windows of 2048 tokens. It is made in a process of its own, so
/// that this one has yet to load what runs a model. Before threads are made.
void writeAtlas(const std::filesystem::path& output) {
  const pid_t child = fork();
  if (child != 0) {
    waitpid(child, nullptr, 0);
    return;
  }
  const Engine engine;
  AtlasRequest request;
  ModelRequest model;
  model.name = "fox";
  model.model = resource("models/fox-pro-12m").toStdString();
  request.models.push_back(engine.open(model));
  EvaluationInput input;
  input.corpus = resource("texts").toStdString();
  input.windows.windows = 4;
  request.inputs = {input};
  request.output = output;
  write_atlas_file(output, evaluate_atlas(request, {}, {}).value(), {"foxscope", ""}, Overwrite::force);
  _exit(0);
}

double processorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * time.tv_usec; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// A click on a passage whose model was not run yet.
void measurePassage(const QString& file) {
  auto window = openWindow();
  Document& document = window->document();
  document.open({file, resource("models/fox-pro-12m")});
  settle(*window);
  atlas::ModelPane& pane = window->evaluations().atlas().pane(0);
  pane.setHead(29);
  pane.page().tabs().setCurrentIndex(atlas::HeadPage::kPassages);
  settle(*window);
  const auto start = Clock::now();
  const double processor = processorSeconds();
  double times[2] = {};
  double processors[2] = {};
  const auto take = [&](int n) {
    if (times[n] != 0) return;
    times[n] = millisecondsSince(start) / 1000;
    processors[n] = processorSeconds() - processor;
  };
  QObject::connect(&window->maps(), &MapsView::exactPictureShown, window.get(), [&] { take(1); });
  emit pane.page().passageWanted(pane.page().passages().answer().rows.front());
  waitFor([&] { return !document.runs().empty(); });
  take(0);
  waitFor([&] { return times[1] != 0; });
  report("passage to trace, 2048 tokens: click to the exact map", times[1], "s", 2.0);
  note("the same in processor time", processors[1], "s");
  note("click to the run", times[0], "s");
  note("the same in processor time", processors[0], "s");
  settle(*window);
  note("click to everything", millisecondsSince(start) / 1000, "s");
  note("the same in processor time", processorSeconds() - processor, "s");
}

std::unique_ptr<MainWindow> longDemo() {
  auto window = openWindow();
  Document& document = window->document();
  RunSettings settings;
  settings.limit = 8192;
  document.modelRuns().setSettings(settings);
  document.runs().addModel(resource("models/fox-pro-12m"));
  document.runs().addModel(resource("models/transformer-pro-12m"));
  std::string text;
  for (const char* name : {"up-from-slavery-1", "origin-of-species-3"}) {
    std::ifstream file(resource("texts/").toStdString() + name + ".txt");
    text += std::string(std::istreambuf_iterator<char>(file), {});
  }
  document.modelRuns().setText({{}, text});
  document.modelRuns().startRun();
  waitFor([&] { return document.runs().size() == 2; });
  settle(*window);
  return window;
}

/// Times of first and exact pictures of all panes after each of these movements.
struct Pictures {
  std::vector<double> first;
  std::vector<double> exact;
};

Pictures move(MainWindow& window, int steps, const std::function<View(int)>& view) {
  Pictures pictures;
  Clock::time_point start;
  int firsts = 0;
  int exacts = 0;
  const QObject context;
  QObject::connect(&window.maps(), &MapsView::firstPictureShown, &context, [&] {
    ++firsts;
    pictures.first.push_back(millisecondsSince(start));
  });
  QObject::connect(&window.maps(), &MapsView::exactPictureShown, &context, [&] {
    ++exacts;
    pictures.exact.push_back(millisecondsSince(start));
  });
  for (int number = 0; number < steps; ++number) {
    firsts = exacts = 0;
    start = Clock::now();
    window.document().runs().selection().setView(view(number));
    waitFor([&] { return exacts >= window.maps().paneCount(); });
    settle(window);
  }
  return pictures;
}

void setAxes(MainWindow& window, MapAxes axes) {
  for (int pane = 0; pane < window.maps().paneCount(); ++pane) {
    PaneState state = window.maps().paneState(pane);
    state.axes = axes;
    window.maps().setPaneState(pane, state);
  }
}

void measurePanning(MainWindow& window, MapAxes axes) {
  setAxes(window, axes);
  const auto pan = [](int number) {
    const std::int64_t begin = 100 + 37 * number;
    return View{{begin, begin + 6000}, {begin, begin + 6000}};
  };
  const auto zoom = [](int number) {
    const std::int64_t size = 8000 - 180 * number;
    return View{{0, size}, {0, size}};
  };
  const HeadChoice before = window.document().runs().selection().head();
  for (const auto& [name, head] : {std::pair{"FoX, F and A", HeadChoice{before.run, 6, 1}},
                                   std::pair{"Transformer, A", HeadChoice{window.document().runs()[1].id, 3, 1}}}) {
    window.document().runs().selection().setHead(head);
    settle(window);
    for (const auto& [kind, view] : {std::pair<const char*, std::function<View(int)>>{"pan", pan}, {"zoom", zoom}}) {
      const Pictures pictures = move(window, 40, view);
      const char* by = axes == MapAxes::distance ? "by distance, " : "";
      const std::string text = std::string(kind) + " at 8192 tokens, two panes, " + by + name;
      report((text + ": first, 95 %").c_str(), percentile(pictures.first, 0.95), "ms", 50);
      report((text + ": exact, 95 %").c_str(), percentile(pictures.exact, 0.95), "ms", 33);
    }
  }
}

void measureLatency(MainWindow& window) {
  // A timer of 5 ms: how much later than it should each call comes while a run and maps are computed.
  std::vector<double> late;
  QTimer timer;
  timer.setTimerType(Qt::PreciseTimer);
  timer.setInterval(5);
  auto last = Clock::now();
  QObject::connect(&timer, &QTimer::timeout, &timer, [&] {
    late.push_back(std::max(0.0, millisecondsSince(last) - 5));
    last = Clock::now();
  });
  Document& document = window.document();
  document.modelRuns().startRun();
  timer.start();
  last = Clock::now();
  std::int64_t step = 0;
  QTimer mover;
  mover.setInterval(100);
  QObject::connect(&mover, &QTimer::timeout, &mover, [&] {
    const std::int64_t begin = 10 * (++step % 100);
    document.runs().selection().setView({{begin, begin + 7000}, {begin, begin + 7000}});
  });
  mover.start();
  waitFor([&] { return !document.modelRuns().runStatus().running; });
  report("event loop late by, 99 %, while a run and maps are computed", percentile(late, 0.99), "ms", 50);
  note("the same, worst", percentile(late, 1.0), "ms");
  mover.stop();
  settle(window);
}

std::int64_t residentKibibytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kibibytes = 0;
    if (word == field && status >> kibibytes) return kibibytes;
  }
  return 0;
}

void measureLongText() {
  const QTemporaryDir folder;
  const std::filesystem::path file = folder.filePath("long.h5").toStdString();
  const std::shared_ptr<const Trace> traces[] = {longRun(65536)};
  write_run_file(file, traces, {"foxscope", ""}, Overwrite::force, {});
  auto window = openWindow();
  window->maps().setPaneCount(1);
  window->document().open({QString::fromStdString(file.string())});
  waitFor([&] { return !window->document().runs().empty(); });
  settle(*window);

  const Pictures pictures = move(*window, 150, [](int number) {
    const std::int64_t begin = 300 * number;
    return View{{begin, begin + 20000}, {begin, begin + 20000}};
  });
  report("F at 65,536 tokens while panning, exact pictures a second", 1000 / percentile(pictures.exact, 0.5), "1/s", 30,
         false);

  QAbstractScrollArea* page = nullptr;
  for (auto* area : window->text().findChildren<QAbstractScrollArea*>()) {
    if (area->isVisible() && area->verticalScrollBar()->maximum() > 0) page = area;
  }
  if (page == nullptr) {
    std::printf("the text view has nothing to scroll\n");
    return;
  }
  QScrollBar* bar = page->verticalScrollBar();
  std::vector<double> frames;
  for (int frame = 0; frame < 300; ++frame) {
    const auto start = Clock::now();
    bar->setValue(static_cast<int>(static_cast<double>(bar->maximum()) * frame / 300));
    page->viewport()->repaint();
    QCoreApplication::processEvents();
    frames.push_back(millisecondsSince(start));
  }
  report("scrolling the text at 65,536 tokens, frames a second (95 %)", 1000 / percentile(frames, 0.95), "1/s", 60,
         false);
  frames.clear();
  const QSize size = page->viewport()->size();
  for (int frame = 0; frame < 300; ++frame) {
    const auto start = Clock::now();
    QTest::mouseMove(page->viewport(),
                     QPoint(10 + (frame * 7) % (size.width() - 20), 10 + (frame * 3) % (size.height() - 20)));
    QCoreApplication::processEvents();
    frames.push_back(millisecondsSince(start));
  }
  report("hovering over it, frames a second (95 %)", 1000 / percentile(frames, 0.95), "1/s", 60, false);
  settle(*window);
}

/// A at 65,536 tokens: a movement of the whole view, from its beginning to the first picture and to the exact one.
void measureLongMaps() {
  struct Case {
    const char* name;
    double rate;
    double exact;
  };
  for (const Case& test : {Case{"FoX head, decay time 300", 1.0 / 300, 400},
                           {"FoX head, decay time 1000", 1e-3, 400},
                           {"head without a gate", 0, 1600}}) {
    const QTemporaryDir folder;
    const std::filesystem::path file = folder.filePath("head.h5").toStdString();
    const std::shared_ptr<const Trace> traces[] = {longHead(65536, test.rate)};
    write_run_file(file, traces, {"foxscope", ""}, Overwrite::force, {});
    auto window = openWindow();
    window->maps().setPaneCount(1);
    PaneState state;
    state.setQuantity(Quantity::attention);
    window->maps().setPaneState(0, state);
    window->document().open({QString::fromStdString(file.string())});
    waitFor([&] { return !window->document().runs().empty(); });
    settle(*window);
    const Pictures pictures = move(*window, 4, [](int number) {
      return View{{0, 65535 - number}, {0, 65535 - number}};
    });
    const std::string text = std::string("A at 65,536 tokens, ") + test.name;
    report((text + ": first, median").c_str(), percentile(pictures.first, 0.5), "ms", 50);
    report((text + ": exact, median").c_str(), percentile(pictures.exact, 0.5), "ms", test.exact);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> wanted(arguments + 1, arguments + count);
  const auto wants = [&](const char* part) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), part) != wanted.end();
  };
  if (wants("--help") && !wanted.empty()) {
    std::printf(
        "Measures the window. Arguments: parts to measure, of start, demo, passage, pan, latency, scroll, long "
        "(default: all).\n");
    return 0;
  }
  setenv("QT_QPA_PLATFORM", "offscreen", 0);
  qInstallMessageHandler([](QtMsgType, const QMessageLogContext&, const QString&) {});
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "foxscope";
  if (wants("start")) measureStart(program);
  const QTemporaryDir folder;
  const QString atlas = folder.filePath("atlas.h5");
  if (wants("passage")) writeAtlas(atlas.toStdString());
  int none = 1;
  const QApplication application(none, arguments);
  QApplication::setStyle(QStyleFactory::create("Fusion"));
  if (wants("demo")) measureDemo();
  if (wants("passage")) measurePassage(atlas);
  if (wants("pan") || wants("latency")) {
    auto window = longDemo();
    report("memory with both models' runs and 8192 tokens, resident now",
           static_cast<double>(residentKibibytes("VmRSS:")) / 1024 / 1024, "GiB", 1.0);
    if (wants("pan")) {
      measurePanning(*window, MapAxes::distance);
      measurePanning(*window, MapAxes::key);
    }
    if (wants("latency")) measureLatency(*window);
    report("memory after all of this, peak", static_cast<double>(residentKibibytes("VmHWM:")) / 1024 / 1024, "GiB",
           1.0);
  }
  if (wants("scroll")) measureLongText();
  if (wants("long")) measureLongMaps();
  return 0;
}
