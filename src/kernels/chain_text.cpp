#include "kernels/chain_text.h"

#include <algorithm>

#include "dispatch/chain.h"
#include "kernels/wgsl.h"

namespace gull::kernels {

std::string take_all(uint32_t count, uint32_t threads, const std::string& before, const std::function<std::string(const std::string&)>& at,
                     const std::function<std::string(const std::string&, const std::string&)>& store) {
  constexpr uint32_t kAtOnce = 24, kWatched = 8;
  const std::string none = fmt::format("{:#x}u", dispatch::kUnwritten);
  std::string text;
  for (uint32_t first = 0; first < count; first += kAtOnce * threads) {
    const uint32_t n = std::min(kAtOnce, (count - first + threads - 1) / threads);
    std::string look, missing, again, write;
    for (uint32_t j = 0; j < n; ++j) {
      const std::string place = at(fmt::format("i{}", j));
      look += fmt::format("      let i{0} = min(t + {1}u, {2}u);\n      var f{0} = look({3});\n", j, first + j * threads, count - 1, place);
      missing += fmt::format("{}f{} == {}", j ? " || " : "", j, none);
      // Of many words only the last is watched until it is there.
      const bool watched = n <= kWatched || j + 1 == n;
      again += fmt::format("        if ({3}f{0} == {1}) {{ f{0} = look({2}); }}\n", j, none, place, watched ? "" : fmt::format("f{} != {} && ", n - 1, none));
      write += "      " + store(fmt::format("i{}", j), fmt::format("settled(f{})", j)) + "\n";
    }
    text += "    {\n" + look + "      for (var looks = select(0u, 1u, " + before + " == 0x5bd1e995u); looks < looks_at_most && (" + missing + "); looks++) {\n" + again + "      }\n" + write + "    }\n";
  }
  return text;
}

}  // namespace gull::kernels
