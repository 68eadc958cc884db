/** The search view: search box, filters, answer, results and preview. */
import { html, useCallback, useEffect, useMemo, useRef, useState } from './vendor/preact-htm.js';
import { t, tn } from './i18n.js';
import { Button, Icon, Link, Message, focusAll, formatNumber, visibleText } from './components.js';
import { useDebounce, useMediaQuery } from './hooks.js';
import { ActiveFilters, Facets, shownPath, useCounts } from './facets.js';
import { Results, hitKey, isUnread } from './results.js';
import { Answer } from './answer.js';
import { HistoryDialog, SavedSearches, searchString, useSearches } from './history.js';
import { Preview, targetOfHit } from './preview.js';
import { SORT_NAMES, requestOf, sortHits, useCompletions, useResults } from './search_requests.js';

/** Parameters of the address that name a file beside the hits (see `openPreview`). */
const FILE_PARAMS = ['file', 'page', 'lines', 'sheet', 'cell', 'part', 'member', 'marks', 'quote'];
const withoutFile = (params) => Object.fromEntries(Object.entries(params).filter(([name]) => !FILE_PARAMS.includes(name)));
const PAGE_STEP = 8;
/** About so many hits are in view without scrolling. */
const HITS_IN_VIEW = 8;
/** In a search of at most so many words, a word with an extension, such as `budget-2026.xlsx`, is taken for the name of a file. */
const MAX_NAME_WORDS = 3;
const FILE_NAME = /^[^\s/:@"-][^\s/:@"]*\.\p{L}[\p{L}\d]{0,9}$/u;

/**
 * The text of the search box and what was last submitted. The address follows the text: while typing the entry of
 * the browser's history is replaced, Enter makes a new one and gives the old one its submitted text back.
 */
function useQuery(params, navigate) {
  const [text, setText] = useState(params.q || '');
  const [submitted, setSubmitted] = useState(params.q || '');
  const writtenRef = useRef(params.q || '');
  const submittedParamsRef = useRef(params);
  useEffect(() => {
    // The address itself is compared, not `params`: while one types fast, this effect runs for an older rendering,
    // and must not put its older text back.
    if ((new URLSearchParams(location.search).get('q') || '') === writtenRef.current) return;
    writtenRef.current = params.q || '';
    submittedParamsRef.current = params;
    setText(params.q || '');
    setSubmitted(params.q || '');
  }, [params.q]);
  // Going back to this search brings its selection and filters back too.
  if (text === submitted && (params.q || '') === submitted) submittedParamsRef.current = params;
  const type = (next) => {
    writtenRef.current = next;
    setText(next);
    navigate('/ui/', { ...withoutFile(params), q: next, hit: '', similar: '', plain: '' }, { replace: true });
  };
  const submit = (next = text) => {
    const nextParams = { ...withoutFile(params), q: next, hit: '', similar: '', plain: next === params.q ? params.plain : '' };
    if (submittedParamsRef.current.q !== next || params.similar) {
      navigate('/ui/', submittedParamsRef.current, { replace: true });
      navigate('/ui/', nextParams);
    }
    writtenRef.current = next;
    submittedParamsRef.current = nextParams;
    setText(next);
    setSubmitted(next);
    return nextParams;
  };
  return { text, type, submit, isTyping: text !== submitted };
}

/** Which hit is selected. It is kept by file, so that it stays when hits are added or sorted. */
function useSelection(hits, resultKey, params, autoSelect) {
  const [selectedKey, setSelectedKey] = useState(null);
  const [moved, setMoved] = useState(false);
  useEffect(() => {
    // Typing, asking and sorting remove `hit` from the address; it is there after a reload or "back".
    const hit = hits[Math.min(Number(params.hit || 1) - 1, hits.length - 1)];
    setSelectedKey(hit && (autoSelect || params.hit) ? hitKey(hit) : null);
    setMoved(false);
  }, [resultKey]);
  const selected = useMemo(() => (selectedKey === null ? -1 : hits.findIndex((hit) => hitKey(hit) === selectedKey)), [hits, selectedKey]);
  const select = (index) => {
    const hit = hits[Math.max(0, Math.min(index, hits.length - 1))];
    if (!hit) return;
    setSelectedKey(hitKey(hit));
    setMoved(true);
  };
  return { selected, select, moved, setMoved };
}

function CompletionList({ completions, active, onPick }) {
  return html`<ul class="completions" id="completions" role="listbox" aria-label=${t('completions_label')}>
    ${completions.items.map((item, index) => html`<li key=${index} id=${`completion-${index}`} role="option" class="completion"
      aria-selected=${String(index === active)} onMouseDown=${(event) => { event.preventDefault(); onPick(item); }}>
      <span class=${`completion-kind completion-${item.kind}`}>${t(`completion_${item.kind}`)}</span>
      <bdi class="completion-label">${visibleText(item.label, true)}</bdi>
      <span class="completion-detail"><bdi>${visibleText(item.detail || '', true)}</bdi></span></li>`)}</ul>`;
}

/** The search box: a combobox whose list holds completions; its arrow keys move the selection of the hits otherwise. */
function SearchBox({ query, onSubmit, onListKey, onClose, selected, loading }) {
  const { completions, ask, clear } = useCompletions();
  const [active, setActive] = useState(-1);
  const inputRef = useRef(null);
  useEffect(() => { if (matchMedia('(min-width: 700px)').matches) focusAll(inputRef.current); }, []);
  const pick = (item) => {
    const next = query.text.slice(0, completions.from) + item.insert + query.text.slice(completions.to);
    query.type(next);
    clear();
    setActive(-1);
    inputRef.current.focus();
  };
  const onInput = (event) => {
    const { value, selectionStart } = event.target;
    query.type(value);
    setActive(-1);
    if (value) ask(value, selectionStart, true);
    else clear();
  };
  const onCompletionKey = (event) => {
    const count = completions.items.length;
    // Index -1 is the text as it was typed.
    if (event.key === 'ArrowDown') setActive(active + 1 >= count ? -1 : active + 1);
    else if (event.key === 'ArrowUp') setActive(active < 0 ? count - 1 : active - 1);
    else if (event.key === 'Escape') clear();
    else if (event.key === 'Tab' && !event.shiftKey) pick(completions.items[Math.max(active, 0)]);
    else if (event.key === 'Enter' && active >= 0) pick(completions.items[active]);
    else return false;
    return true;
  };
  const onKeyDown = (event) => {
    if (event.isComposing) return;
    const wantsAll = (event.altKey && event.key === 'ArrowDown') || (event.ctrlKey && event.key === ' ');
    if (wantsAll) ask(query.text, event.target.selectionStart, false);
    else if (completions && onCompletionKey(event)) setActive((now) => (event.key === 'Escape' ? -1 : now));
    else if (event.key === 'Enter') {
      clear();
      onSubmit();
    } else if (event.key === 'Escape') {
      if (onClose()) query.text ? query.submit('') : inputRef.current.blur();
    } else if (!onListKey(event)) return;
    event.preventDefault();
  };
  const option = completions && active >= 0 ? `completion-${active}` : undefined;
  return html`<form role="search" class="search-form" onSubmit=${(event) => event.preventDefault()}>
    <label class="visually-hidden" for="search-box">${t('search_label')}</label>
    <span class="search-icon"><${Icon} name="search" size=${18} /></span>
    <input id="search-box" ref=${inputRef} class="search-box" type="text" role="combobox" autocomplete="off" autocapitalize="off"
      spellcheck="false" enterkeyhint="search" placeholder=${t('search_placeholder')} value=${query.text} aria-autocomplete="list"
      aria-expanded=${String(Boolean(completions))} aria-controls=${completions ? 'completions' : 'results'}
      aria-activedescendant=${option || (!completions && selected >= 0 ? `hit-${selected}` : undefined)}
      onInput=${onInput} onKeyDown=${onKeyDown} onBlur=${clear} />
    ${loading && html`<span class="spinner" aria-hidden="true"></span>`}
    ${query.text && html`<${Button} icon="close" label=${t('clear')} variant="plain" onClick=${() => { query.submit(''); inputRef.current.focus(); }} />`}
    ${!query.text && html`<kbd class="search-key" aria-hidden="true">/</kbd>`}
    ${completions && html`<${CompletionList} completions=${completions} active=${active} onPick=${pick} />`}
  </form>`;
}

/** "50 of 117 files", told to screen readers when it changes. */
function ResultCount({ state, counts, isOld, request }) {
  const isStart = request.source === 'recent';
  const total = isStart ? null : state.total ?? counts?.total ?? null;
  let text = isStart ? '' : tn('count_files', state.hits.length);
  if (state.loading && !state.hits.length) text = t('loading');
  else if (total !== null && total > state.hits.length) {
    text = t('count_of', { shown: formatNumber(state.hits.length), total: formatNumber(total) });
  }
  else if (total === null && !isStart && !state.done) text = t('count_first', { shown: formatNumber(state.hits.length) });
  // Meaning finds files without any of the words, and the filters count those with words.
  const isCounted = state.source === 'search' && request.query === state.query && counts?.complete && !isOld && !state.loading;
  const withWords = isCounted && counts.total < state.hits.length ? counts.total : 0;
  if (withWords) text += `, ${t('count_with_words', { count: formatNumber(withWords) })}`;
  return html`<p class="result-count"><span aria-live="polite">${text}</span>
    ${state.wordsOnly && !isStart && html` <span class="latency">${t('count_words_only')}</span>`}
    ${state.latency !== null && html` <span class="latency">${t('latency', { ms: formatNumber(state.latency, state.latency < 10 ? 1 : 0) })}</span>`}</p>`;
}

function Toolbar({ state, counts, isOld, request, sort, setParams, toggles, onHistory }) {
  return html`<div class="result-toolbar">
    <${ResultCount} state=${state} counts=${counts} isOld=${isOld} request=${request} />
    <label class="sort"><span>${t('sort')}</span>
      <select value=${sort} onChange=${(event) => setParams({ hit: '', sort: event.target.value === 'relevance' ? '' : event.target.value })}>
        ${SORT_NAMES.map((name) => html`<option key=${name} value=${name}>${t(`sort_${name}`)}</option>`)}</select></label>
    ${toggles.map(({ icon, label, text, pressed, onClick }) => html`<${Button} key=${icon} icon=${icon} label=${label} pressed=${pressed} variant="plain" onClick=${onClick}>${text}<//>`)}
    <${Button} icon="history" label=${t('history_explain')} variant="plain" onClick=${onHistory}>${t('history_title')}<//>
  </div>`;
}

/** True if the address filters the files of a search by words. */
function isFiltered({ source, filters, root }) {
  return source === 'search' && Boolean(filters || root);
}

/** True if a filter of the address or of the words is a date. */
function hasDates(request, state) {
  const filters = { ...state.plan?.l0_filters, ...request.filters };
  return Boolean(filters.modified_after || filters.modified_before);
}

/** What stands above the hits and scrolls with them: errors, warnings, the answer or the start page. */
function ResultHeader({ state, request, searches, status, pathOf, onQuote, navigate, retry }) {
  const placeOf = ({ place, hit: number }) => {
    const hit = state.hits[number - 1];
    // What stands before the path of the hit is the name of its indexed folder.
    return hit ? pathOf(hit).slice(0, -hit.path.length) + place : place;
  };
  const isStart = request.source === 'recent';
  return html`<div class="result-header">
    ${state.error && html`<${Message} error=${state.error}
      actions=${html`<${Button} icon="refresh" onClick=${retry}>${t('try_again')}<//>`} />`}
    ${searches.error && html`<${Message} error=${searches.error}>${t('searches_failed')}<//>`}
    ${status?.error && html`<${Message} error=${status.error}>${t('status_failed')}<//>`}
    ${state.warnings.map((warning) => html`<${Message} key=${warning} kind="warning" text=${`${warning[0].toUpperCase()}${warning.slice(1)}`} />`)}
    ${state.answer && state.hits.length > 0 && html`<${Answer} answer=${state.answer} query=${state.query} intent=${state.plan?.intent} placeOf=${placeOf} onOpen=${onQuote} />`}
    ${isStart && html`<${StartPage} status=${status} searches=${searches} onOpen=${(next) => navigate('/ui/', next)} />`}
    ${state.hits.slice(0, HITS_IN_VIEW).some(isUnread) && html`<p class="muted">${t('unread_explain')} <${Link} path="/ui/status" params=${{ show: 'reasons' }} navigate=${navigate}>${t('unread_reasons')}<//></p>`}
    ${!isStart && !state.loading && !state.error && !state.hits.length && html`<div class="nothing">
      <p>${t('nothing_found')}</p><p class="muted">${t('nothing_found_hint')}</p>
      ${hasDates(request, state) && html`<p class="muted">${t('dates_explain')}</p>`}</div>`}
    ${isFiltered(request) && !state.loading && (!state.hits.length || state.answer?.outcome === 'nothing') && html`<p class="muted">${t('filters_hide')}${' '}
      <button type="button" class="link-button" onClick=${() => navigate('/ui/', { q: state.query })}>${t('filters_without')}</button></p>`}
    ${!isStart && !state.loading && !state.error && html`<${MissingFileHint} state=${state} navigate=${navigate} />`}
  </div>`;
}

/** A way to find out why a file is missing, if nothing was found or if a file name was typed that no hit has. */
function MissingFileHint({ state: { query, hits, wordsOnly }, navigate }) {
  const words = query.split(/\s+/).map((word) => word.replace(/^\+/, ''));
  const namesOf = ({ metadata }) => [metadata.name, metadata.anchor?.member?.split('/').pop()];
  const isFound = (name) => hits.some((hit) => namesOf(hit).some((other) => other?.toLowerCase() === name.toLowerCase()));
  const name = words.length <= MAX_NAME_WORDS && words.find((word) => FILE_NAME.test(word) && !isFound(word));
  if (!query || wordsOnly || (hits.length > 0 && !name)) return null;
  const missing = name || words.filter((word) => !/[:"]|^-/.test(word)).join(' ');
  return html`<p class="muted">${name && hits.length > 0 && `${t('name_not_found', { name: visibleText(name, true) })} `}
    <${Link} path="/ui/status" params=${{ missing }} navigate=${navigate}>${t('missing_link')}<//></p>`;
}

function StartPage({ status, searches, onOpen }) {
  const coverage = status?.coverage;
  return html`<div class="start-page">
    ${coverage && html`<p class="coverage-line">${tn('coverage_line', status.roots.length, {
      indexed: formatNumber(coverage.indexed), found: formatNumber(coverage.found) })}
      ${coverage.pending > 0 && html` ${tn('coverage_pending', coverage.pending)}`}
      ${coverage.skipped > 0 && html` ${tn('coverage_skipped', coverage.skipped)}`}
      ${coverage.failed > 0 && html` ${tn('coverage_failed', coverage.failed)}`}</p>`}
    <${SavedSearches} searches=${searches} onOpen=${onOpen} />
    <h2>${t('recent_files')}</h2></div>`;
}

/** The place of a quote, which may be another page, sheet or cell than that of the best passage of its file. */
function placeOfQuote(quote, hit) {
  const anchor = { ...hit.metadata.anchor };
  const page = Number(/, page (\d+)/.exec(quote.place)?.[1]);
  const [, sheet, cell] = /, sheet (.+), ([A-Z]+\d+(?::[A-Z]+\d+)?)$/.exec(quote.place) || [];
  if (page) anchor.page = page;
  if (cell) Object.assign(anchor, { sheet, cell });
  return { key: hitKey(hit), anchor, text: quote.text, isQuote: true };
}

/** Where the preview of a hit begins: at its quote in the answer, if there is one. */
function firstPlace(hit, { answer, hits }) {
  const quote = answer?.outcome === 'answered' && answer.quotes.find((item) => hits[item.hit - 1] === hit);
  return quote ? placeOfQuote(quote, hit) : null;
}

/** The target of the preview: a file of the address, or the selected hit at one of its places. */
function usePreviewTarget(params, hit, place, state) {
  const { query } = state;
  return useMemo(() => {
    if (params.file) {
      const [from, to] = (params.lines || '').split('-').map(Number);
      const anchor = {
        page: Number(params.page) || undefined, line_start: from || undefined, line_end: to || from || undefined,
        sheet: params.sheet, cell: params.cell, part: params.part, member: params.member,
      };
      return { path: params.file, anchor, hit: null, query: params.marks || query, quote: params.quote, isQuote: Boolean(params.quote) };
    }
    return hit ? { ...targetOfHit(hit, place?.key === hitKey(hit) ? place : firstPlace(hit, state)), query } : null;
  }, [hit, place, state.answer, query, ...FILE_PARAMS.map((name) => params[name])]);
}

const focusById = (id) => setTimeout(() => document.getElementById(id)?.focus(), 120);

/**
 * The search view.
 * @param {{session: object, navigate: Function, params: object, status: object|null}} props
 */
export function SearchView({ session, navigate, params, status }) {
  const isWide = useMediaQuery('(min-width: 900px)');
  const showsFacets = useMediaQuery('(min-width: 1180px)');
  const [previewOpen, setPreviewOpen] = useState(true);
  const [overlayOpen, setOverlayOpen] = useState(Boolean(params.file));
  const [facetsOpen, setFacetsOpen] = useState(false);
  const [historyOpen, setHistoryOpen] = useState(false);
  const [showWhy, setShowWhy] = useState(false);
  const [place, setPlace] = useState(null);
  const query = useQuery(params, navigate);
  const searches = useSearches(session);
  const request = requestOf(query.text, params, query.isTyping);
  const [state, loadMore, retry] = useResults(request, session);
  // Before a search, the filters count all files.
  const hasFacets = request.source !== 'similar';
  const { counts, error: countsError, isOld } = useCounts(
    { query: request.query || '', filters: request.filters, warehouse_root: request.root || null, plain_words: request.plainWords },
    hasFacets, session);
  const roots = useMemo(() => (status?.roots || []).map((root) => root.path), [status]);
  const pathOf = useCallback((hit) => shownPath(hit.metadata.root, hit.path, roots), [roots]);
  const sort = SORT_NAMES.includes(params.sort) ? params.sort : 'relevance';
  const hits = useMemo(() => sortHits(state.hits, sort), [state.hits, sort]);
  const selection = useSelection(hits, `${state.key} ${sort}`, params, request.source !== 'recent');
  const { selected } = selection;
  // The marks belong to the hits that are shown, which may be a few letters behind the text of the box.
  const marksQuery = state.query;
  // The preview follows a little later, so that typing and holding an arrow key stay smooth.
  const target = useDebounce(usePreviewTarget(params, hits[selected], place, state), query.isTyping ? 250 : 60);
  const setParams = useCallback((changes, options) => navigate('/ui/', { ...withoutFile(params), ...changes }, options), [params]);

  useEffect(() => {
    if (status && !status.error && status.roots.length === 0 && request.source === 'recent' && !params.file) {
      navigate('/ui/setup', {}, { replace: true });
    }
  }, [status]);
  useEffect(() => { if (params.file) setOverlayOpen(true); }, [params.file]);
  useEffect(() => setPlace(null), [state.key]);

  const select = (index, { window: number, open } = {}) => {
    const hit = hits[Math.max(0, Math.min(index, hits.length - 1))];
    if (!hit) return;
    selection.select(index);
    const passage = number === undefined ? null : hit.metadata.windows[number];
    setPlace(passage ? { key: hitKey(hit), anchor: passage.anchor, text: passage.excerpt } : null);
    navigate('/ui/', { ...withoutFile(params), hit: hits.indexOf(hit) + 1 }, { replace: true });
    if (open) showPreview();
  };
  const showPreview = () => {
    setPreviewOpen(true);
    setOverlayOpen(true);
  };
  const openQuote = (quote) => {
    const hit = state.hits[quote.hit - 1];
    if (!hit) return;
    select(hits.indexOf(hit), { open: true });
    setPlace(placeOfQuote(quote, hit));
  };
  const submit = () => {
    if (selection.moved && selected >= 0) {
      showPreview();
      focusById('preview');
      return;
    }
    const next = query.submit();
    selection.setMoved(false);
    if (next.q?.trim()) searches.remember(searchString(next));
  };
  /** Closes what is open; true if nothing was. */
  const close = () => {
    if (!isWide && overlayOpen) setOverlayOpen(false);
    else if (params.file) navigate('/ui/', withoutFile(params));
    else return true;
    return false;
  };
  const moveBy = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE_STEP, PageUp: -PAGE_STEP };
  const onMoveKey = (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || !(event.key in moveBy) || !hits.length) return false;
    select(selected < 0 ? 0 : selected + moveBy[event.key]);
    return true;
  };
  const onListKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (onMoveKey(event)) { /* The selection was moved. */ } else if (event.key === 'Home') select(0);
    else if (event.key === 'End') select(hits.length - 1);
    else if (event.key === 'Enter') {
      if (selected < 0) select(0);
      showPreview();
      focusById('preview');
    } else if (event.key === ' ') isWide ? setPreviewOpen(!previewOpen) : setOverlayOpen(!overlayOpen);
    else if (event.key === 'w') setShowWhy(!showWhy);
    else if (event.key === 'Escape') close() && focusAll(document.getElementById('search-box'));
    else return;
    event.preventDefault();
  };
  const openFolder = (folder) => navigate('/ui/', { under: folder });
  // The question stays in the address: without the chip of the similar file, its results are back.
  const openSimilar = (path) => setParams({ hit: '', similar: path });
  const previewShown = target && (isWide ? previewOpen : overlayOpen);
  const closePreview = () => {
    if (params.file) navigate('/ui/', withoutFile(params));
    else if (isWide) setPreviewOpen(false);
    setOverlayOpen(false);
    focusById(hits.length ? 'results' : 'search-box');
  };
  const toggles = [
    !showsFacets && hasFacets && { icon: 'filter', text: t('filters'), pressed: facetsOpen, onClick: () => setFacetsOpen(!facetsOpen) },
    { icon: 'info', label: t('why_toggle'), text: t('why'), pressed: showWhy, onClick: () => setShowWhy(!showWhy) },
    isWide && { icon: 'text', label: t('preview_toggle'), text: t('preview_label'), pressed: previewOpen, onClick: () => setPreviewOpen(!previewOpen) },
  ].filter(Boolean);
  const facetsShown = hasFacets && (showsFacets || facetsOpen);
  // The column of the preview is there as soon as a hit is, so that nothing moves under the pointer when the preview follows.
  const hasPreviewColumn = isWide && previewOpen && (target || hits[selected]);
  const layout = ['search-layout', facetsShown && 'with-facets', hasPreviewColumn && 'with-preview'].filter(Boolean).join(' ');
  return html`<main id="main" class="search-view"><h1 class="visually-hidden">${t('search_label')}</h1>
    <div class="search-bar">
      <${SearchBox} query=${query} onSubmit=${submit} onListKey=${onMoveKey} onClose=${close} selected=${selected} loading=${state.loading} />
      <${ActiveFilters} params=${params} roots=${roots} plan=${state.plan} filters=${request.filters} onChange=${(changes) => setParams({ hit: '', ...changes })} /></div>
    <div class=${layout}>
      ${facetsShown && html`<${Facets} counts=${counts} error=${countsError} params=${params} roots=${roots} onChange=${(changes) => setParams({ hit: '', ...changes })} />`}
      <section class="result-pane" aria-label=${t('results_label')}>
        <${Toolbar} state=${state} counts=${counts} isOld=${isOld} request=${request} sort=${sort} setParams=${setParams} toggles=${toggles}
          onHistory=${() => setHistoryOpen(true)} />
        <${Results} hits=${hits} pathOf=${pathOf} total=${Math.max(hits.length, state.total ?? 0)} query=${marksQuery} isBegun=${state.wordsOnly} selected=${selected} onSelect=${select} showWhy=${showWhy}
          onKeyDown=${onListKey} onNearEnd=${loadMore} resetKey=${`${state.key} ${sort}`}
          header=${html`<${ResultHeader} state=${state} request=${request} searches=${searches} status=${status} pathOf=${pathOf} onQuote=${openQuote}
            navigate=${navigate} retry=${retry} />`} />
      </section>
      ${previewShown && html`<${Preview} target=${target} session=${session} navigate=${navigate} onClose=${closePreview}
        isOverlay=${!isWide} onSimilar=${openSimilar} onFolder=${openFolder}
        onPassage=${(passage) => setPlace({ key: hitKey(target.hit), anchor: passage.anchor, text: passage.excerpt })} />`}
    </div>
    ${historyOpen && html`<${HistoryDialog} searches=${searches} current=${searchString({ ...params, q: query.text })}
      onOpen=${(next) => navigate('/ui/', next)} onClose=${() => setHistoryOpen(false)} />`}
  </main>`;
}
