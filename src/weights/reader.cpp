#include "weights/reader.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "base/log.h"

namespace gull::weights {
namespace {

/// Reads a piece and lays it out in `out` (piece.bytes() bytes). `raw` is scratch memory.
Result<void> read_piece(const gguf::File& file, const Piece& piece, std::vector<std::byte>& raw, std::span<std::byte> out) {
  const Tensor& tensor = *piece.tile->tensor;
  const gguf::TensorInfo& info = *tensor.info;
  const uint64_t file_row = info.row_bytes();
  const uint64_t offset = (piece.tile->first_row + piece.first) * file_row;
  auto bytes = file.view(info, offset, piece.rows * file_row);
  if (bytes.empty()) {
    raw.resize(piece.rows * file_row);
    if (auto ok = file.read(info, offset, raw); !ok) return ok;
    bytes = raw;
  }
  const auto rows = out.first(piece.rows * tensor.layout.row_bytes);
  if (info.type == tensor.type) {
    gguf::relay_rows(tensor.layout, bytes, rows);
  } else {   // a vector that is kept as F32
    std::vector<float> values(tensor.k);
    if (auto ok = gguf::dequantize(info.type, bytes, values); !ok) return ok;
    std::memcpy(rows.data(), values.data(), values.size() * sizeof(float));
    std::fill(rows.begin() + static_cast<ptrdiff_t>(values.size() * sizeof(float)), rows.end(), std::byte{0});
  }
  if (out.size() > rows.size()) {
    const std::vector<std::byte> table = gguf::row_table(tensor.type);
    std::memcpy(out.data() + rows.size(), table.data(), std::min(table.size(), out.size() - rows.size()));
  }
  return {};
}

}  // namespace

ReaderOptions reader_options(bool addressable) {
  ReaderOptions options;
  options.slice = addressable ? 4u << 20 : 2u << 20;
  options.ahead = addressable ? 48u << 20 : 12u << 20;
#if !defined(__wasm__)
  // Over a network several requests hide each other's latency; elsewhere the work is the machine's own.
  const unsigned cores = std::max(std::thread::hardware_concurrency(), 1u);
  options.threads = addressable ? std::clamp(cores - 1, 1u, 8u) : 3;
#endif
  return options;
}

struct Reader::Queue::Item {
  Piece piece;
  enum class State { Waiting, Reading, Ready, Forgotten } state = State::Waiting;
  bool counted = false;            ///< its bytes are in held_
  std::vector<std::byte> data;
  Result<void> result;
};

Reader::Reader(std::shared_ptr<const gguf::File> file, ReaderOptions options) : file_(std::move(file)), options_(options) {}

Reader::~Reader() {
  Lock lock(mutex_);
  stopping_ = true;
  lock.unlock();
  work_.notify_all();
#if !defined(__wasm__)
  for (std::thread& thread : threads_) thread.join();
#endif
}

/// Under the lock. Where the system gives no thread, what is wanted is read when it is wanted.
void Reader::start_threads() {
  if (std::exchange(started_, true)) return;
#if !defined(__wasm__)
  try {
    for (unsigned i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    log(LogLevel::Debug, "reading ahead with {} threads only: {}", threads_.size(), error.what());
  }
#endif
}

std::vector<std::byte> Reader::spare(uint64_t bytes) {
  std::vector<std::byte> out;
  if (!spares_.empty()) {
    out = std::move(spares_.back());
    spares_.pop_back();
  }
  out.resize(bytes);
  return out;
}

void Reader::put_back(Item& item) {
  if (item.data.capacity() && spares_.size() * options_.slice < options_.ahead) spares_.push_back(std::move(item.data));
  item.data = {};
  if (std::exchange(item.counted, false)) held_ -= item.piece.bytes();
}

/// The first piece of any queue that nobody reads yet, if there is room for it.
std::shared_ptr<Reader::Item> Reader::find_work() {
  for (Queue* queue : queues_)
    for (const auto& item : queue->items_) {
      if (item->state != Item::State::Waiting) continue;
      // One piece is always allowed, however large its rows are.
      if (held_ && held_ + item->piece.bytes() > options_.ahead) return nullptr;
      return item;
    }
  return nullptr;
}

void Reader::work() {
  std::vector<std::byte> raw;
  Lock lock(mutex_);
  while (!stopping_) {
    const auto item = find_work();
    if (!item) {
      work_.wait(lock);
      continue;
    }
    item->state = Item::State::Reading;
    item->counted = true;
    held_ += item->piece.bytes();
    item->data = spare(item->piece.bytes());
    lock.unlock();
    auto result = read_piece(*file_, item->piece, raw, item->data);
    lock.lock();
    item->result = std::move(result);
    if (item->state == Item::State::Forgotten) put_back(*item);
    else item->state = Item::State::Ready;
    done_.notify_all();
  }
}

Reader::Queue::Queue(Reader& reader) : reader_(reader) {
  Lock lock(reader_.mutex_);
  reader_.queues_.push_back(this);
}

Reader::Queue::~Queue() {
  clear();
  Lock lock(reader_.mutex_);
  if (current_) reader_.put_back(*current_);
  reader_.queues_.remove(this);
  if (reader_.queues_.empty()) reader_.spares_.clear();   // loading is over
}

void Reader::Queue::push(const TileRef& tile) {
  const uint64_t at_once = std::max<uint64_t>(reader_.options_.slice / tile->tensor->layout.row_bytes, 1);
  {
    Lock lock(reader_.mutex_);
    for (uint64_t row = 0; row < tile->rows; row += at_once) {
      auto item = std::make_shared<Item>();
      item->piece = {tile, row, std::min(at_once, tile->rows - row)};
      waiting_ += item->piece.bytes();
      items_.push_back(std::move(item));
    }
    reader_.start_threads();
  }
  reader_.work_.notify_all();
}

/// Under the lock: an item that will not be taken.
void Reader::Queue::forget(const std::shared_ptr<Item>& item) {
  waiting_ -= item->piece.bytes();
  if (item->state == Item::State::Ready) reader_.put_back(*item);
  item->state = Item::State::Forgotten;
}

bool Reader::Queue::advance_to(const Tile& tile) {
  Lock lock(reader_.mutex_);
  const auto at = std::find_if(items_.begin(), items_.end(), [&](const auto& item) { return item->piece.tile.get() == &tile; });
  if (at == items_.end()) return false;
  for (auto it = items_.begin(); it != at; ++it) forget(*it);
  items_.erase(items_.begin(), at);
  return true;
}

void Reader::Queue::clear() {
  Lock lock(reader_.mutex_);
  for (const auto& item : items_) forget(item);
  items_.clear();
}

bool Reader::Queue::has(const Tile& tile) const {
  Lock lock(reader_.mutex_);
  return std::any_of(items_.begin(), items_.end(), [&](const auto& item) { return item->piece.tile.get() == &tile; });
}

uint64_t Reader::Queue::waiting() const {
  Lock lock(reader_.mutex_);
  return waiting_;
}

Result<Reader::Queue::Taken> Reader::Queue::next() {
  Lock lock(reader_.mutex_);
  if (current_) {
    reader_.put_back(*current_);
    current_.reset();
    reader_.work_.notify_all();
  }
  if (items_.empty()) return fail(ErrorKind::Internal, "a piece of weights was taken that nobody asked for");
  const auto item = items_.front();
  Taken taken{item->piece, {}, item->state != Item::State::Ready};
  if (item->state == Item::State::Waiting) {
    item->state = Item::State::Reading;
    item->data = reader_.spare(item->piece.bytes());
    lock.unlock();
    std::vector<std::byte> raw;
    auto result = read_piece(*reader_.file_, item->piece, raw, item->data);
    lock.lock();
    item->result = std::move(result);
    item->state = Item::State::Ready;
  }
  while (item->state == Item::State::Reading) reader_.done_.wait(lock);
  items_.pop_front();
  waiting_ -= item->piece.bytes();
  if (!item->result) {
    reader_.put_back(*item);
    return fail(item->result.error());
  }
  current_ = item;
  taken.bytes = item->data;
  return taken;
}

}  // namespace gull::weights
