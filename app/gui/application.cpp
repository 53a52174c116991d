#include "app/gui/application.h"

#include <array>
#include <cstdlib>
#include <string_view>

#include <QApplication>
#include <QBuffer>
#include <QLoggingCategory>
#include <QPixmap>
#include <QStandardPaths>
#include <QTimer>
#include <fmt/format.h>

#include "app/gui/views/focus_ring.h"
#include "app/gui/views/icon.h"
#include "app/gui/views/style.h"
#include "app/gui/views/theme.h"
#include "app/gui/window/main_window.h"
#include "app/gui/window/system_theme.h"
#include "backend/agent/kept_answers.h"
#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/base/log.h"

namespace foxscope::gui {
namespace {

constexpr QSize kUsualSize(1440, 900);
constexpr int kScreenshotLimitMs = 600'000;

bool hasDisplay() {
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  return set("DISPLAY") || set("WAYLAND_DISPLAY") || set("QT_QPA_PLATFORM");
}

void prepareEnvironment(const ApplicationOptions& options) {
  if (!hasDisplay()) {
    if (options.screenshot.empty()) {
      throw UsageError(
          "there is no display for the window: set DISPLAY or WAYLAND_DISPLAY, add --screenshot FILE, or use the "
          "commands of foxscope --help");
    }
    setenv("QT_QPA_PLATFORM", "offscreen", 1);
  }
  if (options.scale > 0) setenv("QT_SCALE_FACTOR", fmt::format("{}", options.scale).c_str(), 1);
}

/// Lays the chosen palette over the application, now and when choice or system change.
class ThemeSwitch : public QObject {
 public:
  ThemeSwitch(Theme fixed, MainWindow& window) : m_fixed(fixed), m_window(window) {
    connect(&m_system, &SystemTheme::changed, this, &ThemeSwitch::apply);
    connect(&m_window, &MainWindow::themeChosen, this, &ThemeSwitch::apply);
    apply();
  }

 private:
  void apply() {
    bool dark = m_fixed == Theme::dark;
    if (m_fixed == Theme::settings) {
      const ThemeChoice choice = m_window.settings().theme();
      dark = choice == ThemeChoice::dark || (choice == ThemeChoice::system && m_system.dark());
    }
    QApplication::setPalette(dark ? darkPalette() : lightPalette());
  }

  Theme m_fixed;
  MainWindow& m_window;
  SystemTheme m_system;
};

/// Waits until the views are done, then saves their picture and ends the program; the first error ends it too.
class Screenshot : public QObject {
 public:
  Screenshot(MainWindow& window, std::string file) : m_window(window), m_file(std::move(file)) {
    connect(&window.document(), &Document::messageRaised, this, [this](const Message& message) {
      if (message.kind == Message::Kind::error) fail(message.text.toStdString());
    });
    // A screenshot has no user to answer.
    connect(&window.document().modelRuns(), &ModelRuns::memoryAsked, &window.document().modelRuns(),
            &ModelRuns::runAnyway);
    m_poll.setInterval(50);
    connect(&m_poll, &QTimer::timeout, this, &Screenshot::look);
    m_poll.start();
    QTimer::singleShot(kScreenshotLimitMs, this, [this] { fail("the window was not done after ten minutes"); });
  }
  [[nodiscard]] const std::string& error() const { return m_error; }

 private:
  // Settled several times in a row: what one view's answer makes another view ask for has then been asked.
  void look() {
    m_calm = m_window.isSettled() ? m_calm + 1 : 0;
    constexpr int kCalm = 3;
    if (m_calm < kCalm) return;
    QByteArray bytes;
    QBuffer buffer(&bytes);
    buffer.open(QIODevice::WriteOnly);
    if (!m_window.grab().save(&buffer, "PNG")) return fail("Qt has no PNG writer: install Debian's libqt6gui6");
    try {
      AtomicFile file(m_file, true);
      file.write(bytes.constData(), static_cast<std::size_t>(bytes.size()));
      file.commit();
    } catch (const Error& error) {
      return fail(error.what());
    }
    QApplication::quit();
  }

  void fail(const std::string& message) {
    if (m_error.empty()) m_error = message;
    QApplication::exit(1);
  }

  MainWindow& m_window;
  std::string m_file;
  std::string m_error;
  QTimer m_poll;
  int m_calm = 0;
};

// A user who names a model and a text wants to see the one read the other.
void openAndRun(Document& document, const QStringList& paths) {
  QObject::connect(
      &document, &Document::idle, &document,
      [&document] {
        if (document.modelRuns().canRun() && document.runs().empty()) document.modelRuns().startRun();
      },
      Qt::SingleShotConnection);
  document.open(paths);
}

// Lines of the window's own categories go where all lines of -v go. Qt speaks of missing runtime folders and the like
// on standard error; nobody asked.
void passOwnMessages(QtMsgType /*type*/, const QMessageLogContext& context, const QString& text) {
  constexpr std::string_view kOwn = "foxscope.";
  const std::string_view category = context.category == nullptr ? "" : context.category;
  if (!category.starts_with(kOwn)) return;
  log_line(LogCategory::window,
           [&] { return fmt::format("{}: {}", category.substr(kOwn.size()), text.toStdString()); });
}

}  // namespace

std::optional<std::filesystem::path> findDemo(const std::filesystem::path& programFolder) {
  for (const char* place : {"../share/foxscope/demo.json", "../resources/demo.json"}) {
    std::error_code failed;
    const auto path = std::filesystem::weakly_canonical(programFolder / place, failed);
    if (!failed && std::filesystem::exists(path, failed)) return path;
  }
  return std::nullopt;
}

int openWindow(const ApplicationOptions& options) {
  prepareEnvironment(options);
  qInstallMessageHandler(passOwnMessages);
  if (logging()) QLoggingCategory::setFilterRules(QStringLiteral("foxscope.*=true"));
  int count = 1;
  std::array<char, 9> name{"foxscope"};
  std::array<char*, 2> arguments{name.data(), nullptr};
  QApplication application(count, arguments.data());
  QApplication::setApplicationName("foxscope");
  QApplication::setApplicationDisplayName("Foxscope");
  QApplication::setDesktopFileName("foxscope");
  QApplication::setWindowIcon(programIcon());
  QApplication::setStyle(makeStyle());
  const FocusRing ring;

  const auto demo = findDemo(options.programFolder);
  MainWindow window(demo ? QString::fromStdString(demo->string()) : QString());
  const ThemeSwitch theme(options.theme, window);
  if (options.width > 0) {
    window.resize(options.width, options.height);
  } else if (!options.screenshot.empty()) {
    window.resize(kUsualSize);
  } else if (!window.restorePlaces()) {
    window.resizeToFit(kUsualSize);
  }
  if (!options.screenshot.empty()) {
    window.setRemembering(MainWindow::Remembering::off);
  } else {
    const QString cache = QStandardPaths::writableLocation(QStandardPaths::GenericCacheLocation);
    agent::KeptAnswers::all().use_folder((cache + QStringLiteral("/foxscope/answers")).toStdString());
  }
  window.show();
  QStringList paths;
  for (const std::string& path : options.paths) paths += QString::fromStdString(path);
  if (options.unchecked) window.document().leaveUnchecked();
  if (!paths.isEmpty()) openAndRun(window.document(), paths);
  if (options.screenshot.empty()) return QApplication::exec();

  const Screenshot screenshot(window, options.screenshot);
  const int code = QApplication::exec();
  if (!screenshot.error().empty()) throw Error(screenshot.error());
  return code;
}

}  // namespace foxscope::gui
