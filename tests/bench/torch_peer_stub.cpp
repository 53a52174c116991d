// Stands in for torch_peer.cpp in a build without LibTorch.
#include "tests/bench/torch_peer.h"

namespace foxscope::bench {

Limits measure_limits() { return {}; }

double peer_attention_backward_seconds(const AttentionShape& /*shape*/, Peer /*peer*/) { return 0; }

double peer_attention_seconds(const AttentionShape& /*shape*/, Peer /*peer*/) { return 0; }

}  // namespace foxscope::bench
