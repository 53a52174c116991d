#pragma once

#include <array>

#include "backend/map/statistics/head_statistics.h"

namespace foxscope {

/// A distance profile in short: the area under cumulative attention mass over log2(1 + distance), from distance 0 to 1,
/// and on from 1 in steps of a quarter of an octave up to 2^20 tokens.
struct ProfileSketch {
  static constexpr int kSteps = 81;
  std::array<double, kSteps> area{};  ///< octaves
};

ProfileSketch sketch(const DistanceProfile& profile);

/// How far the mass of one profile has to be moved to make the other, in octaves of distance (1 + tokens): the area
/// between their cumulative masses over log2(1 + distance), which is the earth mover's distance where the two do not
/// cross within a step of the sketch; differences of both signs within a step cancel. Symmetric, 0 for equal profiles.
/// Heads of two models that do the same are near each other, whatever their numbers.
double octaves_apart(const ProfileSketch& a, const ProfileSketch& b);

}  // namespace foxscope
