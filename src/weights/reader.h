// Reading tiles out of the file in the GPU's layout: ahead of need where there are threads, else when they are wanted.
#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "base/threads.h"
#include "weights/tile.h"

#if !defined(__wasm__)
#include <thread>
#endif

namespace gull::weights {

/// Some whole rows of a tile that are read at once; with the last ones comes the code book that ends the buffer.
struct Piece {
  TileRef tile;
  uint64_t first = 0, rows = 0;   ///< rows of the tile
  uint64_t offset() const { return first * tile->tensor->layout.row_bytes; }   ///< in the tile's buffer
  uint64_t bytes() const {
    const gguf::RowLayout& layout = tile->tensor->layout;
    return rows * layout.row_bytes + (first + rows == tile->rows ? layout.table_bytes : 0);
  }
};

struct ReaderOptions {
  uint64_t slice = 0;     ///< bytes of a piece; a row is never cut
  uint64_t ahead = 0;     ///< bytes that may lie read and not yet taken
  unsigned threads = 0;
};
/// What suits a source: threads for what the machine has, small pieces where the bytes come over a network.
ReaderOptions reader_options(bool addressable);

/// Shared by queues; owns the threads and the memory that is read into. Thread-safe.
class Reader {
 public:
  Reader(std::shared_ptr<const gguf::File> file, ReaderOptions options);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const ReaderOptions& options() const { return options_; }

  /// Tiles in the order in which one thread will take them.
  class Queue {
   public:
    explicit Queue(Reader& reader);
    ~Queue();
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;

    void push(const TileRef& tile);
    /// Forgets what comes before this tile; false, and nothing is forgotten, when it was never pushed.
    bool advance_to(const Tile& tile);
    bool has(const Tile& tile) const;
    void clear();
    /// Bytes pushed and not yet taken.
    uint64_t waiting() const;

    struct Taken { Piece piece; std::span<const std::byte> bytes; bool waited = false; };
    /// The next piece, laid out; its bytes stay until the next call. Errors: the source's, for this piece.
    Result<Taken> next();

   private:
    friend class Reader;
    struct Item;
    void forget(const std::shared_ptr<Item>& item);
    Reader& reader_;
    std::deque<std::shared_ptr<Item>> items_;
    std::shared_ptr<Item> current_;
    uint64_t waiting_ = 0;
  };

 private:
  using Item = Queue::Item;
  void work();
  std::shared_ptr<Item> find_work();
  std::vector<std::byte> spare(uint64_t bytes);
  void put_back(Item& item);
  void start_threads();

  const std::shared_ptr<const gguf::File> file_;
  const ReaderOptions options_;
  mutable Mutex mutex_;          ///< guards everything below, and the items
  Condition work_, done_;
  std::list<Queue*> queues_;
  uint64_t held_ = 0;            ///< bytes of items that threads read or have read
  std::vector<std::vector<std::byte>> spares_;
  bool stopping_ = false, started_ = false;
#if !defined(__wasm__)
  std::vector<std::thread> threads_;
#endif
};

}  // namespace gull::weights
