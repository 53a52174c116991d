#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace foxscope {

class AtomicFile;

/// Losses that are computed already, in a file beside the output that is still to come: OUTPUT.partial. Every window's
/// losses are appended as soon as they are known, so that a killed process loses one window's work at most.
///
/// File: the letters "FOXPART3", the fingerprint (64 letters), then records: model, window, tokens, CRC-32 of the
/// losses, CRC-32 of these four (uint32 each, little-endian), and the losses (float32). A record that is damaged is
/// left out; behind one whose first numbers are damaged the next sound ones are looked for. One that is cut short, or
/// zeros, end the file: a process that was killed leaves them. A record may come more than once: whoever takes it must
/// not count it twice. Only its owner may read it: the output may replace a file that is private.
class LossPartial {
 public:
  /// A record that is found: losses of one window of one model.
  using Found = std::function<void(std::uint32_t model, std::uint32_t window, std::span<const float> losses)>;
  /// A sentence for the user: that records are damaged, or that no more are kept.
  using Note = std::function<void(const std::string& text)>;

  /// Opens the partial file of an output, or begins one, and gives out what it holds.
  /// @param fingerprint  SHA-256 of all that the losses depend on
  /// @param start_anew   work of other settings is thrown away
  /// @param note         of this file from now on; may be empty
  /// @throws Error naming the file: it holds work of other settings or of another version, another process writes it,
  ///         no partial file at all, a symbolic link, another user's, not writable; what `found` throws, with its name
  LossPartial(const std::filesystem::path& output, const std::string& fingerprint, bool start_anew, const Found& found,
              Note note = {});

  /// Where the disk is full, this and all that comes after it is not kept: the user is told once.
  void append(std::uint32_t model, std::uint32_t window, std::span<const float> losses);
  /// Puts other records in the place of all that were appended, once the file is more than twice as large as it was
  /// after the last time, or as its largest record. A killed process leaves one of the two files whole.
  /// @param all  gives the other records to what it is called with
  void put_together(const std::function<void(const Found& add)>& all);
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  struct Descriptor {
    Descriptor() = default;
    ~Descriptor();
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int number = -1;
  };
  /// Bytes of the file.
  struct Part {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  void open_file();
  void check_found() const;
  /// @returns false where the file ends before
  bool read(std::uint64_t offset, std::span<std::byte> bytes) const;
  /// The first place from an offset on where a record may begin; `size`: there is none.
  /// @param zeros  set to whether nothing else was passed by
  std::uint64_t find_record(std::uint64_t offset, std::uint64_t size, bool& zeros) const;
  void read_records(const Found& found);
  void leave_out(const std::vector<Part>& sound, std::size_t damaged);
  /// Puts a file of the head and what is written in the place of this one. Where that fails this one stays.
  void replace(const std::function<void(AtomicFile&)>& write);
  void begin();
  void cut(std::uint64_t size);
  /// Appends. @returns 0, or the system's error number
  [[nodiscard]] int write(std::span<const std::byte> bytes);

  std::filesystem::path path_;
  std::string head_;  ///< letters and fingerprint
  Note note_;
  Descriptor file_;
  std::uint64_t size_ = 0;      ///< of the file, without what could not be written whole
  std::uint64_t together_ = 0;  ///< of the file after it was put together, or of its largest record
  bool keeps_ = true;
};

/// "eval.h5.partial"
std::filesystem::path partial_path(const std::filesystem::path& output);

}  // namespace foxscope
