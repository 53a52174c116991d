#pragma once

namespace foxscope {

/// The steps of a layer that mix positions, in the order in which Forward takes them. Each kind of mixer has one class
/// a device, which owns what the steps hand to each other; a forward pass has one object a kind, and its layers share
/// it. Every step computes all B n rows of the pass.
class MixerSteps {
 public:
  virtual ~MixerSteps() = default;

  /// Makes from norm(x) what the later steps take: queries, keys, values, logits of gates, the output's gate.
  /// @returns false if the job was stopped
  virtual bool project(int layer) = 0;
  /// Sums log gates (or log decays) over positions, as the probes change them.
  /// @throws Error naming layer, head and position of a gate that is not a number
  virtual void sum_gates(int layer) = 0;
  /// Mixes positions, y_i = sum over j <= i of M_ij v_j; takes the new positions up into the states.
  /// @returns false if the job was stopped
  virtual bool attend(int layer) = 0;
  /// x += W_o of the output, normed and gated, without the heads that a probe cuts.
  /// @returns false if the job was stopped
  virtual bool project_output(int layer) = 0;
};

}  // namespace foxscope
