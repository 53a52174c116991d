#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/agent/message.h"
#include "backend/agent/remote.h"

namespace foxscope::agent {

/// When a run on another machine is checked as a whole: at once beside what is asked of it, or once nothing is asked.
/// An error is then thrown by require_checked, or given to the listener of Remote as a line.
enum class LateCheck { at_once, when_idle };

/// Asks for a check that goes on while its run is used already.
/// @param request  throws what the other machine finds, as an Error
void check_late(const std::shared_ptr<Remote>& remote, LateCheck when,
                std::function<void(Remote& remote, const Job& job)> request);

/// Waits for the checks that were asked for at once. What is made of a run is put into its place after that.
/// @returns false if the job was stopped
/// @throws Error in the words of the first that failed
bool require_checked(const std::stop_token& stop);

/// Ends all checks that go on.
void end_late_checks();

}  // namespace foxscope::agent
