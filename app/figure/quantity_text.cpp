#include "app/figure/quantity_text.h"

#include <fmt/format.h>

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

std::string channelText(const MapRequest& request) {
  const bool ofDecay = request.quantity == Quantity::forget || request.quantity == Quantity::log_forget;
  const LayerMixer mixer = request.head.trace->info().mixer(request.head.layer);
  if (!ofDecay || !mixer.decays_by_channel()) return {};
  if (request.channel) return fmt::format("channel {} of {}", *request.channel, mixer.head_dim);
  return fmt::format("mean over {} channels", mixer.head_dim);
}

}  // namespace foxscope::figure
