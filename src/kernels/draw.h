// Drawing the next token on the GPU. One Plan serves all settings: they stand in a buffer.
//
// A draw is a race: token i of the kept ones arrives after an exponential time of rate exp(logit ÷ temperature), and the first
// wins, which is i with exactly i's probability. The times follow from seed, step and id alone (base/philox.h), so no order and
// no sum of the candidates enters, and engine::Sampler draws the same token on the CPU from the same logits.
#pragma once

#include "kernels/recorder.h"

namespace gull::kernels {

/// What the kernels read of the options; as engine::Sampler defines them.
struct DrawSettings {
  uint32_t seed[2] = {};
  uint32_t top_k = 0;          ///< 0: off
  uint32_t window = 1;         ///< the penalties look at this many tokens; at least 1
  float top_p = 1, min_p = 0, temperature = 1;
  float repeat = 1, presence = 0, frequency = 0;
  uint32_t unused[2] = {};
};
static_assert(sizeof(DrawSettings) == 48);

/// What the penalties know of a token.
struct TokenNote {
  uint32_t count = 0;          ///< how often it stands in the window
  float bias = 0;
};

/// Memory of a session. All of it changes from run to run or from step to step, none of it is known to a pipeline.
struct DrawBuffers {
  gpu::BufferRef settings;     ///< DrawSettings
  gpu::BufferRef ids, history; ///< as argmax
  gpu::BufferRef notes;        ///< TokenNote a token of the vocabulary; only for penalise
  gpu::BufferRef said;         ///< u32 a position of the context: the token there; only for penalise
};

/// The largest top_k that draw_top takes.
inline constexpr uint32_t kMostTop = 128;

/// Takes the last token into the notes (from the second step on) and changes the logits in place: bias, then penalties.
void penalise(Recorder& r, const Rows& logits, const DrawBuffers& b);
/// top_k in [1, kMostTop], top-p, min-p, the draw at a temperature above 0; then as argmax. Two dispatches.
void draw_top(Recorder& r, const Rows& logits, const DrawBuffers& b);
/// The same for any top_k. `cut`: whether top_k or top_p are in use (eleven dispatches; else three).
void draw_any(Recorder& r, const Rows& logits, const DrawBuffers& b, bool cut);

}  // namespace gull::kernels
