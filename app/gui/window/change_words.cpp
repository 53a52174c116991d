#include "app/gui/window/change_words.h"

#include <QCoreApplication>

namespace foxscope::gui {
namespace {

using Kind = Intervention::Kind;

QString trChange(const char* text) { return QCoreApplication::translate("foxscope::gui::ChangeWords", text); }

}  // namespace

QString nameOfChange(Intervention::Kind kind) {
  switch (kind) {
    case Kind::one:
      return trChange("never forgets: f = 1");
    case Kind::mean:
      return trChange("forgets evenly: f at its mean");
    case Kind::constant:
      return trChange("forgets evenly: f constant");
    case Kind::scale:
      return trChange("forgets faster or slower: log f scaled");
    case Kind::zero:
      return trChange("forgets everything once: f = 0 at a position");
    case Kind::cut:
      return trChange("is cut: its output is 0");
    case Kind::drop:
      return trChange("lacks an expert");
  }
  return {};
}

QString meaningOfChange(Intervention::Kind kind) {
  switch (kind) {
    case Kind::one:
      return trChange("Softmax attention without decay.");
    case Kind::mean:
      return trChange("The same forgetting on average, whatever is read: does the timing matter?");
    case Kind::constant:
      return trChange("F falls by the same factor from token to token, as ALiBi does.");
    case Kind::scale:
      return trChange("Below 1 memory becomes longer, above 1 shorter; 0 is no forgetting.");
    case Kind::zero:
      return trChange("Nothing before the position is seen from there on.");
    case Kind::cut:
      return trChange("What the head is worth: its output is left out before the output projection.");
    case Kind::drop:
      return trChange("What the expert is worth: its output is left out.");
  }
  return {};
}

}  // namespace foxscope::gui
