#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace foxscope {

/// Losses that are computed already, in a file beside the output that is still to come: OUTPUT.partial. Every window's
/// losses are appended as soon as they are known, so that a killed process loses one window's work at most.
///
/// File: the letters "FOXPART2", the fingerprint (64 letters), then records: model, window, tokens, CRC-32 of these
/// three and the losses (uint32 each, little-endian), and the losses (float32). A record that is cut short or damaged
/// ends the file. A record may come more than once: whoever takes it must not count it twice.
/// Only its owner may read it: the output may replace a file that is private.
class LossPartial {
 public:
  /// A record that is found: losses of one window of one model.
  using Found = std::function<void(std::uint32_t model, std::uint32_t window, std::span<const float> losses)>;

  /// Opens the partial file of an output, or begins one, and gives out what it holds.
  /// @param fingerprint  SHA-256 of all that the losses depend on
  /// @param start_anew   work of other settings is thrown away
  /// @throws Error naming the file: it holds work of other settings or of another version, another process writes it,
  ///         no partial file at all, a symbolic link, another user's, not writable; what `found` throws, with its name
  LossPartial(const std::filesystem::path& output, const std::string& fingerprint, bool start_anew, const Found& found);

  /// @throws Error naming the file when the disk is full
  void append(std::uint32_t model, std::uint32_t window, std::span<const float> losses);
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  struct Descriptor {
    Descriptor() = default;
    ~Descriptor();
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int number = -1;
  };
  void open_file();
  void check_found() const;
  /// @returns false where the file ends before
  bool read(std::uint64_t offset, std::span<std::byte> bytes) const;
  void read_records(const Found& found);
  void begin(const std::string& fingerprint);
  void write(std::span<const std::byte> bytes);

  std::filesystem::path path_;
  Descriptor file_;
};

/// "eval.h5.partial"
std::filesystem::path partial_path(const std::filesystem::path& output);

}  // namespace foxscope
