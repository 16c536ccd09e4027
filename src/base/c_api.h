// What both halves of the C API share: errors, kept for the thread that met them.
#pragma once

#include <string>

#include "gull/device.h"
#include "gull/error.h"
#include "gull/gull.h"

namespace gull {

inline std::string& last_c_error() {
  static thread_local std::string message;
  return message;
}

inline gull_status c_status(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::InvalidArgument: return GULL_INVALID_ARGUMENT;
    case ErrorKind::NotFound: return GULL_NOT_FOUND;
    case ErrorKind::BadFile: return GULL_BAD_FILE;
    case ErrorKind::Unsupported: return GULL_UNSUPPORTED;
    case ErrorKind::OutOfMemory: return GULL_OUT_OF_MEMORY;
    case ErrorKind::Device: return GULL_DEVICE;
    case ErrorKind::Io: return GULL_IO;
    case ErrorKind::Cancelled: return GULL_CANCELLED;
    case ErrorKind::NotInitialised: return GULL_NOT_INITIALISED;
    case ErrorKind::Internal: break;
  }
  return GULL_INTERNAL;
}

/// Keeps the message and gives the status.
inline gull_status c_failed(const Error& error) {
  last_c_error() = error.message;
  return c_status(error.kind);
}

template <class T>
gull_status c_result(const Result<T>& result) {
  return result ? GULL_OK : c_failed(result.error());
}

/// For a function that got NULL where it needs something.
inline gull_status c_null(const char* function) {
  return c_failed({ErrorKind::InvalidArgument, std::string(function) + ": a pointer that must not be NULL is"});
}

inline DeviceOptions c_device(const gull_device_options* options) {
  DeviceOptions out;
  if (!options) return out;
  if (options->device) out.device = options->device;
  out.baseline_limits = options->baseline_limits;
  out.no_f16 = options->no_f16;
  out.no_subgroups = options->no_subgroups;
  out.no_immediates = options->no_immediates;
  out.checked_shaders = options->checked_shaders;
  return out;
}

}  // namespace gull
