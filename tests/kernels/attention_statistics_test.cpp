// Sums over a tile of attention on every instruction set, against the plain way in float64.
#include "kernels/cpu/attention_statistics.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/instruction_set.h"

namespace foxscope::kernels::testing {
namespace {

using cpu::kMapTile;

TEST(AttentionStatistics, SumsOfATileEqualFloat64) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform;
  for (const std::int64_t target : InstructionSet::available()) {
    const InstructionSet chosen(target);
    for (const std::int64_t key_count : {1, 17, 64}) {
      for (const std::int64_t own : {-64, -7, 0, 30, 64}) {
        std::vector<float> tile(static_cast<std::size_t>(kMapTile * kMapTile));
        for (float& entry : tile) entry = uniform(random) < 0.3F ? 0.0F : uniform(random);
        std::vector<std::int32_t> before(static_cast<std::size_t>(kMapTile));
        std::vector<std::int32_t> token(static_cast<std::size_t>(kMapTile));
        for (std::int32_t& id : before) id = static_cast<std::int32_t>(random() % 5);
        for (std::int32_t& id : token) id = static_cast<std::int32_t>(random() % 5);
        std::vector<double> row(static_cast<std::size_t>(kMapTile));
        std::vector<double> key(static_cast<std::size_t>(kMapTile));
        for (double& c : row) c = -1e5 - 100.0 * static_cast<double>(uniform(random));
        for (double& c : key) c = -1e5 + 100.0 * static_cast<double>(uniform(random));
        double repeated = 0;
        double decay = 0;
        double size = 0;
        for (std::int64_t n = 0; n < key_count; ++n) {
          for (std::int64_t lane = 0; lane < kMapTile; ++lane) {
            const auto entry = static_cast<double>(tile[static_cast<std::size_t>(n * kMapTile + lane)]);
            const auto k = static_cast<std::size_t>(n);
            const auto r = static_cast<std::size_t>(lane);
            if (token[r] == before[k] && lane != own + n) repeated += entry;
            decay += entry * (row[r] - key[k]);
            size += entry * std::abs(row[r] - key[k]);
          }
        }
        const float found = cpu::repeated_mass(tile.data(), key_count, before.data(), token.data(), own);
        EXPECT_NEAR(static_cast<double>(found), repeated, 1e-5 * (1 + repeated)) << hwy::TargetName(target) << own;
        EXPECT_NEAR(cpu::decay_mass(tile.data(), key_count, row.data(), key.data()), decay, 1e-13 * size)
            << hwy::TargetName(target);
      }
    }
  }
}

}  // namespace
}  // namespace foxscope::kernels::testing
