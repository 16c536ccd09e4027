// The patterns of pre-tokenizers, which are written as PCRE2 takes them, by the browser's own regular expressions.
const SPACE = '\\p{Z}\\t-\\r\\x85';   // White_Space

/** All spellings of a letter, as members of a class. */
const cases = letter => {
  const lower = letter.toLowerCase();
  return lower + lower.toUpperCase() + ({s: '\\u017f', k: '\\u212a'}[lower] ?? '');
};

/** A pattern as JavaScript writes it. They agree on most; not on \s and \d with Unicode, \x{…}, \z, scripts, caseless groups, and
 *  possessive quantifiers, in whose place a look-ahead finds and a back-reference takes. */
export function translate(pattern) {
  let at = 0, named = 0;
  const take = expression => {
    expression.lastIndex = at;
    const match = expression.exec(pattern);
    if (match) at += match[0].length;
    return match;
  };
  function escape(inClass) {
    const [, hex] = take(/\\x\{([0-9a-f]+)\}/iy) ?? [];
    if (hex) return `\\u{${hex}}`;
    const [property] = take(/\\[pP]\{[^}]+\}/y) ?? [];
    if (property) return property.replace('sc:', 'Script=');
    const [, letter] = take(/\\([\s\S])/y);
    if (letter === 's') return inClass ? SPACE : `[${SPACE}]`;
    return {S: `[^${SPACE}]`, d: '\\p{Nd}', z: '$'}[letter] ?? `\\${letter}`;
  }
  function set(caseless) {
    let out = take(/\[\^?/y)[0];
    while (pattern[at] !== ']') {
      if (pattern[at] === '\\') out += escape(true);
      else out += caseless && /[a-z]/i.test(pattern[at]) ? cases(pattern[at++]) : pattern[at++];
    }
    return `${out}${pattern[at++]}`;
  }
  function atom(caseless) {
    const group = take(/\((?:\?(?:i:|:|=|!|<=|<!))?/y);
    if (group) {
      const inner = sequence(caseless || group[0] === '(?i:');
      at++;
      return `${group[0] === '(' ? '(?:' : group[0].replace('i', '')}${inner})`;
    }
    if (pattern[at] === '[') return set(caseless);
    if (pattern[at] === '\\') return escape(false);
    return caseless && /[a-z]/i.test(pattern[at]) ? `[${cases(pattern[at++])}]` : pattern[at++];
  }
  function sequence(caseless) {
    let out = '';
    while (at < pattern.length && pattern[at] !== ')') {
      const one = atom(caseless), [, count = '', possessive] = take(/([?*+]|\{\d+(?:,\d*)?\})(\+?)/y) ?? [];
      if (possessive) out += `(?=(?<g${++named}>${one}${count}))\\k<g${named}>`;
      else out += one + count;
    }
    return out;
  }
  return sequence(false);
}

/** Bytes of text[from, to) in UTF-8. */
function bytesOf(text, from, to) {
  let bytes = 0;
  for (let i = from; i < to; i++) {
    const unit = text.charCodeAt(i);
    bytes += unit < 0x80 ? 1 : unit < 0x800 ? 2 : unit < 0xd800 || unit > 0xdfff ? 3 : 2;   // a surrogate is half of four bytes
  }
  return bytes;
}

/** Ranges of all matches, in bytes of UTF-8: [begin, end, begin, end, …]. */
export function findAll(expression, text, bytes) {
  const found = [], ascii = bytes === text.length;
  let unit = 0, byte = 0;
  const place = at => {
    if (ascii) return at;
    byte += bytesOf(text, unit, at);
    unit = at;
    return byte;
  };
  for (const match of text.matchAll(expression)) if (match[0]) found.push(place(match.index), place(match.index + match[0].length));
  return found;
}

/** @returns the imports gull_pattern, gull_find and gull_found of web/src/pattern.cpp */
export function createPatterns(memory) {
  const patterns = [], decoder = new TextDecoder('utf-8', {ignoreBOM: true});
  const text = (p, length) => decoder.decode(memory.bytes.slice(p >>> 0, (p >>> 0) + length));
  let found = [];
  return {
    gull_pattern(p, length) {
      try { return patterns.push(new RegExp(translate(text(p, length)), 'gu')) - 1; } catch { return -1; }
    },
    gull_find(pattern, p, length) {
      try { found = findAll(patterns[pattern], text(p, length), length); } catch { return -1; }
      return found.length / 2;
    },
    gull_found(out) { found.forEach((at, i) => memory.setU32((out >>> 0) + 4 * i, at)); },
  };
}
