#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace foxscope {

/// A request that is answered with an error: an HTTP status, a code for programs, and a message for people that names
/// the field or value.
class RefusedRequest : public std::runtime_error {
 public:
  RefusedRequest(int status, std::string code, const std::string& message)
      : std::runtime_error(message), status_(status), code_(std::move(code)) {}

  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& code() const { return code_; }

 private:
  int status_;
  std::string code_;
};

/// An answer that nobody waits for: the client has left, or the server is being stopped.
inline RefusedRequest dropped_request() {
  return {503, "stopped", "the work was dropped: the server is being stopped"};
}

}  // namespace foxscope
