// Any bytes as a recipe, and behind a 0xFF, which JSON does not hold, as the config.json beside it. What is read is
// written, and reads back as the same recipe.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "backend/base/error.h"
#include "backend/model/spec/model_config.h"
#include "backend/train/recipe.h"
#include "tests/fuzz/fuzz_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const FuzzFolder folder("recipe");
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(bytes.find('\xFF'), bytes.size());
  folder.write("config.json", bytes.substr(std::min(end + 1, bytes.size())));
  try {
    const foxscope::Recipe recipe = foxscope::read_recipe(folder.write("recipe.json", bytes.substr(0, end)), {});
    for (const std::int64_t step : {std::int64_t{1}, recipe.steps()}) {
      if (!std::isfinite(recipe.learning_rate(step))) std::abort();
    }
    const std::string text = foxscope::recipe_text(recipe);
    const foxscope::Recipe again = foxscope::read_recipe(folder.write("written.json", text), {});
    if (foxscope::recipe_text(again) != text) std::abort();
    if (!foxscope::has_identity(again, foxscope::recipe_identity(recipe))) std::abort();
    if (recipe.config.empty()) return 0;
    static_cast<void>(foxscope::ModelConfig::from_json(recipe.config, "config", foxscope::UnknownKeys::refused));
  } catch (const foxscope::Error&) {
    // What a user would be told.
  }
  return 0;
}
