// The one error type of the package. `kind` is what a program acts upon: see ErrorKind in include/gull/error.h.
export const KINDS = ['invalid argument', 'not found', 'bad file', 'unsupported', 'out of memory', 'device error',
  'input/output error', 'cancelled', 'not initialised', 'internal error'];

export class GullError extends Error {
  constructor(kind, message) {
    super(message);
    this.name = 'GullError';
    this.kind = kind;
  }
}

/** Any thrown value as a GullError. */
export function asGullError(error) {
  if (error instanceof GullError) return error;
  if (error?.name === 'AbortError') return new GullError('cancelled', 'cancelled');
  if (error?.name === 'QuotaExceededError') return new GullError('out of memory', 'this browser gives the page no more storage');
  return new GullError(error?.kind ?? 'internal error', error?.message ?? String(error));
}

export function humanBytes(bytes) {
  let unit = 0;
  for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
  return `${unit ? bytes.toFixed(bytes < 10 ? 2 : 1) : bytes} ${['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit]}`;
}
