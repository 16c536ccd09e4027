// A model and a session on it, for tests that need no more.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "gull/engine.h"

namespace gull::test {

struct Opened {
  std::shared_ptr<Model> model;
  std::unique_ptr<Session> session;
  /// Another conversation with the same model.
  std::unique_ptr<Session> another() const {
    auto made = Session::create(model);
    EXPECT_TRUE(made) << made.error().message;
    return made ? std::move(*made) : nullptr;
  }
  explicit operator bool() const { return session != nullptr; }
};

inline Opened open(const std::string& path, const LoadOptions& options) {
  Opened out;
  auto model = Model::load(path, options);
  EXPECT_TRUE(model) << model.error().message;
  if (!model) return out;
  out.model = *model;
  out.session = out.another();
  return out;
}

/// Float32 arithmetic, so that results can be compared closely.
inline LoadOptions float32(uint32_t context = 256) {
  LoadOptions options;
  options.precision = Precision::F32;
  options.context = context;
  return options;
}

}  // namespace gull::test
