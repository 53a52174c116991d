#include "app/figure/quantity_text.h"

namespace foxscope::figure {

std::string quantityText(Quantity quantity) {
  switch (quantity) {
    case Quantity::forget:
      return "share retained *F*";
    case Quantity::log_forget:
      return "log *F* (nats)";
    case Quantity::logits:
      return "logit *q*·*k*/√*d* (nats)";
    case Quantity::attention:
      return "attention *A*";
    case Quantity::attention_without_gate:
      return "*A* without gate";
    case Quantity::gate_effect:
      return "*A* − *A* without gate";
    case Quantity::mixing:
      return "mixing *M*";
  }
  return "";
}

std::string quantitySymbol(Quantity quantity) {
  switch (quantity) {
    case Quantity::forget:
      return "*F*";
    case Quantity::log_forget:
      return "log *F*";
    case Quantity::logits:
      return "*q*·*k*/√*d*";
    case Quantity::attention:
      return "*A*";
    case Quantity::attention_without_gate:
      return "*A* without gate";
    case Quantity::gate_effect:
      return "*A* − *A* without gate";
    case Quantity::mixing:
      return "*M*";
  }
  return "";
}

}  // namespace foxscope::figure
