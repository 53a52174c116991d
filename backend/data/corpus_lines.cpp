#include "backend/data/corpus_lines.h"

#include <lzma.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/regular_file.h"

namespace foxscope {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 18;
/// xz -9 needs 65 MiB to decompress; a file that wants more than this was not made by the usual tools.
constexpr std::uint64_t kMostXzMemory = std::uint64_t{1} << 30;

std::string reason(int code) { return std::generic_category().message(code); }

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(const std::filesystem::path& file) : name_(file.string()), file_(file, "corpus") {}

  std::size_t read(char* data, std::size_t size) override {
    while (true) {
      const ssize_t got = ::read(file_.descriptor(), data, size);
      if (got >= 0) {
        position_ += got;
        return static_cast<std::size_t>(got);
      }
      if (errno == EINTR) continue;
      throw Error(fmt::format("{}: cannot read the corpus: {}; check the file and its disk", name_, reason(errno)));
    }
  }
  [[nodiscard]] std::int64_t position() const override { return position_; }

 private:
  std::string name_;
  RegularFile file_;
  std::int64_t position_ = 0;
};

/// The base of both kinds of compressed file: pieces of input, and the messages for a bad one.
class CompressedSource : public ByteSource {
 public:
  CompressedSource(const std::filesystem::path& file, const char* kind)
      : name_(file.string()), kind_(kind), file_(file) {}
  [[nodiscard]] std::int64_t position() const override { return file_.position(); }

 protected:
  /// The next piece of the file; 0 at its end.
  std::size_t refill() { return file_.read(input_.data(), input_.size()); }
  [[nodiscard]] unsigned char* input() { return reinterpret_cast<unsigned char*>(input_.data()); }
  [[noreturn]] void fail_damaged() const {
    throw Error(fmt::format("{}: the compressed data ({}) are damaged: fetch the file again", name_, kind_));
  }
  [[noreturn]] void fail_truncated() const {
    throw Error(fmt::format("{}: the compressed data ({}) are cut short: fetch the file again", name_, kind_));
  }
  [[noreturn]] void fail_format() const {
    throw Error(
        fmt::format("{}: is not compressed by {} as its name says: rename or fetch the file again", name_, kind_));
  }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_;
  const char* kind_;
  PlainSource file_;
  std::vector<char> input_ = std::vector<char>(kPiece);
};

class XzSource final : public CompressedSource {
 public:
  explicit XzSource(const std::filesystem::path& file) : CompressedSource(file, "xz") {
    if (lzma_stream_decoder(&stream_, kMostXzMemory, LZMA_CONCATENATED) != LZMA_OK) throw std::bad_alloc();
  }
  ~XzSource() override { lzma_end(&stream_); }
  XzSource(const XzSource&) = delete;
  XzSource& operator=(const XzSource&) = delete;

  std::size_t read(char* data, std::size_t size) override {
    stream_.next_out = reinterpret_cast<std::uint8_t*>(data);
    stream_.avail_out = size;
    while (!ended_ && stream_.avail_out == size) {
      if (stream_.avail_in == 0 && !file_ended_) {
        stream_.next_in = input();
        stream_.avail_in = refill();
        file_ended_ = stream_.avail_in == 0;
      }
      check(lzma_code(&stream_, file_ended_ ? LZMA_FINISH : LZMA_RUN));
    }
    return size - stream_.avail_out;
  }

 private:
  void check(lzma_ret result) {
    switch (result) {
      case LZMA_OK:
        return;
      case LZMA_STREAM_END:
        ended_ = true;
        return;
      case LZMA_BUF_ERROR:
        fail_truncated();
      case LZMA_FORMAT_ERROR:
        fail_format();
      case LZMA_MEM_ERROR:
        throw std::bad_alloc();
      case LZMA_MEMLIMIT_ERROR:
        throw Error(fmt::format("{}: wants more than 1 GiB of memory to be decompressed: compress it again with xz -9",
                                name()));
      default:
        fail_damaged();
    }
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool file_ended_ = false;
  bool ended_ = false;
};

/// Members of a gzip file may follow each other, as `cat` of two files makes it.
class GzipSource final : public CompressedSource {
 public:
  explicit GzipSource(const std::filesystem::path& file) : CompressedSource(file, "gzip") {
    constexpr int kGzipOnly = 16;
    if (inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  std::size_t read(char* data, std::size_t size) override {
    size = std::min<std::size_t>(size, kPiece);
    stream_.next_out = reinterpret_cast<unsigned char*>(data);
    stream_.avail_out = static_cast<unsigned>(size);
    while (stream_.avail_out == size) {
      if (stream_.avail_in == 0) {
        stream_.next_in = input();
        stream_.avail_in = static_cast<unsigned>(refill());
        if (stream_.avail_in == 0) {
          if (in_member_ || !any_member_) fail_truncated();
          return 0;
        }
      }
      if (!in_member_ && any_member_) inflateReset(&stream_);
      in_member_ = true;
      step();
    }
    return size - stream_.avail_out;
  }

 private:
  void step() {
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      in_member_ = false;
      any_member_ = true;
    } else if (result == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      if (!any_member_ && stream_.total_out == 0) fail_format();
      fail_damaged();
    }
  }

  z_stream stream_{};
  bool in_member_ = false;
  bool any_member_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> open_byte_source(const std::filesystem::path& file) {
  if (file.extension() == ".xz") return std::make_unique<XzSource>(file);
  if (file.extension() == ".gz") return std::make_unique<GzipSource>(file);
  return std::make_unique<PlainSource>(file);
}

LineReader::LineReader(const std::filesystem::path& file, std::size_t longest_line)
    : file_(file), longest_line_(longest_line), source_(open_byte_source(file)) {}

std::optional<std::string> LineReader::next() {
  while (true) {
    const std::size_t feed = buffer_.find('\n', searched_);
    const std::size_t end = feed == std::string::npos ? buffer_.size() : feed;
    if (end - given_ > longest_line_) {
      throw Error(fmt::format("{}: line {} is longer than {} MiB: cut its document into smaller ones", file_.string(),
                              line_number_ + 1, std::max<std::size_t>(1, longest_line_ >> 20U)));
    }
    if (feed != std::string::npos || (ended_ && end > given_)) {
      std::string line = buffer_.substr(given_, end - given_);
      given_ = searched_ = feed == std::string::npos ? end : feed + 1;
      ++line_number_;
      return line;
    }
    if (ended_) return std::nullopt;
    buffer_.erase(0, given_);
    given_ = 0;
    searched_ = buffer_.size();
    buffer_.resize(searched_ + kPiece);
    const std::size_t got = source_->read(buffer_.data() + searched_, kPiece);
    buffer_.resize(searched_ + got);
    ended_ = got == 0;
  }
}

}  // namespace foxscope
