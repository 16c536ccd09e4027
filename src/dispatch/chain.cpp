#include "dispatch/chain.h"

#include <algorithm>
#include <optional>

#include "base/log.h"

namespace gull::dispatch {
namespace {

using gpu::BindingKind;

/// A variable of the joined shader: what it is bound to, and what it holds.
struct Slot {
  Operand operand;
  std::string type;
  BindingKind kind;
  size_t step;              ///< the first that binds it: a structure is declared there

  std::string declared_type() const { return type.starts_with("array<") ? type : fmt::format("s{}_{}", step, type); }
  const char* access() const {
    return kind == BindingKind::Uniform ? "uniform" : kind == BindingKind::Storage ? "storage, read_write" : "storage, read";
  }
};

bool same_memory(const Operand& a, const Operand& b) {
  if (a.resident || b.resident) return a.resident == b.resident;
  return a.fixed.buffer == b.fixed.buffer && a.fixed.offset == b.fixed.offset && a.fixed.size == b.fixed.size;
}

bool same_buffer(const Operand& a, const Operand& b) { return a.fixed.buffer && a.fixed.buffer == b.fixed.buffer; }

/// Where the areas of a Plan's chains lie in one buffer.
struct Areas {
  gpu::BufferRef buffer;
  uint32_t words = 0, count = 0;
  uint64_t bytes() const { return uint64_t{words} * 4; }
  Operand area(size_t i) const { return Operand(buffer, i % count * bytes(), bytes()); }
};

/// Links that follow one another, and what they bind together.
class Run {
 public:
  explicit Run(const gpu::Caps& caps) : caps_(&caps) {}

  bool empty() const { return steps_.empty(); }
  size_t size() const { return steps_.size(); }
  const StepDesc& first() const { return *steps_[0]; }

  /// False, and nothing changed, where the step is no link or does not fit to the others.
  bool take(const StepDesc& step) {
    if (!step.link || empty() != (step.link->takes == Takes::Nothing)) return false;
    if (!empty() && (step.link->workgroup_size != steps_[0]->link->workgroup_size || meets(step))) return false;
    auto slots = slots_;
    Joined part{step.link.get(), {}, step.x.times};
    for (size_t i = 0; i < step.operands.size(); ++i) {
      const BindingKind kind = step.link->desc.bindings[i];
      const std::string& type = step.link->bindings[i].type;
      const auto it = std::find_if(slots.begin(), slots.end(), [&](const Slot& s) { return s.type == type && same_memory(s.operand, step.operands[i]); });
      part.names.push_back(fmt::format("bound_{}", it - slots.begin()));
      if (it == slots.end()) slots.push_back({step.operands[i], type, kind, steps_.size()});
      else if ((it->kind == BindingKind::Uniform) != (kind == BindingKind::Uniform)) return false;
      else if (kind == BindingKind::Storage) it->kind = kind;
    }
    const auto storage = std::count_if(slots.begin(), slots.end(), [](const Slot& s) { return s.kind != BindingKind::Uniform; });
    auto parts = parts_;
    parts.push_back(std::move(part));
    if (storage + 2 > caps_->max_storage_buffers || joined_workgroup_bytes(parts) > caps_->max_workgroup_memory) return false;
    slots_ = std::move(slots), parts_ = std::move(parts);
    steps_.push_back(&step);
    return true;
  }

  /// The run as one step, with the areas of this dispatch and of the next one.
  Result<StepDesc> joined(PipelineCache& pipelines, const Areas& areas, size_t number) {
    settle_access();
    StepDesc out;
    std::string key = fmt::format("chain:{}", areas.words), declarations, label = "chain";
    uint32_t workgroups = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      Joined& part = parts_[i];
      part.given_up = given_up(i);
      for (const std::string& name : part.given_up) key += "-" + name;
      key += fmt::format("|{}@{}", part.link->key, part.workgroups);
      for (const std::string& name : part.names) key += "," + name.substr(6);
      label += (i == 0 ? ": " : " + ") + part.link->desc.label;
      workgroups += part.workgroups;
    }
    out.x = {workgroups};
    std::vector<BindingKind> kinds;
    const auto bind = [&](const char* access, std::string_view name, const std::string& type, BindingKind kind, Operand operand) {
      declarations += fmt::format("@group(0) @binding({}) var<{}> {}: {};\n", kinds.size(), access, name, type);
      kinds.push_back(kind);
      out.operands.push_back(std::move(operand));
    };
    for (const Slot& slot : slots_) {
      key += slot.kind == BindingKind::Storage ? 'w' : 'r';
      bind(slot.access(), fmt::format("bound_{}", kinds.size()), slot.declared_type(), slot.kind, slot.operand);
    }
    bind("storage, read_write", "chain", "array<atomic<u32>>", BindingKind::Storage, areas.area(number));
    bind("storage, read_write", "spare", "array<u32>", BindingKind::Storage, areas.area(number + 1));
    std::optional<Error> problem;
    auto pipeline = pipelines.get(key, [&] {   // the layers of a model are mostly alike: their text is joined once
      auto text = join(parts_, declarations, areas.words, waiting(*caps_));
      if (!text) problem = text.error();
      return gpu::PipelineDesc{label, text.value_or(std::string()), kinds};
    });
    if (problem) return fail(std::move(*problem));
    if (!pipeline) return fail(pipeline.error());
    out.pipeline = *pipeline;
    return out;
  }

 private:
  static bool writes(const StepDesc& step, size_t i) { return step.link->desc.bindings[i] == BindingKind::Storage; }
  static bool writes(const StepDesc& step, const Operand& memory) {
    for (size_t i = 0; i < step.operands.size(); ++i)
      if (writes(step, i) && same_buffer(step.operands[i], memory)) return true;
    return false;
  }

  /// Whether the step meets an earlier one in memory where nothing orders them.
  bool meets(const StepDesc& step) const {
    bool all = step.link->takes == Takes::All;   // everything before has been done when it, or a step since, writes
    for (size_t i = steps_.size(); i-- > 0; all = all || steps_[i]->link->takes == Takes::All) {
      const StepDesc& earlier = *steps_[i];
      for (size_t read : step.link->reads)
        if (writes(earlier, step.operands[read])) return true;
      for (size_t read : earlier.link->reads)
        if (!all && writes(step, earlier.operands[read])) return true;
      for (size_t b = 0; b < earlier.operands.size(); ++b)
        if (writes(earlier, b) && !earlier.link->bindings[b].may_give_up && writes(step, earlier.operands[b])) return true;
    }
    return false;
  }

  /// The bindings of step `i` that a later one writes.
  std::vector<std::string> given_up(size_t i) const {
    std::vector<std::string> out;
    for (size_t b = 0; b < steps_[i]->operands.size(); ++b)
      for (size_t later = i + 1; later < steps_.size(); ++later)
        if (writes(*steps_[i], b) && writes(*steps_[later], steps_[i]->operands[b])) {
          out.push_back(steps_[i]->link->bindings[b].name);
          break;
        }
    return out;
  }

  /// A buffer that one step writes is bound for writing wherever it is bound.
  void settle_access() {
    for (Slot& a : slots_)
      for (const Slot& b : slots_)
        if (a.kind == BindingKind::ReadStorage && b.kind == BindingKind::Storage && same_buffer(a.operand, b.operand))
          a.kind = BindingKind::Storage;
  }

  const gpu::Caps* caps_;
  std::vector<const StepDesc*> steps_;
  std::vector<Joined> parts_;
  std::vector<Slot> slots_;
};

/// A Plan's steps as they will be dispatched: runs of links, and single steps (with an empty run).
struct Piece {
  size_t segment, step;
  Run run;
};

std::optional<std::vector<Piece>> pieces_of(const Plan& plan, const gpu::Caps& caps) {
  std::vector<Piece> pieces;
  for (size_t segment = 0; segment < plan.segments(); ++segment)
    for (size_t i = plan.segment_begin(segment); i < plan.segment_end(segment); ++i) {
      const StepDesc& step = plan.step(i);
      if (i != plan.segment_begin(segment) && !pieces.back().run.empty() && pieces.back().run.take(step)) continue;
      pieces.push_back({segment, i, Run(caps)});
      if (step.link && !pieces.back().run.take(step)) return std::nullopt;   // it takes, and there is nothing to take from
    }
  return pieces;
}

/// Areas in which nothing is written.
Result<Areas> make_areas(gpu::Device& device, uint32_t words, size_t count, const MakeBuffer& make) {
  Areas areas{nullptr, (words + 63) & ~63u, static_cast<uint32_t>(count)};
  auto buffer = make(areas.bytes() * count);
  if (!buffer) return fail(buffer.error());
  areas.buffer = *buffer;
  std::vector<uint32_t> blank(uint64_t{areas.words} * count, kUnwritten);
  for (size_t i = 0; i < count; ++i) std::fill_n(blank.begin() + static_cast<ptrdiff_t>(i * areas.words), kAreaHead, 0u);
  if (auto ok = device.write(*areas.buffer, 0, std::span<const uint32_t>(blank)); !ok) return fail(ok.error());
  return areas;
}

}  // namespace

Result<std::unique_ptr<Plan>> chained(const Plan& plan, PipelineCache& pipelines, uint32_t words, const MakeBuffer& make) {
  auto pieces = pieces_of(plan, pipelines.device().caps());
  const auto chains = pieces ? std::count_if(pieces->begin(), pieces->end(), [](const Piece& p) { return p.run.size() > 1; }) : 0;
  if (chains < 2) return std::unique_ptr<Plan>();
  auto areas = make_areas(pipelines.device(), words, static_cast<size_t>(chains), make);
  if (!areas) return fail(areas.error());
  auto out = std::make_unique<Plan>(pipelines.device_ref());
  size_t number = 0;
  for (Piece& piece : *pieces) {
    if (piece.step == plan.segment_begin(piece.segment)) out->begin_segment();
    StepDesc step = plan.step(piece.step);
    if (piece.run.size() > 1) {
      auto joined = piece.run.joined(pipelines, *areas, number++);
      if (!joined) return fail(joined.error());
      step = std::move(*joined);
    } else if (step.link) {
      auto pipeline = pipelines.get(step.link->key + ":alone", [&] { return alone(*step.link); });
      if (!pipeline) return fail(pipeline.error());
      step.pipeline = *pipeline, step.link = nullptr;
    }
    out->add(std::move(step));
  }
  return out;
}

}  // namespace gull::dispatch
