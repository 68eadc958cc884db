/** Components and functions that all views share. */
import { html, useState, useEffect, useLayoutEffect, useRef, useReducer } from './vendor/preact-htm.js';
import { t, hasText, language } from './i18n.js';
import { addressOf } from './api.js';
import { useId } from './hooks.js';

const CIRCLE = 'M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8z';

/** Outlines on a grid of 16 by 16, drawn with a stroke of the colour of the text. */
const ICON_PATHS = {
  search: 'M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.3 10.3 14 14',
  close: 'M3.5 3.5l9 9M12.5 3.5l-9 9',
  check: 'M2.5 8.5l3.5 3.5 7.5-8',
  warning: 'M8 2 1.5 13.5h13zM8 6.5v3.5M8 11.8v.4',
  info: `${CIRCLE}M8 7.2v4M8 4.6v.4`,
  open: 'M9.5 2.5h4v4M13.5 2.5 7.5 8.5M12 9.5v4H2.5V4h4',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  quote: 'M3 9h3.5v3.5H3zM3 9c0-3 1-4.5 3-5.2M9.5 9H13v3.5H9.5zM9.5 9c0-3 1-4.5 3-5.2',
  similar: 'M2 5.5c2-2 4-2 6 0s4 2 6 0M2 10.5c2-2 4-2 6 0s4 2 6 0',
  folder: 'M1.8 12.8V3.5h4.4l1.6 2h6.4v7.3z',
  graph: 'M3.5 2.5h3v3h-3zM10 6.5h3v3h-3zM3.5 10.5h3v3h-3zM6.5 4l3.5 3.4M6.5 12 10 8.6',
  up: 'M3.5 10 8 5.5l4.5 4.5',
  down: 'M3.5 6 8 10.5 12.5 6',
  left: 'M10 3.5 5.5 8l4.5 4.5',
  right: 'M6 3.5 10.5 8 6 12.5',
  filter: 'M1.8 3h12.4L9.5 8.5v5l-3-1.7V8.5z',
  history: 'M2.2 8a5.8 5.8 0 1 1 1.9 4.3M2.2 8 1 6.2M2.2 8 4 6.6M8 4.7V8l2.4 1.6',
  help: `${CIRCLE}M6.2 6.3a1.8 1.8 0 1 1 2.6 1.6c-.6.3-.8.6-.8 1.3M8 11.3v.4`,
  trash: 'M2.5 4.2h11M6 4V2.2h4V4M4 4.5l.6 9.3h6.8l.6-9.3M6.7 6.8v4.6M9.3 6.8v4.6',
  pause: 'M5 3v10M11 3v10',
  play: 'M4.5 2.8v10.4L13 8z',
  plus: 'M8 2.5v11M2.5 8h11',
  refresh: 'M13.5 8A5.5 5.5 0 1 1 11.8 4M13.6 1.8v3h-3',
  text: 'M3 3.5h10M3 6.5h10M3 9.5h10M3 12.5h6',
  image: 'M2 3h12v10H2zM2 11l3.5-3.5 3 3L11 8l3 3M5.2 5.6v.3',
  pdf: 'M3.5 1.8h6l3 3v9.4h-9zM9.5 1.8v3h3M5.5 8h5M5.5 10.5h5',
  table: 'M2 3h12v10H2zM2 6.3h12M2 9.6h12M6 3v10M10 3v10',
  mail: 'M1.8 3.5h12.4v9H1.8zM1.8 4l6.2 5 6.2-5',
  code: 'M5.5 4 2 8l3.5 4M10.5 4 14 8l-3.5 4',
  archive: 'M2 2.8h12v3H2zM3 5.8v7.4h10V5.8M6.5 8.5h3',
  slides: 'M1.8 2.8h12.4v8H1.8zM8 10.8v3M5 14h6',
  web: `${CIRCLE}M1.8 8h12.4M8 1.8c-4 4-4 8.4 0 12.4M8 1.8c4 4 4 8.4 0 12.4`,
  file: 'M3.5 1.8h6l3 3v9.4h-9zM9.5 1.8v3h3',
  audio: 'M6 12V3.5l7-1.5v8.5M6 12a2 2 0 1 1-4 0 2 2 0 0 1 4 0zM13 10.5a2 2 0 1 1-4 0 2 2 0 0 1 4 0z',
};

const KIND_ICONS = {
  pdf: 'pdf', image: 'image', spreadsheet: 'table', mail: 'mail', code: 'code', archive: 'archive', slides: 'slides',
  web: 'web', data: 'code', notebook: 'code', text: 'text', markup: 'text', document: 'file', media: 'audio',
};

/** The name of the icon for the kind of a file. */
export function kindIcon(kind) {
  return KIND_ICONS[kind] || 'file';
}

/** An icon. Without a label it is decoration and hidden from assistive technology. */
export function Icon({ name, label, size = 16 }) {
  return html`<svg class="icon" width=${size} height=${size} viewBox="0 0 16 16" focusable="false"
    role=${label ? 'img' : undefined} aria-label=${label} aria-hidden=${label ? undefined : 'true'}>
    <path d=${ICON_PATHS[name] || ICON_PATHS.file} /></svg>`;
}

/**
 * A button. `variant` is `primary`, `danger`, `plain` or empty; `label` names a button that shows only its icon.
 */
export function Button({ icon, label, variant, pressed, class: className, children, ...rest }) {
  const classes = ['button', variant && `button-${variant}`, !children && 'button-icon', className].filter(Boolean).join(' ');
  return html`<button type="button" class=${classes} aria-label=${children ? undefined : label}
    title=${label} aria-pressed=${pressed === undefined ? undefined : String(pressed)} ...${rest}>
    ${icon && html`<${Icon} name=${icon} />`}${children && html`<span>${children}</span>`}</button>`;
}

/** Goes to a place of the page; the router follows as it follows "back". */
function goTo(path, params) {
  history.pushState(null, '', addressOf(path, params));
  dispatchEvent(new PopStateEvent('popstate'));
}

/** A link to a place of the page, which opens without loading the page anew. */
export function Link({ path, params, navigate = goTo, children, ...rest }) {
  const follow = (event) => {
    // With these keys the browser opens the link in another tab or window.
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    navigate(path, params);
  };
  return html`<a href=${addressOf(path, params)} ...${rest} onClick=${follow}>${children}</a>`;
}

/** A form; `onSubmit` is called instead of the submission by the browser. */
export function Form({ onSubmit, children, ...rest }) {
  const submit = (event) => {
    event.preventDefault();
    // A form may stand within another, which this does not submit.
    event.stopPropagation();
    onSubmit();
  };
  return html`<form ...${rest} onSubmit=${submit}>${children}</form>`;
}

/** Focuses a text field with its text selected, so that typing replaces it. */
export function focusAll(field) {
  field?.focus();
  field?.select();
}

/** A modal dialog: the native element keeps the focus inside and closes with Esc. Without `onClose` it cannot be closed. */
export function Dialog({ title, onClose, children, class: className = '' }) {
  const ref = useRef(null);
  const titleId = useId('dialog-title');
  useEffect(() => {
    const opener = document.activeElement;
    ref.current.showModal();
    // While the dialog is in the document, nothing below it takes the focus.
    return () => setTimeout(() => opener?.focus?.(), 0);
  }, []);
  const closeOnBackdrop = (event) => { if (event.target === ref.current) onClose?.(); };
  // Chromium closes a dialog at a second Esc, even if `cancel` was prevented.
  const onClosed = () => (onClose ? onClose() : ref.current?.showModal());
  return html`<dialog ref=${ref} class=${`dialog ${className}`} aria-labelledby=${titleId}
    onCancel=${(event) => { event.preventDefault(); onClose?.(); }} onClose=${onClosed} onClick=${closeOnBackdrop}>
    <div class="dialog-body">
      <div class="dialog-head"><h2 id=${titleId}>${title}</h2>
        ${onClose && html`<${Button} icon="close" label=${t('close')} variant="plain" onClick=${onClose} />`}</div>
      ${children}
    </div></dialog>`;
}

/** A sentence of the daemon, whose names stand between backticks. */
export function TextWithCode({ text }) {
  const parts = visibleText(text).split('`');
  // Without a partner, a backtick stays a sign of the text.
  if (parts.length % 2 === 0) parts.push(parts.splice(-2).join('`'));
  return parts.map((part, index) => (index % 2 === 1 ? html`<code key=${index}>${part}</code>` : part));
}

/**
 * A message. `kind` is `error`, `warning`, `info` or `success`; `text` is a sentence; `error` may be an ApiError, whose hint
 * is shown too; `actions` are buttons below the text. Without any text there is no message.
 */
export function Message({ kind, error, text = error && (error.message || String(error)), children, actions, onClose }) {
  if (!text && !children) return null;
  const level = kind || (error ? 'error' : 'info');
  const icon = level === 'success' ? 'check' : level === 'info' ? 'info' : 'warning';
  return html`<div class=${`message message-${level}`} role=${level === 'error' ? 'alert' : 'status'}>
    <${Icon} name=${icon} />
    <div class="message-text">
      ${children}
      ${text && html`<p><bdi><${TextWithCode} text=${text} /></bdi></p>`}
      ${error?.hint && html`<p class="message-hint"><bdi><${TextWithCode} text=${error.hint} /></bdi></p>`}
      ${actions}
    </div>
    ${onClose && html`<${Button} icon="close" label=${t('close')} variant="plain" onClick=${onClose} />`}
  </div>`;
}

/** A note that something is under way. */
export function Loading() {
  return html`<p class="muted" role="status">${t('loading')}</p>`;
}

/** The reason in an error like "cannot read `a.pdf`: damaged: …"; nothing if it names none that has a text. */
function reasonOf({ status, message }) {
  const name = status === 412 && /^.*`[^`:]*: (\w+)(?=:|$)/.exec(message)?.[1];
  return name && hasText(`reason_${name}`) ? name : null;
}

/**
 * An error of reading, in words: a file that has gone or may not be read has its own sentence, and a file whose text could not be
 * read has the reason with the cure.
 */
export function ReadError({ error }) {
  const reason = reasonOf(error);
  if (reason) {
    const { name, explanation } = reasonText(reason);
    return html`<${Message} kind="warning"><p title=${visibleText(error.message)}><strong>${name}.</strong> ${explanation}</p>
      <p>${t('unread_preview')} <${Link} path="/ui/status" params=${{ show: 'reasons' }}>${t('unread_reasons')}<//></p><//>`;
  }
  const known = { 404: 'file_gone', 403: 'file_denied' }[error.status];
  return html`<${Message} error=${error}>${known && html`<p>${t(known)}</p>`}<//>`;
}

/** A filter that can be switched on (`onClick`), or an active one that can be removed (`onRemove`). */
export function Chip({ label, count, active, onClick, onRemove, icon }) {
  const content = html`${icon && html`<${Icon} name=${icon} size=${13} />`}<bdi class="chip-label">${visibleText(label)}</bdi>
    ${count !== undefined && html`<span class="chip-count">${formatNumber(count)}</span>`}`;
  if (onRemove) {
    return html`<button type="button" class="chip chip-active" onClick=${onRemove} title=${visibleText(label)}>
      ${content}<${Icon} name="close" size=${12} /><span class="visually-hidden">${t('remove_filter')}</span></button>`;
  }
  return html`<button type="button" class=${`chip${active ? ' chip-active' : ''}`} aria-pressed=${String(Boolean(active))}
    title=${visibleText(label)} onClick=${onClick}>${content}</button>`;
}

const TOAST_MS = 4000;
let showToastNow = null;

/** Shows a short message at the lower edge of the page; `kind` is `success` or `error`. */
export function toast(text, kind = 'success') {
  showToastNow?.({ text, kind });
}

/** The place of the short messages; the shell renders it once. */
export function Toast() {
  const [message, setMessage] = useState(null);
  useEffect(() => {
    showToastNow = setMessage;
    return () => { showToastNow = null; };
  }, []);
  useEffect(() => {
    if (!message) return undefined;
    const timer = setTimeout(() => setMessage(null), TOAST_MS);
    return () => clearTimeout(timer);
  }, [message]);
  return html`<div class="toast-region" role="status">
    ${message && html`<div class=${`toast toast-${message.kind}`}>${visibleText(message.text)}</div>`}</div>`;
}

/** A message repeats at most this many characters of a copied text. */
const SHOWN_COPY = 80;

/** Copies a text to the clipboard and says so; with `isShown`, the message repeats it. */
export async function copyText(text, isShown = false) {
  try {
    await navigator.clipboard.writeText(text);
    toast(isShown ? `${t('copied')}: ${visibleText(text.length > SHOWN_COPY ? `${text.slice(0, SHOWN_COPY)}\u2026` : text, true)}` : t('copied'));
  } catch (error) {
    toast(t('copy_failed', { reason: error.message }), 'error');
  }
}

const formatters = new Map();

/** A formatter of the language in use. They are kept, because making one takes far longer than using it. */
function formatter(Format, options) {
  const key = `${language()} ${Format.name} ${JSON.stringify(options)}`;
  if (!formatters.has(key)) formatters.set(key, new Format(language(), options));
  return formatters.get(key);
}

/** A size like `4.2 KB`, in powers of 1024. */
export function formatBytes(bytes) {
  if (bytes === null || bytes === undefined) return '';
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let value = Number(bytes);
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${formatNumber(value, digits)} ${units[unit]}`;
}

/** A date (and with `withTime` the time) in the notation of the language; takes RFC 3339 or milliseconds. */
export function formatDate(value, withTime = false) {
  if (value === null || value === undefined || value === '') return '';
  const date = new Date(value);
  if (Number.isNaN(date.getTime())) return String(value);
  const options = withTime ? { dateStyle: 'medium', timeStyle: 'short' } : { dateStyle: 'medium' };
  return formatter(Intl.DateTimeFormat, options).format(date);
}

const DAY = /^\d{4}-\d\d-\d\d$/;

/** The day that lies `days` after a day like `2026-03-31`; empty for another text. */
export function shiftDay(day, days) {
  if (!DAY.test(day || '')) return '';
  const date = new Date(`${day}T00:00Z`);
  date.setUTCDate(date.getUTCDate() + days);
  return date.toISOString().slice(0, 10);
}

/** A day like `2026-03-31` in the notation of the language; another text, like `7d`, as it is. */
export function formatDay(day) {
  return DAY.test(day) ? formatDate(`${day}T00:00`) : visibleText(day, true);
}

/** Months like `2026-01-01..2026-11-01` in words; a whole year is its number. The end is the day after the last one. */
export function formatMonths(range) {
  const [first, end] = range.split('..');
  const last = shiftDay(end, -1);
  if (first.endsWith('-01-01') && last === `${first.slice(0, 4)}-12-31`) return first.slice(0, 4);
  const days = [first, last].map((day) => new Date(`${day}T00:00`));
  return formatter(Intl.DateTimeFormat, { month: 'short', year: 'numeric' }).formatRange(...days);
}

/** A number in the notation of the language. */
export function formatNumber(value, maximumFractionDigits = 2) {
  return formatter(Intl.NumberFormat, { maximumFractionDigits }).format(value);
}

// eslint-disable-next-line no-control-regex
const HIDDEN_CHARACTERS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
// eslint-disable-next-line no-control-regex
const LINE_CHARACTERS = /[\t\n\u2028\u2029]/g;

/**
 * Replaces control and bidirectional override characters by U+FFFD, one for one, so that mark ranges stay right.
 * With `oneLine` (for names and paths) line breaks are replaced too.
 */
export function visibleText(text, oneLine = false) {
  const shown = String(text ?? '').replace(HIDDEN_CHARACTERS, '\ufffd');
  return oneLine ? shown.replace(LINE_CHARACTERS, '\ufffd') : shown;
}

/** A name of the daemon, such as that of a field, as words: `links_to` and `LinksTo` become "Links to". */
export function readable(name) {
  const words = visibleText(name, true).replace(/([a-z])([A-Z])/g, (pair, end, start) => `${end} ${start.toLowerCase()}`).replace(/_/g, ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The text of `prefix_name`; for a name of the daemon that has none, the name as words. */
export function word(prefix, name) {
  const key = `${prefix}_${name}`;
  return hasText(key) ? t(key) : readable(name);
}

/** Name and explanation (with the cure) of a reason or rule why a file is not read. */
export function reasonText(reason) {
  const [name, explanation = ''] = word('reason', reason).split('|');
  return { name, explanation };
}

/** A text with marks: `ranges` is a sorted list of `[start, end]` in UTF-16 code units. */
export function Marked({ text, ranges, oneLine }) {
  const shown = visibleText(text, oneLine);
  if (!ranges?.length) return html`<bdi>${shown}</bdi>`;
  const parts = [];
  let position = 0;
  for (const [start, end] of ranges) {
    if (start < position || end > shown.length) continue;
    if (start > position) parts.push(shown.slice(position, start));
    parts.push(html`<mark key=${start}>${shown.slice(start, end)}</mark>`);
    position = end;
  }
  parts.push(shown.slice(position));
  return html`<bdi>${parts}</bdi>`;
}

/** Offsets of the items from the measured heights, with an estimate for those that were never shown. */
class HeightTable {
  constructor() {
    this.heights = [];
    this.offsets = new Float64Array(1);
  }

  update(count, estimate) {
    if (this.offsets.length !== count + 1) this.offsets = new Float64Array(count + 1);
    for (let index = 0; index < count; index += 1) {
      this.offsets[index + 1] = this.offsets[index] + (this.heights[index] || estimate);
    }
  }

  /** The index of the item at a vertical position, by bisection. */
  indexAt(position) {
    let low = 0;
    let high = this.offsets.length - 2;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.offsets[middle] <= position) low = middle;
      else high = middle - 1;
    }
    return Math.max(low, 0);
  }
}

const OVERSCAN_PX = 300;

/** Keeps the scroll position and the size of the scrolling element; both are read once per frame. */
function useScrollWindow(scrollerRef, listRef) {
  const [view, setView] = useState({ top: 0, height: 800 });
  useLayoutEffect(() => {
    const scroller = scrollerRef.current;
    let frame = 0;
    const read = () => {
      frame = 0;
      const top = scroller.scrollTop - listRef.current.offsetTop;
      setView((old) => (old.top === top && old.height === scroller.clientHeight ? old : { top, height: scroller.clientHeight }));
    };
    const schedule = () => { if (!frame) frame = requestAnimationFrame(read); };
    const observer = new ResizeObserver(schedule);
    observer.observe(scroller);
    for (const child of scroller.children) observer.observe(child);
    scroller.addEventListener('scroll', schedule, { passive: true });
    read();
    return () => {
      cancelAnimationFrame(frame);
      observer.disconnect();
      scroller.removeEventListener('scroll', schedule);
    };
  }, []);
  return view;
}

/** Renders items, and keeps those of `first..last` for the next rendering: Preact does not compare an item that is the same object. */
function useKeptItems(renderItem, first, last) {
  const keptRef = useRef({});
  const old = keptRef.current.renderItem === renderItem ? keptRef.current.items : new Map();
  const items = new Map();
  for (let index = first; index <= last; index += 1) items.set(index, old.get(index) ?? renderItem(index));
  keptRef.current = { renderItem, items };
  return (index) => items.get(index);
}

/**
 * A list that renders only the items in view; their heights are measured.
 * @param {object} props
 * @param {number} props.count of items
 * @param {number} props.estimate of the height of an item in pixels
 * @param {(index: number) => any} props.renderItem must return one element; while it is the same function, items in view are kept as they are
 * @param {number} [props.activeIndex] is scrolled into view when it changes
 * @param {any} [props.resetKey] when it changes, the heights are forgotten and the list goes back to its top
 * @param {() => void} [props.onNearEnd] is called when fewer than two screens are left
 * @param {(first: number, last: number) => void} [props.onRange] is told which items are rendered
 * @param {any} [props.header] is shown above the items and scrolls with them
 * @param {object} [props.listProps] attributes of the element that holds the items (role, label, tabindex, keys)
 */
export function VirtualList(props) {
  const { count, estimate, renderItem, activeIndex = -1, resetKey, onNearEnd, onRange, header, listProps } = props;
  const scrollerRef = useRef(null);
  const listRef = useRef(null);
  const tableRef = useRef(null);
  tableRef.current ||= new HeightTable();
  const table = tableRef.current;
  const [, rerender] = useReducer((n) => n + 1, 0);
  const view = useScrollWindow(scrollerRef, listRef);

  useLayoutEffect(() => {
    table.heights = [];
    scrollerRef.current.scrollTop = 0;
    rerender();
  }, [resetKey]);

  table.update(count, estimate);
  const first = count ? table.indexAt(view.top - OVERSCAN_PX) : 0;
  const last = count ? table.indexAt(view.top + view.height + OVERSCAN_PX) : -1;

  useLayoutEffect(() => {
    if (measureRows(listRef.current, table, scrollerRef.current, view.top)) rerender();
  });
  useEffect(() => { if (count) onRange?.(first, last); }, [first, last, count, resetKey]);
  useEffect(() => {
    if (count && view.top + view.height * 3 > table.offsets[count]) onNearEnd?.();
  }, [view, count]);
  useLayoutEffect(() => {
    if (activeIndex >= 0 && activeIndex < count) scrollIntoView(scrollerRef.current, listRef.current, table, activeIndex);
  }, [activeIndex]);

  const itemAt = useKeptItems(renderItem, first, last);
  const rows = [];
  for (let index = first; index <= last; index += 1) {
    rows.push(html`<div key=${index} data-index=${index} class="virtual-row" role="presentation"
      style=${{ transform: `translateY(${table.offsets[index]}px)` }}>${itemAt(index)}</div>`);
  }
  return html`<div class="virtual-scroller" ref=${scrollerRef}>${header}
    <div class="virtual-items" ref=${listRef} style=${{ height: `${table.offsets[count]}px` }} ...${listProps}>${rows}</div></div>`;
}

/** Writes the heights of the rendered rows to the table; true if a row below must move. */
function measureRows(list, table, scroller, viewTop) {
  let changed = false;
  let shift = 0;
  for (const row of list.children) {
    const index = Number(row.dataset.index);
    const height = row.offsetHeight;
    if (!height || table.heights[index] === height) continue;
    const before = table.offsets[index + 1] - table.offsets[index];
    // Rows above the visible part that turn out higher or lower must not move what is being read.
    if (table.offsets[index + 1] < viewTop) shift += height - before;
    table.heights[index] = height;
    changed ||= height !== before;
  }
  if (shift) scroller.scrollTop += shift;
  return changed;
}

function scrollIntoView(scroller, list, table, index) {
  const top = list.offsetTop + table.offsets[index];
  const bottom = list.offsetTop + table.offsets[index + 1];
  // The first item shows the header (the answer) above it as well.
  if (index === 0) scroller.scrollTop = 0;
  else if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (bottom > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = bottom - scroller.clientHeight;
}
