/** The preview of a file: toolbar, find in document, and the view that fits the kind of the file. */
import { html, useCallback, useEffect, useRef, useState } from './vendor/preact-htm.js';
import { post } from './api.js';
import { t } from './i18n.js';
import { Button, copyText, formatNumber, toast, visibleText } from './components.js';
import { useKeys } from './hooks.js';
import { placeText } from './results.js';
import { useMatches } from './preview_matches.js';
import { PageView } from './preview_page.js';
import { TableView } from './preview_table.js';
import { TextView } from './preview_text.js';

const ARCHIVE = /\.(zip|jar|7z|rar|tar|tgz|txz|(tar\.)?(gz|bz2|xz|zst))$/i;
const PAGES = /\.(pdf|ai|a?png|jpe?g|jpe|jfif|tiff?|gif|bmp|webp|heic|pp[ts][xm]|potx)$/i;
const MAIL = /\.(eml|msg)$/i;
const TABLES = /\.(xlsx?|xlsm|ods|csv|tsv)$/i;
const LINES = /\.(txt|log|conf|ini|cfg|jsonl?|ya?ml|toml|srt|vtt|ics|[ch]|cc|cpp|hpp|cs|rs|go|py|jsx?|mjs|tsx?|java|kts?|rb|php|sh|sql|pl|lua|swift|scala|css)$/i;

/** Keys that go through the matches wherever the focus is, except in a text field. */
const MATCH_STEPS = { n: 1, N: -1 };

/** The target of the preview for a hit, at its best passage or at `place` (`{anchor, text, isQuote}`). */
export function targetOfHit(hit, place) {
  return {
    path: hit.metadata.absolute_path, anchor: place?.anchor || hit.metadata.anchor || {},
    quote: place?.text || hit.excerpt, isQuote: Boolean(place?.isQuote), hit,
  };
}

/** The path that is read: a member of an archive, or an attachment that has pages, is named by `file!/member`. */
function readPath({ path, anchor }) {
  const isRead = anchor.member && (ARCHIVE.test(path) || (MAIL.test(path) && PAGES.test(anchor.member)));
  return isRead ? `${path}!/${anchor.member}` : path;
}

/** Which view shows a file: `page` (a picture), `table`, `lines` (numbered) or `blocks`. */
function viewOf(path, hit) {
  if (PAGES.test(path)) return 'page';
  if (TABLES.test(path)) return 'table';
  if (LINES.test(path) || (hit?.metadata.kind === 'code' && !path.includes('!/'))) return 'lines';
  return 'blocks';
}

async function openInProgram(path) {
  try {
    await post('/ui/open', { path });
    toast(t('opened'));
  } catch (error) {
    toast([error.message, error.hint].filter(Boolean).join(' - '), 'error');
  }
}

function citation(target) {
  const place = placeText(target.anchor);
  const quote = (target.quote || '').trim().replace(/\s+/g, ' ');
  return `${target.path}${place ? `, ${place}` : ''}${quote ? ` \u2014 \u201c${quote}\u201d` : ''}`;
}

function PreviewActions({ target, session, navigate, onSimilar, onFolder }) {
  const { path } = target;
  return html`<div class="preview-actions" role="group" aria-label=${t('preview_actions')}>
    ${session.local && html`<${Button} icon="open" onClick=${() => openInProgram(path)}>${t('open')}<//>`}
    <${Button} icon="copy" onClick=${() => copyText(path, true)}>${t('copy_path')}<//>
    <${Button} icon="quote" onClick=${() => copyText(citation(target), true)}>${t('copy_citation')}<//>
    <${Button} icon="similar" onClick=${() => onSimilar(path)}>${t('similar_files')}<//>
    <${Button} icon="folder" onClick=${() => onFolder(path.slice(0, path.lastIndexOf('/')) || '/')}>${t('in_this_folder')}<//>
    <${Button} icon="graph" onClick=${() => navigate('/ui/graph', { path })}>${t('show_in_graph')}<//>
  </div>`;
}

/** The text field that finds in the document, and the way through the matches. */
function FindBar({ find, setFind, matches, hasMore, go }) {
  const onKeyDown = (event) => {
    if (event.key === 'Enter') go(event.shiftKey ? -1 : 1);
    else if (event.key === 'Escape' && find) setFind('');
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const total = `${formatNumber(matches.count)}${hasMore ? '+' : ''}`;
  const noMatch = find && t(hasMore ? 'no_matches_yet' : 'no_matches');
  return html`<div class="find-bar" role="group" aria-label=${t('find_in_document')}>
    <input type="search" aria-label=${t('find_in_document')} placeholder=${t('find_in_document')} value=${find} spellcheck="false"
      onInput=${(event) => setFind(event.target.value)} onKeyDown=${onKeyDown} />
    <span class="match-count" role="status">${matches.count
      ? t('match_of', { current: formatNumber(matches.current + 1), total }) : noMatch}</span>
    <${Button} icon="up" label=${t('previous_match')} variant="plain" disabled=${!matches.count} onClick=${() => go(-1)} />
    <${Button} icon="down" label=${t('next_match')} variant="plain" disabled=${!matches.count && !hasMore} onClick=${() => go(1)} />
  </div>`;
}

/** The passages of the hit as buttons: the best one first, then the further ones. */
function PassageSwitch({ target, onPassage }) {
  const { hit } = target;
  if (!hit?.metadata.windows?.length) return null;
  const passages = [{ excerpt: hit.excerpt, anchor: hit.metadata.anchor || {} }, ...hit.metadata.windows];
  const current = Math.max(0, passages.findIndex((passage) => passage.excerpt === target.quote));
  return html`<div class="passage-switch" role="group" aria-label=${t('passages')}><span>${t('passages')}</span>
    ${passages.map((passage, index) => html`<button type="button" key=${index} class="passage-button" aria-pressed=${String(index === current)}
      aria-label=${t('passage_number', { number: index + 1, place: placeText(passage.anchor) })} onClick=${() => onPassage(passage)}>${index + 1}</button>`)}
  </div>`;
}

function Content({ view, asText, ...props }) {
  if (view === 'page') return html`<${PageView} asText=${asText} ...${props} />`;
  if (view === 'table' && !asText) return html`<${TableView} ...${props} />`;
  return html`<${TextView} numbered=${view === 'lines'} ...${props} />`;
}

/** The name and the place of the file, and the buttons and the find field of the preview. */
function PreviewHead({ target, path, session, navigate, modes, finding, onClose, onSimilar, onFolder, onPassage }) {
  const place = placeText(target.anchor);
  return html`<div class="preview-head">
    <div class="preview-title"><h2><bdi>${visibleText(path.split('/').pop(), true)}</bdi></h2>
      <${Button} icon="close" label=${t('close_preview')} variant="plain" onClick=${onClose} /></div>
    <p class="preview-path"><bdi>${visibleText(target.path, true)}</bdi>${place && html` <span class="hit-place"><bdi>${visibleText(place, true)}</bdi></span>`}</p>
    <div class="preview-toolbar">
      <${PreviewActions} target=${target} session=${session} navigate=${navigate} onSimilar=${onSimilar} onFolder=${onFolder} />
      ${modes && html`<${Button} icon="text" pressed=${modes.asText} onClick=${modes.toggle}>${t('text_view')}<//>`}
    </div>
    <div class="preview-toolbar">
      <${FindBar} ...${finding} />
      <${PassageSwitch} target=${target} onPassage=${onPassage} />
    </div>
  </div>`;
}

/** The text of the find field, and the way through the matches, also of parts and pages that are not loaded yet. */
function useFind(contentRef, targetKey) {
  const moreRef = useRef(null);
  const scrollRef = useRef(null);
  const [find, setFind] = useState('');
  const [hasMore, setHasMore] = useState(false);
  const [matches, step] = useMatches(contentRef, targetKey, find);
  const go = useCallback((by) => {
    // At the last match, the next part of a long text or the next page may hold more.
    const more = by > 0 && moreRef.current;
    if (!step(by, Boolean(more))) more();
  }, [step]);
  useKeys((key) => { if (key in MATCH_STEPS) go(MATCH_STEPS[key]); return key in MATCH_STEPS; }, [go]);
  // Scrolling loads parts of a text, but does not turn pages.
  const registerMore = useCallback((loadMore, byScrolling = true) => {
    moreRef.current = loadMore;
    scrollRef.current = byScrolling ? loadMore : null;
    setHasMore(Boolean(loadMore));
  }, []);
  return { finding: { find, setFind, matches, hasMore, go }, scrollRef, registerMore };
}

/** A number that grows after a new login, or when the daemon is back: then the content is read again. */
function useReads(session) {
  const [reads, setReads] = useState(0);
  const sessionRef = useRef(session);
  useEffect(() => {
    if (session !== sessionRef.current) setReads((count) => count + 1);
    sessionRef.current = session;
  }, [session]);
  return reads;
}

/**
 * The preview pane.
 * @param {object} props
 * @param {{path: string, anchor: object, quote?: string, isQuote?: boolean, query: string, hit: object|null}} props.target
 * @param {boolean} props.isOverlay true at phone width: then the pane covers the page
 */
export function Preview({ target, session, navigate, onClose, isOverlay, onSimilar, onFolder, onPassage }) {
  const contentRef = useRef(null);
  const [asText, setAsText] = useState(false);
  const reads = useReads(session);
  const path = readPath(target);
  const view = viewOf(path, target.hit);
  const { finding, scrollRef, registerMore } = useFind(contentRef, JSON.stringify([path, target.anchor, target.quote, asText]));
  useEffect(() => {
    finding.setFind('');
    setAsText(false);
    contentRef.current.scrollTop = 0;
  }, [path]);
  const onKeyDown = (event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    onClose();
  };
  const onScroll = (event) => {
    const { scrollTop, clientHeight, scrollHeight } = event.target;
    if (scrollTop + clientHeight * 2 > scrollHeight) scrollRef.current?.();
  };
  const modes = ['page', 'table'].includes(view) && { asText, toggle: () => setAsText(!asText) };
  return html`<section class=${`preview${isOverlay ? ' preview-overlay' : ''}`} aria-label=${t('preview_label')} onKeyDown=${onKeyDown}>
    <${PreviewHead} ...${{ target, path, session, navigate, modes, finding, onClose, onSimilar, onFolder, onPassage }} />
    <div class="preview-content" id="preview" ref=${contentRef} tabindex="0" role="region" aria-label=${t('preview_content')} onScroll=${onScroll}>
      <${Content} key=${`${view} ${path} ${reads}`} view=${view} asText=${asText} path=${path} target=${target} find=${finding.find} registerMore=${registerMore} />
    </div>
  </section>`;
}
