#include "backend/train/checkpoint_answers.h"

#include <memory>

#include "backend/agent/fields.h"
#include "backend/agent/file_answers.h"
#include "backend/model/weights/checkpoint.h"
#include "backend/model/weights/weight_checksums.h"

namespace foxscope {

void add_checkpoint_answers(agent::Agent& agent) {
  const auto checksums = std::make_shared<WeightChecksums>();
  agent.answers("weights", [checksums](const agent::Asked& asked) -> std::optional<agent::Message> {
    const std::string folder = agent::local_path(agent::take<std::string>(asked.request, "path"));
    auto checksum = checksums->of(Checkpoint::open(folder), asked.job);
    if (!checksum) return std::nullopt;
    agent::Message answer;
    agent::put(answer, "answer", std::move(*checksum));
    return answer;
  });
}

}  // namespace foxscope
