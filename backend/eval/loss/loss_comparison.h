#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/base/range.h"
#include "backend/eval/loss/loss_change.h"
#include "backend/trace/run_origin.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// The positions of an octave, and the losses of two models there.
struct LossOctave {
  Range positions;
  double loss = 0;      ///< mean, nats per token
  double minus = 0;     ///< mean of the other model
  Estimate difference;  ///< loss - minus; the error as loss_change says, NaN below 256 positions
};

/// The losses of one model on a text less those of another, token by token.
struct LossComparison {
  Range positions;
  double loss = 0;                  ///< mean, nats per token
  double minus = 0;                 ///< mean of the other model
  LossChange difference;            ///< below 0: the model predicts better; its positions count from the text's start
  std::vector<LossOctave> octaves;  ///< 0 to 255, 256 to 511, 512 to 1023 and so on, where they meet `positions`
};

/// Why the losses of two runs are not compared token by token.
enum class TokensDiffer {
  texts,    ///< they read two texts
  lengths,  ///< one read more tokens of the text than the other
  tokens,   ///< they cut one text into different tokens, or read different lists of ids
};

/// @returns nothing where both predict the same tokens
std::optional<TokensDiffer> tokens_differ(const Trace& run, const Trace& minus);
/// Says why the losses of two runs are not compared, and what to do; the same in a command and in the window.
/// @param other_tokens  what to do where one text is cut into other tokens
std::string differ_text(TokensDiffer differ, const NamedTrace& run, const NamedTrace& minus,
                        const std::string& other_tokens);

/// The first position whose loss is not a finite number, as in a damaged file; nothing where all are.
std::optional<std::int64_t> first_unknown_loss(std::span<const float> losses);

/// Compares two models on one text: the mean of d_p = loss_p - minus_p with its error over blocks (loss_change), the
/// same by octave of position, and the tokens with the largest d_p on either side of 0. The first octave is all of
/// positions 0 to 255, since an error takes 256.
/// @param loss, minus  [L] nats, of equal tokens
/// @param positions  that count, of [0, L)
/// @param most  tokens in each of `difference.hurt` and `difference.helped`
/// @throws ShapeError for losses of different lengths, or none; UsageError for positions outside them, or none;
///         Error naming the position of a loss that is not a finite number
LossComparison compare_losses(std::span<const float> loss, std::span<const float> minus, const Range& positions,
                              std::size_t most = 10);

}  // namespace foxscope
