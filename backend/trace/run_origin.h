#pragma once

#include <string>

#include "backend/trace/trace.h"

namespace foxscope {

/// Who made a run: this program with a model, foxscope.record in Python, where the model is not known, or another
/// program, whose arrays are read as they are.
enum class RunOrigin { program, recorded, other };
/// @returns program where nothing says otherwise
RunOrigin origin_of(const TraceInfo& info);
/// Whether a layer has no heads because a recorded run did not see its calls. Of other runs it is an MLP or experts.
bool is_unrecorded(const TraceInfo& info, int layer);

/// Says how a run gets what it did not keep, by who made it: "run again with 'qk' in --keep"; of a recorded run what to
/// do in Python, or that nothing can be done without its model.
/// @param options  of the command that keeps it, "--keep loss,gates,saliency"; empty: "'qk' in --keep"
std::string keep_remedy(const TraceInfo& info, Keep lacking, const std::string& options = {});
/// The same of losses.
std::string losses_remedy(const TraceInfo& info);

/// A run, and its name where people read of it.
struct NamedTrace {
  const Trace& run;
  std::string name;
};

/// The reason why two runs read different tokens, where one begins with a token that the other does not have: "fox
/// begins with BOS (token 0), which mine does not read"; empty where this is not the reason.
std::string one_token_more(const NamedTrace& a, const NamedTrace& b);
/// Says what makes two runs read the same tokens, by who made them: `run_again`, or what to record.
std::string same_text_remedy(const NamedTrace& a, const NamedTrace& b,
                             const std::string& run_again = "run both on one text");

}  // namespace foxscope
