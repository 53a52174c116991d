#include "kernels/cpu/path_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/pooled_map.h"
#include "kernels/executor.h"

namespace foxscope::kernels::cpu {
namespace {

struct PathShape {
  std::int64_t batch, heads, key_heads, length, head_dim;
  bool gated;
};

/// Arguments with random operands, and directions of length 1 with beta within 0 and 2.
struct PathProblem {
  explicit PathProblem(const PathShape& s) : shape(s) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::int64_t count) {
      std::vector<float> values(static_cast<std::size_t>(count));
      for (float& number : values) number = normal(random);
      return values;
    };
    const std::int64_t rows = s.batch * s.key_heads * s.length;
    query = fill(s.batch * s.heads * s.length * s.head_dim);
    key = fill(rows * s.head_dim);
    value = fill(rows * s.head_dim);
    read = fill(rows * s.head_dim);
    write.resize(read.size());
    for (std::int64_t row = 0; row < rows; ++row) {
      float sum = 0;
      for (std::int64_t n = 0; n < s.head_dim; ++n) sum += e(row, n) * e(row, n);
      const float beta = 2 / (1 + std::exp(-2 * normal(random)));
      for (std::int64_t n = 0; n < s.head_dim; ++n) {
        e(row, n) /= std::sqrt(sum);
        write[static_cast<std::size_t>(row * s.head_dim + n)] = -beta * e(row, n);
      }
    }
    double c = 0;
    for (std::int64_t n = 0; s.gated && n < s.batch * s.heads * s.length; ++n) {
      if (n % s.length == 0) c = 0;
      gate.push_back(c -= 0.05 * std::abs(static_cast<double>(normal(random))));
    }
    output.assign(query.size(), std::numeric_limits<float>::quiet_NaN());
    normalizer.assign(static_cast<std::size_t>(s.batch * s.heads * s.length), std::numeric_limits<float>::quiet_NaN());
    without_gate = normalizer;
  }

  float& e(std::int64_t row, std::int64_t n) { return read[static_cast<std::size_t>(row * shape.head_dim + n)]; }

  ForgettingAttention arguments() {
    const PathShape& s = shape;
    ForgettingAttention a;
    a.batch = s.batch;
    a.heads = s.heads;
    a.key_heads = s.key_heads;
    a.length = s.length;
    a.head_dim = s.head_dim;
    a.query = query.data();
    a.key = key.data();
    a.value = value.data();
    a.query_strides = {s.heads * s.length * s.head_dim, s.length * s.head_dim, s.head_dim};
    a.key_strides = a.value_strides = {s.key_heads * s.length * s.head_dim, s.length * s.head_dim, s.head_dim};
    if (s.gated) a.cumulative_log_gate = gate.data();
    a.output = output.data();
    a.output_strides = {s.length * s.heads * s.head_dim, s.head_dim, s.heads * s.head_dim};
    a.log_normalizer = normalizer.data();
    a.log_normalizer_without_gate = without_gate.data();
    a.scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
    return a;
  }

  PathShape shape;
  std::vector<float> query, key, value, read, write, output, normalizer, without_gate;
  std::vector<double> gate;
};

/// One head in float64, key by key.
struct PathReference {
  PathReference(const PathProblem& p, std::int64_t of_query, std::int64_t of_key) {
    const std::int64_t length = p.shape.length;
    const std::int64_t dim = p.shape.head_dim;
    const auto number = [dim](const std::vector<float>& rows, std::int64_t row, std::int64_t n) {
      return static_cast<double>(rows[static_cast<std::size_t>(row * dim + n)]);
    };
    for (std::int64_t i = 0; i < length; ++i) {
      std::vector<double> r, out(static_cast<std::size_t>(dim));
      for (std::int64_t n = 0; n < dim; ++n) r.push_back(number(p.query, of_query * length + i, n));
      double sum = 0;
      double plain = 0;
      for (std::int64_t j = i; j >= 0; --j) {
        const std::int64_t row = of_key * length + j;
        double product = 0;
        double erased = 0;
        for (std::int64_t n = 0; n < dim; ++n) {
          product += r[static_cast<std::size_t>(n)] * number(p.key, row, n);
          erased += r[static_cast<std::size_t>(n)] * number(p.write, row, n);
        }
        const auto at = [&](std::int64_t position) {
          return p.gate.empty() ? 0.0 : p.gate[static_cast<std::size_t>(of_query * length + position)];
        };
        const double logit = product / std::sqrt(static_cast<double>(dim));
        const double weight = std::exp(logit + at(i) - at(j));
        plain += std::exp(logit);
        sum += weight;
        for (std::int64_t n = 0; n < dim; ++n) {
          out[static_cast<std::size_t>(n)] += weight * number(p.value, row, n);
          r[static_cast<std::size_t>(n)] += erased * number(p.read, row, n);
        }
      }
      for (double& value : out) value /= sum;
      output.insert(output.end(), out.begin(), out.end());
      normalizer.push_back(std::log(sum));
      without_gate.push_back(std::log(plain));
    }
  }
  std::vector<double> output, normalizer, without_gate;
};

TEST(PathAttention, IsTheRecurrenceFromKeyToKey) {
  const PathShape shapes[] = {{2, 4, 2, 150, 24, true},
                              {1, 3, 1, 64, 16, false},
                              {1, 2, 2, 65, 17, true},
                              {1, 1, 1, 300, 8, true},
                              {1, 1, 1, 1, 4, false}};
  ThreadPool pool(2);
  for (const PathShape& s : shapes) {
    PathProblem problem(s);
    ASSERT_EQ(path_attention(problem.arguments(), problem.read.data(), problem.write.data(), pool, {}, nullptr),
              Status::ok);
    for (std::int64_t head = 0; head < s.batch * s.heads; ++head) {
      const PathReference wanted(problem, head, head / (s.heads / s.key_heads));
      for (std::int64_t i = 0; i < s.length; ++i) {
        const auto row = static_cast<std::size_t>(head * s.length + i);
        const auto at = static_cast<std::size_t>(i);
        ASSERT_NEAR(static_cast<double>(problem.normalizer[row]), wanted.normalizer[at], 5e-6);
        ASSERT_NEAR(static_cast<double>(problem.without_gate[row]), wanted.without_gate[at], 5e-6);
        for (std::int64_t n = 0; n < s.head_dim; ++n) {
          const std::int64_t out = ((head / s.heads * s.length + i) * s.heads + head % s.heads) * s.head_dim + n;
          ASSERT_NEAR(static_cast<double>(problem.output[static_cast<std::size_t>(out)]),
                      wanted.output[static_cast<std::size_t>(i * s.head_dim + n)], 5e-6)
              << s.length << " " << head << " " << i;
        }
      }
    }
  }
}

TEST(PathAttention, WhatAGateForgetsIsSkipped) {
  ThreadPool pool(2);
  PathProblem problem({1, 2, 1, 700, 16, true});
  for (double& c : problem.gate) c *= 20;
  ForgettingAttention a = problem.arguments();
  a.log_normalizer_without_gate = nullptr;
  const auto run = [&](double tolerance) {
    AttentionBlocks blocks;
    a.pruning_tolerance = tolerance;
    EXPECT_EQ(path_attention(a, problem.read.data(), problem.write.data(), pool, {}, &blocks), Status::ok);
    EXPECT_EQ(blocks.total, 2 * 11 * 12 / 2);
    return blocks.skipped;
  };
  const std::int64_t exactly = run(0);
  const std::vector<float> wanted = problem.output;
  EXPECT_GT(run(0x1p-24), exactly);
  EXPECT_GT(exactly, 0);
  for (std::size_t n = 0; n < wanted.size(); ++n) ASSERT_NEAR(problem.output[n], wanted[n], 1e-6F);
  const PathReference reference(problem, 1, 0);
  for (std::int64_t n = 0; n < 700 * 16; ++n) {
    ASSERT_NEAR(static_cast<double>(wanted[static_cast<std::size_t>((n / 16 * 2 + 1) * 16 + n % 16)]),
                reference.output[static_cast<std::size_t>(n)], 5e-6);
  }
}

// Strips of maps begin at any row, so that some of their rows start in one block and some in the next.
TEST(PathAttention, RowsThatBeginAnywhereMeetTheSameKeys) {
  constexpr std::int64_t kLength = 300;
  constexpr std::int64_t kDim = 16;
  PathProblem p({1, 1, 1, kLength, kDim, false});
  std::vector<float> at_end(p.key.size()), left(p.key.size()), near(static_cast<std::size_t>(kLength * kMapTile));
  const auto block_at = [&](std::int64_t first) {
    PathBlock block;
    block.size = std::min(kMapTile, kLength - first);
    block.depth = kDim;
    block.key = p.key.data() + first * kDim;
    block.write = p.write.data() + first * kDim;
    block.at_end = at_end.data() + first * kDim;
    block.left = left.data() + first * kDim;
    block.near = near.data() + first * kMapTile;
    return block;
  };
  for (std::int64_t first = 0; first < kLength; first += kMapTile) {
    prepare_path_block(block_at(first), p.read.data() + first * kDim, at_end.data() + first * kDim,
                       left.data() + first * kDim, near.data() + first * kMapTile);
  }
  std::vector<float> queries(kDim * kMapTile), rows(queries.size());
  std::vector<float> scratch(kMapTile * kMapTile), tile(scratch.size());
  for (const std::int64_t begin : {0, 37, 64, 200, 250, 299}) {
    const std::int64_t end = std::min(begin + kMapTile, kLength);
    pack_queries(p.query.data() + begin * kDim, end - begin, kDim, 1.0, queries.data());
    std::ranges::fill(rows, 0.0F);
    std::vector<std::vector<double>> r;
    for (std::int64_t row = begin; row < end; ++row) {
      r.emplace_back(p.query.begin() + row * kDim, p.query.begin() + (row + 1) * kDim);
    }
    for (std::int64_t first = (end - 1) / kMapTile * kMapTile; first >= 0; first -= kMapTile) {
      const PathBlock block = block_at(first);
      meet_path_block(block, begin - first, queries.data(), rows.data(), scratch.data(), tile.data());
      for (std::int64_t key = block.size - 1; key >= 0; --key) {
        for (std::int64_t row = std::max(begin, first + key); row < end; ++row) {
          std::vector<double>& own = r[static_cast<std::size_t>(row - begin)];
          double product = 0;
          double erased = 0;
          for (std::int64_t n = 0; n < kDim; ++n) {
            product += own[static_cast<std::size_t>(n)] * static_cast<double>(block.key[key * kDim + n]);
            erased += own[static_cast<std::size_t>(n)] * static_cast<double>(block.write[key * kDim + n]);
          }
          ASSERT_NEAR(static_cast<double>(tile[static_cast<std::size_t>(key * kMapTile + row - begin)]), product, 2e-5)
              << row << " " << first + key;
          for (std::int64_t n = 0; n < kDim; ++n) {
            own[static_cast<std::size_t>(n)] +=
                erased * static_cast<double>(p.read[static_cast<std::size_t>((first + key) * kDim + n)]);
          }
        }
      }
    }
  }
}

TEST(PathAttention, KeysArePassedOnToTheEnd) {
  ThreadPool pool(2);
  const PathShape s{1, 2, 2, 200, 20, false};
  PathProblem problem(s);
  std::vector<float> passed(problem.key.size(), std::numeric_limits<float>::quiet_NaN());
  ASSERT_EQ(pass_path_keys(s.key_heads, s.length, s.head_dim, problem.key.data(), problem.read.data(),
                           problem.write.data(), pool, {}, passed.data()),
            Status::ok);
  const auto at = [&](const std::vector<float>& rows, std::int64_t row, std::int64_t n) {
    return static_cast<double>(rows[static_cast<std::size_t>(row * s.head_dim + n)]);
  };
  for (std::int64_t row = 0; row < s.key_heads * s.length; ++row) {
    std::vector<double> key;
    for (std::int64_t n = 0; n < s.head_dim; ++n) key.push_back(at(problem.key, row, n));
    for (std::int64_t later = row + 1; later % s.length != 0; ++later) {
      double product = 0;
      for (std::int64_t n = 0; n < s.head_dim; ++n)
        product += key[static_cast<std::size_t>(n)] * at(problem.read, later, n);
      for (std::int64_t n = 0; n < s.head_dim; ++n)
        key[static_cast<std::size_t>(n)] += product * at(problem.write, later, n);
    }
    for (std::int64_t n = 0; n < s.head_dim; ++n) {
      ASSERT_NEAR(at(passed, row, n), key[static_cast<std::size_t>(n)], 1e-5) << row;
    }
  }
}

TEST(PathAttention, RefusesWhatItDoesNotComputeAndStops) {
  ThreadPool pool(1);
  PathProblem problem({1, 2, 1, 70, 8, false});
  const auto status = [&](auto change) {
    ForgettingAttention a = problem.arguments();
    change(a);
    return path_attention(a, problem.read.data(), problem.write.data(), pool, {}, nullptr);
  };
  EXPECT_EQ(status([](ForgettingAttention& a) { a.window_size = 5; }), Status::invalid_argument);
  EXPECT_EQ(status([](ForgettingAttention& a) { a.logit_cap = 5; }), Status::invalid_argument);
  EXPECT_EQ(status([](ForgettingAttention& a) { a.key_heads = 3; }), Status::invalid_argument);
  EXPECT_EQ(status([](ForgettingAttention& a) { a.query_strides.row = 9; }), Status::invalid_argument);
  EXPECT_EQ(status([](ForgettingAttention& a) { a.value = nullptr; }), Status::invalid_argument);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(
      path_attention(problem.arguments(), problem.read.data(), problem.write.data(), pool, stop.get_token(), nullptr),
      Status::cancelled);
}

}  // namespace
}  // namespace foxscope::kernels::cpu
