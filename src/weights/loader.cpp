#include "weights/loader.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <system_error>

#include "base/log.h"
#include "gpu/commands.h"

namespace gull::weights {
namespace {

constexpr uint64_t kCacheBytes = 256 << 10;

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

/// Lays rows of the file out as the GPU reads them.
Result<void> lay_out(const Tensor& tensor, std::span<const std::byte> bytes, std::span<std::byte> rows) {
  const gguf::Type type = tensor.info->type;
  if (type == tensor.type) return gguf::relay_rows(tensor.layout, bytes, rows), Result<void>{};
  std::vector<float> values(tensor.k);   // a vector that is kept as F32
  if (auto ok = gguf::dequantize(type, bytes, values); !ok) return ok;
  std::memcpy(rows.data(), values.data(), values.size() * sizeof(float));
  std::fill(rows.begin() + static_cast<ptrdiff_t>(values.size() * sizeof(float)), rows.end(), std::byte{0});
  return {};
}

/// Reads a piece and lays it out in `out` (piece.bytes() bytes). `raw` is scratch memory.
Result<void> read_piece(const gguf::File& file, const Piece& piece, std::vector<std::byte>& raw, std::span<std::byte> out) {
  const Tensor& tensor = *piece.tile->tensor;
  const gguf::TensorInfo& info = *tensor.info;
  const uint64_t file_row = info.row_bytes(), row = tensor.layout.row_bytes;
  const uint64_t offset = (piece.tile->first_row + piece.first) * file_row;
  const auto rows = out.first(piece.rows * row);
  if (const auto bytes = file.view(info, offset, piece.rows * file_row); !bytes.empty()) {
    if (auto ok = lay_out(tensor, bytes, rows); !ok) return ok;
  } else if (info.type == tensor.type && gguf::as_in_file(tensor.layout)) {
    if (auto ok = file.read(info, offset, rows); !ok) return ok;
  } else {
    // Little at a time stays in the processor's cache; over a network each read is a request.
    const uint64_t at_once = file.local() ? std::max<uint64_t>(kCacheBytes / file_row, 1) : piece.rows;
    for (uint64_t r = 0; r < piece.rows; r += at_once) {
      const uint64_t n = std::min(at_once, piece.rows - r);
      raw.resize(n * file_row);
      if (auto ok = file.read(info, offset + r * file_row, raw); !ok) return ok;
      if (auto ok = lay_out(tensor, raw, rows.subspan(r * row, n * row)); !ok) return ok;
    }
  }
  if (out.size() > rows.size()) {
    const std::vector<std::byte> table = gguf::row_table(tensor.type);
    std::memcpy(out.data() + rows.size(), table.data(), std::min(table.size(), out.size() - rows.size()));
  }
  return {};
}

/// The pages of a mapped file go back the first time; what is streamed again and again is left to the system.
void release_pages(const gguf::File& file, const Piece& piece) {
  if (piece.tile->upkeep.seen) return;
  const gguf::TensorInfo& info = *piece.tile->tensor->info;
  file.release(info, (piece.tile->first_row + piece.first) * info.row_bytes(), piece.rows * info.row_bytes());
}

}  // namespace

LoaderOptions loader_options(bool local) {
  LoaderOptions options;
  options.slice = local ? 1u << 20 : 2u << 20;   // local pieces stay in a processor's cache from reading to writing
  options.ahead = local ? 64u << 20 : 12u << 20;
  options.in_flight = local ? 64u << 20 : 16u << 20;
#if !defined(__wasm__)
  // Over a network several requests hide each other's latency; elsewhere the work is the machine's own.
  const unsigned cores = std::max(std::thread::hardware_concurrency(), 1u);
  options.threads = local ? std::clamp(cores - 1, 1u, 15u) : 3;
  options.wake = local ? 1u << 20 : 0;
#endif
  return options;
}

Result<void> Flow::wrote(uint64_t bytes) {
  Lock lock(mutex_);
  unflushed_ += bytes;
  if (unflushed_ < bound_ / 4) return {};
  auto commands = device_->begin();
  if (!commands) return fail(commands.error());
  auto submission = device_->submit(std::move(*commands));   // empty: it takes the writes before it along
  if (!submission) return fail(submission.error());
  flights_.push_back({*submission, unflushed_});
  in_flight_ += std::exchange(unflushed_, 0);
  while (in_flight_ > bound_) {
    if (auto ok = device_->wait(flights_.front().submission); !ok) return ok;
    in_flight_ -= flights_.front().bytes;
    flights_.pop_front();
  }
  return {};
}

struct Loader::Queue::Item {
  Piece piece;
  enum class Stage { Waiting, Read, Finished } stage = Stage::Waiting;   ///< Finished: written, or failed
  bool busy = false;         ///< a thread is at it
  bool delivered = false;    ///< wanted, and no more read ahead
  bool forgotten = false;
  gpu::BufferRef to;         ///< where it goes, once that is known and until it is there
  std::vector<std::byte> data;
  Result<void> result;
};

Loader::Loader(std::shared_ptr<gpu::Device> device, std::shared_ptr<const gguf::File> file, LoaderOptions options)
    : device_(device), file_(std::move(file)), options_(options), flow_(std::move(device), options.in_flight) {}

Loader::~Loader() {
  {
    Lock lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
#if !defined(__wasm__)
  for (std::thread& thread : threads_) thread.join();
#endif
}

/// Under the lock. Where the system gives no thread, everything is done by who waits for it.
void Loader::start_threads() {
  if (std::exchange(started_, true)) return;
#if !defined(__wasm__)
  try {
    for (unsigned i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    log(LogLevel::Debug, "loading with {} threads only: {}", threads_.size(), error.what());
  }
#endif
}

/// What somebody waits for comes first; else the first piece to be read ahead, if there is room for it.
std::shared_ptr<Loader::Item> Loader::find_work() const {
  std::shared_ptr<Item> next;
  for (const Queue* queue : queues_)
    for (const auto& item : queue->items_) {
      if (item->busy || item->stage == Item::Stage::Finished) continue;
      if (item->to) return item;
      if (!next && item->stage == Item::Stage::Waiting) next = item;
    }
  // One piece is always allowed, however large its rows are.
  return next && held_ && held_ + next->piece.bytes() > options_.ahead ? nullptr : next;
}

void Loader::work() {
  std::vector<std::byte> raw;
  Lock lock(mutex_);
  while (!stopping_) {
    if (const auto item = find_work()) process(item, raw, lock);
    else work_.wait(lock);
  }
}

/// Does what can be done for a piece: reads it, and writes it where there is a buffer. Releases the lock meanwhile.
void Loader::process(const std::shared_ptr<Item>& item, std::vector<std::byte>& raw, Lock& lock) {
  item->busy = true;
  if (item->stage == Item::Stage::Waiting) {
    if (!spares_.empty()) {
      item->data = std::move(spares_.back());
      spares_.pop_back();
    }
    held_ += item->piece.bytes();
    lock.unlock();
    item->data.resize(item->piece.bytes());
    auto result = read_piece(*file_, item->piece, raw, item->data);
    lock.lock();
    item->result = std::move(result);
    item->stage = Item::Stage::Read;
  }
  if (item->result && item->to && !item->forgotten) {
    gpu::BufferRef to = item->to;
    lock.unlock();
    auto result = device_->write(*to, item->piece.offset(), std::span<const std::byte>(item->data));
    if (result) result = flow_.wrote(item->data.size());
    release_pages(*file_, item->piece);
    lock.lock();
    item->result = std::move(result);
    to.reset();
    finish(*item);
  } else if (!item->result || item->forgotten) {
    finish(*item);
  }
  item->busy = false;
  done_.notify_all();
}

/// Under the lock: gives back what a piece holds.
void Loader::finish(Item& item) {
  if (item.stage == Item::Stage::Read) {
    held_ -= item.piece.bytes();
    if (spares_.size() * options_.slice < options_.ahead) spares_.push_back(std::move(item.data));
  }
  item.data = {};
  item.to.reset();
  item.stage = Item::Stage::Finished;
  work_.notify_all();   // there is room again
}

Loader::Queue::Queue(Loader& loader) : loader_(loader) {
  Lock lock(loader_.mutex_);
  loader_.queues_.push_back(this);
}

Loader::Queue::~Queue() {
  clear();
  Lock lock(loader_.mutex_);
  loader_.queues_.remove(this);
  if (loader_.queues_.empty()) loader_.spares_.clear();   // loading is over
}

void Loader::Queue::read_ahead(const TileRef& tile) {
  const uint64_t at_once = std::max<uint64_t>(loader_.options_.slice / tile->tensor->layout.row_bytes, 1);
  Lock lock(loader_.mutex_);
  for (uint64_t row = 0; row < tile->rows; row += at_once) {
    auto item = std::make_shared<Item>();
    item->piece = {tile, row, std::min(at_once, tile->rows - row)};
    waiting_ += item->piece.bytes();
    items_.push_back(std::move(item));
  }
  wake();
}

/// Under the lock.
void Loader::Queue::wake() {
  if (waiting_ + unwritten_ < loader_.options_.wake) return;
  loader_.start_threads();
  loader_.work_.notify_all();
}

bool Loader::Queue::has(const Tile& tile) const {
  Lock lock(loader_.mutex_);
  return std::any_of(items_.begin(), items_.end(), [&](const auto& item) { return item->piece.tile.get() == &tile; });
}

uint64_t Loader::Queue::waiting() const {
  Lock lock(loader_.mutex_);
  return waiting_;
}

/// Under the lock: an item that nobody wants. What a thread is at, it finishes.
void Loader::Queue::forget(Item& item) {
  if (!item.delivered) waiting_ -= item.piece.bytes();
  item.forgotten = true;
  if (!item.busy && item.stage != Item::Stage::Finished) loader_.finish(item);
}

void Loader::Queue::deliver(const TileRef& tile, gpu::BufferRef buffer) {
  const bool foreseen = has(*tile);
  if (!foreseen) read_ahead(tile);
  Lock lock(loader_.mutex_);
  bool before = foreseen;
  for (const auto& item : items_) {
    if (item->piece.tile == tile) {
      before = false;
      waiting_ -= item->piece.bytes();
      unwritten_ += item->piece.bytes();
      item->delivered = true;
      if (item->stage != Item::Stage::Finished) item->to = buffer;
    } else if (before && !item->delivered) {
      forget(*item);
    }
  }
  std::erase_if(items_, [](const auto& item) { return item->forgotten; });
  wake();
}

Result<bool> Loader::Queue::wait(const Tile& tile) {
  std::vector<std::byte> raw;
  bool waited = false;
  Lock lock(loader_.mutex_);
  for (;;) {
    std::shared_ptr<Item> mine;
    bool busy = false;
    for (const auto& item : items_) {
      if (item->piece.tile.get() != &tile || item->stage == Item::Stage::Finished) continue;
      if (item->busy) busy = true;
      else if (!mine) mine = item;
    }
    if (!mine && !busy) break;
    waited = true;
    if (mine) loader_.process(mine, raw, lock);
    else loader_.done_.wait(lock);
  }
  Result<void> result;
  for (const auto& item : items_) {
    if (item->piece.tile.get() != &tile) continue;
    unwritten_ -= item->piece.bytes();
    if (result) result = item->result;
  }
  std::erase_if(items_, [&](const auto& item) { return item->piece.tile.get() == &tile; });
  if (!result) return fail(result.error());
  return waited;
}

void Loader::Queue::clear() {
  Lock lock(loader_.mutex_);
  for (const auto& item : items_) forget(*item);
  for (const auto& item : items_)
    while (item->busy) loader_.done_.wait(lock);
  items_.clear();
  waiting_ = unwritten_ = 0;
}

}  // namespace gull::weights
