#include "tests/kernels/cuda_attention_problem.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>
#include <stdexcept>
#include <stop_token>

#include "kernels/cpu/forgetting_attention.h"
#include "kernels/executor.h"
#include "tests/kernels/cuda_support.h"
#include "tests/largest_error.h"

namespace foxscope::kernels::testing {
namespace {

constexpr std::int64_t kComparedRows = 24;
constexpr std::int64_t kNormals = 1 << 18;  // rows are random pieces of so many numbers

/// Numbers of one of four tensors: rows of different tensors have none in common.
const std::vector<float>& normals(std::uint64_t tensor) {
  static const std::array<std::vector<float>, 4> kAll = {normal_numbers(kNormals, 1), normal_numbers(kNormals, 2),
                                                         normal_numbers(kNormals, 3), normal_numbers(kNormals, 4)};
  return kAll[tensor];
}

double rounded(double x) { return widen(narrow(static_cast<float>(x))); }

double dot(const float* a, const float* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t x = 0; x < count; ++x) sum += static_cast<double>(a[x]) * static_cast<double>(b[x]);
  return sum;
}

}  // namespace

std::string describe(const CudaProblemOptions& o) {
  std::ostringstream text;
  text << "batch " << o.batch << " heads " << o.heads << '/' << o.key_heads << " length " << o.length << " d "
       << o.head_dim << " gate " << static_cast<int>(o.gate) << " window " << o.window_size << " norm " << o.row_norm
       << " padding " << o.padding << " type " << static_cast<int>(o.type);
  return text.str();
}

CudaProblem::CudaProblem(const CudaProblemOptions& options, std::uint64_t seed) : options_(options) {
  query_ = make_tensor(options.heads, options.row_norm, seed * 4);
  key_ = make_tensor(options.key_heads, options.row_norm, seed * 4 + 1);
  value_ = make_tensor(options.key_heads, 0, seed * 4 + 2);
  output_ = make_tensor(options.heads, 0, seed * 4 + 3);
  if (options.opposed) oppose();
  make_gates(seed);
  log_normalizer_.resize(index_of(options.batch * options.heads * options.length));
  log_normalizer_device_ = cuda::DeviceBuffer(log_normalizer_.size() * sizeof(float));
  blocks_device_ = cuda::DeviceBuffer(sizeof(cuda::AttentionBlocks));
  workspace_ = cuda::DeviceBuffer(cuda::workspace_bytes(arguments()));
}

CudaProblem::Tensor CudaProblem::make_tensor(std::int64_t heads, float norm, std::uint64_t seed) const {
  Tensor tensor;
  tensor.heads = heads;
  const std::int64_t d = options_.head_dim;
  const std::int64_t stride = d + options_.padding;
  const std::int64_t rows = options_.batch * options_.length * heads;
  tensor.host.assign(index_of(rows * stride), std::nanf(""));  // between the rows
  const bool low = options_.type == cuda::ElementType::bfloat16;
  std::mt19937_64 engine(seed);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = normals(seed % 4).data() + engine() % static_cast<std::uint64_t>(kNormals - d);
    double squares = 0;
    for (std::int64_t x = 0; x < d; ++x) squares += static_cast<double>(row[x] * row[x]);
    const float factor = norm > 0 ? norm / static_cast<float>(std::sqrt(squares / static_cast<double>(d))) : 1.0F;
    for (std::int64_t x = 0; x < d; ++x) {
      const float value = row[x] * factor;
      tensor.host[index_of(r * stride + x)] = low ? static_cast<float>(widen(narrow(value))) : value;
    }
  }
  upload(tensor);
  return tensor;
}

void CudaProblem::upload(Tensor& tensor) const {
  if (options_.type == cuda::ElementType::float32) {
    tensor.device = to_device(tensor.host);
    return;
  }
  std::vector<std::uint16_t> narrowed(tensor.host.size());
  std::transform(tensor.host.begin(), tensor.host.end(), narrowed.begin(), narrow);
  tensor.device = to_device(narrowed);
}

void CudaProblem::oppose() {
  const std::int64_t stride = options_.head_dim + options_.padding;
  const std::vector<float> row(query_.host.begin(), query_.host.begin() + options_.head_dim);
  for (Tensor* tensor : {&query_, &key_}) {
    for (std::int64_t r = 0; r < options_.batch * options_.length * tensor->heads; ++r) {
      const std::int64_t i = r / tensor->heads % options_.length;
      const bool opposite = tensor == &key_ && i > 127 && i != 255 && i != 383;
      for (std::int64_t x = 0; x < options_.head_dim; ++x) {
        tensor->host[index_of(r * stride + x)] = opposite ? -row[index_of(x)] : row[index_of(x)];
      }
    }
    upload(*tensor);
  }
}

void CudaProblem::make_gates(std::uint64_t seed) {
  if (options_.gate == CudaGate::none) return;
  std::mt19937_64 engine(seed + 77);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  const auto step = [&](double logit, std::int64_t position) {
    switch (options_.gate) {
      case CudaGate::near_zero:
        return -5.0;
      case CudaGate::zero:
        return -1000.0;
      case CudaGate::cuts:
        return uniform(engine) < 0.02 ? -1000.0 : -0.001;
      case CudaGate::late_cuts:
        return position % 128 < 64 ? -0.001 : -1000.0;
      case CudaGate::steady:
        return -1.6;
      case CudaGate::slow:
        return -0.31;
      case CudaGate::mixed:
      case CudaGate::far_offset:
        return -std::log1p(std::exp(-logit - normal(engine)));
      default:
        return 0.0;
    }
  };
  for (std::int64_t row = 0; row < options_.batch * options_.heads; ++row) {
    const double share =
        options_.heads > 1 ? static_cast<double>(row % options_.heads) / static_cast<double>(options_.heads - 1) : 0.5;
    const double decay_time = 8 * std::pow(1024.0, share);
    const double logit = -std::log(std::expm1(1 / decay_time));
    double c = options_.gate == CudaGate::far_offset ? -1e8 : 0;
    for (std::int64_t i = 0; i < options_.length; ++i) gate_.push_back(c += step(logit, i));
  }
  gate_device_ = to_device(gate_);
}

cuda::AttentionStrides CudaProblem::strides(std::int64_t heads) const {
  const std::int64_t stride = options_.head_dim + options_.padding;
  return {options_.length * heads * stride, stride, heads * stride};
}

const float* CudaProblem::row(const Tensor& tensor, std::int64_t b, std::int64_t h, std::int64_t i) const {
  const cuda::AttentionStrides s = strides(tensor.heads);
  return tensor.host.data() + b * s.batch + h * s.head + i * s.row;
}

cuda::ForgettingAttention CudaProblem::arguments() const {
  cuda::ForgettingAttention a;
  a.batch = options_.batch;
  a.heads = options_.heads;
  a.key_heads = options_.key_heads;
  a.length = options_.length;
  a.head_dim = options_.head_dim;
  a.query = query_.device.data();
  a.query_strides = strides(options_.heads);
  a.key = key_.device.data();
  a.value = value_.device.data();
  a.key_strides = a.value_strides = strides(options_.key_heads);
  a.cumulative_log_gate = static_cast<const double*>(gate_device_.data());
  a.output = output_.device.data();
  a.output_strides = a.query_strides;
  a.log_normalizer = static_cast<float*>(log_normalizer_device_.data());
  a.scale = 1 / std::sqrt(static_cast<float>(options_.head_dim));
  a.window_size = options_.window_size;
  a.pruning_tolerance = options_.pruning_tolerance;
  a.blocks = static_cast<cuda::AttentionBlocks*>(blocks_device_.data());
  a.workspace = workspace_.data();
  return a;
}

Status CudaProblem::start(cuda::AttentionKernel kernel) const {
  if (options_.type == cuda::ElementType::float32) return cuda::forgetting_attention_float32(arguments(), nullptr);
  return cuda::forgetting_attention(arguments(), nullptr, kernel);
}

bool CudaProblem::download_output() {
  if (options_.type == cuda::ElementType::float32) {
    return output_.device.download(std::as_writable_bytes(std::span(output_.host)));
  }
  std::vector<std::uint16_t> narrowed(output_.host.size());
  if (!output_.device.download(std::as_writable_bytes(std::span(narrowed)))) return false;
  std::transform(narrowed.begin(), narrowed.end(), output_.host.begin(),
                 [](std::uint16_t x) { return static_cast<float>(widen(x)); });
  return true;
}

Status CudaProblem::run(cuda::AttentionKernel kernel) {
  bool good = output_.device.fill(0xff) && log_normalizer_device_.fill(0xff) && blocks_device_.fill(0xff) &&
              workspace_.fill(0xff);
  const Status status = start(kernel);
  good = cuda::synchronize() && good && download_output() &&
         log_normalizer_device_.download(std::as_writable_bytes(std::span(log_normalizer_)));
  return status == Status::ok && !good ? Status::failed : status;
}

cuda::AttentionBlocks CudaProblem::blocks() const {
  cuda::AttentionBlocks result;
  if (!blocks_device_.download(std::as_writable_bytes(std::span(&result, 1))))
    throw std::runtime_error("download failed");
  return result;
}

CudaProblem::Errors CudaProblem::compare() const {
  const std::int64_t length = options_.length;
  std::vector<std::int64_t> rows;
  if (length <= 100) {
    for (std::int64_t i = 0; i < length; ++i) rows.push_back(i);
  } else {
    std::mt19937_64 engine(static_cast<std::uint64_t>(length));
    rows = {0, 63, 64, std::min<std::int64_t>(192, length - 1), length - 1};
    while (std::ssize(rows) < kComparedRows)
      rows.push_back(static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(length)));
  }
  const std::int64_t count = std::ssize(rows);
  std::vector<RowErrors> of_rows(index_of(options_.batch * options_.heads * count));
  all_cores().run(std::ssize(of_rows), [&](std::int64_t task, int) {
    of_rows[index_of(task)] = compare_row(task / count, rows[index_of(task % count)]);
  });
  std::vector<std::int64_t> not_finite(index_of(options_.batch * options_.heads));
  all_cores().run(std::ssize(not_finite), [&](std::int64_t flat, int) {
    for (std::int64_t i = 0; i < length; ++i) {
      const float* out = row(output_, flat / options_.heads, flat % options_.heads, i);
      not_finite[index_of(flat)] +=
          std::count_if(out, out + options_.head_dim, [](float x) { return !std::isfinite(x); });
      if (!std::isfinite(log_normalizer_[index_of(flat * length + i)])) ++not_finite[index_of(flat)];
    }
  });
  RowErrors sum;
  for (const RowErrors& of_row : of_rows) {
    sum.error += of_row.error;
    sum.composed += of_row.composed;
    sum.squares += of_row.squares;
    sum.log_normalizer = test::largest_error(sum.log_normalizer, of_row.log_normalizer);
  }
  return {std::sqrt(sum.error / sum.squares), std::sqrt(sum.composed / sum.squares), sum.log_normalizer,
          std::accumulate(not_finite.begin(), not_finite.end(), std::int64_t{0})};
}

CudaProblem::RowErrors CudaProblem::compare_row(std::int64_t flat, std::int64_t i) const {
  const std::int64_t d = options_.head_dim;
  const std::int64_t b = flat / options_.heads;
  const std::int64_t h = flat % options_.heads;
  const std::int64_t key_head = h / (options_.heads / options_.key_heads);
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const double* gate = gate_.empty() ? nullptr : gate_.data() + flat * options_.length;
  std::vector<double> weights(index_of(i + 1));
  std::vector<double> low(index_of(i + 1));
  const std::int64_t first = options_.window_size > 0 ? std::max<std::int64_t>(0, i - options_.window_size + 1) : 0;
  double largest = -std::numeric_limits<double>::infinity();
  double low_largest = largest;
  for (std::int64_t j = first; j <= i; ++j) {
    const double product = dot(row(query_, b, h, i), row(key_, b, key_head, j), d);
    const double fall = gate == nullptr ? 0 : gate[i] - gate[j];
    weights[index_of(j)] = product * scale + fall;
    low[index_of(j)] = rounded(product) * scale + fall;
    largest = std::max(largest, weights[index_of(j)]);
    low_largest = std::max(low_largest, low[index_of(j)]);
  }
  double sum = 0;
  double low_sum = 0;
  for (std::int64_t j = first; j <= i; ++j) {
    sum += weights[index_of(j)] = std::exp(weights[index_of(j)] - largest);
    low_sum += low[index_of(j)] = std::exp(low[index_of(j)] - low_largest);
  }
  std::vector<double> out(index_of(d));
  std::vector<double> low_out(index_of(d));
  for (std::int64_t j = first; j <= i; ++j) {
    const float* v = row(value_, b, key_head, j);
    const double weight = weights[index_of(j)] / sum;
    const double low_weight = rounded(low[index_of(j)] / low_sum);
    for (std::int64_t x = 0; x < d; ++x) {
      out[index_of(x)] += weight * static_cast<double>(v[x]);
      low_out[index_of(x)] += low_weight * static_cast<double>(v[x]);
    }
  }
  RowErrors errors;
  const float* result = row(output_, b, h, i);
  for (std::int64_t x = 0; x < d; ++x) {
    errors.error += std::pow(static_cast<double>(result[x]) - out[index_of(x)], 2);
    errors.composed += std::pow(rounded(low_out[index_of(x)]) - out[index_of(x)], 2);
    errors.squares += out[index_of(x)] * out[index_of(x)];
  }
  const auto log_normalizer = static_cast<double>(log_normalizer_[index_of(flat * options_.length + i)]);
  errors.log_normalizer = log_normalizer - (largest + std::log(sum));
  return errors;
}

CudaProblem::OnSelf CudaProblem::on_self() const {
  OnSelf result{0, std::numeric_limits<double>::infinity()};
  const double scale = 1 / std::sqrt(static_cast<double>(options_.head_dim));
  for (std::int64_t flat = 0; flat < options_.batch * options_.heads; ++flat) {
    const std::int64_t b = flat / options_.heads;
    const std::int64_t h = flat % options_.heads;
    for (std::int64_t i = 0; i < options_.length; ++i) {
      const float* key = row(key_, b, h / (options_.heads / options_.key_heads), i);
      const double logit = dot(row(query_, b, h, i), key, options_.head_dim) * scale;
      const double share = std::exp(logit - static_cast<double>(log_normalizer_[index_of(flat * options_.length + i)]));
      result = {std::max(result.largest, share), std::min(result.smallest, share)};
    }
  }
  return result;
}

CudaProblem::Errors CudaProblem::compare_with_cpu() const {
  const cuda::ForgettingAttention on_device = arguments();
  const auto strides_of = [](const cuda::AttentionStrides& s) { return cpu::AttentionStrides{s.batch, s.head, s.row}; };
  cpu::ForgettingAttention a;
  a.batch = options_.batch;
  a.heads = options_.heads;
  a.key_heads = options_.key_heads;
  a.length = options_.length;
  a.head_dim = options_.head_dim;
  a.query = query_.host.data();
  a.key = key_.host.data();
  a.value = value_.host.data();
  a.query_strides = a.output_strides = strides_of(on_device.query_strides);
  a.key_strides = a.value_strides = strides_of(on_device.key_strides);
  a.cumulative_log_gate = gate_.empty() ? nullptr : gate_.data();
  std::vector<float> output(output_.host.size());
  std::vector<float> log_normalizer(log_normalizer_.size());
  a.output = output.data();
  a.log_normalizer = log_normalizer.data();
  a.scale = on_device.scale;
  a.window_size = options_.window_size;
  ThreadPool pool;
  if (cpu::forgetting_attention(a, pool, {}, nullptr) != Status::ok) throw std::runtime_error("refused by the CPU");
  Errors errors;
  double error = 0;
  double squares = 0;
  for (std::size_t i = 0; i < output.size(); ++i) {
    if (i % index_of(options_.head_dim + options_.padding) >= index_of(options_.head_dim)) continue;
    error += std::pow(static_cast<double>(output_.host[i]) - static_cast<double>(output[i]), 2);
    squares += std::pow(static_cast<double>(output[i]), 2);
  }
  errors.output = std::sqrt(error / squares);
  for (std::size_t i = 0; i < log_normalizer.size(); ++i) {
    const auto difference = static_cast<double>(log_normalizer_[i]) - static_cast<double>(log_normalizer[i]);
    errors.log_normalizer = test::largest_error(errors.log_normalizer, difference);
  }
  return errors;
}

}  // namespace foxscope::kernels::testing
