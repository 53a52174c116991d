#include "backend/model/layer/torch/prediction_torch.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "backend/base/index.h"
#include "backend/model/layer/chunk_sizes.h"
#include "backend/model/layer/torch/composed_steps_torch.h"
#include "backend/model/layer/torch/recording_torch.h"

namespace foxscope {
namespace {

/// log p of the tokens behind all rows of a pass, [rows, V], which come to the host together when one is asked for.
class NextRows {
 public:
  explicit NextRows(at::Tensor next) : next_(std::move(next)) {}

  [[nodiscard]] std::span<const float> row(std::int64_t row) const {
    const std::scoped_lock lock(mutex_);
    if (!next_.is_cpu()) next_ = next_.to(at::kCPU);
    return {next_.const_data_ptr<float>() + row * next_.size(1), static_cast<std::size_t>(next_.size(1))};
  }

 private:
  mutable std::mutex mutex_;
  mutable at::Tensor next_;
};

class TorchNextToken final : public NextToken {
 public:
  TorchNextToken(std::shared_ptr<const NextRows> rows, std::int64_t row, std::int32_t likeliest)
      : rows_(std::move(rows)), row_(row), likeliest_(likeliest) {}

  [[nodiscard]] std::span<const float> log_probabilities() const override { return rows_->row(row_); }
  [[nodiscard]] std::int32_t likeliest() const override { return likeliest_; }

 private:
  std::shared_ptr<const NextRows> rows_;
  std::int64_t row_;
  std::int32_t likeliest_;
};

/// Scores a block of rows.
/// @param logits  [rows, V] float32; those of the likeliest tokens are changed
void score_block(std::span<const Forward::ScoredRow> scored, int top, const at::Tensor& logits) {
  std::vector<std::int64_t> labels;
  for (const Forward::ScoredRow& row : scored) labels.push_back(std::max<std::int64_t>(row.label, 0));
  const at::Tensor wanted = at::tensor(at::ArrayRef<std::int64_t>(labels), at::kLong).to(logits.device()).unsqueeze(1);
  const at::Tensor normalizer = at::logsumexp(logits, {1}, /*keepdim=*/true).to(at::kDouble);
  const auto log_probability = [&](const at::Tensor& ids) {
    return (logits.gather(1, ids).to(at::kDouble) - normalizer).to(at::kFloat);
  };
  const at::Tensor of_label = log_probability(wanted).to(at::kCPU);
  at::Tensor entropy;
  at::Tensor rank;
  if (!scored.empty() && scored.front().distribution) {
    const at::Tensor log_p = (logits.to(at::kDouble) - normalizer).clamp_min(std::numeric_limits<double>::lowest());
    entropy = -(log_p.exp() * log_p).sum(1).to(at::kFloat).to(at::kCPU).contiguous();
    const at::Tensor of_label_logit = logits.gather(1, wanted);
    const at::Tensor lower = at::arange(logits.size(1), wanted.options()).unsqueeze(0) < wanted;
    rank = ((logits > of_label_logit) | ((logits == of_label_logit) & lower)).sum(1).to(at::kCPU).contiguous();
  }
  at::Tensor marked;
  if (!scored.empty() && !scored.front().marked.empty()) {
    std::vector<std::int64_t> ids;
    for (std::size_t id = 0; id < scored.front().marked.size(); ++id) {
      if (scored.front().marked[id] != 0) ids.push_back(static_cast<std::int64_t>(id));
    }
    const at::Tensor of = at::tensor(at::ArrayRef<std::int64_t>(ids), at::kLong).to(logits.device());
    const at::Tensor sums = at::logsumexp(logits.index_select(1, of).to(at::kDouble), {1}, /*keepdim=*/true);
    marked = (sums - normalizer).to(at::kFloat).to(at::kCPU).contiguous();
  }
  // One after the other: argmax gives the first of equals, which topk does not promise.
  std::vector<at::Tensor> best_ids;
  std::vector<at::Tensor> best;
  for (int n = 0; n < std::max(top, 1); ++n) {
    const at::Tensor ids = logits.argmax(1, /*keepdim=*/true);
    best.push_back(log_probability(ids));
    best_ids.push_back(ids);
    if (n + 1 < top) logits.scatter_(1, ids, -std::numeric_limits<float>::infinity());
  }
  const at::Tensor top_ids = at::cat(best_ids, 1).to(at::kCPU).contiguous();  // [rows, max(k, 1)]
  const at::Tensor tops = at::cat(best, 1).to(at::kCPU).contiguous();
  for (std::size_t row = 0; row < scored.size(); ++row) {
    ScoredPosition& score = *scored[row].score;
    const std::int64_t* const ids =
        top_ids.const_data_ptr<std::int64_t>() + row * static_cast<std::size_t>(tops.size(1));
    const float* const numbers = tops.const_data_ptr<float>() + row * static_cast<std::size_t>(tops.size(1));
    if (scored[row].label >= 0) {
      score.log_probability = of_label.const_data_ptr<float>()[row];
      score.greedy = scored[row].label == ids[0];
    }
    if (entropy.defined()) {
      score.entropy = entropy.const_data_ptr<float>()[row];
      if (scored[row].label >= 0) score.rank = rank.const_data_ptr<std::int64_t>()[row] + 1;
    }
    if (marked.defined()) score.marked_log_probability = marked.const_data_ptr<float>()[row];
    for (int n = 0; n < top; ++n) score.top.push_back({static_cast<std::int32_t>(ids[n]), numbers[n]});
  }
}

}  // namespace

at::Tensor final_norm_of(const TorchPass& pass, std::int64_t first_row) {
  const TorchWeights& weights = pass.weights();
  return pass.norm(pass.residual.slice(0, first_row), weights.final_norm, weights.final_norm_bias).to(weights.matrix);
}

at::Tensor logits_of(const TorchWeights& weights, const at::Tensor& normed) {
  const at::Tensor head = weights.padded_head.slice(0, 0, weights.config.vocabulary_size);
  at::Tensor logits = composed_steps::linear_to_float(normed, head);
  if (weights.config.logit_factor != 1) logits.mul_(weights.config.logit_factor);
  return composed_steps::capped(logits, weights.config.logit_cap);
}

bool record_predictions(TorchPass& pass, const at::Tensor& normed, const MakeLogits& make_logits) {
  const std::int64_t rows = pass.rows();
  const std::int64_t most = rows_of_block(kTorchLogitElements, pass.config().vocabulary_size, rows);
  const at::Tensor wanted = pass.put(pass.input().labels).to(at::kLong);
  const at::Tensor loss = at::empty({rows}, pass.weights().options(at::kFloat));
  const bool whole = for_blocks(rows, most, pass.job(), [&](std::int64_t begin, std::int64_t end) {
    const at::Tensor logits = make_logits(normed.slice(0, begin, end));
    const at::Tensor of_label = logits.gather(1, wanted.slice(0, begin, end).unsqueeze(1)).squeeze(1);
    loss.slice(0, begin, end).copy_(at::logsumexp(logits, {1}) - of_label);
    record_logits(pass, begin, logits);
  });
  if (whole) record_losses(pass, loss);
  return whole;
}

NextTokens next_tokens(const at::Tensor& logits) {
  const at::Tensor next = at::log_softmax(logits.to(at::kDouble), 1).to(at::kFloat);
  const at::Tensor likeliest = next.argmax(1).to(at::kCPU);
  const auto rows = std::make_shared<const NextRows>(next);
  NextTokens tokens;
  for (std::int64_t row = 0; row < next.size(0); ++row) {
    const auto id = static_cast<std::int32_t>(likeliest.const_data_ptr<std::int64_t>()[row]);
    tokens.push_back(std::make_shared<const TorchNextToken>(rows, row, id));
  }
  return tokens;
}

bool score_rows(const at::Tensor& normed, const MakeLogits& make_logits, std::int64_t vocabulary,
                std::span<const Forward::ScoredRow> scored, int top, const Job& job) {
  std::vector<std::int64_t> indices;
  for (const Forward::ScoredRow& row : scored) indices.push_back(row.row);
  const at::Tensor rows =
      normed.index_select(0, at::tensor(at::ArrayRef<std::int64_t>(indices), at::kLong).to(normed.device()));
  const auto count = static_cast<std::int64_t>(scored.size());
  const std::int64_t most = rows_of_block(kTorchLogitElements, vocabulary, count);
  return for_blocks(count, most, job, [&](std::int64_t begin, std::int64_t end) {
    score_block(scored.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)), top,
                make_logits(rows.slice(0, begin, end)));
  });
}

}  // namespace foxscope
