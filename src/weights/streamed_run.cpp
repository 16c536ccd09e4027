#include "weights/streamed_run.h"

#include "base/log.h"

namespace gull::weights {
namespace {

TileRef as_tile(const std::shared_ptr<dispatch::Resident>& resident) {
  return std::static_pointer_cast<Tile>(resident);   // Plans of models bind no others
}

/// Whether ids decide which steps of a segment have something to do.
bool ids_choose(const dispatch::Plan& plan, size_t segment) {
  const size_t begin = plan.segment_begin(segment);
  return begin < plan.segment_end(segment) && plan.step(begin).select.ids != nullptr;
}

}  // namespace

Result<uint64_t> WeightCache::run(std::span<const Stage> stages) {
  ExclusiveLock turn(turn_);
  return StreamedRun(*this, stages).go();
}

StreamedRun::StreamedRun(WeightCache& cache, std::span<const Stage> stages)
    : cache_(cache), stages_(stages) {
  for (const Stage& stage : stages_)
    for (size_t segment = 0; segment < stage.plan->segments(); ++segment) stops_.push_back({&stage, segment});
}

/// Notes on each tile where it will be used. Uses that ids decide on count only for tiles that have no other: when they
/// will come is not known.
void StreamedRun::make_route() {
  const uint64_t route = ++cache_.route_;
  cache_.route_length_ = static_cast<uint32_t>(stops_.size());
  const auto visit = [&](bool chosen) {
    for (uint32_t at = 0; at < stops_.size(); ++at) {
      const dispatch::Plan& plan = *stops_[at].stage->plan;
      if (ids_choose(plan, stops_[at].segment) != chosen) continue;
      for (const auto& resident : plan.residents(stops_[at].segment)) {
        Tile::Upkeep& u = static_cast<Tile&>(*resident).upkeep;
        if (u.route != route) u.route = route, u.stops.clear(), u.chosen = chosen;
        if (u.chosen == chosen) u.stops.push_back(at);
      }
    }
  };
  visit(false);
  visit(true);
}

Result<uint64_t> StreamedRun::go() {
  make_route();
  for (uint32_t at = 0; at < stops_.size(); ++at) {
    const Stop& stop = stops_[at];
    cache_.stop_began_ = cache_.clock_ + 1;
    auto steps = steps_of(stop);
    if (!steps) return fail(steps.error());
    for (std::span<const size_t> left(*steps); !left.empty();) {
      std::vector<TileRef> tiles;
      auto n = group(stop, left, tiles);
      if (!n) return fail(n.error());
      if (auto ok = run_group(stop, left.first(*n), tiles, at); !ok) return fail(ok.error());
      left = left.subspan(*n);
    }
    if (cache_.options_.by_segment)
      if (auto ok = submit(); !ok) return fail(ok.error());
    read_ahead(at);
  }
  if (auto ok = submit(); !ok) return fail(ok.error());
  return dispatches_;
}

/// The steps of a segment that have something to do.
Result<std::vector<size_t>> StreamedRun::steps_of(const Stop& stop) {
  const dispatch::Plan& plan = *stop.stage->plan;
  const size_t begin = plan.segment_begin(stop.segment), end = plan.segment_end(stop.segment);
  std::vector<size_t> steps;
  if (begin == end) return steps;
  const dispatch::Select& first = plan.step(begin).select;
  std::vector<uint32_t> ids;
  if (first.ids) {
    if (auto ok = submit(); !ok) return fail(ok.error());
    ids.resize(uint64_t{first.per_token} * stop.stage->vars[static_cast<size_t>(dispatch::Var::Tokens)]);
    if (auto ok = cache_.device_->read(*first.ids, 0, std::span<uint32_t>(ids)); !ok) return fail(ok.error());
    std::sort(ids.begin(), ids.end());
  }
  for (size_t i = begin; i < end; ++i) {
    const dispatch::Select& select = plan.step(i).select;
    const auto at = std::lower_bound(ids.begin(), ids.end(), select.first);
    if (!select.ids || (at != ids.end() && *at - select.first < select.count)) steps.push_back(i);
  }
  return steps;
}

/// As many steps as leave most of the room to others, at least one; returns how many, and their tiles.
Result<size_t> StreamedRun::group(const Stop& stop, std::span<const size_t> steps, std::vector<TileRef>& tiles) const {
  const dispatch::Plan& plan = *stop.stage->plan;
  uint64_t bytes = 0;
  for (size_t n = 0; n < steps.size(); ++n) {
    std::vector<TileRef> more;
    uint64_t more_bytes = 0;
    for (const dispatch::Operand& operand : plan.step(steps[n]).operands) {
      if (!operand.resident) continue;
      TileRef tile = as_tile(operand.resident);
      if (std::find(tiles.begin(), tiles.end(), tile) != tiles.end() || std::find(more.begin(), more.end(), tile) != more.end()) continue;
      if (!tile->upkeep.pinned) more_bytes += tile->bytes;
      more.push_back(std::move(tile));
    }
    if (n && bytes + more_bytes > cache_.room() / 4) return n;
    if (more_bytes > cache_.room()) {
      std::vector<dispatch::Plan*> plans;
      for (const Stage& stage : stages_) plans.push_back(stage.plan);
      return fail_f(ErrorKind::OutOfMemory, "{}: one step of the model reads {} of weights at once: --gpu-budget must be at least {} bytes, it is {}",
                    cache_.file_->name(), human_bytes(more_bytes), cache_.smallest_budget(plans), cache_.options_.budget);
    }
    bytes += more_bytes;
    tiles.insert(tiles.end(), more.begin(), more.end());
  }
  return steps.size();
}

Result<void> StreamedRun::run_group(const Stop& stop, std::span<const size_t> steps, std::span<const TileRef> tiles, uint32_t at) {
  // What was encoded goes first: buffers are written over behind it, never before it.
  if (cache_.missing(tiles))
    if (auto ok = submit(); !ok) return ok;
  if (auto ok = cache_.bring(tiles, at); !ok) return ok;
  if (!commands_) {
    auto commands = cache_.device_->begin();
    if (!commands) return fail(commands.error());
    commands_.emplace(std::move(*commands));
  }
  dispatch::Plan& plan = *stop.stage->plan;
  for (size_t i : steps) {
    if (auto ok = plan.prepare_step(i); !ok) return ok;
    plan.replay_step(*commands_, stop.stage->vars, i);
  }
  return {};
}

Result<void> StreamedRun::submit() {
  if (!commands_) return {};
  dispatches_ += commands_->dispatches();
  auto submission = cache_.device_->submit(std::move(*commands_));
  commands_.reset();
  if (!submission) return fail(submission.error());
  return {};
}

/// Says what will be missing next, round to the beginning: another token will follow.
void StreamedRun::read_ahead(uint32_t at) {
  Loader::Queue& ahead = *cache_.ahead_;
  const uint64_t most = cache_.loader_.options().ahead;
  for (size_t i = 1; i < stops_.size() && ahead.waiting() < most; ++i) {
    const Stop& stop = stops_[(at + i) % stops_.size()];
    const dispatch::Plan& plan = *stop.stage->plan;
    if (ids_choose(plan, stop.segment)) continue;   // not known yet
    for (const auto& resident : plan.residents(stop.segment)) {
      const TileRef tile = as_tile(resident);
      if (!tile->buffer && !ahead.has(*tile)) ahead.read_ahead(tile);
    }
  }
}

}  // namespace gull::weights
