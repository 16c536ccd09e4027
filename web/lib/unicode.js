// What the tokenizers ask of utf8proc, from the browser's own Unicode tables: 330 KB that need not be fetched.
// The order is that of utf8proc_category_t.
const CATEGORIES = ['Cn', 'Lu', 'Ll', 'Lt', 'Lm', 'Lo', 'Mn', 'Mc', 'Me', 'Nd', 'Nl', 'No', 'Pc', 'Pd', 'Ps', 'Pe', 'Pi', 'Pf', 'Po',
  'Sm', 'Sc', 'Sk', 'So', 'Zs', 'Zl', 'Zp', 'Cc', 'Cf', 'Cs', 'Co'];
const ANY = new RegExp(CATEGORIES.map(name => `(\\p{${name}})`).join('|'), 'u');

const only = (text, otherwise) => {   // the one character of a text
  const code = text.codePointAt(0);
  return text.length === (code > 0xffff ? 2 : 1) ? code : otherwise;
};

/** Lower-case letters whose full upper case is several characters but which have a capital of their own. */
function ownCapital(code) {
  if (code >= 0x1f80 && code <= 0x1faf) return code | 8;   // Greek with iota below
  return {0xdf: 0x1e9e, 0x1fb3: 0x1fbc, 0x1fc3: 0x1fcc, 0x1ff3: 0x1ffc}[code];
}
const upper = code => ownCapital(code) ?? only(String.fromCodePoint(code).toUpperCase(), code);

function title(code) {
  if (code >= 0x1c4 && code <= 0x1cc) return 0x1c5 + 3 * Math.floor((code - 0x1c4) / 3);   // Dž, Lj, Nj
  if (code >= 0x1f1 && code <= 0x1f3) return 0x1f2;                                        // Dz
  if (code >= 0x10d0 && code <= 0x10ff) return code;                                       // Georgian has capitals, but no titles
  return upper(code);
}

const ASK = [
  code => ANY.exec(String.fromCodePoint(code)).findIndex((group, i) => i > 0 && group !== undefined) - 1,
  code => (code === 0x130 ? 0x69 : only(String.fromCodePoint(code).toLowerCase(), code)),
  upper,
  title,
];

/** @returns the import gull_unicode(question, code, out, capacity): category, lower, upper, title, or canonical decomposition */
export const createUnicode = memory => (question, code, out, capacity) => {
  if (code < 0 || code > 0x10ffff) return question === 0 ? 0 : question === 4 ? -1 : code;
  if (question < 4) return ASK[question](code);
  const parts = [...String.fromCodePoint(code).normalize('NFD')].map(part => part.codePointAt(0));
  if (parts.length <= capacity) parts.forEach((part, i) => memory.setU32((out >>> 0) + 4 * i, part));
  return parts.length;
};
