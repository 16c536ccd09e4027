#include "kernels/lab.h"

#include <map>

namespace gull::test {

const char* name(Mode mode) {
  switch (mode) {
    case Mode::Plain: return "plain";
    case Mode::Checked: return "checked";
    case Mode::Bare: return "bare";
    default: return "baseline";
  }
}

Gpu& gpu(Mode mode) {
  static std::map<Mode, Gpu> opened;
  Gpu& found = opened[mode];
  if (!found.device) {
    DeviceOptions options;
    options.checked_shaders = mode == Mode::Checked;
    options.no_subgroups = options.no_f16 = options.no_immediates = mode == Mode::Bare;
    options.baseline_limits = mode == Mode::Baseline;
    found.device = must(gpu::Device::open(options));
    found.pipelines = std::make_shared<dispatch::PipelineCache>(found.device);
  }
  return found;
}

kernels::Choices exact_choices(Mode mode) { return {Precision::F32, false, gpu(mode).device->caps().subgroups, false}; }

kernels::Choices fast_choices(Mode mode) {
  const gpu::Caps& caps = gpu(mode).device->caps();
  return {Precision::Fast, caps.f16, caps.subgroups, caps.packed_dot};
}

Lab::Lab(Mode mode, uint32_t max_tokens, uint64_t max_tile)
    : gpu_(gpu(mode)), max_tokens_(max_tokens), max_tile_(max_tile), arena_(gpu_.device, max_tokens) {
  state_ = must(gpu_.device->create_buffer(16, gpu::kStorage | gpu::kUniform | gpu::kCopyDst | gpu::kCopySrc, gpu::Memory::Parameters, "state"));
}

void Lab::tensor(const std::string& name, gguf::Type type, std::vector<uint64_t> dims, std::vector<std::byte> raw) {
  data_.push_back(std::move(raw));
  writer_.tensor(name, type, std::move(dims), data_.back());
}

void Lab::vector(const std::string& name, const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  tensor(name, gguf::Type::F32, {values.size()}, {bytes.begin(), bytes.end()});
}

weights::WeightCache& Lab::weights() {
  if (!weights_) {
    auto file = must(gguf::File::open(memory_source("lab.gguf", must(writer_.bytes()))));
    weights_ = std::make_unique<weights::WeightCache>(gpu_.device, std::move(file), weights::Options{.max_tile = max_tile_});
  }
  return *weights_;
}

weights::TensorRef Lab::weight(const std::string& name) { return must(weights().tensor(name)); }

kernels::Rows Lab::input(const std::string& name, uint32_t width, std::span<const float> values) {
  const kernels::Rows rows = must(arena_.rows(name, width));
  std::vector<float> padded(rows.buffer->size() / 4, 12345.0f);
  for (size_t i = 0; i < values.size(); ++i) padded[i / width * rows.stride + i % width] = values[i];
  must(gpu_.device->write(*rows.buffer, 0, std::span<const float>(padded)));
  return rows;
}

gpu::BufferRef Lab::buffer(uint64_t bytes, std::span<const std::byte> contents) {
  auto made = must(gpu_.device->create_buffer(bytes, gpu::kStorage | gpu::kCopyDst | gpu::kCopySrc, gpu::Memory::Activations, "lab"));
  if (!contents.empty()) must(gpu_.device->write(*made, 0, contents));
  return made;
}

gpu::BufferRef Lab::ids(const std::vector<uint32_t>& values) { return buffer(values.size() * 4, std::as_bytes(std::span(values))); }

void Lab::replay(std::unique_ptr<dispatch::Plan> plan, uint32_t tokens, uint32_t pos) {
  const uint32_t state[4] = {pos, tokens, pos + tokens, 0};
  must(gpu_.device->write(*state_, 0, std::span<const uint32_t>(state)));
  for (size_t s = 0; s < plan->segments(); ++s) must(weights().ensure(plan->residents(s)));
  auto commands = must(gpu_.device->begin());
  must(plan->run(commands, {1, tokens, kernels::attention_splits(pos + tokens)}));
  must(gpu_.device->submit(std::move(commands)));
}

std::vector<float> Lab::output(const kernels::Rows& rows, uint32_t tokens) {
  const auto all = read<float>(rows.buffer, rows.buffer->size() / 4);
  std::vector<float> out(size_t{tokens} * rows.width);
  for (size_t i = 0; i < out.size(); ++i) out[i] = all[i / rows.width * rows.stride + rows.offset + i % rows.width];
  return out;
}

}  // namespace gull::test
