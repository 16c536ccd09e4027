// Markdown as models write it, as DOM nodes: never as HTML, so nothing that a model says can become markup.
const element = (name, ...children) => {
  const node = document.createElement(name);
  node.append(...children);
  return node;
};

// Code, strong, emphasis, struck, links: the first that matches wins, and code takes no further look.
const INLINE = /(`+)(.+?)\1(?!`)|\*\*(.+?)\*\*|__(.+?)__|(?<![\w*])\*(?!\s)(.+?)(?<!\s)\*(?![\w*])|(?<!\w)_(?!\s)(.+?)(?<!\s)_(?!\w)|~~(.+?)~~|\[([^\]]+)\]\(([^)\s]+)\)|(https?:\/\/[^\s<>)\]]+)/;

function inline(text) {
  const nodes = [];
  for (let match; (match = INLINE.exec(text)); text = text.slice(match.index + match[0].length)) {
    if (match.index) nodes.push(text.slice(0, match.index));
    const [, , code, strong, strong2, emphasis, emphasis2, struck, label, target, bare] = match;
    if (code !== undefined) nodes.push(element('code', code.replace(/^ (.*) $/, '$1')));
    else if (strong ?? strong2) nodes.push(element('strong', ...inline(strong ?? strong2)));
    else if (emphasis ?? emphasis2) nodes.push(element('em', ...inline(emphasis ?? emphasis2)));
    else if (struck) nodes.push(element('s', ...inline(struck)));
    else nodes.push(link(target ?? bare, label ?? bare));
  }
  if (text) nodes.push(text);
  return nodes;
}

function link(target, label) {
  if (!/^(https?|mailto):/i.test(target)) return `${label} (${target})`;
  const a = element('a', label);
  a.href = target;
  a.rel = 'noopener noreferrer';
  a.target = '_blank';
  return a;
}

const RULES = [
  {start: /^\s{0,3}(```|~~~)\s*(\S*)/, take(lines, [, fence]) {
    const code = [];
    while (lines.length && !lines[0].trim().startsWith(fence)) code.push(lines.shift());
    lines.shift();
    return element('pre', element('code', code.join('\n')));
  }},
  {start: /^\s{0,3}(#{1,6})\s+(.*)$/, take: (_lines, [, marks, title]) => element(`h${Math.min(6, marks.length + 2)}`, ...inline(title))},
  {start: /^\s{0,3}([-*_])(\s*\1){2,}\s*$/, take: () => element('hr')},
  {start: /^\s*>\s?(.*)$/, take(lines, [, first]) {
    const quoted = [first];
    while (lines.length && /^\s*>/.test(lines[0])) quoted.push(lines.shift().replace(/^\s*>\s?/, ''));
    return element('blockquote', ...blocks(quoted));
  }},
  {start: /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/, take: takeList},
  {start: /^\s*\|(.+)\|\s*$/, take: takeTable},
];

function takeList(lines, [, indent, mark, first]) {
  const ordered = /\d/.test(mark), list = element(ordered ? 'ol' : 'ul'), item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
  if (ordered && parseInt(mark, 10) !== 1) list.start = parseInt(mark, 10);
  let content = [first];
  const close = () => list.append(element('li', ...(content.length > 1 ? blocks(content) : inline(content[0]))));
  while (lines.length) {
    const next = item.exec(lines[0]), deeper = /^\s+/.exec(lines[0])?.[0].length > indent.length;
    if (next && next[1].length <= indent.length) {
      if (/\d/.test(next[2]) !== ordered || next[1].length < indent.length) break;
      close();
      content = [next[3]];
    } else if (deeper || (lines[0].trim() === '' && lines.length > 1 && (/^\s+\S/.test(lines[1]) || item.test(lines[1])))) {
      content.push(lines[0].replace(new RegExp(`^\\s{0,${indent.length + 3}}`), ''));
    } else break;
    lines.shift();
  }
  close();
  return list;
}

function takeTable(lines, [row]) {
  const cells = line => line.trim().replace(/^\||\|$/g, '').split('|').map(cell => cell.trim());
  const table = element('table');
  const addRow = (line, kind) => table.append(element('tr', ...cells(line).map(cell => element(kind, ...inline(cell)))));
  const headed = lines.length && /^\s*\|?[\s:|-]+\|?\s*$/.test(lines[0]) && lines[0].includes('-');
  addRow(row, headed ? 'th' : 'td');
  if (headed) lines.shift();
  while (lines.length && /^\s*\|/.test(lines[0])) addRow(lines.shift(), 'td');
  return table;
}

function blocks(lines) {
  const nodes = [];
  let paragraph = [];
  const close = () => {
    if (paragraph.length) nodes.push(element('p', ...paragraph.flatMap((line, i) => (i ? [element('br'), ...inline(line)] : inline(line)))));
    paragraph = [];
  };
  while (lines.length) {
    const line = lines.shift();
    const found = RULES.map(rule => [rule, rule.start.exec(line)]).find(([, match]) => match);
    if (!found && line.trim()) { paragraph.push(line); continue; }
    close();
    if (found) nodes.push(found[0].take(lines, found[1]));
  }
  close();
  return nodes;
}

export const renderMarkdown = text => blocks(text.split('\n'));
