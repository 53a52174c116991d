#pragma once

#include <stdexcept>
#include <string>

namespace foxscope {

/// Something that the user or the machine got wrong. The message is one line: what is wrong, where (file,
/// tensor or option), and what to do about it. Ends a command with exit status 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The command or the request itself is wrong: exit status 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// An array has another shape than the operation needs; the message names the operation and the argument.
class ShapeError : public Error {
 public:
  using Error::Error;
};

}  // namespace foxscope
