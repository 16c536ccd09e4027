// Embedding models: each token's vector and the pooled one, against transformers' (see the fixtures' README).
#include <gtest/gtest.h>

#include "engine/variants.h"
#include "gull/engine.h"
#include "support/fixtures.h"

namespace gull {
namespace {

class Embedding : public testing::TestWithParam<test::Case> {};

TEST_P(Embedding, TokensAndPooled) {
  const auto& c = GetParam().json;
  auto model = Model::load(GetParam().path("model"), GetParam().variant.options);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE((*model)->is_embedding_model());
  auto session = Session::create(*model);
  ASSERT_TRUE(session) << session.error().message;
  const auto ids = c["prompt"].get<std::vector<int32_t>>();
  const float tolerance = c[GetParam().variant.options.precision == Precision::Fast ? "tol_f16" : "tol_f32"].get<float>();

  auto tokens = (*session)->embed(ids, false, false);
  ASSERT_TRUE(tokens) << tokens.error().message;
  const auto expected = test::read_f32(GetParam().path("token_embeddings"));
  ASSERT_EQ(tokens->size(), expected.size());
  const float worst = test::max_difference(tokens->data(), expected.data(), expected.size());
  RecordProperty("max_difference", std::to_string(worst));
  EXPECT_LE(worst, tolerance);

  auto pooled = (*session)->embed(ids, true, false);
  ASSERT_TRUE(pooled) << pooled.error().message;
  const auto expected_pooled = test::read_f32(GetParam().path("pooled"));
  ASSERT_EQ(pooled->size(), expected_pooled.size());
  EXPECT_LE(test::max_difference(pooled->data(), expected_pooled.data(), expected_pooled.size()), tolerance);

  auto unit = (*session)->embed(ids);
  ASSERT_TRUE(unit) << unit.error().message;
  double length = 0;
  for (float v : *unit) length += double{v} * v;
  EXPECT_NEAR(length, 1.0, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(All, Embedding, testing::ValuesIn(test::cases("embedding")), test::case_name);

}  // namespace
}  // namespace gull
