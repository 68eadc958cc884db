/** The preview as text: numbered lines, or blocks (headings, paragraphs, lists, tables, mail headers). Long texts load in parts. */
import { html, useEffect, useRef, useState } from './vendor/preact-htm.js';
import { post, isAbort } from './api.js';
import { t } from './i18n.js';
import { Button, Link, Loading, Marked, Message, ReadError, formatDate, visibleText } from './components.js';
import { findRanges, sliceRanges, useMarks } from './marks.js';

const PART_CHARS = 20000;
const PART_LINES = 400;
const LINE_PART_CHARS = 200000;
const MAX_LINE_PARTS = 5;
const LINES_BEFORE_TARGET = 80;
const MAX_PARTS_TO_TARGET = 30;
/** From this length on (in characters), a block is scrolled to the passage inside it and not to its start. */
const LONG_BLOCK = 600;

const normal = (text) => text.replace(/\s+/g, ' ').trim().toLowerCase();

/** True if a block lies where the anchor of the target points. */
function matchesAnchor(block, anchor) {
  const own = block.anchor || {};
  for (const name of ['page', 'member', 'part', 'sheet']) {
    if (anchor[name] !== undefined && own[name] !== undefined && String(own[name]) !== String(anchor[name])) return false;
  }
  if (anchor.line_start && own.line_start) return own.line_start <= (anchor.line_end || anchor.line_start) && own.line_end >= anchor.line_start;
  return true;
}

/** True if the target names a place or a passage, which a block may hold. */
const hasPlace = (anchor) => ['page', 'member', 'part', 'sheet', 'line_start'].some((name) => anchor[name] !== undefined);
const isPlaced = ({ anchor, quote }) => Boolean(quote) || hasPlace(anchor);

/** The index of the block that holds the passage of the target, or -1. */
function findTargetBlock(blocks, { anchor, quote }) {
  const start = normal(quote || '').slice(0, 50);
  const inPlace = (block) => matchesAnchor(block, anchor);
  if (start) {
    const exact = blocks.findIndex((block) => inPlace(block) && normal(block.text).includes(start));
    if (exact >= 0) return exact;
    const partly = blocks.findIndex((block) => inPlace(block) && normal(block.text).length > 8 && start.startsWith(normal(block.text).slice(0, 50)));
    if (partly >= 0) return partly;
  }
  return hasPlace(anchor) ? blocks.findIndex((block) => inPlace(block) && Object.keys(block.anchor || {}).length > 0) : -1;
}

/** Reads the next part. A block that was cut at the end is left to the next part, so that blocks stay whole. */
async function readBlocks(path, offset, page, signal) {
  const part = await post('/v1/read', { path, offset, max_chars: PART_CHARS, page }, { signal });
  let { blocks, next_offset: next } = part;
  if (next !== null && blocks.length > 1) {
    next = blocks.at(-1).start;
    blocks = blocks.slice(0, -1);
  }
  return { blocks, next, problems: part.problems || [], title: part.title };
}

/**
 * Reads that belong to a file: `begin(from)` gives their signal, or nothing if the part from there is being read already, because
 * several scroll events can ask for the same part before the state says that it is loading.
 */
function useReads(start, deps) {
  const ref = useRef(null);
  useEffect(() => {
    const controller = new AbortController();
    ref.current = { signal: controller.signal, from: null };
    start();
    return () => controller.abort();
  }, deps);
  return (from) => {
    if (ref.current.from === from) return null;
    ref.current.from = from;
    return ref.current.signal;
  };
}

/** The blocks of a file: the first part, parts up to the target, also to one that changes, and further parts on demand. */
function useBlocks(path, target, page) {
  const [state, setState] = useState({ blocks: [], next: 0, loading: true, error: null, problems: [] });
  const targetRef = useRef(target);
  targetRef.current = target;
  const soughtRef = useRef(null);
  const key = JSON.stringify([path, page, target.anchor, target.quote]);
  const load = async (old, wantsTarget) => {
    const signal = begin(old.next);
    if (!signal) return;
    if (wantsTarget) soughtRef.current = key;
    let next = { ...old, loading: true };
    setState(next);
    try {
      for (let parts = 0; parts < (wantsTarget ? MAX_PARTS_TO_TARGET : 1) && next.next !== null; parts += 1) {
        const part = await readBlocks(path, next.next, page, signal);
        next = { ...next, blocks: [...next.blocks, ...part.blocks], next: part.next, problems: [...new Set([...next.problems, ...part.problems])] };
        setState(next);
        // The target may have changed since the reading began.
        if (findTargetBlock(next.blocks, targetRef.current) >= 0) break;
      }
      setState({ ...next, loading: false });
    } catch (error) {
      if (!isAbort(error)) setState({ ...next, loading: false, next: null, error });
    }
  };
  const begin = useReads(() => load({ blocks: [], next: 0, error: null, problems: [] }, isPlaced(target)), [path, page]);
  useEffect(() => {
    // Each target is looked for once, within the limit of parts. While parts are being read, it waits for their end.
    if (state.loading || state.next === null || soughtRef.current === key || !isPlaced(target)) return;
    if (findTargetBlock(state.blocks, target) < 0) load(state, true);
  }, [key, state.loading]);
  const loadMore = state.next !== null && !state.loading ? () => load(state, false) : null;
  return [state, loadMore];
}

/** Marks of the find field if it holds a text, otherwise those of the query. */
export function useTextMarks(find, query, texts) {
  const marksOf = useMarks(find ? '' : query, texts);
  return find ? (text) => findRanges(text, find) : marksOf;
}

/** What stands for loading more while a part is on its way: its matches are waited for. */
export const waitForPart = () => {};

/** Tells the preview that more can be loaded, for its scrolling and its "next match". */
export function useRegisterMore(registerMore, loadMore, isLoading) {
  const more = loadMore || (isLoading ? waitForPart : null);
  useEffect(() => registerMore(more), [more, registerMore]);
  useEffect(() => () => registerMore(null), []);
}

/** A button that loads more. It is gone while it works, so the focus moves to the content around it. */
export function LoadMore({ onClick, icon, text = 'load_more' }) {
  const load = () => {
    document.getElementById('preview')?.focus({ preventScroll: true });
    onClick();
  };
  return html`<${Button} icon=${icon} onClick=${load}>${t(text)}<//>`;
}

/** The lines of a text with their positions in it. */
function linesOf(text) {
  let start = 0;
  return text.split('\n').map((line) => {
    const item = { text: line, start };
    start += line.length + 1;
    return item;
  });
}

function TableBlock({ text, ranges }) {
  const rows = linesOf(text).map((line) => {
    let at = line.start;
    return line.text.split(' | ').map((cell) => {
      const item = { text: cell, ranges: sliceRanges(ranges, at, at + cell.length) };
      at += cell.length + 3;
      return item;
    });
  });
  return html`<div class="table-scroll" tabindex="0" role="region" aria-label=${t('table')}><table><tbody>
    ${rows.map((cells, row) => html`<tr key=${row}>${cells.map((cell, column) => html`<td key=${column}><${Marked} ...${cell} /></td>`)}</tr>`)}
  </tbody></table></div>`;
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)$/;
const SENDER = /^"?([^"<]*?)"?\s*<([^<>\s]+@[^<>\s]+)>$/;

/** A value of the metadata: a time in the notation of the language, a sender as a link to the mails of that person. */
function MetadataValue({ name, text, ranges }) {
  if (TIME.test(text)) {
    const time = formatDate(text, true);
    return html`<span title=${text}>${ranges.length ? html`<mark>${time}</mark>` : time}</span>`;
  }
  const [, person, address] = (name === 'From' && SENDER.exec(text)) || [];
  const line = html`<${Marked} text=${text} ranges=${ranges} />`;
  if (!address) return line;
  return html`<${Link} path="/ui/" params=${{ q: `from:"${person || address}"` }} title=${t('mails_from', { name: visibleText(person || address, true) })}>${line}<//>`;
}

/** Lines of the form "Name: value" (mail headers, properties) as a definition list. */
function MetadataBlock({ text, ranges }) {
  return html`<dl class="metadata">${linesOf(text).map((line) => {
    const colon = line.text.indexOf(': ');
    const from = colon < 0 ? 0 : colon + 2;
    const name = colon < 0 ? '' : line.text.slice(0, colon);
    return html`<div key=${line.start}><dt><bdi>${visibleText(name)}</bdi></dt>
      <dd><${MetadataValue} name=${name} text=${line.text.slice(from)} ranges=${sliceRanges(ranges, line.start + from, line.start + line.text.length)} /></dd></div>`;
  })}</dl>`;
}

/** A text with an empty element where the passage of the target begins, to which the preview scrolls in a long block. */
function TargetText({ text, ranges, quote }) {
  const at = Math.max(0, text.indexOf(quote.trim().split('\n')[0].slice(0, 50)));
  return html`<${Marked} text=${text.slice(0, at)} ranges=${sliceRanges(ranges, 0, at)} /><span data-target=""></span>
    <${Marked} text=${text.slice(at)} ranges=${sliceRanges(ranges, at, text.length)} />`;
}

function Block({ block, ranges, target, level }) {
  const isTarget = Boolean(target);
  const content = { text: block.text, ranges };
  const attributes = { class: `block${isTarget ? ' target' : ''}`, 'data-target': isTarget ? '' : undefined };
  if (level) return html`<div ...${attributes} role="heading" aria-level=${level}><span class=${`doc-heading doc-heading-${level}`}><${Marked} ...${content} /></span></div>`;
  switch (block.kind) {
    case 'Table': return html`<div ...${attributes}><${TableBlock} ...${content} /></div>`;
    case 'Metadata': return html`<div ...${attributes}><${MetadataBlock} ...${content} /></div>`;
    case 'Code': return html`<pre ...${attributes}><code><${Marked} ...${content} /></code></pre>`;
    case 'ListItem': return html`<p ...${attributes}><span class="bullet" aria-hidden="true">•</span><${Marked} ...${content} /></p>`;
    default: return isTarget && target.quote && block.text.length > LONG_BLOCK
      ? html`<p class=${attributes.class}><${TargetText} ...${content} quote=${target.quote} /></p>`
      : html`<p ...${attributes}><${Marked} ...${content} /></p>`;
  }
}

/** Where a new page, part, member or sheet begins, in words. */
function sectionName({ member, part, page, sheet } = {}) {
  return [member && !part?.includes(member) && member, part, page && t('place_page', { page }), sheet && t('place_sheet', { sheet })].filter(Boolean).join(', ');
}

/** Blocks with a line where a new section begins. The levels of headings never skip one, whatever the file says. */
function BlockList({ blocks, target, rangesOf }) {
  const targetIndex = findTargetBlock(blocks, target);
  let section = sectionName(blocks[0]?.anchor);
  let lastLevel = 2;
  return blocks.map((block, index) => {
    const name = sectionName(block.anchor);
    const divider = (name !== section || index === 0) && name ? html`<p class="section-name" key=${`s${index}`}><bdi>${visibleText(name, true)}</bdi></p>` : null;
    section = name;
    const level = block.kind?.Heading ? Math.min(block.kind.Heading + 2, lastLevel + 1, 6) : 0;
    if (level) lastLevel = level;
    return [divider, html`<${Block} key=${index} block=${block} ranges=${rangesOf(block.text)} target=${index === targetIndex ? target : null} level=${level} />`];
  });
}

/** The text of a file, or of one of its pages, as blocks. `notice` stands above a text that could be read. */
export function BlocksView({ path, page, target, find, registerMore, notice }) {
  const [state, loadMore] = useBlocks(path, target, page);
  const rangesOf = useTextMarks(find, target.query, state.blocks.map((block) => block.text));
  useRegisterMore(registerMore, loadMore, state.loading);
  return html`<div class="document">
    ${state.error ? html`<${ReadError} error=${state.error} />` : !state.loading && notice}
    ${state.problems.map((problem) => html`<${Message} key=${problem} kind="warning" text=${problem} />`)}
    <${BlockList} blocks=${state.blocks} target=${target} rangesOf=${rangesOf} />
    ${!state.loading && !state.error && !state.blocks.length && html`<p class="muted">${t('no_text')}</p>`}
    ${state.loading && html`<${Loading} />`}
    ${loadMore && html`<${LoadMore} onClick=${loadMore} />`}
  </div>`;
}

/** Reads lines; an end beyond the file is no error, a start beyond it gives no lines. */
async function readLines(path, from, to, signal) {
  try {
    let text = '';
    let offset = 0;
    // Very long lines come in several parts, which are put together again.
    for (let parts = 0; parts < MAX_LINE_PARTS && offset !== null; parts += 1) {
      const part = await post('/v1/read', { path, lines: `${from}-${to}`, offset, max_chars: LINE_PART_CHARS }, { signal });
      text += part.blocks.map((block) => block.text).join('\n');
      offset = part.next_offset;
    }
    return text.split('\n');
  } catch (error) {
    if (error.status === 404 && error.field === 'line' && from > 1) return [];
    throw error;
  }
}

/** The lines around the target, with more before and after on demand. */
function useLines(path, firstLine) {
  const start = Math.max(1, firstLine - LINES_BEFORE_TARGET);
  const [state, setState] = useState({ first: start, lines: [], atEnd: false, loading: true, error: null });
  const load = async (old, from, to) => {
    const signal = begin(from);
    if (!signal) return;
    setState({ ...old, loading: true });
    try {
      const lines = await readLines(path, from, to, signal);
      const before = from < old.first;
      setState({
        first: Math.min(from, old.first), lines: before ? [...lines, ...old.lines] : [...old.lines, ...lines],
        atEnd: before ? old.atEnd : lines.length < to - from + 1, loading: false, error: null,
      });
    } catch (error) {
      if (!isAbort(error)) setState({ ...old, loading: false, atEnd: true, error });
    }
  };
  const begin = useReads(() => load({ first: start, lines: [], atEnd: false }, start, start + PART_LINES - 1), [path, start]);
  const next = state.first + state.lines.length;
  return {
    ...state,
    loadMore: !state.atEnd && !state.loading ? () => load(state, next, next + PART_LINES - 1) : null,
    loadBefore: state.first > 1 && !state.loading ? () => load(state, Math.max(1, state.first - PART_LINES), state.first - 1) : null,
  };
}

function LinesView({ path, target, find, registerMore }) {
  const { anchor, query } = target;
  const { lines, first, loading, error, loadMore, loadBefore } = useLines(path, anchor.line_start || 1);
  const rangesOf = useTextMarks(find, query, lines);
  useRegisterMore(registerMore, loadMore, loading);
  if (error && !lines.length) {
    // A file that has no lines of its own (the daemon says so) is still readable as blocks.
    return error.status === 400 ? html`<${BlocksView} path=${path} target=${target} find=${find} registerMore=${registerMore} />` : html`<${ReadError} error=${error} />`;
  }
  const isTarget = (number) => number >= anchor.line_start && number <= (anchor.line_end || anchor.line_start);
  return html`<div class="document-lines">
    ${loadBefore && html`<${LoadMore} icon="up" text="load_earlier" onClick=${loadBefore} />`}
    <ol class="lines" start=${first}>${lines.map((line, index) => {
      const number = first + index;
      return html`<li key=${number} class=${isTarget(number) ? 'line target' : 'line'} data-target=${number === anchor.line_start ? '' : undefined}>
        <span class="line-number" aria-hidden="true">${number}</span><code><${Marked} text=${line} ranges=${rangesOf(line)} /></code></li>`;
    })}</ol>
    ${error && html`<${ReadError} error=${error} />`}
    ${loading && html`<${Loading} />`}
    ${loadMore && html`<${LoadMore} onClick=${loadMore} />`}
  </div>`;
}

/** The text of a file, with numbered lines if it has lines of its own. */
export function TextView({ numbered, ...props }) {
  return numbered ? html`<${LinesView} ...${props} />` : html`<${BlocksView} ...${props} />`;
}
