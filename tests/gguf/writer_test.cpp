// The writer and the reader against a file that gguf-py wrote (make_writer_case.py).
#include "gguf/writer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gguf/test_files.h"

using namespace gull;
using namespace gull::gguf;

namespace {

std::shared_ptr<File> open_case() {
  auto source = mapped_file_source(data_path("gguf_py.gguf"));   // its bytes can be viewed without a copy
  EXPECT_TRUE(source);
  auto file = File::open(std::move(*source));
  EXPECT_TRUE(file) << file.error().message;
  return file ? *file : nullptr;
}

}  // namespace

TEST(Reader, ValuesOfEveryKind) {
  const auto file = open_case();
  ASSERT_TRUE(file);
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->architecture(), "llama");
  EXPECT_EQ(file->get_uint("test.u8"), 200u);
  EXPECT_EQ(file->get_int("test.i8"), -100);
  EXPECT_EQ(file->get_uint("test.u16"), 60000u);
  EXPECT_EQ(file->get_int("test.i16"), -30000);
  EXPECT_EQ(file->get_uint("test.u32"), 4000000000u);
  EXPECT_EQ(file->get_int("test.i32"), -2000000000);
  EXPECT_EQ(file->get_float("test.f32"), static_cast<double>(0.1f));
  EXPECT_EQ(file->get_bool("test.yes"), true);
  EXPECT_EQ(file->get_bool("test.no"), false);
  ASSERT_TRUE(file->get_string("test.text"));
  EXPECT_EQ(*file->get_string("test.text"), "Grüße, 世界 🌍");
  EXPECT_EQ(*file->get_string("test.empty"), "");
  EXPECT_EQ(file->get_uint("test.u64"), UINT64_MAX);
  EXPECT_EQ(file->get_int("test.i64"), INT64_MIN);
  EXPECT_EQ(file->get_float("test.f64"), 0.1);
  // Signs and widths match where the number is in range, and nothing else does.
  EXPECT_EQ(file->get_int("test.u8"), 200);
  EXPECT_FALSE(file->get_int("test.u64"));
  EXPECT_FALSE(file->get_uint("test.i8"));
  EXPECT_FALSE(file->get_uint("test.f32"));
  EXPECT_FALSE(file->get_float("test.u8"));
  EXPECT_FALSE(file->get_uint("test.absent"));
  EXPECT_EQ(file->get_string("test.u8"), nullptr);
  EXPECT_EQ(file->metadata().front().first, "general.architecture");
}

TEST(Reader, ArraysOfEveryKind) {
  const auto file = open_case();
  ASSERT_TRUE(file);
  const auto array = [&](const char* key) -> const Array& {
    static const Array none;
    const Array* found = file->get_array(key);
    EXPECT_TRUE(found) << key;
    return found ? *found : none;
  };
  EXPECT_EQ(array("test.u8s").unsigneds, (std::vector<uint64_t>{0, 1, 255}));
  EXPECT_EQ(array("test.i8s").signeds, (std::vector<int64_t>{-128, 127}));
  EXPECT_EQ(array("test.u16s").unsigneds, (std::vector<uint64_t>{65535}));
  EXPECT_EQ(array("test.i16s").signeds, (std::vector<int64_t>{-32768}));
  EXPECT_EQ(array("test.u32s").unsigneds, (std::vector<uint64_t>{UINT32_MAX}));
  EXPECT_EQ(array("test.i32s").signeds, (std::vector<int64_t>{-1, 2, -3}));
  EXPECT_EQ(array("test.f32s").floats, (std::vector<double>{0.5, -1.5}));
  EXPECT_EQ(array("test.bools").bools, (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(array("test.texts").strings, (std::vector<std::string>{"a", "", "ü"}));
  EXPECT_EQ(array("test.u64s").unsigneds, (std::vector<uint64_t>{1ull << 63}));
  EXPECT_EQ(array("test.i64s").signeds, (std::vector<int64_t>{INT64_MIN}));
  EXPECT_EQ(array("test.f64s").floats, (std::vector<double>{0.1}));
  ASSERT_EQ(array("test.nested").nested.size(), 2u);
  EXPECT_EQ(array("test.nested").nested[0]->signeds, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(array("test.nested").nested[1]->signeds, (std::vector<int64_t>{3}));
  // Integers of either sign and any width through one accessor.
  EXPECT_EQ(array("test.u8s").integer(2), 255);
  EXPECT_EQ(array("test.i32s").integer(0), -1);
  EXPECT_FALSE(array("test.u64s").integer(0));
  EXPECT_FALSE(array("test.i32s").integer(3));
  EXPECT_FALSE(array("test.texts").integer(0));
}

TEST(Reader, Tensors) {
  const auto file = open_case();
  ASSERT_TRUE(file);
  ASSERT_EQ(file->tensors().size(), 7u);
  const TensorInfo* cube = file->tensor("f16.cube");
  ASSERT_TRUE(cube);
  EXPECT_EQ(cube->n_dims, 3u);
  EXPECT_EQ(cube->dims[0], 64u);
  EXPECT_EQ(cube->rows(), 4u);
  EXPECT_EQ(cube->row_bytes(), 128u);
  EXPECT_EQ(cube->offset % 64, 0u);
  EXPECT_EQ(file->tensor("absent"), nullptr);
  for (const char* name : {"f32", "f16.cube", "q4_0", "q8_0", "bf16"}) {
    const TensorInfo& tensor = *file->tensor(name);
    std::vector<float> weights(tensor.elements());
    ASSERT_TRUE(dequantize(tensor.type, file->view(tensor, 0, tensor.bytes), weights));
    for (size_t i = 0; i < weights.size(); ++i)
      EXPECT_NEAR(weights[i], (static_cast<float>(i) - 100) / 8, tensor.type == Type::Q4_0 ? 1.25 : 0.11) << name;
  }
  std::vector<std::byte> part(8), rest(5);
  const TensorInfo& ints = *file->tensor("i32");
  ASSERT_TRUE(file->read(ints, 4, part));
  EXPECT_EQ(part[0], std::byte{0xFE});
  EXPECT_FALSE(file->read(ints, 8, rest));
  EXPECT_TRUE(file->view(ints, 12, 1).empty());
}

TEST(Writer, SameBytesAsGgufPy) {
  const auto file = open_case();
  ASSERT_TRUE(file);
  Writer w;
  w.set("general.architecture", "llama").alignment(64);
  w.set("test.u8", uint8_t{200}).set("test.i8", int8_t{-100}).set("test.u16", uint16_t{60000}).set("test.i16", int16_t{-30000});
  w.set("test.u32", uint32_t{4000000000})
      .set("test.i32", int32_t{-2000000000})
      .set("test.f32", 0.1f)
      .set("test.yes", true)
      .set("test.no", false);
  w.set("test.text", "Grüße, 世界 🌍")
      .set("test.empty", std::string())
      .set("test.u64", UINT64_MAX)
      .set("test.i64", INT64_MIN)
      .set("test.f64", 0.1);
  w.set("test.u8s", std::vector<uint8_t>{0, 1, 255})
      .set("test.i8s", std::vector<int8_t>{-128, 127})
      .set("test.u16s", std::vector<uint16_t>{65535});
  w.set("test.i16s", std::vector<int16_t>{-32768})
      .set("test.u32s", std::vector<uint32_t>{UINT32_MAX})
      .set("test.i32s", std::vector<int32_t>{-1, 2, -3});
  w.set("test.f32s", std::vector<float>{0.5f, -1.5f})
      .set("test.bools", std::vector<bool>{true, false, true})
      .set("test.texts", std::vector<std::string>{"a", "", "ü"});
  w.set("test.u64s", std::vector<uint64_t>{1ull << 63})
      .set("test.i64s", std::vector<int64_t>{INT64_MIN})
      .set("test.f64s", std::vector<double>{0.1});
  w.set("test.nested", std::vector<std::vector<int32_t>>{{1, 2}, {3}});
  for (const TensorInfo& t : file->tensors()) w.tensor(t.name, t.type, {t.dims, t.dims + t.n_dims}, file->view(t, 0, t.bytes));
  const auto bytes = w.bytes();
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(*bytes, read_file(data_path("gguf_py.gguf")));
}

TEST(Writer, Refusals) {
  const std::vector<std::byte> data(32);
  EXPECT_FALSE(Writer().set("a", 1u).set("a", 2u).bytes());
  EXPECT_FALSE(Writer().tensor("t", Type::F32, {8}, data).tensor("t", Type::F32, {8}, data).bytes());
  EXPECT_FALSE(Writer().tensor("t", Type::F32, {9}, data).bytes());
  EXPECT_FALSE(Writer().tensor("t", Type::Q4_0, {8}, data).bytes());
  EXPECT_FALSE(Writer().tensor("t", Type::F32, {8, 1, 1, 1, 1}, data).bytes());
  EXPECT_FALSE(Writer().alignment(48).bytes());
  EXPECT_FALSE(Writer().save("/nonexistent-folder/x.gguf"));
}
