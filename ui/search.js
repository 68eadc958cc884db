/** The search view: search box, filters, answer, results and preview. */
import { html, useCallback, useEffect, useMemo, useState } from './vendor/preact-htm.js';
import { t } from './i18n.js';
import { focusAll } from './components.js';
import { useKeys, useMediaQuery } from './hooks.js';
import { ActiveFilters, Facets, shownPath, useCounts } from './facets.js';
import { Results } from './results.js';
import { HistoryDialog, searchString, useSearches } from './history.js';
import { Preview } from './preview.js';
import { SearchBox } from './search_box.js';
import { ResultHeader, Toolbar } from './search_header.js';
import { SORT_NAMES, requestOf, sortHits, useResults } from './search_requests.js';
import { useQuery, useSelection, withoutFile } from './search_state.js';

const PAGE_STEP = 8;
const MOVES = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE_STEP, PageUp: -PAGE_STEP };

/** What the address and the text ask for, its hits in the chosen order, and the counts of the filters. */
function useSearch(query, params, session, status) {
  const request = requestOf(query.text, params, query.isTyping);
  const [state, loadMore, retry] = useResults(request, session);
  const hasFacets = request.source !== 'similar';
  // Before a search, the filters count all files.
  const counts = useCounts(
    { query: request.query || '', filters: request.filters, warehouse_root: request.root || null, plain_words: request.plainWords },
    hasFacets, session);
  const roots = useMemo(() => (status?.roots || []).map((root) => root.path), [status]);
  const pathOf = useCallback((hit) => shownPath(hit.metadata.root, hit.path, roots), [roots]);
  const sort = SORT_NAMES.includes(params.sort) ? params.sort : 'relevance';
  const hits = useMemo(() => sortHits(state.hits, sort), [state.hits, sort]);
  return { request, isStart: request.source === 'recent', state, loadMore, retry, hasFacets, counts, roots, pathOf, sort, hits, key: `${state.key} ${sort}` };
}

/** Which panes and explanations are open. On a narrow page the preview covers the results, and opens only when it is asked for. */
function usePanes(params) {
  const isWide = useMediaQuery('(min-width: 900px)');
  const hasRoomForFacets = useMediaQuery('(min-width: 1180px)');
  const [columnOpen, setColumnOpen] = useState(true);
  const [overlayOpen, setOverlayOpen] = useState(Boolean(params.file));
  const [facetsOpen, setFacetsOpen] = useState(false);
  const [whyOpen, setWhyOpen] = useState(false);
  useEffect(() => { if (params.file) setOverlayOpen(true); }, [params.file]);
  return {
    isWide, hasRoomForFacets, overlayOpen, setOverlayOpen, setColumnOpen,
    facetsOpen: hasRoomForFacets || facetsOpen,
    toggleFacets: () => setFacetsOpen(!facetsOpen),
    whyOpen,
    toggleWhy: () => setWhyOpen(!whyOpen),
    previewOpen: isWide ? columnOpen : overlayOpen,
    showPreview: () => {
      setColumnOpen(true);
      setOverlayOpen(true);
    },
    togglePreview: () => (isWide ? setColumnOpen(!columnOpen) : setOverlayOpen(!overlayOpen)),
  };
}

/** The keys of the list of hits: `onMoveKey` for those that the search box passes on too, `onListKey` for all. */
function listKeys({ hits, selected, select, actions }) {
  /** True if the key moved the selection. */
  const onMoveKey = ({ key, altKey, ctrlKey, metaKey, shiftKey }) => {
    if (altKey || ctrlKey || metaKey || shiftKey || !(key in MOVES) || !hits.length) return false;
    select(selected < 0 ? 0 : selected + MOVES[key]);
    return true;
  };
  const onListKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (!onMoveKey(event)) {
      if (!(event.key in actions)) return;
      actions[event.key]();
    }
    event.preventDefault();
  };
  return { onMoveKey, onListKey };
}

const focusById = (id) => setTimeout(() => document.getElementById(id)?.focus(), 120);

/** Opening and closing of the preview, and the keys of the list, as they follow from the panes and the selection. */
function listActions({ search, selection, panes, params, navigate, isPreviewShown }) {
  const { hits } = search;
  const { selected, select } = selection;
  const openPreview = () => {
    panes.showPreview();
    focusById('preview');
  };
  const closePreview = () => {
    if (params.file) navigate('/ui/', withoutFile(params));
    else if (panes.isWide) panes.setColumnOpen(false);
    panes.setOverlayOpen(false);
    focusById(hits.length ? 'results' : 'search-box');
  };
  /** Closes what is open; true if nothing was. */
  const close = () => {
    if (!panes.isWide && panes.overlayOpen) panes.setOverlayOpen(false);
    else if (params.file) navigate('/ui/', withoutFile(params));
    else return true;
    return false;
  };
  const actions = {
    Home: () => select(0),
    End: () => select(hits.length - 1),
    Enter: () => {
      if (selected < 0) select(0);
      openPreview();
    },
    ' ': panes.togglePreview,
    w: panes.toggleWhy,
    Escape: () => (isPreviewShown ? closePreview() : focusAll(document.getElementById('search-box'))),
  };
  return { openPreview, closePreview, close, ...listKeys({ hits, selected, select, actions }) };
}

/** The results with what stands above them. */
function ResultPane({ search, selection, panes, actions, searches, status, navigate, setParams, openHistory }) {
  const { request, state, counts, hits, key, sort, pathOf, loadMore, retry } = search;
  const toggles = [
    !panes.hasRoomForFacets && search.hasFacets && { icon: 'filter', text: t('filters'), pressed: panes.facetsOpen, onClick: panes.toggleFacets },
    { icon: 'info', label: t('why_toggle'), text: t('why'), pressed: panes.whyOpen, onClick: panes.toggleWhy },
    panes.isWide && { icon: 'text', label: t('preview_toggle'), text: t('preview_label'), pressed: panes.previewOpen, onClick: panes.togglePreview },
  ].filter(Boolean);
  // On a narrow page, the preview covers the list and takes the focus.
  const show = panes.isWide ? panes.showPreview : actions.openPreview;
  const onSelect = (index, { window, open } = {}) => {
    selection.select(index, window);
    if (open) show();
  };
  const onQuote = (quote) => {
    if (!state.hits[quote.hit - 1]) return;
    selection.selectQuote(quote);
    show();
  };
  const header = html`<${ResultHeader} state=${state} request=${request} searches=${searches} status=${status} pathOf=${pathOf}
    onQuote=${onQuote} navigate=${navigate} retry=${retry} />`;
  // The marks belong to the hits that are shown, which may be a few letters behind the text of the box.
  return html`<section class="result-pane" aria-label=${t('results_label')}>
    <${Toolbar} state=${state} counts=${counts.counts} isOld=${counts.isOld} request=${request} sort=${sort} setParams=${setParams}
      toggles=${toggles} onHistory=${openHistory} />
    <${Results} hits=${hits} pathOf=${pathOf} total=${Math.max(hits.length, state.total ?? 0)} query=${state.query} isBegun=${state.wordsOnly}
      selected=${selection.selected} onSelect=${onSelect} showWhy=${panes.whyOpen} onKeyDown=${actions.onListKey} onNearEnd=${loadMore}
      resetKey=${key} header=${header} /></section>`;
}

/** Opens the first run if no folder is indexed yet. */
function useSetup(status, isNeeded, navigate) {
  useEffect(() => {
    if (isNeeded && status && !status.error && status.roots.length === 0) navigate('/ui/setup', {}, { replace: true });
  }, [status]);
}

/**
 * The search view.
 * @param {{session: object, navigate: Function, params: object, status: object|null}} props
 */
export function SearchView({ session, navigate, params, status }) {
  const [historyOpen, setHistoryOpen] = useState(false);
  const panes = usePanes(params);
  const query = useQuery(params, navigate);
  const searches = useSearches(session);
  const search = useSearch(query, params, session, status);
  const selection = useSelection(search, params, navigate, query.isTyping);
  const { hits, roots, request } = search;
  const { selected, target } = selection;
  const isPreviewShown = Boolean(target && panes.previewOpen);
  const actions = listActions({ search, selection, panes, params, navigate, isPreviewShown });
  const setParams = useCallback((changes) => navigate('/ui/', { ...withoutFile(params), hit: '', ...changes }), [params]);
  useSetup(status, search.isStart && !params.file, navigate);
  // After a click beside everything, nothing that knows the key has the focus.
  useKeys((key) => {
    if (key !== 'Escape' || !isPreviewShown) return false;
    actions.closePreview();
    return true;
  }, [isPreviewShown, actions]);
  const submit = () => {
    if (selection.moved && selected >= 0) return actions.openPreview();
    const next = query.submit();
    selection.setMoved(false);
    return next.q?.trim() && searches.remember(searchString(next));
  };
  const { counts, error } = search.counts;
  const kinds = counts?.groups.find(({ name }) => name === 'kind')?.values;
  const facetsShown = search.hasFacets && panes.facetsOpen;
  // The column of the preview is there as soon as a hit is, so that nothing moves under the pointer when the preview follows.
  const hasPreviewColumn = panes.isWide && panes.previewOpen && (target || hits[selected]);
  const facets = useMemo(() => html`<${Facets} counts=${counts} error=${error} params=${params} roots=${roots} onChange=${setParams} />`, [counts, error, roots, setParams]);
  const layout = ['search-layout', facetsShown && 'with-facets', hasPreviewColumn && 'with-preview'].filter(Boolean).join(' ');
  // The question stays in the address of similar files: without the chip of the file, its results are back.
  return html`<main id="main" class="search-view"><h1 class="visually-hidden">${t('search_label')}</h1>
    <div class="search-bar">
      <${SearchBox} query=${query} onSubmit=${submit} onListKey=${actions.onMoveKey} onClose=${actions.close} selected=${selected} loading=${search.state.loading} />
      <${ActiveFilters} params=${params} roots=${roots} kinds=${kinds} plan=${search.state.plan} filters=${request.filters} onChange=${setParams} /></div>
    <div class=${layout}>
      ${facetsShown && facets}
      <${ResultPane} ...${{ search, selection, panes, actions, searches, status, navigate, setParams }} openHistory=${() => setHistoryOpen(true)} />
      ${isPreviewShown && html`<${Preview} target=${target} session=${session} navigate=${navigate} onClose=${actions.closePreview}
        isOverlay=${!panes.isWide} onSimilar=${(path) => setParams({ similar: path })} onFolder=${(folder) => navigate('/ui/', { under: folder })}
        onPassage=${(passage) => selection.showPassage(target.hit, passage)} />`}
    </div>
    ${historyOpen && html`<${HistoryDialog} searches=${searches} current=${searchString({ ...params, q: query.text })}
      onOpen=${(next) => navigate('/ui/', next)} onClose=${() => setHistoryOpen(false)} />`}
  </main>`;
}
