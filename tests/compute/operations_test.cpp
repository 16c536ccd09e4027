// Each operation against float64 results of NumPy and JAX (make_cases.py), in each way that the backend can work:
// immediates and uniform ring, trusted and checked shaders, WebGPU's default limits, every gemm tile.
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "compute/support.h"

namespace gull::test {
namespace {

using nlohmann::json;

std::vector<float> read_results() {
  std::ifstream in(GULL_TEST_DATA "/compute/cases.bin", std::ios::binary | std::ios::ate);
  std::vector<float> out(static_cast<size_t>(in.tellg()) / 4);
  in.seekg(0);
  in.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size() * 4));
  return out;
}

const json& all_cases() {
  static const json cases = [] {
    std::ifstream in(GULL_TEST_DATA "/compute/cases.json");
    return json::parse(in);
  }();
  return cases;
}

Shape shape_of(const json& sizes) {
  const auto dims = sizes.get<std::vector<uint32_t>>();
  return Shape(std::span<const uint32_t>(dims));
}

/// One case being run: its inputs on the GPU, and a result to compare.
class Run {
 public:
  Run(ComputeBackend& gpu, const json& c) : gpu_(gpu), case_(c) {}
  ~Run() {
    for (Handle handle : handles_) EXPECT_TRUE(gpu_.free(handle));
  }

  bool has(const char* name) const { return case_["inputs"].contains(name); }
  std::vector<float> host(const char* name) const {
    const json& spec = case_["inputs"][name];
    return values(spec[0], spec[1], spec[2], spec[3]);
  }
  /// Frees it at the end.
  Handle keep(Handle handle) {
    handles_.push_back(handle);
    return handle;
  }
  Handle input(const char* name, bool half = false) { return keep(upload_as(gpu_, host(name), half)); }
  Handle indices() { return keep(upload(gpu_, case_["inputs"]["indices"].get<std::vector<int32_t>>())); }
  /// Memory for the result, full of NaN: an element that is never written shows.
  Handle output(bool half = false) {
    const std::vector<float> nan(case_["size"].get<size_t>(), std::numeric_limits<float>::quiet_NaN());
    if (!half) return keep(upload(gpu_, nan));
    return keep(upload(gpu_, std::vector<uint16_t>(nan.size(), 0x7e00)));
  }
  void compare(const Result<void>& done, Handle result, bool half = false) {
    ASSERT_TRUE(done) << done.error().message << "\n" << case_.dump();
    static const std::vector<float> results = read_results();
    const size_t n = case_["size"], count = case_["count"], at = case_["at"];
    const std::vector<float> got = download_as(gpu_, result, n, half);
    const double relative = case_["relative"], absolute = case_["absolute"];
    for (size_t i = 0; i < count; ++i) {
      const size_t place = count == n ? i : mix(static_cast<uint32_t>(i)) % n;
      const double want = results[at + i], error = std::fabs(got[place] - want);
      if (std::isinf(want) && got[place] == want) continue;
      ASSERT_TRUE(error <= absolute + relative * std::fabs(want)) << "element " << place << ": " << got[place] << ", wanted " << want << "\n" << case_.dump();
    }
    for (size_t i = 0; i < n; ++i) ASSERT_FALSE(std::isnan(got[i])) << "element " << i << "\n" << case_.dump();
  }
  ComputeBackend& gpu() { return gpu_; }

 private:
  ComputeBackend& gpu_;
  const json& case_;
  std::vector<Handle> handles_;
};

std::optional<uint64_t> stride(const json& s) { return s.is_null() ? std::nullopt : std::optional(s.get<uint64_t>()); }

void run_gemm(Run& run, const json& c) {
  BatchedGemm g;
  const bool half_in = c["kind"] != "f32", half_out = c["kind"] == "f16";
  g.m = c["m"], g.n = c["n"], g.k = c["k"];
  g.a = {run.input("a", half_in), c["offsets"][0]};
  g.b = {run.input("b", half_in), c["offsets"][1]};
  const Handle out = run.input("c", half_out);   // gemm keeps what lies between the rows of C
  g.c = {out, c["offsets"][2]};
  g.transpose_a = c["ta"], g.transpose_b = c["tb"];
  g.alpha = c["alpha"], g.beta = c["beta"];
  g.lda = c["lda"], g.ldb = c["ldb"], g.ldc = c["ldc"];
  g.batch = c["batch"];
  g.stride_a = stride(c["strides"][0]), g.stride_b = stride(c["strides"][1]), g.stride_c = stride(c["strides"][2]);
  const auto done = half_out ? run.gpu().gemm_f16(g) : half_in ? run.gpu().gemm_mixed(g) : g.batch > 1 ? run.gpu().batched_gemm(g) : run.gpu().gemm(g);
  run.compare(done, out, half_out);
}

void run_unary(Run& run, const json& c) {
  const std::map<std::string, UnaryOp> ops{{"relu", UnaryOp::Relu}, {"sigmoid", UnaryOp::Sigmoid}, {"tanh", UnaryOp::Tanh}, {"exp", UnaryOp::Exp},
                                           {"log", UnaryOp::Log}, {"sqrt", UnaryOp::Sqrt}, {"abs", UnaryOp::Abs}, {"neg", UnaryOp::Neg}};
  const Handle out = run.output();
  run.compare(run.gpu().unary(ops.at(c["name"]), {run.input("x"), c["offset"]}, out, c["n"]), out);
}

void run_binary(Run& run, const json& c) {
  const std::map<std::string, BinaryOp> ops{{"add", BinaryOp::Add}, {"sub", BinaryOp::Sub}, {"mul", BinaryOp::Mul}, {"div", BinaryOp::Div},
                                            {"max", BinaryOp::Max}, {"min", BinaryOp::Min}, {"pow", BinaryOp::Pow}};
  const Handle out = run.output();
  run.compare(run.gpu().binary(ops.at(c["name"]), run.input("a"), shape_of(c["a"]), run.input("b"), shape_of(c["b"]), out), out);
}

void run_reduce(Run& run, const json& c) {
  const std::map<std::string, ReduceOp> ops{{"sum", ReduceOp::Sum}, {"max", ReduceOp::Max}, {"min", ReduceOp::Min}, {"mean", ReduceOp::Mean}};
  const Handle out = run.output();
  const auto axes = c["axes"].get<std::vector<uint32_t>>();
  run.compare(run.gpu().reduce(ops.at(c["name"]), run.input("x"), shape_of(c["shape"]), axes, out), out);
}

void run_softmax(Run& run, const json& c) {
  const Handle out = run.output();
  run.compare(run.gpu().softmax(run.input("x"), out, shape_of(c["shape"]), c["axis"]), out);
}

Indexing indexing_of(Run& run, const json& c) { return {shape_of(c["shape"]), c["axis"], c["picks"], run.indices(), c["per_element"]}; }

void run_gather(Run& run, const json& c) {
  const Handle out = run.output();
  run.compare(run.gpu().gather(indexing_of(run, c), run.input("x"), out), out);
}

void run_scatter(Run& run, const json& c) {
  const Handle target = run.input("x");
  const ScatterMode mode = c["mode"] == "add" ? ScatterMode::Add : ScatterMode::Set;
  run.compare(run.gpu().scatter(mode, indexing_of(run, c), run.input("u"), target), target);
}

void run_conv(Run& run, const json& c) {
  Conv2d conv{c["batch"], c["in_channels"], c["height"], c["width"], c["out_channels"], c["kernel_h"], c["kernel_w"], c["stride"][0], c["stride"][1],
              c["pad"][0], c["pad"][1], c["dilation"][0], c["dilation"][1], c["groups"]};
  const Handle out = run.output(), a = run.input("a"), b = run.input("b");
  const View bias = run.has("bias") ? View(run.input("bias")) : View();
  run.compare(c["direction"] == "forward"  ? run.gpu().conv2d_forward(conv, b, a, out, bias)
              : c["direction"] == "data" ? run.gpu().conv2d_backward_data(conv, b, a, out)
                                         : run.gpu().conv2d_backward_filter(conv, b, a, out),
              out);
}

void run_attention(Run& run, const json& c) {
  Attention a;
  const bool half = c["kind"] == "f16";
  a.batch = c["batch"], a.heads = c["heads"], a.kv_heads = c["kv_heads"], a.q_len = c["q_len"], a.kv_len = c["kv_len"], a.head_dim = c["head_dim"];
  const Handle out = run.output(half);
  a.q = run.input("q", half), a.k = run.input("k", half), a.v = run.input("v", half), a.out = out;
  a.causal = c["causal"], a.kv_offset = c["kv_offset"], a.window = c["window"], a.softcap = c["softcap"], a.scale = c["scale"];
  if (const uint32_t rows = c["capacity"]) a.k_strides = a.v_strides = {a.kv_heads * rows * a.head_dim, rows * a.head_dim, a.head_dim};
  if (run.has("slopes")) a.alibi_slopes = run.input("slopes");
  if (run.has("mask")) {
    std::vector<float> mask = run.host("mask");
    for (float& m : mask)
      if (m < -2) m = -std::numeric_limits<float>::infinity();
    a.mask = run.keep(upload(run.gpu(), mask));
    const std::string kind = c["mask_kind"];
    a.mask_per_batch = kind.find('b') != std::string::npos;
    a.mask_per_head = kind.find('h') != std::string::npos;
  }
  a.type = half ? ElementType::F16 : ElementType::F32;
  run.compare(run.gpu().attention(a), out, half);
}

using Runner = void (*)(Run&, const json&);
const std::map<std::string, Runner>& runners() {
  static const std::map<std::string, Runner> map{{"gemm", run_gemm}, {"unary", run_unary}, {"binary", run_binary}, {"reduce", run_reduce},
                                                 {"softmax", run_softmax}, {"gather", run_gather}, {"scatter", run_scatter}, {"conv", run_conv},
                                                 {"attention", run_attention}};
  return map;
}

/// Whether the case writes float16 tensors.
bool writes_half(const json& c) { return c.contains("kind") && c["kind"] == "f16"; }

/// `every`: how many cases are passed over for one that runs; a software adapter compiles a gemm shader for a second.
void run_all(ComputeBackend& gpu, const std::string& op, size_t every = 1) {
  const bool f16 = gpu.capabilities()->f16;
  size_t ran = 0, seen = 0;
  for (const json& c : all_cases()) {
    if (c["op"] != op || (writes_half(c) && !f16) || seen++ % every != 0) continue;
    Run run(gpu, c);
    runners().at(op)(run, c);
    ++ran;
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(ran, 0u);
}

struct Way {
  const char* name;
  ComputeOptions options;
  size_t every = 1;   // of the cases whose shaders are large
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

std::vector<Way> ways() {
  ComputeOptions standard, ring, checked, baseline, halfless;
  ring.params = ParamTransport::Ring;
  checked.device.checked_shaders = true;
  baseline.device.baseline_limits = true;
  halfless.device.no_f16 = true;
  halfless.max_pending = 1;
  return {{"standard", standard}, {"ring", ring, 7}, {"checked", checked, 5}, {"baseline", baseline}, {"no_f16_submitted_each", halfless, 5}};
}

class Operations : public testing::TestWithParam<std::tuple<Way, std::string>> {};

TEST_P(Operations, GiveTheReferenceResults) {
  const auto& [way, op] = GetParam();
  ComputeOptions options = way.options;
  // For checks of the shaders by other compilers: GULL_DUMP_SHADERS names a folder that takes them.
  if (const char* folder = std::getenv("GULL_DUMP_SHADERS"))
    options.on_shader = [folder = std::string(folder)](const std::string& key, const std::string& wgsl) { std::ofstream(folder + "/" + key + ".wgsl") << wgsl; };
  const auto gpu = open_backend(options);
  ASSERT_TRUE(gpu->is_initialized());
  run_all(*gpu, op, op == "gemm" || op == "conv" ? way.every : 1);
}

INSTANTIATE_TEST_SUITE_P(All, Operations,
                         testing::Combine(testing::ValuesIn(ways()), testing::Values("gemm", "unary", "binary", "reduce", "softmax", "gather", "scatter",
                                                                                     "conv", "attention")),
                         [](const auto& info) { return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param); });

class GemmTiles : public testing::TestWithParam<size_t> {};

TEST_P(GemmTiles, GiveTheReferenceResults) {
  ComputeOptions options;
  options.gemm_tile = ComputeBackend::gemm_tiles()[GetParam()];
  const auto gpu = open_backend(options);
  run_all(*gpu, "gemm", 6);
}

INSTANTIATE_TEST_SUITE_P(All, GemmTiles, testing::Range<size_t>(0, ComputeBackend::gemm_tiles().size()));

}  // namespace
}  // namespace gull::test
