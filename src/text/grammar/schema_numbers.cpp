#include <algorithm>

#include "base/log.h"
#include "text/grammar/schema_parts.h"

namespace gull::text::grammar {
namespace {

std::string digit_range(char from, char to) { return from == to ? fmt::format("\"{}\"", from) : fmt::format("[{}-{}]", from, to); }
std::string any_digits(size_t n) { return n == 0 ? "" : n == 1 ? " [0-9]" : fmt::format(" [0-9]{{{}}}", n); }

/// Numbers of the same length from low to high.
std::string same_length(const std::string& low, const std::string& high) {
  if (low.empty()) return "";
  const std::string low_rest = low.substr(1), high_rest = high.substr(1);
  const std::string zeros(low_rest.size(), '0'), nines(low_rest.size(), '9');
  if (low_rest == zeros && high_rest == nines) return digit_range(low[0], high[0]) + any_digits(low_rest.size());
  if (low[0] == high[0]) return digit_range(low[0], low[0]) + " " + same_length(low_rest, high_rest);
  std::string out;
  const auto alternative = [&](const std::string& s) { out += (out.empty() ? "" : " | ") + s; };
  char first = low[0], last = high[0];
  if (low_rest != zeros) alternative(digit_range(first, first) + " " + same_length(low_rest, nines)), first++;
  if (high_rest != nines) last--;
  if (first <= last) alternative(digit_range(first, last) + any_digits(low_rest.size()));
  if (high_rest != nines) alternative(digit_range(high[0], high[0]) + " " + same_length(zeros, high_rest));
  return "(" + out + ")";
}

/// Numbers without sign from low to high.
std::string unsigned_range(uint64_t low, uint64_t high) {
  std::string out;
  for (std::string from = std::to_string(low), end = std::to_string(high);;) {
    const bool last = from.size() == end.size();
    out += (out.empty() ? "" : " | ") + same_length(from, last ? end : std::string(from.size(), '9'));
    if (last) return "(" + out + ")";
    from = "1" + std::string(from.size(), '0');
  }
}

/// A high end for what has none: 16 digits, or one more than the low end has.
uint64_t open_end(uint64_t low) {
  const size_t digits = std::min<size_t>(std::max<size_t>(16, std::to_string(low).size() + 1), 18);
  uint64_t end = 0;
  for (size_t i = 0; i < digits; i++) end = end * 10 + 9;
  return std::max(low, end);
}

uint64_t magnitude(int64_t negative) { return static_cast<uint64_t>(-(negative + 1)) + 1; }

/// The integers of each sign within bounds. `write(sign, low, high, has_high)` makes one alternative.
template <class F>
std::string by_sign(const Bounds& b, F&& write) {
  std::string out;
  const auto alternative = [&](std::string s) {
    if (!s.empty()) out += (out.empty() ? "" : " | ") + s;
  };
  if (!b.low || *b.low < 0) {
    const bool open = !b.low;
    const uint64_t least = b.high && *b.high < 0 ? magnitude(*b.high) : 0;
    alternative(write("\"-\" ", least, open ? open_end(least) : magnitude(*b.low), !open));
  }
  if (!b.high || *b.high >= 0) {
    const bool open = !b.high;
    const uint64_t least = b.low && *b.low > 0 ? static_cast<uint64_t>(*b.low) : 0;
    alternative(write("", least, open ? open_end(least) : static_cast<uint64_t>(*b.high), !open));
  }
  return out;
}

}  // namespace

Result<std::string> integer_gbnf(const Bounds& b) {
  if (b.low && b.high && *b.low > *b.high) return fail(ErrorKind::InvalidArgument, "no integer lies between minimum and maximum");
  return by_sign(b, [](const char* sign, uint64_t low, uint64_t high, bool) -> std::string {
    if (*sign) low = std::max<uint64_t>(low, 1);   // no "-0"
    return low > high ? "" : sign + unsigned_range(low, high);
  });
}

Result<std::string> number_gbnf(const Bounds& b) {
  if (b.low && b.high && (*b.low > *b.high || (*b.low == *b.high && (b.low_excluded || b.high_excluded))))
    return fail(ErrorKind::InvalidArgument, "no number lies between minimum and maximum");
  const auto one_side = [&](const char* sign, uint64_t low, uint64_t high, bool has_high) -> std::string {
    // Away from zero: from `low` to `high`; each end may be left out. Of a bound with the other sign nothing is left but zero.
    const bool negative = *sign;
    const bool low_is_bound = negative ? b.high && *b.high <= 0 : b.low && *b.low >= 0;
    const bool skip_low = low_is_bound && (negative ? b.high_excluded : b.low_excluded);
    const bool skip_high = has_high && (negative ? b.low_excluded : b.high_excluded);
    std::string out;
    const auto alternative = [&](const std::string& s) { out += (out.empty() ? "" : " | ") + s; };
    // Next to an excluded bound the fraction must not be so fine that a double rounds it onto the bound.
    const auto decimals = [](uint64_t n) { return 15 - static_cast<int>(std::min<size_t>(std::to_string(n).size(), 15)); };
    const int fine = skip_high ? decimals(high) : 15, fine_low = decimals(low);
    const std::string fraction = fine > 0 ? fmt::format(" (\".\" [0-9]{{1,{}}})?", fine) : "";
    const std::string zero_fraction = "(\".\" \"0\"{1,15})?";
    if (low < high) {
      if (skip_low && fine_low > 0) alternative(fmt::format("\"{}\" \".\" [0-9]{{0,{}}} [1-9]", low, fine_low - 1));
      const uint64_t from = low + skip_low;
      if (from <= high - 1) alternative(unsigned_range(from, high - 1) + fraction);
      if (!skip_high) alternative(gbnf_literal(std::to_string(high)) + " " + zero_fraction);
    } else if (!skip_low && !skip_high) {
      alternative(gbnf_literal(std::to_string(low)) + " " + zero_fraction);
    }
    return out.empty() ? "" : fmt::format("{}({})", sign, out);
  };
  const std::string out = by_sign(b, one_side);
  if (out.empty()) return fail(ErrorKind::InvalidArgument, "no number lies between minimum and maximum");
  return out;
}

}  // namespace gull::text::grammar
