#pragma once

#include <filesystem>
#include <string>

#include "backend/eval/loss/loss_file.h"

namespace foxscope {

/// Reads the per-token losses that the authors' evaluation writes (forgetting-transformer,
/// eval/per_token_loss/run_per_token_loss.py): an .npz archive whose array `val/loss_per_token` is [L] float64, the
/// mean over all their sequences; [M, L] of one row a window is taken as well. Nothing is known of tokens and
/// documents: rows are documents of their own, and a mean has no errors.
/// @param name  of the model in the result
/// @throws Error naming the file and what is wrong: no zip archive, no such array, another shape or element, damaged,
///         a loss that is not a number
LossEvaluation import_losses(const std::filesystem::path& file, const std::string& name);

}  // namespace foxscope
