#include "backend/model/layer/torch/path_torch.h"

#include <algorithm>
#include <vector>

#include <ATen/ATen.h>

namespace foxscope {
namespace {

constexpr std::int64_t kKeys = PathBlocks::kKeys;

/// [N, L, d] as [N, blocks, 64, d] float32, with zeros behind the last position.
at::Tensor in_blocks(const at::Tensor& rows) {
  const std::int64_t missing = (kKeys - rows.size(1) % kKeys) % kKeys;
  return at::constant_pad_nd(rows.to(at::kFloat), {0, 0, 0, missing}).unflatten(1, {-1, kKeys});
}

}  // namespace

PathBlocks::PathBlocks(const at::Tensor& keys, const at::Tensor& erase_read, const at::Tensor& erase_write)
    : length(keys.size(1)), key(in_blocks(keys)), write(in_blocks(erase_write)) {
  const at::Tensor read = in_blocks(erase_read);
  // I - A, whose triangle is solved in float64.
  const at::Tensor triangle = at::eye(kKeys, key.options()) - at::matmul(read, write.mT()).tril(-1);
  const at::Tensor inverse = std::get<0>(at::linalg_inv_ex(triangle.to(at::kDouble))).to(at::kFloat);
  near = at::matmul(inverse, at::matmul(read, key.mT()).tril(-1));
  left = at::matmul(inverse, read);
  at_end = key + at::matmul(near.mT(), write);
}

at::Tensor PathBlocks::keys_at_end() const {
  at::Tensor passed = at_end.select(1, 0);
  for (std::int64_t block = 1; block < at_end.size(1); ++block) {
    const at::Tensor met = at::bmm(passed, left.select(1, block).mT());
    passed = at::cat({passed + at::bmm(met, write.select(1, block)), at_end.select(1, block)}, 1);
  }
  return passed.slice(1, 0, length);
}

PathProducts::PathProducts(const at::Tensor& query, const at::Tensor& key, const at::Tensor& erase_read,
                           const at::Tensor& erase_write)
    : blocks_(key, erase_read, erase_write) {
  const at::Tensor queries = in_blocks(query);
  const at::Tensor met = at::matmul(queries, blocks_.write.mT()).tril();
  own_ = at::matmul(queries, blocks_.key.mT()) + at::matmul(met, blocks_.near);
  start_ = (queries + at::matmul(met, blocks_.left)).flatten(1, 2);
}

void PathProducts::begin(std::int64_t begin, std::int64_t end) {
  first_ = begin;
  count_ = end - begin;
  rows_ = start_.slice(1, begin, end);
}

at::Tensor PathProducts::products(std::int64_t begin, std::int64_t end) {
  std::vector<at::Tensor> parts;
  const std::int64_t heads = rows_.size(0);
  for (std::int64_t block = (end - 1) / kKeys; block >= begin / kKeys; --block) {
    // Rows before the block do not see it, those in it have met it.
    const std::int64_t in_block = block * kKeys - first_;
    const std::int64_t behind = std::max<std::int64_t>(0, in_block + kKeys);
    const at::Tensor later = rows_.slice(1, std::min(behind, count_), count_);
    std::vector<at::Tensor> of_rows;
    if (in_block > 0) of_rows.push_back(at::zeros({heads, in_block, kKeys}, rows_.options()));
    if (in_block >= 0) of_rows.push_back(own_.select(1, block).slice(1, 0, std::min(kKeys, count_ - in_block)));
    if (later.size(1) > 0) {
      of_rows.push_back(at::bmm(later, blocks_.at_end.select(1, block).mT()));
      const at::Tensor met = at::bmm(later, blocks_.write.select(1, block).mT());
      const at::Tensor passed = later + at::bmm(met, blocks_.left.select(1, block));
      rows_ = behind == 0 ? passed : at::cat({rows_.slice(1, 0, behind), passed}, 1);
    }
    const at::Tensor whole = of_rows.size() == 1 ? of_rows.front() : at::cat(of_rows, 1);
    parts.push_back(whole.slice(2, 0, std::min(kKeys, end - block * kKeys)));
  }
  std::ranges::reverse(parts);
  return at::cat(parts, 2).contiguous();
}

}  // namespace foxscope
