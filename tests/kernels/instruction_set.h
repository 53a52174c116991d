#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <hwy/targets.h>

namespace foxscope::kernels::testing {

/// Makes Highway's dynamic dispatch choose one instruction set while it lives.
class InstructionSet {
 public:
  explicit InstructionSet(std::int64_t target) { choose(target); }
  ~InstructionSet() { choose(0); }
  InstructionSet(const InstructionSet&) = delete;
  InstructionSet& operator=(const InstructionSet&) = delete;

  /// Those that the kernels are compiled for and this machine has, the plain fallback included.
  static std::vector<std::int64_t> available() {
    std::vector<std::int64_t> targets;
    for (const std::int64_t target : {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_NEON, HWY_SCALAR, HWY_EMU128}) {
      if ((hwy::SupportedTargets() & target) != 0) targets.push_back(target);
    }
    return targets;
  }

 private:
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

}  // namespace foxscope::kernels::testing
