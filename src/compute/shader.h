// How the operands of an operation are bound, and the shader text that reads and writes them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "dispatch/params.h"
#include "gpu/device.h"
#include "gull/compute.h"

namespace gull::compute {

constexpr size_t kMaxOperands = 7;
constexpr uint64_t kMaxElements = (uint64_t{1} << 32) - (uint64_t{1} << 16);   // indices are u32; room to round up

/// How a shader sees an operand's elements. F16 storage is read and written as f32.
/// AddF32 and AddF16 are only added to, by compare-and-exchange on whole words.
enum class Storage : uint8_t { F32, F16, I32, AddF32, AddF16 };

constexpr uint64_t element_bytes(Storage storage) { return storage == Storage::F16 || storage == Storage::AddF16 ? 2 : 4; }
constexpr Storage storage_of(ElementType type) { return type == ElementType::F16 ? Storage::F16 : Storage::F32; }

/// One tensor of an operation.
struct Operand {
  const char* name = "";   ///< its name in the shader: NAME_at(i), NAME_put(i, v)
  View view;
  uint64_t elements = 0;   ///< from the view's start to the last element used, plus one; 0: not used at all
  Storage storage = Storage::F32;
  bool write = false;
  bool elementwise = false;   ///< element i is read only to make element i of the output, so that both may be the same memory
  bool vec4 = false;       ///< asks for NAME_at4(i), four elements from 4·i on (offsets must be multiples of 4)
};

/// One bound buffer: the operands that share it, and the windows of `window` bytes in which it is bound. Operands share a
/// binding where one of them is written, since WebGPU lets no dispatch write what it also reads through another binding.
struct Bound {
  Handle handle = 0;
  uint32_t first_window = 0, windows = 1;
  bool write = false, vec4 = false;
  Storage storage = Storage::F32;
};

/// Where each operand of a call ended up.
struct Layout {
  uint64_t window = 0;                          ///< bytes; a multiple of 256
  uint32_t bounds = 0;
  static constexpr uint8_t kUnused = 7;
  std::array<uint8_t, kMaxOperands> bound{kUnused, kUnused, kUnused, kUnused, kUnused, kUnused, kUnused};   ///< operand → bound
  std::array<Bound, kMaxOperands> bounds_of{};
  /// Operand's first element, relative to its first window.
  std::array<uint32_t, kMaxOperands> offset{};
  bool vec4(size_t operand) const { return bound[operand] != kUnused && bounds_of[bound[operand]].vec4; }
  uint32_t bindings() const;
  /// Identifies the layout among all layouts of one operation.
  uint64_t key() const;
};

/// The declarations of all bindings, and the functions that read and write the operands.
std::string declare_operands(const gpu::Caps& caps, const Layout& layout, std::span<const Operand> operands);

/// Helpers that every shader starts with: `enable` lines, the number of a workgroup, tests of NaN that no optimiser drops.
std::string prelude(const gpu::Caps& caps, dispatch::ParamMode mode);

}  // namespace gull::compute
