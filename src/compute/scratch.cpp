#include "compute/scratch.h"

#include <algorithm>

#include "compute/impl.h"

namespace gull::compute {

Result<Handle> Scratch::Use::get(ComputeBackend::Impl& impl, uint64_t bytes) {
  if (scratch_.handle_ && scratch_.bytes_ >= bytes) return scratch_.handle_;
  bytes = std::max<uint64_t>({bytes, 2 * scratch_.bytes_, 4096});
  auto fresh = impl.alloc(bytes);
  if (!fresh) return fresh;
  if (scratch_.handle_)
    if (auto ok = impl.release(scratch_.handle_); !ok) return fail(ok.error());
  scratch_.handle_ = *fresh;
  scratch_.bytes_ = bytes;
  return scratch_.handle_;
}

}  // namespace gull::compute
