#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <QString>

#include "app/figure/colour_scale.h"
#include "backend/eval/atlas/atlas_reader.h"

namespace foxscope::gui::atlas {

/// One model of an open atlas.
struct AtlasModel {
  QString path;  ///< of the file, or its URL on another machine
  std::shared_ptr<const AtlasReader> reader;
  std::size_t index = 0;  ///< in reader->models()

  [[nodiscard]] const AtlasFacts& facts() const { return reader->models()[index]; }
  [[nodiscard]] QString name() const { return QString::fromStdString(facts().info.name); }
  bool operator==(const AtlasModel&) const = default;
};

/// A number that every head has: its name in the file, or "layer" and "head", which need none.
struct HeadNumbers {
  QString title;               ///< "decay time"
  QString unit;                ///< "tokens"; empty for shares and counts
  std::vector<double> values;  ///< [N] NaN where a head has none
  std::vector<double> errors;  ///< [N]; empty where the file has none
};

/// The names of all numbers that a model has, "layer" and "head" first.
std::vector<std::string> numberNames(const AtlasFacts& facts);
/// The words for a number of that name.
QString numberTitle(const std::string& name);
/// Nothing where the model has none of that name, or only NaN.
std::optional<HeadNumbers> numbersOf(const AtlasFacts& facts, const std::string& name);

/// "L2 H3"
QString headName(const AtlasFacts& facts, std::size_t place);
/// "2:3", as options name it.
std::string headWord(const AtlasFacts& facts, std::size_t place);
/// "paragraph end", for a class of tokens as the file names it.
QString classTitle(const std::string& name);
/// "strongest forgetting", for a kind of passages.
QString kindTitle(const std::string& name);
/// Whether its values are log f of their places.
bool isOfGate(const AtlasPassageKind& kind);
/// A token's text with visible blanks, or "⟨id⟩".
QString tokenTitle(const AtlasFacts& facts, std::int32_t id);
/// "1.23 ± 0.04"; the value alone where the error is not known.
QString withError(double value, double error);

}  // namespace foxscope::gui::atlas
