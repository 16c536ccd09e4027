// The GPU that the tests of this room share.
#pragma once

#include <gtest/gtest.h>

#include "gpu/device.h"

namespace gull::dispatch {

inline std::shared_ptr<gpu::Device> device() {
  static const std::shared_ptr<gpu::Device> opened = [] {
    auto result = gpu::Device::open({});
    EXPECT_TRUE(result) << result.error().message;
    return result.value_or(nullptr);
  }();
  return opened;
}

}  // namespace gull::dispatch
