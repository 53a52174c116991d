#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/model/cpu_sequence_pass.h"
#include "backend/model/cpu_steps.h"

namespace foxscope {

/// Final norm, logits and loss of the rows [begin, end), one block of the vocabulary at a time.
void CpuSequencePass::predict(std::int64_t begin, std::int64_t end, CpuScratch& scratch) {
  const std::int64_t vocabulary = config_.vocabulary_size;
  const std::span<float> hidden =
      recorder_.keeps(Keep::hidden) ? recorder_.hidden_states(config_.layers, hidden_) : std::span<float>{};
  const std::span<float> kept_logits =
      recorder_.keeps(Keep::logits) ? recorder_.logits(vocabulary) : std::span<float>{};
  for (std::int64_t p = begin; p < end; ++p) {
    float* row = scratch.normed.data() + (p - begin) * hidden_;
    cpu_steps::rms_norm(residual_.data() + p * hidden_, weights_.final_norm.data(), hidden_,
                        static_cast<float>(config_.norm_epsilon), row);
    if (!hidden.empty()) std::copy(row, row + hidden_, hidden.data() + p * hidden_);
  }
  if (!recorder_.keeps(Keep::loss) && kept_logits.empty()) return;
  struct Row {
    float shift = -std::numeric_limits<float>::infinity();
    double sum = 0;
    float label_logit = 0;
  };
  assert(begin < end && end <= length_);
  assert(kept_logits.empty() || kept_logits.size() == floats(length_ * vocabulary));
  std::vector<Row> rows(floats(end - begin));
  for (std::int64_t first = 0; first < vocabulary; first += kVocabularyBlock) {
    const std::int64_t columns = std::min(kVocabularyBlock, vocabulary - first);
    float* out = kept_logits.empty() ? scratch.wide.data() : kept_logits.data() + begin * vocabulary + first;
    const std::int64_t stride = kept_logits.empty() ? columns : vocabulary;
    linear({.rows = end - begin,
            .columns = columns,
            .depth = hidden_,
            .in = scratch.normed.data(),
            .in_stride = hidden_,
            .weight = weights_.head() + first * hidden_,
            .out = out,
            .out_stride = stride});
    for (std::int64_t p = begin; p < end; ++p) {
      const float* logits = out + (p - begin) * stride;
      Row& row = rows[floats(p - begin)];
      const float shift = std::max(row.shift, cpu_steps::largest(logits, columns));
      row.sum = row.sum * std::exp(static_cast<double>(row.shift) - shift) +
                static_cast<double>(cpu_steps::sum_of_exponentials(logits, columns, shift));
      row.shift = shift;
      const std::int64_t label = labels_[p] - first;
      if (label >= 0 && label < columns) row.label_logit = logits[label];
    }
  }
  for (std::int64_t p = begin; p < end; ++p) {
    const Row& row = rows[floats(p - begin)];
    recorder_.per_token_loss()[floats(p)] = static_cast<float>(std::log(row.sum) + row.shift - row.label_logit);
  }
}

}  // namespace foxscope
