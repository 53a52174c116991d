#pragma once

#include <string>
#include <vector>

#include "backend/agent/agent.h"

namespace foxscope {

/// The lines and files that were added to a training's folder, as they travel.
struct TrainingNews {
  std::string recipe;          ///< recipe.json
  bool steps_anew = false;     ///< the log of steps is not the one that was known: what comes is from its beginning
  std::string steps;           ///< whole lines
  bool measures_anew = false;  ///< likewise
  std::string measures;
  bool more = false;                     ///< there are further lines
  std::vector<std::string> checkpoints;  ///< names of their folders
  bool running = false;                  ///< a process trains there
};

template <typename Visit>
void fields(Visit& visit, TrainingNews& news) {
  visit("recipe", news.recipe);
  visit("steps_anew", news.steps_anew);
  visit("steps", news.steps);
  visit("measures_anew", news.measures_anew);
  visit("measures", news.measures);
  visit("more", news.more);
  visit("checkpoints", news.checkpoints);
  visit("running", news.running);
}

/// Lets an agent answer "training": what a folder has behind the places up to which its logs are known.
void add_training_answers(agent::Agent& agent);

}  // namespace foxscope
