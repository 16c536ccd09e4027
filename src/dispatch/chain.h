// Several steps of a Plan as one dispatch. Between two dispatches a device drains: the last workgroups of one end before the
// first of the next start, and these then wait for memory. Joined, the workgroups of a step are there already, with the weights
// that they read on their way, when the step before them ends.
//
// What a step hands on to later ones of its dispatch goes through words of an *area*, each of which says by itself whether it
// has been written: it holds kUnwritten until then. So no order between two words is needed: all are atomics, and WGSL says
// of each alone that what was written is seen. An area serves one dispatch of a replay; the dispatch before it cleared it.
//
// A workgroup takes a ticket as it starts, which tells its step and its number in it, so that what it waits for is written by
// workgroups that have started before it: none waits for one that waits for a place. That those go on while others wait is
// more than WebGPU promises, and is so on GPUs of desktops and servers. Where it is not, waiting ends after some seconds with NaN,
// which goes on to the logits and is reported: gpu::Caps::chains says where chains are made at all.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dispatch/pipeline_cache.h"
#include "dispatch/plan.h"

namespace gull::dispatch {

/// A word that nothing has been written to. As four 8-bit integers it is one that no quantisation gives (-128), as a
/// float a number next to 0, in whose place 0 is written.
inline constexpr uint32_t kUnwritten = 0x80808080u;
/// The first words of an area: the ticket, whether anything was waited for in vain, and room.
inline constexpr uint32_t kAreaHead = 16;

/// What a step takes of what the step just before it puts: some of it, or every workgroup all of it.
enum class Takes { Nothing, Part, All };

/// A step's shader, for a step that may be joined with others: one dimension of workgroups, the same number at each replay. All but
/// the first of a chain take from the step before them, so that steps follow one another; what is not handed on by the area is as
/// the dispatch found it: no step reads what an earlier one of its chain writes to a buffer, and of several that write one the last does.
/// Its text may call
///   put(at: u32, v: u32)                 write word `at` of the area
///   look(at: u32) -> u32                 read it: kUnwritten, or what was put
///   take(at: u32, looked: u32) -> u32    the word, once it is written, `looked` being what was seen so far
///   settled(v: u32) -> u32               v, or, where it is still kUnwritten, NaN, and nobody waits any more
/// and read `looks_at_most`, after which a word is not waited for any longer. Where it writes to binding B only
/// `if (B_kept)`, and says `const B_kept = true;` in a line of its own, a later step of the chain may write B, too.
struct Link {
  struct Binding {
    std::string name, type;
    bool may_give_up = false;        ///< has the line that kept_line gives
  };
  /// `array<element, count>` of workgroup memory.
  struct Array {
    std::string name, element;
    uint32_t count = 0;
    uint32_t bytes() const { return count * (element.starts_with("vec4") ? 16 : element.starts_with("vec2") ? 8 : 4); }
  };
  std::string key;
  gpu::PipelineDesc desc;
  std::vector<Binding> bindings;
  std::vector<Array> arrays;
  std::string workgroup_size;        ///< the attribute
  uint32_t threads = 0;
  Takes takes = Takes::Nothing;
  std::vector<size_t> reads;         ///< bindings whose memory it reads where other steps may write
};
/// Null where the text is of a form that cannot be joined: bindings and workgroup variables in lines of their own are wanted.
std::shared_ptr<const Link> make_link(std::string key, gpu::PipelineDesc desc, Takes takes, std::vector<size_t> reads);

/// Gives a buffer of so many bytes.
using MakeBuffer = std::function<Result<gpu::BufferRef>(uint64_t bytes)>;

/// The Plan with the links of each segment that follow one another joined into one dispatch; what stands alone is compiled as
/// it is. `words`: the end of the largest area. Null without an error: the links cannot all be joined as they want to be, or there are
/// fewer than two chains, so that none could clear the other's area.
Result<std::unique_ptr<Plan>> chained(const Plan& plan, PipelineCache& pipelines, uint32_t words, const MakeBuffer& make);

/// The line by which a text says that it writes a binding only where that is kept.
std::string kept_line(const std::string& binding);

/// One step of a joined shader. `names[i]` is the variable that stands for its binding i.
struct Joined {
  const Link* link = nullptr;
  std::vector<std::string> names;
  uint32_t workgroups = 0;
  std::vector<std::string> given_up;   ///< bindings that a later step writes
};
/// How a word is waited for.
struct Waiting {
  bool writes = false;               ///< a look is an atomic that writes: LLVM takes one that only reads for a plain load, and out of the loop
  uint32_t most = 10'000'000;        ///< looks of some tenths of a microsecond: some seconds
};
Waiting waiting(const gpu::Caps& caps);
/// The joined text. `declarations` declares the variables, and `chain` and `spare`, the areas of this dispatch and of the next one, of
/// `words` words.
Result<std::string> join(const std::vector<Joined>& steps, const std::string& declarations, uint32_t words, const Waiting& how);
/// Bytes of workgroup memory that the joined shader takes: a workgroup runs one step, so they share it.
uint32_t joined_workgroup_bytes(const std::vector<Joined>& steps);
/// A link's text for a step that stands alone: nobody takes what it puts.
gpu::PipelineDesc alone(const Link& link);

}  // namespace gull::dispatch
