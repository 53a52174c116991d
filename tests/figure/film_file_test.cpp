// Films, read back by another library and by ffprobe.
#include "app/figure/film/film_file.h"

#include <webp/demux.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <QColor>
#include <QImage>
#include <QPainter>
#include <QProcess>
#include <QStandardPaths>
#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "tests/text/helpers.h"

namespace foxscope::figure {
namespace {

namespace fs = std::filesystem;

/// Squares of a size that no codec likes, each elsewhere.
std::vector<QImage> pictures(int count) {
  std::vector<QImage> all;
  for (int n = 0; n < count; ++n) {
    QImage picture(61, 47, QImage::Format_RGB32);
    picture.fill(QColor(20, 40, 60));
    QPainter(&picture).fillRect(5 + 9 * n, 7, 12, 20, QColor(250, 200, 30));
    all.push_back(picture);
  }
  return all;
}

struct Decoded {
  std::vector<QImage> pictures;
  std::vector<int> ends;  ///< ms
  int loops = -1;
};
Decoded decoded(const fs::path& file) {
  const std::string bytes = test::read_bytes(file);
  const WebPData data{reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
  WebPAnimDecoderOptions options;
  WebPAnimDecoderOptionsInit(&options);
  options.color_mode = MODE_BGRA;
  const std::unique_ptr<WebPAnimDecoder, decltype(&WebPAnimDecoderDelete)> decoder(WebPAnimDecoderNew(&data, &options),
                                                                                   &WebPAnimDecoderDelete);
  Decoded all;
  WebPAnimInfo info;
  if (decoder == nullptr || WebPAnimDecoderGetInfo(decoder.get(), &info) == 0) return all;
  all.loops = static_cast<int>(info.loop_count);
  while (WebPAnimDecoderHasMoreFrames(decoder.get()) != 0) {
    std::uint8_t* pixels = nullptr;
    int end = 0;
    if (WebPAnimDecoderGetNext(decoder.get(), &pixels, &end) == 0) break;
    const QImage view(pixels, static_cast<int>(info.canvas_width), static_cast<int>(info.canvas_height),
                      QImage::Format_RGB32);
    all.pictures.push_back(view.copy());
    all.ends.push_back(end);
  }
  return all;
}

TEST(FilmFile, AnimatedPicturesHaveEveryPixel) {
  const test::TemporaryFolder folder;
  const std::vector<QImage> wanted = pictures(4);
  const auto film = makeFilm(folder / "film.webp", {.each = 250, .last = 1500});
  for (const QImage& picture : wanted) film->add(picture);
  EXPECT_FALSE(fs::exists(folder / "film.webp"));
  film->commit();
  const Decoded got = decoded(folder / "film.webp");
  ASSERT_EQ(got.pictures.size(), wanted.size());
  for (std::size_t n = 0; n < wanted.size(); ++n) EXPECT_EQ(got.pictures[n], wanted[n]) << n;
  EXPECT_EQ(got.ends, (std::vector<int>{250, 500, 750, 2250}));
  EXPECT_EQ(got.loops, 0);  // for ever
}

TEST(FilmFile, Mp4HasThePicturesForAsLong) {
  if (QStandardPaths::findExecutable(QStringLiteral("ffprobe")).isEmpty()) GTEST_SKIP() << "without ffmpeg";
  const test::TemporaryFolder folder;
  const auto film = makeFilm(folder / "film.mp4", {.each = 250, .last = 1500});
  for (const QImage& picture : pictures(4)) film->add(picture);
  EXPECT_FALSE(fs::exists(folder / "film.mp4"));
  film->commit();
  QProcess probe;
  probe.start(QStringLiteral("ffprobe"),
              {"-v", "error", "-show_entries", "stream=codec_name,width,height:format=duration", "-of",
               "default=noprint_wrappers=1", QString::fromStdString((folder / "film.mp4").string())});
  ASSERT_TRUE(probe.waitForFinished(-1));
  const QString said = QString::fromUtf8(probe.readAllStandardOutput());
  EXPECT_TRUE(said.contains("codec_name=h264") && said.contains("width=62") && said.contains("height=48"))
      << said.toStdString();
  const double duration = said.section("duration=", 1).section('\n', 0, 0).toDouble();
  EXPECT_NEAR(duration, 2.25, 0.1);
  // The third picture, as it is in the middle of its time.
  const QString shot = QString::fromStdString((folder / "shot.png").string());
  QProcess::execute(QStringLiteral("ffmpeg"),
                    {"-v", "error", "-ss", "0.6", "-i", QString::fromStdString((folder / "film.mp4").string()),
                     "-frames:v", "1", shot});
  const QImage third(shot);
  ASSERT_FALSE(third.isNull());
  const auto near = [&](int x, int y, const QColor& wanted) {
    const QColor got = third.pixelColor(x, y);
    return std::abs(got.red() - wanted.red()) < 24 && std::abs(got.green() - wanted.green()) < 24 &&
           std::abs(got.blue() - wanted.blue()) < 24;
  };
  EXPECT_TRUE(near(29, 16, QColor(250, 200, 30)));
  EXPECT_TRUE(near(8, 16, QColor(20, 40, 60)));
}

TEST(FilmFile, LeavesNothingUnfinished) {
  const test::TemporaryFolder folder;
  for (const char* name : {"film.webp", "film.mp4"}) {
    if (!whyNoFilm(filmFormatOf(name)).empty()) continue;
    makeFilm(folder / name)->add(pictures(1).front());
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(FilmFile, SaysWhatCannotBe) {
  const test::TemporaryFolder folder;
  const auto error = [&](const auto& act) { return test::error_of(act); };
  EXPECT_PRED2(test::says, error([&] { makeFilm(folder / "film.gif"); }),
               (test::Parts{"film.gif: films are .webp or .mp4"}));
  EXPECT_EQ(filmFormatOf("Film.WebP"), FilmFormat::webp);
  EXPECT_PRED2(test::says, error([&] { makeFilm(folder / "film.webp")->commit(); }),
               (test::Parts{"film.webp: a film has one picture or more"}));
  EXPECT_PRED2(test::says, error([&] {
                 const auto film = makeFilm(folder / "film.webp");
                 film->add(pictures(1).front());
                 film->add(QImage(4, 5, QImage::Format_RGB32));
               }),
               (test::Parts{"film.webp: a picture of 4 x 5 pixels follows one of 61 x 47: a film has one size"}));
  EXPECT_PRED2(test::says, error([&] { makeFilm(folder / "film.webp")->add(QImage(17000, 1, QImage::Format_RGB32)); }),
               (test::Parts{"film.webp: WebP has at most 16383 pixels a side, the window 17000 x 1: make it smaller"}));
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nonexistent", 1);
  EXPECT_EQ(whyNoFilm(FilmFormat::mp4),
            "MP4 needs the program ffmpeg, which is not installed: install it, or export WebP");
  EXPECT_EQ(whyNoFilm(FilmFormat::webp), "");
  EXPECT_PRED2(test::says, error([&] { makeFilm(folder / "film.mp4"); }),
               (test::Parts{"MP4 needs the program ffmpeg"}));
  // A program that fails: its last line is told.
  test::write_bytes(folder / "ffmpeg", "#!/bin/sh\necho more >&2\necho no such codec >&2\nexit 1\n");
  fs::permissions(folder / "ffmpeg", fs::perms::owner_all);
  setenv("PATH", (folder.path().string() + ":" + path).c_str(), 1);
  EXPECT_PRED2(test::says, error([&] {
                 const auto film = makeFilm(folder / "film.mp4");
                 film->add(pictures(1).front());
                 film->commit();
               }),
               (test::Parts{"film.mp4: ffmpeg could not make it: no such codec: export an animated picture"}));
  setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace foxscope::figure
