#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/model/weights/checkpoint.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// Known facts, line by line: a name and a value. Values come from files and may hold anything.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// A checkpoint: the paper's name for it, parameters and their types, every option of its layers, tokenizer, weight
/// files, and what was noted while it was read.
Facts checkpointFacts(const Checkpoint& checkpoint);
/// Types of the weights, "float32", "bfloat16, float32".
std::string dtypesOf(const Checkpoint& checkpoint);
/// The tokenizer's files; empty where there is none.
std::string tokenizerOf(const Checkpoint& checkpoint);

/// A model and its run: layers, heads, gate, tokens, mean loss with perplexity, what was kept, where and how it was
/// computed, what was changed, the weights' SHA-256.
Facts runFacts(const Trace& trace);
/// The words of --keep whose parts are there.
std::vector<std::string> keptWords(const Trace& trace);
/// The mean; nothing where no losses were kept.
std::optional<double> meanOf(std::span<const float> losses);
/// A run's text: its size and SHA-256.
std::string textFact(const Text* text);

}  // namespace foxscope
