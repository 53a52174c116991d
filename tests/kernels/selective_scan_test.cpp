#include "kernels/cpu/selective_scan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <stop_token>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "kernels/executor.h"
#include "tests/kernels/instruction_set.h"

namespace foxscope::kernels::cpu {
namespace {

struct ScanProblem {
  ScanProblem(std::int64_t channel_count, std::int64_t positions, std::int64_t state_count, double largest_step = 0.3)
      : channels(channel_count), length(positions), states(state_count) {
    std::mt19937_64 random(7);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    const auto fill = [](std::int64_t count, auto make) {
      std::vector<float> values(static_cast<std::size_t>(count));
      for (float& number : values) number = static_cast<float>(make());
      return values;
    };
    input = fill(length * channels, [&] { return normal(random); });
    step = fill(length * channels, [&] { return largest_step * std::pow(10.0, -3 * uniform(random)); });
    decay_step = fill(length * channels, [&] { return largest_step * uniform(random); });
    rate = fill(states * channels, [&] { return 16 * uniform(random); });
    key = fill(length * states, [&] { return normal(random); });
    query = fill(length * states, [&] { return normal(random); });
    state = fill(channels * states, [&] { return normal(random); });
    output.resize(static_cast<std::size_t>(length * channels));
  }

  [[nodiscard]] SelectiveScan arguments() {
    SelectiveScan a;
    a.channels = channels;
    a.length = length;
    a.state_size = states;
    a.input = input.data();
    a.step = step.data();
    a.decay_step = own_decay_steps ? decay_step.data() : nullptr;
    a.rate = rate.data();
    a.key = key.data();
    a.query = query.data();
    a.state = state.data();
    a.output = output.data();
    a.output_stride = channels;
    return a;
  }

  /// The recurrence in float64; outputs against the largest sum of sizes that one is made of.
  void expect_recurrence() {
    const auto at = [](const std::vector<float>& values, std::int64_t n) {
      return static_cast<double>(values[index_of(n)]);
    };
    std::vector<double> held(state.begin(), state.end());
    ThreadPool pool(2);
    ASSERT_EQ(selective_scan(arguments(), pool, {}), Status::ok);
    const std::vector<float>& decays = own_decay_steps ? decay_step : step;
    for (std::int64_t h = 0; h < channels; ++h) {
      std::vector<double> wanted;
      double largest = 0;
      for (std::int64_t t = 0; t < length; ++t) {
        double y = 0;
        double size = 0;
        for (std::int64_t n = 0; n < states; ++n) {
          double& x = held[index_of(h * states + n)];
          x = std::exp(-at(decays, t * channels + h) * at(rate, n * channels + h)) * x +
              at(step, t * channels + h) * at(input, t * channels + h) * at(key, t * states + n);
          y += x * at(query, t * states + n);
          size += std::abs(x * at(query, t * states + n));
        }
        wanted.push_back(y);
        largest = std::max(largest, size);
      }
      for (std::int64_t t = 0; t < length; ++t) {
        ASSERT_NEAR(at(output, t * channels + h), wanted[index_of(t)], 2e-6 * largest + 1e-12)
            << "channel " << h << " position " << t;
      }
      for (std::int64_t n = 0; n < states; ++n) {
        const double x = held[index_of(h * states + n)];
        ASSERT_NEAR(at(state, h * states + n), x, 4e-6 * std::max(1.0, std::abs(x)))
            << "channel " << h << " state " << n;
      }
    }
  }

  std::int64_t channels, length, states;
  bool own_decay_steps = false;
  std::vector<float> input, step, decay_step, rate, key, query, state, output;
};

TEST(SelectiveScan, IsTheRecurrence) {
  for (const std::int64_t channels : {1, 17, 64, 65, 200}) {
    for (const std::int64_t length : {1, 5, 64, 131}) {
      for (const std::int64_t states : {1, 5, 16}) ScanProblem(channels, length, states).expect_recurrence();
    }
  }
}

TEST(SelectiveScan, StepsOfDecaysMayBeOthers) {
  ScanProblem problem(70, 100, 16);
  problem.own_decay_steps = true;
  problem.expect_recurrence();
}

TEST(SelectiveScan, StrongDecaysForget) { ScanProblem(40, 90, 16, 400.0).expect_recurrence(); }

/// Neither the channels beside one nor where a text is cut change a digit.
TEST(SelectiveScan, DigitsAreThoseOfAChannelAlone) {
  ScanProblem whole(90, 77, 16);
  const ScanProblem start = whole;
  ThreadPool pool(2);
  ASSERT_EQ(selective_scan(whole.arguments(), pool, {}), Status::ok);
  ScanProblem cut = start;
  for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 1}, {1, 30}, {30, 77}}) {
    SelectiveScan part = cut.arguments();
    part.length = end - begin;
    part.input += begin * cut.channels;
    part.step += begin * cut.channels;
    part.key += begin * cut.states;
    part.query += begin * cut.states;
    part.output += begin * cut.channels;
    ASSERT_EQ(selective_scan(part, pool, {}), Status::ok);
  }
  EXPECT_EQ(cut.output, whole.output);
  EXPECT_EQ(cut.state, whole.state);
  // The last channel, which lies beside others in no vector of the first 89.
  ScanProblem alone(1, 77, 16);
  const auto column = [&](const std::vector<float>& of, std::int64_t rows) {
    std::vector<float> values;
    for (std::int64_t row = 0; row < rows; ++row) values.push_back(of[index_of(row * 90 + 89)]);
    return values;
  };
  alone.input = column(start.input, 77);
  alone.step = column(start.step, 77);
  alone.rate = column(start.rate, 16);
  alone.key = start.key;
  alone.query = start.query;
  alone.state.assign(start.state.end() - 16, start.state.end());
  ASSERT_EQ(selective_scan(alone.arguments(), pool, {}), Status::ok);
  EXPECT_EQ(alone.output, column(whole.output, 77));
}

TEST(SelectiveScan, NotANumberStaysInItsChannel) {
  ScanProblem problem(20, 40, 8);
  problem.step[10 * 20 + 3] = std::nanf("");
  ThreadPool pool(1);
  ASSERT_EQ(selective_scan(problem.arguments(), pool, {}), Status::ok);
  for (std::int64_t t = 0; t < 40; ++t) {
    for (std::int64_t h = 0; h < 20; ++h) {
      EXPECT_EQ(std::isnan(problem.output[index_of(t * 20 + h)]), h == 3 && t >= 10) << t << " " << h;
    }
  }
}

TEST(SelectiveScan, StopsAndRefuses) {
  ScanProblem problem(20, 40, 8);
  ThreadPool pool(1);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(selective_scan(problem.arguments(), pool, stop.get_token()), Status::cancelled);
  for (const auto& spoil : std::vector<void (*)(SelectiveScan&)>{
           [](SelectiveScan& a) { a.channels = 0; }, [](SelectiveScan& a) { a.length = 0; },
           [](SelectiveScan& a) { a.state_size = 0; }, [](SelectiveScan& a) { a.output_stride = 19; },
           [](SelectiveScan& a) { a.step = nullptr; }, [](SelectiveScan& a) { a.state = nullptr; }}) {
    SelectiveScan arguments = problem.arguments();
    spoil(arguments);
    EXPECT_EQ(selective_scan(arguments, pool, {}), Status::invalid_argument);
  }
}

/// Everything that a scan reads, in float64, and a loss of what it gives.
struct ScanLoss {
  explicit ScanLoss(const ScanProblem& problem)
      : of(problem), parts{{"input", wide(problem.input)},
                           {"step", wide(problem.step)},
                           {"decay_step", wide(problem.decay_step)},
                           {"rate", wide(problem.rate)},
                           {"key", wide(problem.key)},
                           {"query", wide(problem.query)},
                           {"state", wide(problem.state)}} {
    std::mt19937_64 random(19);
    std::normal_distribution<float> normal;
    grad_output.resize(problem.output.size());
    grad_state.resize(problem.state.size());
    for (float& weight : grad_output) weight = normal(random);
    for (float& weight : grad_state) weight = normal(random);
  }
  static std::vector<double> wide(const std::vector<float>& values) { return {values.begin(), values.end()}; }

  [[nodiscard]] double value() const {
    const auto part = [&](std::size_t number, std::int64_t n) { return parts[number].second[index_of(n)]; };
    double loss = 0;
    for (std::int64_t h = 0; h < of.channels; ++h) {
      for (std::int64_t n = 0; n < of.states; ++n) {
        double x = part(6, h * of.states + n);
        for (std::int64_t t = 0; t < of.length; ++t) {
          const std::int64_t at = t * of.channels + h;
          x = std::exp(-part(2, at) * part(3, n * of.channels + h)) * x +
              part(1, at) * part(0, at) * part(4, t * of.states + n);
          loss += static_cast<double>(grad_output[index_of(at)]) * part(5, t * of.states + n) * x;
        }
        loss += static_cast<double>(grad_state[index_of(h * of.states + n)]) * x;
      }
    }
    return loss;
  }

  const ScanProblem& of;
  std::vector<std::pair<const char*, std::vector<double>>> parts;
  std::vector<float> grad_output, grad_state;
};

/// The gradients along random directions, against the slopes of the loss in float64.
TEST(SelectiveScanBackward, GradientsAreSlopes) {
  for (const auto& [channels, length, states] :
       {std::tuple<std::int64_t, std::int64_t, std::int64_t>{1, 1, 1}, {70, 131, 5}, {64, 64, 16}, {200, 17, 3}}) {
    ScanProblem problem(channels, length, states);
    problem.own_decay_steps = true;
    ScanLoss loss(problem);
    std::vector<float> input(problem.input.size()), decay_step(problem.input.size()), rate(problem.rate.size());
    std::vector<float> key(problem.key.size()), query(problem.query.size());
    std::vector<float> state = loss.grad_state;
    SelectiveScanGradients sought;
    sought.output = loss.grad_output.data();
    sought.state = state.data();
    sought.input = input.data();
    sought.decay_step = decay_step.data();
    sought.rate = rate.data();
    sought.key = key.data();
    sought.query = query.data();
    const std::vector<float> before = problem.state;
    ThreadPool pool(2);
    ASSERT_EQ(selective_scan_backward(problem.arguments(), sought, pool, {}), Status::ok);
    EXPECT_EQ(problem.state, before);
    std::vector<float> by_input = input, by_step = input;
    for (std::size_t n = 0; n < input.size(); ++n) {
      by_input[n] *= problem.step[n];
      by_step[n] *= problem.input[n];
    }
    std::mt19937_64 random(5);
    std::normal_distribution<double> normal;
    const std::vector<float>* const found[] = {&by_input, &by_step, &decay_step, &rate, &key, &query, &state};
    for (std::size_t part = 0; part < loss.parts.size(); ++part) {
      auto& [name, values] = loss.parts[part];
      ASSERT_EQ(values.size(), found[part]->size());
      const std::vector<double> there = values;
      std::vector<double> direction(values.size());
      double product = 0;
      double size = 0;
      for (std::size_t n = 0; n < values.size(); ++n) {
        direction[n] = normal(random);
        product += direction[n] * static_cast<double>((*found[part])[n]);
        size += std::pow(static_cast<double>((*found[part])[n]), 2);
      }
      const auto moved = [&](double step) {
        for (std::size_t n = 0; n < values.size(); ++n) values[n] = there[n] + step * direction[n];
        return loss.value();
      };
      const double slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
      values = there;
      EXPECT_NEAR(product, slope, 1e-4 * std::sqrt(size) + 1e-6) << name << " of " << channels << " channels";
    }
  }
}

TEST(SelectiveScanBackward, AnyNumberOfThreadsGivesTheSameBits) {
  ScanProblem problem(300, 150, 4);
  const ScanLoss loss(problem);
  std::vector<std::vector<float>> all;
  for (const int threads : {1, 3}) {
    std::vector<float> input(problem.input.size()), decay_step(problem.input.size()), rate(problem.rate.size());
    std::vector<float> key(problem.key.size()), query(problem.query.size()), state(problem.state.size());
    const SelectiveScanGradients sought{
        loss.grad_output.data(), state.data(), input.data(), decay_step.data(), rate.data(), key.data(), query.data()};
    ThreadPool pool(threads);
    ASSERT_EQ(selective_scan_backward(problem.arguments(), sought, pool, {}), Status::ok);
    for (const auto& part : {input, decay_step, rate, key, query, state}) all.push_back(part);
  }
  for (std::size_t part = 0; part < 6; ++part) EXPECT_EQ(all[part], all[part + 6]) << part;
  std::stop_source stop;
  stop.request_stop();
  ThreadPool pool(1);
  std::vector<float> unused(problem.input.size() + problem.rate.size());
  SelectiveScanGradients sought{loss.grad_output.data(), unused.data(), unused.data(), unused.data(),
                                unused.data(),           unused.data(), unused.data()};
  EXPECT_EQ(selective_scan_backward(problem.arguments(), sought, pool, stop.get_token()), Status::cancelled);
  sought.rate = nullptr;
  EXPECT_EQ(selective_scan_backward(problem.arguments(), sought, pool, {}), Status::invalid_argument);
}

TEST(SelectiveScan, AgreesOnEveryInstructionSet) {
  for (const std::int64_t target : testing::InstructionSet::available()) {
    const testing::InstructionSet chosen(target);
    SCOPED_TRACE(target);
    ScanProblem(37, 70, 16).expect_recurrence();
  }
}

}  // namespace
}  // namespace foxscope::kernels::cpu
