/** The preview of a file: toolbar, find in document, and the view that fits the kind of the file. */
import { html, useCallback, useEffect, useRef, useState } from './vendor/preact-htm.js';
import { post } from './api.js';
import { t } from './i18n.js';
import { Button, copyText, formatNumber, toast, visibleText } from './components.js';
import { useKeys } from './hooks.js';
import { placeText } from './results.js';
import { PageView } from './preview_page.js';
import { TableView } from './preview_table.js';
import { TextView } from './preview_text.js';

const ARCHIVE = /\.(zip|jar|7z|rar|tar|tgz|txz|(tar\.)?(gz|bz2|xz|zst))$/i;
const PAGES = /\.(pdf|png|jpe?g|tiff?|gif|bmp|webp|heic|pp[ts][xm]|potx)$/i;
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

/** Counts the marks of the content, goes from one to the next, and scrolls to the target once. */
function useMatches(contentRef, targetKey, find) {
  const [matches, setMatches] = useState({ count: 0, current: -1 });
  const stateRef = useRef({});
  const show = useCallback((index, scroll) => {
    const elements = contentRef.current.querySelectorAll('mark, .frame');
    contentRef.current.querySelector('.current-mark')?.classList.remove('current-mark');
    elements[index]?.classList.add('current-mark');
    if (scroll) elements[index]?.scrollIntoView({ block: 'center' });
    stateRef.current.current = index;
    setMatches({ count: elements.length, current: index });
  }, []);
  useEffect(() => {
    stateRef.current = { current: -1, jumped: false, moved: false };
    const update = () => {
      const state = stateRef.current;
      const target = contentRef.current.querySelector('[data-target]');
      if (target && !state.jumped) {
        state.jumped = true;
        target.scrollIntoView({ block: target.offsetHeight > contentRef.current.clientHeight * 0.8 ? 'start' : 'center' });
      }
      const elements = [...contentRef.current.querySelectorAll('mark, .frame')];
      if (!state.moved || state.current < 0) state.current = firstFrom(elements, target);
      show(Math.min(state.current, elements.length - 1), state.scrollToMatch);
    };
    let frame = 0;
    const schedule = () => { frame ||= requestAnimationFrame(() => { frame = 0; update(); }); };
    const observer = new MutationObserver(schedule);
    observer.observe(contentRef.current, { childList: true, subtree: true, characterData: true, attributes: true, attributeFilter: ['data-target'] });
    schedule();
    return () => {
      observer.disconnect();
      cancelAnimationFrame(frame);
    };
  }, [targetKey]);
  useEffect(() => {
    // A new text in the find field starts at the first match from the target on, and shows it.
    stateRef.current.moved = false;
    stateRef.current.scrollToMatch = Boolean(find);
  }, [find]);
  const go = useCallback((step) => {
    const count = contentRef.current.querySelectorAll('mark, .frame').length;
    if (!count) return 'none';
    const next = stateRef.current.current + step;
    stateRef.current.moved = true;
    stateRef.current.scrollToMatch = false;
    show((next + count) % count, true);
    return next >= count ? 'wrapped' : 'moved';
  }, []);
  return [matches, go];
}

/** The index of the first mark in or after the target element; on a picture, of the first one that is not above it. */
function firstFrom(elements, target) {
  if (!elements.length) return -1;
  if (!target) return 0;
  const isOnPicture = target.parentElement.matches('.page-picture');
  const index = elements.findIndex((element) => (isOnPicture
    ? element.offsetTop + element.offsetHeight / 2 > target.offsetTop
    : target.contains(element) || target.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING));
  return Math.max(index, 0);
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
  return html`<div class="find-bar" role="group" aria-label=${t('find_in_document')}>
    <input type="search" aria-label=${t('find_in_document')} placeholder=${t('find_in_document')} value=${find} spellcheck="false"
      onInput=${(event) => setFind(event.target.value)} onKeyDown=${onKeyDown} />
    <span class="match-count" role="status">${matches.count
      ? t('match_of', { current: formatNumber(matches.current + 1), total }) : find && t('no_matches')}</span>
    <${Button} icon="up" label=${t('previous_match')} variant="plain" disabled=${!matches.count} onClick=${() => go(-1)} />
    <${Button} icon="down" label=${t('next_match')} variant="plain" disabled=${!matches.count} onClick=${() => go(1)} />
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

function Content({ mode, view, ...props }) {
  if (view === 'page') return html`<${PageView} asText=${mode === 'text'} ...${props} />`;
  if (view === 'table' && mode !== 'text') return html`<${TableView} ...${props} />`;
  return html`<${TextView} numbered=${view === 'lines'} ...${props} />`;
}

/**
 * The preview pane.
 * @param {object} props
 * @param {{path: string, anchor: object, quote?: string, isQuote?: boolean, query: string, hit: object|null}} props.target
 * @param {boolean} props.isOverlay true at phone width: then the pane covers the page
 */
export function Preview({ target, session, navigate, onClose, isOverlay, onSimilar, onFolder, onPassage }) {
  const contentRef = useRef(null);
  const moreRef = useRef(null);
  const [find, setFind] = useState('');
  const [mode, setMode] = useState('auto');
  const [hasMore, setHasMore] = useState(false);
  const [reads, setReads] = useState(0);
  const sessionRef = useRef(session);
  const path = readPath(target);
  const view = viewOf(path, target.hit);
  const targetKey = JSON.stringify([path, target.anchor, target.quote, mode]);
  const [matches, go] = useMatches(contentRef, targetKey, find);
  useEffect(() => {
    setFind('');
    setMode('auto');
    contentRef.current.scrollTop = 0;
  }, [path]);
  // After a new login, or when the daemon is back, the content is read again.
  useEffect(() => { if (session !== sessionRef.current) setReads((count) => count + 1); sessionRef.current = session; }, [session]);
  const goOn = useCallback((step) => {
    // At the last match of a long text, its next part may hold more.
    if (go(step) !== 'moved' && step > 0) moreRef.current?.();
  }, [go]);
  useKeys((key) => { if (key in MATCH_STEPS) goOn(MATCH_STEPS[key]); return key in MATCH_STEPS; }, [goOn]);
  const registerMore = useCallback((loadMore) => {
    moreRef.current = loadMore;
    setHasMore(Boolean(loadMore));
  }, []);
  const onKeyDown = (event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    onClose();
  };
  const onScroll = (event) => {
    const { scrollTop, clientHeight, scrollHeight } = event.target;
    if (scrollTop + clientHeight * 2 > scrollHeight) moreRef.current?.();
  };
  const place = placeText(target.anchor);
  return html`<section class=${`preview${isOverlay ? ' preview-overlay' : ''}`} aria-label=${t('preview_label')} onKeyDown=${onKeyDown}>
    <div class="preview-head">
      <div class="preview-title"><h2><bdi>${visibleText(path.split('/').pop(), true)}</bdi></h2>
        <${Button} icon="close" label=${t('close_preview')} variant="plain" onClick=${onClose} /></div>
      <p class="preview-path"><bdi>${visibleText(target.path, true)}</bdi>${place && html` <span class="hit-place"><bdi>${visibleText(place, true)}</bdi></span>`}</p>
      <div class="preview-toolbar">
        <${PreviewActions} target=${target} session=${session} navigate=${navigate} onSimilar=${onSimilar} onFolder=${onFolder} />
        ${['page', 'table'].includes(view) && html`<${Button} icon="text" pressed=${mode === 'text'}
          onClick=${() => setMode(mode === 'text' ? 'auto' : 'text')}>${t('text_view')}<//>`}
      </div>
      <div class="preview-toolbar">
        <${FindBar} find=${find} setFind=${setFind} matches=${matches} hasMore=${hasMore} go=${goOn} />
        <${PassageSwitch} target=${target} onPassage=${onPassage} />
      </div>
    </div>
    <div class="preview-content" id="preview" ref=${contentRef} tabindex="0" role="region" aria-label=${t('preview_content')} onScroll=${onScroll}>
      <${Content} key=${`${view} ${path} ${reads}`} view=${view} mode=${mode} path=${path} target=${target} find=${find} registerMore=${registerMore} />
    </div>
  </section>`;
}
