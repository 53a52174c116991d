#include "app/figure/film/film_file.h"

#include <webp/encode.h>
#include <webp/mux.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

#include <QByteArray>
#include <QFile>
#include <QProcess>
#include <QStandardPaths>
#include <QStringList>
#include <QTemporaryDir>
#include <fmt/format.h>

#include "backend/base/atomic_file.h"
#include "backend/base/error.h"

namespace foxscope::figure {
namespace {

/// The pictures of a film in one format and size.
class SizedFilm : public FilmFile {
 public:
  SizedFilm(const std::filesystem::path& file, const FilmPace& pace) : pace_(pace), file_(file, true) {}

  void add(const QImage& picture) final {
    if (size_.isEmpty()) {
      size_ = picture.size();
      begin();
    }
    if (picture.size() != size_) {
      throw Error(fmt::format("{}: a picture of {} x {} pixels follows one of {} x {}: a film has one size", name(),
                              picture.width(), picture.height(), size_.width(), size_.height()));
    }
    addSized(picture.convertToFormat(QImage::Format_RGB32));
    ++count_;
  }

  void commit() final {
    if (count_ == 0) throw Error(fmt::format("{}: a film has one picture or more", name()));
    finish();
    file_.commit();
  }

 protected:
  virtual void begin() = 0;
  virtual void addSized(const QImage& picture) = 0;  ///< of Format_RGB32
  virtual void finish() = 0;
  [[nodiscard]] std::string name() const { return file_.target().string(); }
  [[nodiscard]] const QSize& size() const { return size_; }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] const FilmPace& pace() const { return pace_; }
  [[nodiscard]] AtomicFile& file() { return file_; }

 private:
  FilmPace pace_;
  AtomicFile file_;
  QSize size_;
  int count_ = 0;
};

class WebPFilm final : public SizedFilm {
 public:
  using SizedFilm::SizedFilm;

 private:
  struct Delete {
    void operator()(WebPAnimEncoder* encoder) const { WebPAnimEncoderDelete(encoder); }
  };

  void begin() override {
    if (std::max(size().width(), size().height()) > WEBP_MAX_DIMENSION) {
      throw Error(fmt::format("{}: WebP has at most {} pixels a side, the window {} x {}: make it smaller", name(),
                              WEBP_MAX_DIMENSION, size().width(), size().height()));
    }
    WebPAnimEncoderOptions options;
    WebPAnimEncoderOptionsInit(&options);  // anew for ever
    encoder_.reset(WebPAnimEncoderNew(size().width(), size().height(), &options));
    WebPConfigInit(&config_);
    constexpr int kFast = 2;  // of 0 to 9: each more halves the speed for a few per cent of the size
    WebPConfigLosslessPreset(&config_, kFast);
    require(encoder_ != nullptr);
  }

  void addSized(const QImage& picture) override {
    WebPPicture frame;
    WebPPictureInit(&frame);
    frame.use_argb = 1;
    frame.width = picture.width();
    frame.height = picture.height();
    const bool added =
        WebPPictureImportBGRX(&frame, picture.constBits(), static_cast<int>(picture.bytesPerLine())) != 0 &&
        WebPAnimEncoderAdd(encoder_.get(), &frame, count() * pace().each, &config_) != 0;
    WebPPictureFree(&frame);
    require(added);
  }

  void finish() override {
    const int end = (count() - 1) * pace().each + pace().last;
    require(WebPAnimEncoderAdd(encoder_.get(), nullptr, end, nullptr) != 0);
    WebPData data;
    WebPDataInit(&data);
    const bool made = WebPAnimEncoderAssemble(encoder_.get(), &data) != 0;
    const std::unique_ptr<WebPData, decltype(&WebPDataClear)> owner(&data, &WebPDataClear);
    require(made);
    file().write(data.bytes, data.size);
  }

  void require(bool done) const {
    if (done) return;
    const char* const reason = encoder_ == nullptr ? "" : WebPAnimEncoderGetError(encoder_.get());
    throw Error(fmt::format("{}: cannot be made: {}: is there memory for it?", name(),
                            reason == nullptr || *reason == '\0' ? "out of memory" : reason));
  }

  std::unique_ptr<WebPAnimEncoder, Delete> encoder_;
  WebPConfig config_{};
};

// ffmpeg seeks in what it writes, so it has a file of its own, which is copied.
class Mp4Film final : public SizedFilm {
 public:
  using SizedFilm::SizedFilm;
  ~Mp4Film() override {
    if (process_.state() == QProcess::NotRunning) return;
    process_.kill();
    process_.waitForFinished();
  }

 private:
  [[nodiscard]] QString unfinished() const { return folder_.filePath(QStringLiteral("film.mp4")); }

  void begin() override {
    if (!folder_.isValid()) {
      throw Error(fmt::format("{}: no folder for unfinished files: {}: set TMPDIR to one that can be written", name(),
                              folder_.errorString().toStdString()));
    }
    constexpr double kSecond = 1000;
    const QString rate = QString::number(kSecond / pace().each);
    // Players go badly by few pictures a second; equal ones take no room. Colours in halves need even sizes.
    process_.start(QStringLiteral("ffmpeg"), {"-loglevel",
                                              "error",
                                              "-f",
                                              "rawvideo",
                                              "-pixel_format",
                                              "bgra",
                                              "-video_size",
                                              QStringLiteral("%1x%2").arg(size().width()).arg(size().height()),
                                              "-framerate",
                                              rate,
                                              "-i",
                                              "-",
                                              "-vf",
                                              "pad=ceil(iw/2)*2:ceil(ih/2)*2",
                                              "-r",
                                              "24",
                                              "-c:v",
                                              "libx264",
                                              "-preset",
                                              "veryfast",
                                              "-crf",
                                              "16",
                                              "-pix_fmt",
                                              "yuv420p",
                                              "-movflags",
                                              "+faststart",
                                              unfinished()});
    if (!process_.waitForStarted()) fail();
  }

  void addSized(const QImage& picture) override {
    last_ = picture;
    write(picture);
  }

  void write(const QImage& picture) {
    process_.write(reinterpret_cast<const char*>(picture.constBits()), picture.sizeInBytes());
    while (process_.bytesToWrite() > 0) {
      if (!process_.waitForBytesWritten(-1)) fail();
    }
  }

  void finish() override {
    for (int more = pace().each; more + pace().each <= pace().last; more += pace().each) write(last_);
    process_.closeWriteChannel();
    process_.waitForFinished(-1);
    if (process_.exitStatus() != QProcess::NormalExit || process_.exitCode() != 0) fail();
    QFile made(unfinished());
    if (!made.open(QIODevice::ReadOnly)) fail();
    const QByteArray content = made.readAll();
    file().write(content.constData(), static_cast<std::size_t>(content.size()));
  }

  [[noreturn]] void fail() {
    process_.waitForFinished(1000);
    const QString said = QString::fromUtf8(process_.readAllStandardError()).trimmed().section('\n', -1);
    throw Error(fmt::format("{}: ffmpeg could not make it: {}: export an animated picture (.webp) instead", name(),
                            said.isEmpty() ? process_.errorString().toStdString() : said.toStdString()));
  }

  QTemporaryDir folder_;
  QProcess process_;
  QImage last_;
};

}  // namespace

FilmFormat filmFormatOf(const std::filesystem::path& file) {
  std::string ending = file.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char letter) { return std::tolower(letter); });
  if (ending == ".webp") return FilmFormat::webp;
  if (ending == ".mp4") return FilmFormat::mp4;
  throw UsageError(fmt::format("{}: films are .webp or .mp4", file.string()));
}

std::string whyNoFilm(FilmFormat format) {
  if (format == FilmFormat::webp || !QStandardPaths::findExecutable(QStringLiteral("ffmpeg")).isEmpty()) return {};
  return "MP4 needs the program ffmpeg, which is not installed: install it, or export WebP";
}

std::unique_ptr<FilmFile> makeFilm(const std::filesystem::path& file, const FilmPace& pace) {
  const FilmFormat format = filmFormatOf(file);
  if (std::string obstacle = whyNoFilm(format); !obstacle.empty()) throw Error(std::move(obstacle));
  if (format == FilmFormat::mp4) return std::make_unique<Mp4Film>(file, pace);
  return std::make_unique<WebPFilm>(file, pace);
}

}  // namespace foxscope::figure
