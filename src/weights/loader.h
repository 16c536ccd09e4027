// From the file to the GPU: tiles are read, laid out and written by threads, where there are any, else when they are waited
// for. What will be wanted next is read ahead into bounded memory, and written once a buffer is there for it.
#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "base/threads.h"
#include "weights/tile.h"

#if !defined(__wasm__)
#include <thread>
#endif

namespace gull::weights {

struct LoaderOptions {
  uint64_t slice = 0;       ///< bytes that are read at once; a row is never cut
  uint64_t ahead = 0;       ///< bytes that may lie read before there is a buffer for them
  uint64_t in_flight = 0;   ///< bytes written to the GPU that it has not taken over yet
  unsigned threads = 0;
  uint64_t wake = 0;        ///< threads are woken for this many bytes; less is done sooner by who waits for it
};
/// What suits a source: threads for what the machine has, small pieces where the bytes come over a network.
LoaderOptions loader_options(bool local);

/// Bounds what is written to the GPU and not yet done. Thread-safe.
class Flow {
 public:
  Flow(std::shared_ptr<gpu::Device> device, uint64_t bound) : device_(std::move(device)), bound_(bound) {}
  /// Says that bytes were written; waits for older ones when too many are on the way.
  Result<void> wrote(uint64_t bytes);

 private:
  struct Flight { gpu::Submission submission; uint64_t bytes; };
  const std::shared_ptr<gpu::Device> device_;
  const uint64_t bound_;
  Mutex mutex_;
  uint64_t unflushed_ = 0, in_flight_ = 0;
  std::deque<Flight> flights_;
};

/// Shared by queues; owns the threads and the memory that is read into. Thread-safe.
class Loader {
 public:
  Loader(std::shared_ptr<gpu::Device> device, std::shared_ptr<const gguf::File> file, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  const LoaderOptions& options() const { return options_; }

  /// Tiles in the order in which they are wanted. One thread at a time uses a queue.
  class Queue {
   public:
    explicit Queue(Loader& loader);
    ~Queue();
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;

    /// Will be wanted: is read when there is time.
    void read_ahead(const TileRef& tile);
    bool has(const Tile& tile) const;
    /// Bytes that are read ahead, or to be.
    uint64_t waiting() const;
    /// Is wanted now: goes into this buffer. What was to be read ahead before it is passed over, and forgotten.
    void deliver(const TileRef& tile, gpu::BufferRef buffer);
    /// Returns when a delivered tile is written, having helped; whether there was anything to wait for.
    /// Errors: the source's, the GPU's.
    Result<bool> wait(const Tile& tile);
    /// Forgets everything; returns when nothing is being written any more.
    void clear();

   private:
    friend class Loader;
    struct Item;
    void forget(Item& item);
    void wake();
    Loader& loader_;
    std::deque<std::shared_ptr<Item>> items_;
    uint64_t waiting_ = 0;     ///< bytes of what is read ahead, or to be
    uint64_t unwritten_ = 0;   ///< bytes of what was delivered and not waited for
  };

 private:
  using Item = Queue::Item;
  void work();
  std::shared_ptr<Item> find_work() const;
  void process(const std::shared_ptr<Item>& item, std::vector<std::byte>& raw, Lock& lock);
  void finish(Item& item);
  void start_threads();

  const std::shared_ptr<gpu::Device> device_;
  const std::shared_ptr<const gguf::File> file_;
  const LoaderOptions options_;
  Flow flow_;
  mutable Mutex mutex_;          ///< guards everything below, and the items; not held while anything is read or written
  Condition work_, done_;
  std::list<Queue*> queues_;
  uint64_t held_ = 0;            ///< bytes that lie read
  std::vector<std::vector<std::byte>> spares_;
  bool stopping_ = false, started_ = false;
#if !defined(__wasm__)
  std::vector<std::thread> threads_;
#endif
};

}  // namespace gull::weights
