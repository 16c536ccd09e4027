// What the reader makes of files that are broken, hostile, split, large or something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "gguf/allocations.h"
#include "gguf/chunk_source.h"
#include "gguf/test_files.h"
#include "gguf/writer.h"
#include "gull/gguf.h"

using namespace gull;
using namespace gull::gguf;

namespace {

/// An error must be one line that names the file, and must not have cost memory.
void expect_clear(const std::string& name, const Error& error, const std::string& part) {
  EXPECT_TRUE(error.message.starts_with(name + ": ")) << error.message;
  EXPECT_NE(error.message.find(part), std::string::npos) << error.message << "\n  should contain: " << part;
  EXPECT_EQ(error.message.find('\n'), std::string::npos);
  EXPECT_LT(error.message.size(), name.size() + 400);
}

void expect_refused(std::vector<std::byte> bytes, const std::string& part) {
  const uint64_t size = bytes.size();
  for (bool chunked : {false, true}) {
    std::shared_ptr<ByteSource> source = memory_source("x.gguf", bytes);
    if (chunked) source = std::make_shared<ChunkSource>("x.gguf", bytes);
    allocations::reset();
    const auto file = File::open(std::move(source));
    EXPECT_LE(allocations::largest, std::max<size_t>(4096, 4 * size)) << "a large allocation for " << size << " bytes";
    ASSERT_FALSE(file) << part;
    expect_clear("x.gguf", file.error(), part);
  }
}

std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> out(text.size());
  if (!text.empty()) std::memcpy(out.data(), text.data(), text.size());
  return out;
}

/// A file by hand, for what the writer refuses to write.
struct Raw {
  std::vector<std::byte> out = bytes_of("GGUF");
  Raw(uint64_t tensors, uint64_t pairs) { u32(3), u64(tensors), u64(pairs); }
  Raw& add(const auto& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    out.insert(out.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Raw& u8(uint8_t v) { return add(v); }
  Raw& u32(uint32_t v) { return add(v); }
  Raw& u64(uint64_t v) { return add(v); }
  Raw& text(std::string_view v) {
    u64(v.size());
    for (char c : v) u8(static_cast<uint8_t>(c));
    return *this;
  }
  Raw& tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
    text(name).u32(static_cast<uint32_t>(dims.size()));
    for (uint64_t d : dims) u64(d);
    return u32(type).u64(offset);
  }
  Raw& zeros(size_t n) {
    out.resize(out.size() + n);
    return *this;
  }
};

std::vector<std::byte> whole(const Writer& writer) {
  auto bytes = writer.bytes();
  EXPECT_TRUE(bytes);
  return *bytes;
}

}  // namespace

TEST(Malformed, Fixtures) {
  const std::pair<const char*, const char*> cases[] = {
      {"alignment-0", "general.alignment is 0; it must be a power of two, at most 16777216 (byte 69)"},
      {"alignment-3", "general.alignment is 3"},
      {"array-len-2e62",
       "the metadata value 'a' claims 4611686018427387904 elements, but only 0 bytes are left in the file (byte 41)"},
      {"bad-magic", "is a GGML file from before GGUF: convert the model again with a current converter (byte 0)"},
      {"big-endian-version", "is a big-endian GGUF file; gull reads little-endian ones: convert its byte order first (byte 4)"},
      {"dup-key", "the metadata key 'general.architecture' occurs twice (byte 69)"},
      {"empty", "is empty: fetch it again (byte 0)"},
      {"html-error-page", "is an HTML or XML page, not a GGUF file"},
      {"kv-count-2e63", "claims 9223372036854775808 metadata entries, more than its 24 bytes can hold (byte 16)"},
      {"split-part-2-only", "is part 2 of 3 of a split model, and parts 1, 3 are missing"},
      {"string-len-2e63",
       "the key of metadata entry 1 of 1 claims 9223372036854775808 bytes, but only 1 are left in the file (byte 24)"},
      {"tensor-data-past-eof",
       "is truncated: tensor 't' needs 67108864 bytes, but the file ends at byte 192: fetch it again (byte 128)"},
      {"tensor-dim-overflow", "tensor 't' has more elements than 64 bits can count (byte 90)"},
      {"tensor-ndims-5", "tensor 't' has 5 dimensions; at most 4 are allowed (byte 78)"},
      {"tensor-offset-unaligned", "tensor 't' starts at offset 4, which is no multiple of the alignment 32 (byte 94)"},
      {"tensor-row-not-multiple-of-block",
       "tensor 't' has rows of 33 elements, which is no multiple of the 32 in a Q4_0 block (byte 90)"},
      {"tensor-unknown-type-99", "tensor 't' has type 99, which gull does not know (byte 90)"},
      {"unknown-kv-type", "the metadata value 'a' has the value type 77, which GGUF does not know (byte 33)"},
      {"version1", "has GGUF version 1, which is no longer read: convert the model again (byte 4)"},
      {"version99", "has GGUF version 99; gull reads versions 2 and 3 (byte 4)"},
  };
  size_t seen = 0;
  for (const auto& [name, part] : cases) {
    SCOPED_TRACE(name);
    const std::string path = data_path(std::string("malformed/") + name + ".gguf");
    allocations::reset();
    const auto file = File::open_path(path);
    EXPECT_LT(allocations::largest, 8192u);
    ASSERT_FALSE(file);
    expect_clear(path, file.error(), part);
    expect_clear("x.gguf", File::open(std::make_shared<ChunkSource>("x.gguf", read_file(path))).error(), part);
    ++seen;
  }
  // The two whose header is fine: what is wrong with them only the model loader can say.
  for (const char* name : {"no-arch", "unsupported-arch"}) {
    EXPECT_TRUE(File::open_path(data_path(std::string("malformed/") + name + ".gguf")));
    ++seen;
  }
  EXPECT_EQ(seen, static_cast<size_t>(std::distance(std::filesystem::directory_iterator(data_path("malformed")), {})))
      << "a fixture without a case";
}

TEST(Malformed, OtherKindsOfFile) {
  expect_refused(bytes_of("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 1\n"),
                 "is a Git LFS pointer, not the model itself");
  expect_refused(bytes_of("\r\n <!doctype html>"), "is an HTML or XML page");
  expect_refused(bytes_of("{\"error\":\"not found\"}"), "is JSON text");
  expect_refused(bytes_of(std::string_view("PK\x03\x04 archive", 12)), "is a ZIP archive");
  expect_refused(bytes_of(std::string_view("\x1f\x8b\x08\x00", 4)), "is compressed");
  expect_refused(bytes_of(std::string_view("\x10\0\0\0\0\0\0\0{\"a\":1}        ", 24)), "is a safetensors file");
  expect_refused(bytes_of("FUGG"), "is a byte-swapped GGUF file");
  expect_refused(std::vector<std::byte>(100), "begins with zeros");
  expect_refused(bytes_of("no model"), "begins with 6e 6f 20 6d instead of 'GGUF'");
  expect_refused(bytes_of("GG"), "begins with 47 47 instead of 'GGUF'");
  expect_refused(bytes_of("GGUF"), "is truncated: the version at byte 4 needs 4 bytes, but the file ends at byte 4");
}

TEST(Malformed, Metadata) {
  expect_refused(Raw(0, 1).text("").u32(4).u32(1).out, "the key of metadata entry 1 is empty (byte 24)");
  expect_refused(Raw(0, 1).text("b").u32(7).u8(2).out,
                 "the metadata value 'b' is a boolean of 2: only 0 and 1 are valid (byte 37)");
  expect_refused(Raw(0, 1).text("a").u32(9).u32(13).u64(0).out, "is an array of type 13, which GGUF does not know (byte 37)");
  expect_refused(Raw(0, 1).text("a").u32(9).u32(7).u64(2).u8(1).u8(3).out, "is a boolean of 3");
  expect_refused(Raw(0, 1).text("a").u32(8).u64(~0ull).out, "claims 18446744073709551615 bytes");
  // Arrays that hold arrays that hold arrays …
  Raw deep(0, 1);
  deep.text("a").u32(9);
  for (int i = 0; i < 1000; ++i) deep.u32(9).u64(1);
  expect_refused(deep.out, "nests arrays more than 4 deep (byte 85)");
  // 43 bytes: an array of 2^61 arrays.
  expect_refused(Raw(0, 1).text("xy").u32(9).u32(9).u8(0).out, "is truncated");
  expect_refused(Raw(0, 1).text("general.alignment").u32(4).u32(1u << 30).out,
                 "general.alignment is 1073741824; it must be a power of two, at most 16777216 (byte 24)");
  expect_refused(Raw(0, 1).text("general.alignment").u32(8).text("32").out, "general.alignment is not an unsigned number");
  // What names a message is cleaned: no line break, no terminal escape, no endless name.
  expect_refused(Raw(0, 1).text("line\nbreak\x1b[31m\xff").u32(77).out, "'line\\x0abreak\\x1b[31m\\xff'");
  expect_refused(Raw(0, 1).text(std::string(60000, 'k')).u32(77).out, fmt::format("'{}…'", std::string(80, 'k')));
}

TEST(Malformed, Tensors) {
  expect_refused(Raw(1ull << 60, 0).out, "claims 1152921504606846976 tensors, more than its 24 bytes can hold (byte 8)");
  expect_refused(Raw(2, 0).tensor("t", {8}, 0, 0).tensor("t", {8}, 0, 32).zeros(200).out,
                 "the tensor name 't' occurs twice (byte 57)");
  expect_refused(Raw(1, 0).tensor("", {8}, 0, 0).zeros(200).out, "the name of tensor 1 is empty (byte 24)");
  expect_refused(Raw(1, 0).tensor("t", {8, 0}, 0, 0).zeros(200).out, "tensor 't' has a dimension of 0 (byte 45)");
  expect_refused(Raw(1, 0).tensor("t", {1ull << 62, 2}, 0, 0).zeros(200).out, "has more elements than 64 bits can count");
  expect_refused(Raw(1, 0).tensor("t", {1ull << 62}, 28, 0).zeros(200).out, "has more bytes than 64 bits can count");
  expect_refused(Raw(1, 0).tensor("t", {8}, 0, ~0ull - 31).zeros(200).out, "is truncated: tensor 't' needs 32 bytes");
  expect_refused(Raw(1, 0).tensor("t", {8}, 4, 0).zeros(200).out, "tensor 't' has type 4, which gull does not know");
}

TEST(Malformed, EveryTruncationIsAnError) {
  const auto full = read_file(data_path("gguf_py.gguf"));
  const auto file = File::open(memory_source("x.gguf", full));
  ASSERT_TRUE(file);
  const TensorInfo& last = (*file)->tensors().back();
  for (size_t length = 0; length < full.size(); ++length) {
    const auto cut = File::open(memory_source("x.gguf", {full.begin(), full.begin() + static_cast<ptrdiff_t>(length)}));
    EXPECT_EQ(cut.has_value(), length >= last.offset + last.bytes) << length;   // only padding may be missing
    if (!cut) expect_clear("x.gguf", cut.error(), "byte ");
  }
}

TEST(Paths, WhatIsNotAFile) {
  EXPECT_EQ(File::open_path("/nonexistent/x.gguf").error().message, "/nonexistent/x.gguf: no such file");
  EXPECT_EQ(File::open_path("/nonexistent/x.gguf").error().kind, ErrorKind::NotFound);
  EXPECT_EQ(File::open_path(data_path("malformed")).error().message,
            data_path("malformed") + ": is a directory; name a .gguf file in it");
  EXPECT_EQ(File::open_path("/dev/zero").error().message, "/dev/zero: is not a regular file");
  EXPECT_EQ(File::open_path("").error().kind, ErrorKind::NotFound);
  EXPECT_FALSE(file_source(data_path("malformed")));
  EXPECT_FALSE(File::open(std::shared_ptr<ByteSource>()));
  EXPECT_FALSE(File::open(std::vector<std::shared_ptr<ByteSource>>()));
}

TEST(Sources, GiveTheSameBytesAndRefuseTheSame) {
  const std::string path = data_path("gguf_py.gguf");
  const auto bytes = read_file(path);
  for (auto source : {*mapped_file_source(path), *file_source(path), memory_source(path, bytes)}) {
    ASSERT_EQ(source->size(), bytes.size());
    std::vector<std::byte> part(100), none;
    ASSERT_TRUE(source->read(1000, part));
    EXPECT_TRUE(std::equal(part.begin(), part.end(), bytes.begin() + 1000));
    EXPECT_TRUE(source->read(bytes.size(), none));
    EXPECT_FALSE(source->read(bytes.size() + 1, none));
    EXPECT_FALSE(source->read(bytes.size() - 99, part));
    EXPECT_FALSE(source->read(~0ull, part));
    const auto view = source->view(1000, 100);
    EXPECT_TRUE(view.empty() || std::equal(view.begin(), view.end(), part.begin()));
    EXPECT_TRUE(source->view(bytes.size() - 99, 100).empty());
  }
}

namespace {

/// A file of its own, with this content.
struct OwnFile {
  std::string path = (std::filesystem::temp_directory_path() / fmt::format("gull-changing-{}.gguf", ::getpid())).string();
  explicit OwnFile(const std::vector<std::byte>& bytes) { write(bytes); }
  ~OwnFile() { std::filesystem::remove(path); }
  void write(const std::vector<std::byte>& bytes) const {
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
};

}  // namespace

TEST(Sources, AFileThatIsCutShortIsAnError) {
  const std::vector<std::byte> bytes(1 << 20, std::byte{5});
  const OwnFile file(bytes);
  for (const auto& open : {file_source, mapped_file_source}) {
    file.write(bytes);
    const auto source = open(file.path);
    ASSERT_TRUE(source);
    std::vector<std::byte> part(100000);
    ASSERT_TRUE((*source)->read(900000, part));
    std::filesystem::resize_file(file.path, 950000);
    const auto beyond = (*source)->read(900000, part);
    ASSERT_FALSE(beyond);
    EXPECT_EQ(beyond.error().message, file.path + ": was cut short to 950000 bytes while it was in use: load it again");
    const auto before = (*source)->read(0, part);
    ASSERT_FALSE(before) << "what is left may be another file's";
    EXPECT_EQ(before.error().message, file.path + ": was changed while it was in use: load it again");
  }
}

TEST(Sources, AFileThatIsWrittenToIsAnError) {
  std::vector<std::byte> bytes(1 << 20, std::byte{5});
  const OwnFile file(bytes);
  const auto source = file_source(file.path);
  ASSERT_TRUE(source);
  std::vector<std::byte> part(1000);
  ASSERT_TRUE((*source)->read(5000, part));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));   // file systems tell times to some milliseconds
  file.write(bytes);
  const auto after = (*source)->read(5000, part);
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().message, file.path + ": was changed while it was in use: load it again");
}

TEST(Sources, AModelThatIsReplacedStaysWhatItWas) {
  // A download that is renamed into place leaves the open file as it is.
  const OwnFile file(std::vector<std::byte>(5000, std::byte{5}));
  const auto source = file_source(file.path);
  ASSERT_TRUE(source);
  std::filesystem::remove(file.path);
  file.write(std::vector<std::byte>(100, std::byte{6}));
  std::vector<std::byte> part(1000);
  ASSERT_TRUE((*source)->read(4000, part));
  EXPECT_EQ(part[999], std::byte{5});
}

namespace {

/// Three parts of a split model as gguf-split makes them: tensors t0, t1, t2, and all metadata in the first.
std::vector<std::byte> part_of(uint16_t number, uint16_t count = 3, int32_t tensors = 3, const std::string& name = {}) {
  static const std::vector<std::byte> data(32, std::byte{7});
  Writer w;
  if (number == 0) w.set("general.architecture", "llama");
  w.set("split.no", number).set("split.count", count).set("split.tensors.count", tensors);
  w.tensor(name.empty() ? fmt::format("t{}", number) : name, Type::F32, {8}, data);
  return whole(w);
}

using Sources = std::vector<std::shared_ptr<ByteSource>>;

}  // namespace

TEST(Split, PartsInAnyOrder) {
  std::vector<int> order = {0, 1, 2};
  do {
    Sources sources;
    for (int i : order) sources.push_back(memory_source(fmt::format("p{}", i), part_of(static_cast<uint16_t>(i))));
    const auto file = File::open(sources);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ((*file)->architecture(), "llama");
    EXPECT_EQ((*file)->name(), "p0");
    ASSERT_EQ((*file)->tensors().size(), 3u);
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ((*file)->tensors()[i].name, fmt::format("t{}", i));
      EXPECT_EQ((*file)->tensors()[i].part, i);
      EXPECT_EQ((*file)->view((*file)->tensors()[i], 0, 4)[0], std::byte{7});
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Split, IncompleteOrMixed) {
  const auto open = [](std::initializer_list<std::pair<std::string, std::vector<std::byte>>> parts) {
    Sources sources;
    for (const auto& [name, bytes] : parts) sources.push_back(memory_source(name, bytes));
    const auto file = File::open(sources);
    return file ? std::string("opened") : file.error().message;
  };
  using testing::HasSubstr;
  EXPECT_EQ(
      open({{"a", part_of(0)}, {"c", part_of(2)}}),
      "a: is part 1 of 3 of a split model, and part 2 is missing: put all parts in one folder, named as they were published");
  EXPECT_EQ(open({{"m-00003-of-00003.gguf", part_of(2)}}),
            "m-00003-of-00003.gguf: is part 3 of 3 of a split model, and m-00001-of-00003.gguf, m-00002-of-00003.gguf are "
            "missing: put all parts in one folder, named as they were published");
  EXPECT_THAT(open({{"a", part_of(0, 65535)}}), testing::HasSubstr("parts 2, 3, 4, 5, … (65534 in all) are missing"));
  EXPECT_EQ(open({{"a", part_of(0)}, {"b", part_of(1)}, {"b2", part_of(1)}}), "b2: part 2 of 3 is given twice, also as b");
  EXPECT_EQ(open({{"a", part_of(0)}, {"b", part_of(1, 2)}}),
            "b: is of a model in 2 parts, but a is of one in 3: they do not belong together");
  EXPECT_EQ(open({{"a", part_of(0)}, {"b", part_of(5)}}), "b: says that its number, counted from 0, is 5 of 3 parts");
  EXPECT_EQ(open({{"a", part_of(0)}, {"b", part_of(1)}, {"c", part_of(2, 3, 4)}}),
            "c: says that the model has 4 tensors, but its parts hold 3");
  EXPECT_EQ(open({{"a", part_of(0)}, {"b", part_of(1)}, {"c", part_of(2, 3, 3, "t1")}}),
            "c: the tensor name 't1' occurs twice, also in b");
  EXPECT_EQ(open({{"a", whole(Writer())}, {"b", whole(Writer())}}),
            "a and b are no parts of one split model: the first is whole");
  EXPECT_EQ(open({{"a", whole(Writer().set("split.count", "many"))}}), "a: the metadata value 'split.count' is not a count");
  EXPECT_EQ(open({{"a", whole(Writer().set("split.count", 1u << 20))}}), "a: claims to be split into 1048576 parts");
}

TEST(Split, PathsFindTheirSiblings) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / fmt::format("gull-split-test-{}", ::getpid());
  fs::create_directories(folder);
  const auto path = [&](int i) { return (folder / fmt::format("model-{:05}-of-00003.gguf", i)).string(); };
  const auto save = [&](int i) {
    const auto bytes = part_of(static_cast<uint16_t>(i - 1));
    std::ofstream(path(i), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  };
  save(1), save(3);
  const auto missing = File::open_path(path(3));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, path(1) + ": is part 1 of 3 of a split model, and " + path(2) +
                                         " is missing: put all parts in one folder, named as they were published");
  save(2);
  for (int i : {1, 2, 3}) {
    const auto file = File::open_path(path(i));
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ((*file)->tensors().size(), 3u);
    EXPECT_EQ((*file)->name(), path(1));
  }
  const std::string shuffled[] = {path(2), path(3), path(1)};
  EXPECT_TRUE(File::open_paths(shuffled));
  fs::remove_all(folder);
}

// Some converters write token_type as bytes; the reader keeps it as integers like any other.
TEST(Oddities, TokenTypesAsBytes) {
  const auto file =
      File::open(memory_source("x", whole(Writer().set("tokenizer.ggml.token_type", std::vector<uint8_t>{1, 3, 6}))));
  ASSERT_TRUE(file);
  const Array* types = (*file)->get_array("tokenizer.ggml.token_type");
  ASSERT_TRUE(types);
  EXPECT_EQ(types->integer(2), 6);
}

// A vocabulary of the largest kind, from a source that must be read: a few large reads, no time.
TEST(Large, VocabularyOf256kTokens) {
  std::vector<std::string> tokens(262144), merges(514906);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = fmt::format("token {}", i);
  for (size_t i = 0; i < merges.size(); ++i) merges[i] = fmt::format("to ken{}", i);
  auto bytes = whole(Writer()
                         .set("tokens", tokens)
                         .set("scores", std::vector<float>(tokens.size(), -1))
                         .set("types", std::vector<int32_t>(tokens.size(), 1))
                         .set("merges", merges));
  const auto source = std::make_shared<ChunkSource>("x", std::move(bytes));
  const auto start = std::chrono::steady_clock::now();
  const auto file = File::open(source);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ((*file)->get_array("tokens")->strings, tokens);
  EXPECT_EQ((*file)->get_array("merges")->strings, merges);
  EXPECT_LE(source->reads, 16u);
  EXPECT_LT(seconds, 1.0);
}
