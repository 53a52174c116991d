#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/eval/loss/loss_partial.h"
#include "backend/model/training/processes.h"

namespace foxscope {

/// Pieces of work that processes have planned alike, handed out to them. One process alone has all pieces.
class SharedPieces {
 public:
  /// @param processes  null: this one alone
  explicit SharedPieces(Processes* processes) : processes_(processes) {}

  [[nodiscard]] bool first() const { return processes_ == nullptr || processes_->first(); }
  /// Together: the least of what the processes have.
  [[nodiscard]] std::size_t least(std::size_t mine) const;
  /// The next of a list of pieces, for this process.
  /// @param list  its number; the lists have their turns one after the other
  /// @returns a number beyond them where none is left
  [[nodiscard]] std::size_t next(std::uint32_t list);
  /// Takes the result of a part of a model's work, as it was posted.
  using Take = std::function<void(std::uint32_t model, std::uint32_t part, std::span<const std::byte> made)>;
  /// Posts a result of a process that is not the first.
  void post(std::uint32_t model, std::uint32_t part, std::span<const std::byte> made) const;
  /// In the first process: takes what the others post, for later models too, until everything has arrived. Does nothing
  /// in the others.
  /// @param whole  whether everything has arrived
  /// @returns false if the job was stopped
  bool collect(const std::function<bool()>& whole, const Take& take, const Job& job) const;

 protected:
  [[nodiscard]] Processes* processes() const { return processes_; }

 private:
  Processes* processes_;
  std::uint32_t list_ = 0;
  std::size_t begun_ = 0;  ///< pieces of list_, in a process alone
};

/// The work of an evaluation, whose pieces are handed out to processes; each gives rows of numbers, which come together
/// in the first process and are kept there beside the output (LossPartial).
class SharedWork : public SharedPieces {
 public:
  struct Place {
    std::filesystem::path output;
    std::string fingerprint;  ///< of all that the numbers depend on
    bool start_anew = false;
    LossPartial::Note note = {};
  };
  /// All that rows have come to so far, as rows that `take` would take.
  using Together = std::function<void(const LossPartial::Found& add)>;
  /// @param processes  null: this one alone
  /// @param take       in the first process, gets every row once: of earlier work at once, of this one as it comes
  /// @param together   of rows that add up, which need not all be kept; empty: they do not
  /// @throws Error as LossPartial does
  SharedWork(Processes* processes, const Place& place, LossPartial::Found take, Together together = {});

  /// The file that keeps the work so far; none in all processes but the first.
  [[nodiscard]] std::optional<std::filesystem::path> kept() const;

  /// Together: pieces that the first process has are done for all.
  void agree_on(std::vector<bool>& done) const;
  /// A row of numbers is there, as LossPartial::append has it.
  void add(std::uint32_t model, std::uint32_t row, std::span<const float> numbers);
  /// In the first process: takes rows of the others until all have arrived. Does nothing in the others.
  /// @param whole  whether all have arrived
  /// @returns false if the job was stopped
  bool collect(const std::function<bool()>& whole, const Job& job);

 private:
  LossPartial::Found take_;
  Together together_;
  std::optional<LossPartial> partial_;
};

}  // namespace foxscope
