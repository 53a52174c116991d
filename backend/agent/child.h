#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace foxscope::agent {

/// A program that was started with pipes for its standard streams. It has ended and was waited for when the object
/// goes.
class Child {
 public:
  /// Starts a program, found by PATH, in this process group, with the signals' usual meaning.
  /// @throws Error naming it where there is no such program, or none can be started
  explicit Child(const std::vector<std::string>& words);
  /// Closes its standard input, and ends it where it does not end by itself.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] int input() const { return input_; }    ///< to write to
  [[nodiscard]] int output() const { return output_; }  ///< to read from
  [[nodiscard]] int errors() const { return errors_; }  ///< to read from

  /// Closes its standard input: there is nothing more for it.
  void close_input();
  /// Waits for its end as long as this, then sends SIGTERM, later SIGKILL.
  /// @returns what a shell would call its status: 127 where a shell found no program, 128 + N after signal N
  int finish(std::chrono::milliseconds patience);
  /// Asks it to end, by SIGTERM.
  void terminate() const;

 private:
  [[nodiscard]] bool wait_for_end(std::chrono::milliseconds patience);

  pid_t pid_ = -1;  ///< -1: it was waited for
  int input_ = -1;
  int output_ = -1;
  int errors_ = -1;
  int status_ = 0;
};

}  // namespace foxscope::agent
