// Errors of gull: every fallible function returns Result<T>; nothing throws, aborts or exits.
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace gull {

/// What went wrong, in a way that a program can act upon.
enum class ErrorKind {
  InvalidArgument,  ///< the caller asked for something that makes no sense
  NotFound,         ///< a file, tensor, key, handle or model that is not there
  BadFile,          ///< a file or template that is broken or hostile
  Unsupported,      ///< well-formed, but gull or this device cannot do it
  OutOfMemory,      ///< does not fit; the message says what would
  Device,           ///< the GPU, its driver or the WebGPU implementation failed, or was lost
  Io,               ///< reading, writing or the network
  Cancelled,        ///< the caller asked to stop
  NotInitialised,   ///< used before it was opened
  Internal,         ///< a broken invariant of gull itself: please report it
};

/// The name of a kind in lower case, as messages and JSON print it ("bad file").
const char* to_string(ErrorKind kind);

/// One failure. `message` is one line that names the thing at fault and what to do about it.
struct Error {
  ErrorKind kind = ErrorKind::Internal;
  std::string message;
};

/// A value, or the reason why there is none.
template <class T>
using Result = std::expected<T, Error>;

/// Shorthand to return a failure: `return fail(ErrorKind::Io, "cannot open x");`
inline std::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return std::unexpected(Error{kind, std::move(message)});
}

/// Passes the error of another result on: `if (!r) return fail(r.error());`
inline std::unexpected<Error> fail(Error error) { return std::unexpected(std::move(error)); }

}  // namespace gull
