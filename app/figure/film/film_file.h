#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <QImage>

namespace foxscope::figure {

/// webp: an animated picture, every pixel as it was. mp4: H.264, which the program ffmpeg makes.
enum class FilmFormat { webp, mp4 };

/// The format that a file's name ends on.
/// @throws UsageError naming the file, for any other ending
FilmFormat filmFormatOf(const std::filesystem::path& file);
/// Why films of a format cannot be made here, and what to do; empty: they can.
std::string whyNoFilm(FilmFormat format);

/// How long pictures stand, milliseconds.
struct FilmPace {
  int each = 250;
  int last = 1500;  ///< the last one, before an animated picture begins anew
};

/// A film that appears under its name when it is whole.
class FilmFile {
 public:
  virtual ~FilmFile() = default;
  /// Adds a picture. All have the size of the first.
  /// @throws Error naming the file: pictures of another size, or larger than the format knows; the disk is full; what
  ///         ffmpeg says
  virtual void add(const QImage& picture) = 0;
  /// Puts the file in place.  @throws Error naming the file
  virtual void commit() = 0;
};

/// @throws Error naming the file, or whyNoFilm
std::unique_ptr<FilmFile> makeFilm(const std::filesystem::path& file, const FilmPace& pace = {});

}  // namespace foxscope::figure
