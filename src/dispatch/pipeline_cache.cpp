#include "dispatch/pipeline_cache.h"

namespace gull::dispatch {

Result<gpu::PipelineRef> PipelineCache::get(const std::string& key, const std::function<gpu::PipelineDesc()>& describe) {
  {
    Lock lock(mutex_);
    for (auto it = entries_.find(key); it != entries_.end(); it = entries_.find(key)) {
      if (it->second.pipeline) {
        ++stats_.hits;
        return it->second.pipeline;
      }
#if !defined(__wasm__)
      built_.wait(lock);   // another thread compiles it; a failed build removes the entry, then this one tries
#else
      break;
#endif
    }
    entries_[key] = {};
  }
  auto pipeline = device_->create_pipeline(describe());
  {
    Lock lock(mutex_);
    if (pipeline) entries_[key].pipeline = *pipeline, ++stats_.builds;
    else entries_.erase(key), ++stats_.failures;
  }
#if !defined(__wasm__)
  built_.notify_all();
#endif
  return pipeline;
}

PipelineStats PipelineCache::stats() const {
  Lock lock(mutex_);
  PipelineStats stats = stats_;
  stats.live = entries_.size();
  return stats;
}

}  // namespace gull::dispatch
