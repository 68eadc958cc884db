/** The list of hits: one option per file, with its place, passage, further passages and the reasons. */
import { html, useCallback, useState } from './vendor/preact-htm.js';
import { t, tn } from './i18n.js';
import { Icon, Marked, VirtualList, formatBytes, formatDate, formatNumber, kindIcon, reasonText, visibleText } from './components.js';
import { useDebounce } from './hooks.js';
import { useMarks, sliceRanges } from './marks.js';

/** Typical heights of a hit with and without a passage: good estimates save corrections while scrolling. */
const HEIGHT_WITH_PASSAGE = 132;
const HEIGHT_WITHOUT_PASSAGE = 63;
const MARKS_DELAY_MS = 80;
const SHOWN_WINDOWS = 3;
/** So many letters before the first mark are shown; three lines of a narrow list hold some 150. */
const SNIPPET_LEAD = 60;

/** One string that names a hit: the file and, for an archive, the member. */
export function hitKey(hit) {
  return `${hit.metadata.absolute_path}\n${hit.metadata.anchor?.member || ''}`;
}

/** A row of `/v1/files` in the shape of a hit, so that lists and searches are shown by the same code. */
export function fileAsHit(file) {
  const relative = file.path.startsWith(`${file.root}/`) ? file.path.slice(file.root.length + 1) : file.path;
  const { mail } = file;
  const facts = mail ? { title: mail.subject, author: mail.senders.join(', '), mail_date: mail.first_sent && [mail.first_sent, mail.last_sent] } : {};
  return {
    path: relative, score: null, tier: 'L0', excerpt: '', reasoning: '',
    metadata: { ...file, ...facts, absolute_path: file.path, name: file.path.split('/').pop(), anchor: {} },
  };
}

/** True if only the name, the date and the size of a file are known: its text was not read. */
export function isUnread({ metadata }) {
  return ['pending', 'skipped', 'failed'].includes(metadata.state);
}

/** When the first and the last message of a mail file were sent; for other files, when they were changed. */
export function datesOf({ mail_date: sent, modified }) {
  return [sent ?? modified].flat();
}

function dateText(metadata) {
  const dates = [...new Set(datesOf(metadata).map((date) => formatDate(date)))].join(' - ');
  return metadata.mail_date ? t('mail_date', { date: dates }) : dates;
}

/** Where in its file a passage lies, in words: "page 3", "lines 10-20", "sheet Budget, A2:G2". */
export function placeText(anchor) {
  if (!anchor) return '';
  const parts = [];
  if (anchor.member) parts.push(anchor.member);
  if (anchor.part) parts.push(anchor.part);
  if (anchor.page) parts.push(t('place_page', { page: anchor.page }));
  if (anchor.sheet) parts.push(t('place_sheet', { sheet: anchor.sheet }));
  if (anchor.cell) parts.push(anchor.cell);
  if (anchor.line_start) {
    const same = !anchor.line_end || anchor.line_end === anchor.line_start;
    parts.push(same ? t('place_line', { line: anchor.line_start }) : t('place_lines', { from: anchor.line_start, to: anchor.line_end }));
  }
  if (anchor.symbol) parts.push(anchor.symbol);
  return parts.join(', ');
}

/** Cuts the start of a long passage, so that its first mark is among the lines that are shown. */
function snippet(text, ranges) {
  const first = ranges[0]?.[0] ?? 0;
  if (first < SNIPPET_LEAD * 1.5) return { text, ranges };
  const space = text.indexOf(' ', first - SNIPPET_LEAD);
  const start = space >= 0 && space < first ? space + 1 : first;
  const shifted = sliceRanges(ranges, start, text.length).map(([from, to]) => [from + 2, to + 2]);
  return { text: `\u2026 ${text.slice(start)}`, ranges: shifted };
}

function Passage({ text, ranges, className }) {
  const shown = snippet(text, ranges);
  return html`<div class=${className}><${Marked} ...${shown} /></div>`;
}

/** The sender of a mail, or those of a mailbox. A sender with a name is shown without the address. */
function MailLine({ author }) {
  const names = String(author ?? '').split(', ').map((name) => name.replace(/\s*<[^<>]*>|"/g, '') || name);
  const sender = [...new Set(names)].join(', ');
  return sender && html`<div class="hit-mail"><bdi>${visibleText(sender, true)}</bdi></div>`;
}

/** What a hit is called: a mail by its subject, another file by its name, which is also the end of the path below. */
function headingOf({ metadata }) {
  return (metadata.kind === 'mail' && !metadata.anchor?.member && metadata.title) || metadata.name;
}

function HitHead({ hit, path, rangesOf }) {
  const { metadata } = hit;
  const place = placeText(metadata.anchor);
  const heading = headingOf(hit);
  return html`<div class="hit-head">
      <span class="hit-name"><${Marked} text=${heading} ranges=${rangesOf(heading)} oneLine /></span>
      ${place && html`<span class="hit-place"><bdi>${visibleText(place, true)}</bdi></span>`}
      ${isUnread({ metadata }) && html`<${UnreadTag} ...${metadata} />`}
      ${metadata.kind === 'image' && hit.excerpt && html`<span class="tag">${t('words_of_picture')}</span>`}
      ${['moved', 'changed'].includes(metadata.citation) && html`<span class="tag">${t(`citation_${metadata.citation}`)}</span>`}
    </div>
    ${metadata.kind === 'mail' && html`<${MailLine} ...${metadata} />`}
    <div class="hit-facts"><span class="hit-path"><${Marked} text=${path} ranges=${rangesOf(path)} oneLine /></span>
      <span title=${metadata.mail_date && t('mail_date_title')}>${dateText(metadata)}</span><span>${formatBytes(metadata.size)}</span></div>`;
}

/** Why only the name of a file can be found, with the cure as its title. */
function UnreadTag({ state, reason }) {
  const { name, explanation } = reasonText(reason);
  return html`<span class="tag" title=${explanation}>${t(`unread_${state}`)}${reason && `: ${name}`}</span>`;
}

/** The facts of a reasoning, and the texts that tell them in plain words; a fact without one stays as it is. */
const FACTS = [
  [/^0 of \d+ words$/, 'why_no_word'],
  [/^(\d+) of (\d+) words \((.*)\)$/, 'why_words'],
  [/^\d+ of \d+ words in the file's name \((.*)\)$/, 'why_name'],
  [/^the name holds (.*)$/, 'why_name'],
  [/^keyword rank (\d+)$/, 'why_keyword'],
  [/^similarity -?[\d.]+, rank (\d+)$/, 'why_meaning'],
  [/^similarity (-?[\d.]+)/, 'why_similarity'],
  [/^meets the filter: (.*)$/, 'why_filter'],
  [/^passage verified/, 'why_verified'],
  [/^(\d+) other files are/, 'why_copies'],
  [/^not in the index/, 'why_unread'],
];

function plainFact(fact) {
  const [pattern, key] = FACTS.find(([regex]) => regex.test(fact)) || [];
  return pattern ? t(key, { ...pattern.exec(fact) }) : fact;
}

/** The reason of a hit in plain words, and below it the technical form. */
function Why({ hit }) {
  const facts = hit.reasoning ? hit.reasoning.split('; ').map(plainFact).join('; ') : t('why_none');
  const technical = [hit.tier, hit.score !== null && formatNumber(hit.score, 3), hit.reasoning].filter(Boolean).join(', ');
  return html`<div class="hit-why"><span class="tag">${t(/^0 of /.test(hit.reasoning) ? 'tier_meaning' : `tier_${hit.tier}`)}</span>
    <bdi>${visibleText(facts)}</bdi>
    ${hit.metadata.weak && html`<span class="hit-weak">${t('weak_match')}</span>`}</div>
    ${hit.reasoning && html`<div class="hit-technical"><bdi>${visibleText(technical, true)}</bdi></div>`}`;
}

function Hit({ hit, path, index, total, selected, showWhy, rangesOf }) {
  const windows = hit.metadata.windows || [];
  return html`<div role="option" id=${`hit-${index}`} aria-selected=${String(selected)} aria-posinset=${index + 1} aria-setsize=${total}
    class=${`hit${selected ? ' hit-selected' : ''}${hit.metadata.weak ? ' hit-is-weak' : ''}`}>
    <span class=${`hit-icon kind-${hit.metadata.kind}`}><${Icon} name=${kindIcon(hit.metadata.kind)} size=${18} /></span>
    <div class="hit-body">
      <${HitHead} hit=${hit} path=${path} rangesOf=${rangesOf} />
      ${hit.excerpt && html`<${Passage} className="hit-passage" text=${hit.excerpt} ranges=${rangesOf(hit.excerpt)} />`}
      ${windows.slice(0, SHOWN_WINDOWS).map((item, number) => html`<div key=${number} class="hit-window" data-window=${number}>
        <span class="hit-window-place"><bdi>${visibleText(item.place || placeText(item.anchor), true)}</bdi></span>
        <${Passage} className="hit-window-text" text=${item.excerpt} ranges=${rangesOf(item.excerpt)} /></div>`)}
      ${windows.length > SHOWN_WINDOWS && html`<div class="hit-more">${tn('more_passages', windows.length - SHOWN_WINDOWS)}</div>`}
      ${showWhy && html`<${Why} hit=${hit} />`}
    </div></div>`;
}

/** The texts of the rendered hits that may hold marks. */
function markedTexts(hits, pathOf, [first, last]) {
  return hits.slice(first, last + 1).flatMap((hit) => [
    headingOf(hit), pathOf(hit), hit.excerpt,
    ...(hit.metadata.windows || []).slice(0, SHOWN_WINDOWS).map((item) => item.excerpt),
  ]);
}

/**
 * The result list.
 * @param {object} props
 * @param {object[]} props.hits in the order in which they are shown
 * @param {(hit: object) => string} props.pathOf the path that is shown
 * @param {number} props.total of all hits, loaded or not
 * @param {string} props.query whose words are marked
 * @param {boolean} props.isBegun whether the last word of the query is still being typed
 * @param {number} props.selected index, or -1
 * @param {(index: number, options?: {window?: number, open?: boolean}) => void} props.onSelect
 * @param {boolean} props.showWhy for the selected hit
 * @param {(event: KeyboardEvent) => void} props.onKeyDown keys that move or act on the selection
 * @param {() => void} props.onNearEnd loads more hits
 * @param {string} props.resetKey changes with the request, and brings the list back to its top
 * @param {any} props.header scrolls above the hits
 */
export function Results({ hits, pathOf, total, query, isBegun, selected, onSelect, showWhy, onKeyDown, onNearEnd, resetKey, header }) {
  const [newestRange, setRange] = useState([0, 12]);
  // Rows that fly by need no marks.
  const range = useDebounce(newestRange, MARKS_DELAY_MS);
  const rangesOf = useMarks(query, markedTexts(hits, pathOf, range), isBegun);
  const onRange = useCallback((first, last) => setRange([first, last]), []);
  const onClick = (event) => {
    const row = event.target.closest('[data-index]');
    if (!row || String(getSelection()).length > 0) return;
    const passage = event.target.closest('[data-window]');
    onSelect(Number(row.dataset.index), { window: passage ? Number(passage.dataset.window) : undefined, open: true });
  };
  const renderItem = useCallback((index) => html`<${Hit} hit=${hits[index]} path=${pathOf(hits[index])} index=${index} total=${total}
    selected=${index === selected} showWhy=${showWhy && index === selected} rangesOf=${rangesOf} />`, [hits, pathOf, total, selected, showWhy, rangesOf]);
  const listProps = hits.length ? {
    id: 'results', role: 'listbox', tabindex: 0, 'aria-label': t('results_label'), onClick, onKeyDown,
    'aria-activedescendant': selected >= 0 ? `hit-${selected}` : undefined,
  } : { id: 'results', role: undefined };
  return html`<${VirtualList} count=${hits.length} estimate=${hits[0]?.excerpt ? HEIGHT_WITH_PASSAGE : HEIGHT_WITHOUT_PASSAGE} renderItem=${renderItem} activeIndex=${selected}
    resetKey=${resetKey} onNearEnd=${onNearEnd} onRange=${onRange} header=${header} listProps=${listProps} />`;
}
