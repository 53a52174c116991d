#pragma once

#include <string>

#include <fmt/format.h>

#include "backend/agent/fields.h"
#include "backend/agent/remote_path.h"
#include "backend/base/error.h"

namespace foxscope::agent {

/// take of a message that came from another machine. @throws Error with the machine's name where take throws
template <typename T>
T taken_from(const RemoteHost& host, const Message& message, const char* name) {
  try {
    return take<T>(message, name);
  } catch (const ProtocolError& error) {
    throw Error(
        fmt::format("{}: what came from there is no message of the protocol: {}: install the same version on both "
                    "machines",
                    host.words(), error.what()));
  }
}

}  // namespace foxscope::agent
