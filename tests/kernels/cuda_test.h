#pragma once

#include <gtest/gtest.h>

#include "kernels/cuda/device.h"

namespace foxscope::kernels::testing {

/// Tests that need a GPU: skipped by name where there is none.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::is_available()) GTEST_SKIP() << "no CUDA device, or a build without CUDA";
  }
};

}  // namespace foxscope::kernels::testing
