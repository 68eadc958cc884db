/** The requests of the search view: which endpoint answers, loading more hits, completions. */
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from './vendor/preact-htm.js';
import { post, isAbort } from './api.js';
import { filtersOf } from './facets.js';
import { language } from './i18n.js';
import { datesOf, fileAsHit, hitKey } from './results.js';

/** While one types, a request starts at most so often; the first one at once. */
const TYPING_INTERVAL_MS = 30;
const COMPLETION_DELAY_MS = 30;
/** The parts in which a ranking is loaded: how many hits follow those that are there. */
const PARTS = [50, 150, 400, 400];
const FILE_PAGE = 200;
const RECENT_FILES = 20;

const EMPTY = {
  hits: [], total: null, answer: null, plan: null, warnings: [], latency: null, error: null, loading: false, source: 'search', done: true, key: '', query: '', wordsOnly: false,
};

/**
 * The request that the address and the text of the box stand for.
 * `source` says what answers: `search`, `similar`, `files` (a list by metadata) or `recent` (the start page).
 */
export function requestOf(text, params, isTyping) {
  const query = text.trim();
  const filters = filtersOf(params);
  const root = params.under || null;
  if (params.similar) return { source: 'similar', path: params.similar, filters, root };
  if (query) return { source: 'search', query, filters, root, plainWords: params.plain ? true : undefined, wordsOnly: isTyping };
  if (filters || root) return { source: 'files', filters, root };
  return { source: 'recent' };
}

/** Sends the first request. Returns the fields of the result state that it fills. */
async function loadFirst(request, signal) {
  const { source, filters } = request;
  if (source === 'files') return loadFiles(request, 0, FILE_PAGE, signal);
  if (source === 'recent') return loadFiles({}, 0, RECENT_FILES, signal);
  const limit = PARTS[0];
  if (source === 'similar') {
    const answer = await post('/v1/similar', { path: request.path, limit, filters, warehouse_root: request.root }, { signal });
    return fromAnswer(answer, limit);
  }
  const body = { query: request.query, plain_words: request.plainWords, limit, filters, warehouse_root: request.root };
  if (request.wordsOnly) return fromAnswer(await post('/v1/search', { ...body, words_only: true }, { signal }), limit);
  const answer = await post('/v1/ask', { ...body, explain: true }, { signal });
  if (answer.query_plan.intent !== 'list') return fromAnswer(answer, limit);
  // A question for a list ("pdf files from 2026") has no ranking: all its files can be paged through.
  const listRequest = { filters: { ...answer.query_plan.l0_filters, ...filters }, root: request.root };
  const files = await loadFiles(listRequest, 0, FILE_PAGE, signal);
  return { ...files, listRequest, plan: answer.query_plan, answer: answer.answer, warnings: answer.warnings };
}

function fromAnswer(answer, limit) {
  return {
    hits: answer.hits, source: 'search', plan: answer.query_plan, answer: answer.answer ?? null, warnings: answer.warnings || [],
    latency: answer.stats?.latency_ms ?? null, done: answer.hits.length < limit, ranked: limit, total: answer.hits.length < limit ? answer.hits.length : null,
  };
}

async function loadFiles({ filters, root }, offset, limit, signal) {
  const started = performance.now();
  const answer = await post('/v1/files', { filters, warehouse_root: root, limit, offset }, { signal });
  const hits = answer.files.map(fileAsHit);
  return {
    hits, total: answer.total, source: 'files', answer: null, warnings: [], latency: performance.now() - started,
    done: hits.length === 0 || offset + hits.length >= answer.total,
  };
}

/** Loads the next part of a list or a ranking. */
async function loadNext(request, state, signal) {
  if (state.source === 'files') {
    const next = await loadFiles(state.listRequest || request, state.hits.length, FILE_PAGE, signal);
    return { hits: [...state.hits, ...next.hits], done: next.done };
  }
  const limit = PARTS[PARTS.findIndex((_, at) => sumBefore(at) === state.ranked)];
  const part = { limit, offset: state.ranked, filters: request.filters, warehouse_root: request.root };
  const path = request.source === 'similar' ? '/v1/similar' : '/v1/search';
  const body = request.source === 'similar'
    ? { ...part, path: request.path }
    : { ...part, query: request.query, plain_words: request.plainWords, words_only: request.wordsOnly || undefined };
  const answer = await post(path, body, { signal });
  // Files that changed since the first part may come twice.
  const known = new Set(state.hits.map(hitKey));
  const hits = [...state.hits, ...answer.hits.filter((hit) => !known.has(hitKey(hit)))];
  const ranked = state.ranked + limit;
  const isLast = answer.hits.length < limit;
  return { hits, ranked, done: isLast || ranked === sumBefore(PARTS.length), total: isLast ? hits.length : state.total };
}

function sumBefore(index) {
  return PARTS.slice(0, index).reduce((sum, size) => sum + size, 0);
}

/**
 * The results of a request. A newer request aborts the older one, so that a late answer never replaces a newer one.
 * @returns {[state: object, loadMore: () => void, retry: () => void]}
 */
export function useResults(request, session) {
  const [state, setState] = useState({ ...EMPTY, loading: true });
  const [attempt, setAttempt] = useState(0);
  const controllerRef = useRef(null);
  const startedRef = useRef(-Infinity);
  const stateRef = useRef(state);
  stateRef.current = state;
  const key = JSON.stringify(request);
  // Not `useEffect`, which runs after the page is painted: a key would wait for two frames.
  useLayoutEffect(() => {
    const controller = new AbortController();
    controllerRef.current = controller;
    setState((old) => ({ ...old, loading: true, loadingMore: false }));
    const { signal } = controller;
    const timer = setTimeout(() => {
      startedRef.current = performance.now();
      loadFirst(request, signal).then(
        (result) => signal.aborted || setState({ ...EMPTY, ...result, key, query: request.query || '', wordsOnly: Boolean(request.wordsOnly) }),
        // What was found before stays in view below the error.
        (error) => signal.aborted || setState((old) => ({ ...old, loading: false, error })),
      );
    }, request.wordsOnly ? Math.max(0, startedRef.current + TYPING_INTERVAL_MS - performance.now()) : 0);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [key, session, attempt]);

  const loadMore = useCallback(() => {
    const old = stateRef.current;
    if (old.loading || old.loadingMore || old.done || old.key !== key || request.source === 'recent') return;
    // The reference is set at once: a second call before the next rendering must not load the same part again.
    stateRef.current = { ...old, loadingMore: true };
    setState(stateRef.current);
    const { signal } = controllerRef.current;
    loadNext(request, old, signal).then(
      (next) => signal.aborted || setState((now) => ({ ...now, ...next, loadingMore: false })),
      (error) => signal.aborted || setState((now) => ({ ...now, error, loadingMore: false, done: true })),
    );
  }, [key]);
  return [state, loadMore, useCallback(() => setAttempt((n) => n + 1), [])];
}

const dateOf = (hit) => String(datesOf(hit.metadata).at(-1));

/** The orders. `compare` compares two texts. */
const SORTS = {
  newest: (a, b, compare) => compare(dateOf(b), dateOf(a)),
  oldest: (a, b, compare) => compare(dateOf(a), dateOf(b)),
  name: (a, b, compare) => compare(a.metadata.name, b.metadata.name),
  size: (a, b) => b.metadata.size - a.metadata.size,
};

/** The names of the orders, the first one is the default. */
export const SORT_NAMES = ['relevance', ...Object.keys(SORTS)];

/** The hits in an order of the list above. One collator compares all of them: `localeCompare` would take a second for 10,000. */
export function sortHits(hits, sort) {
  if (!SORTS[sort]) return hits;
  const { compare } = new Intl.Collator(language(), { numeric: true });
  return [...hits].sort((a, b) => SORTS[sort](a, b, compare));
}

/** Completions at the position of the caret; they are cleared when the text is set in another way. */
export function useCompletions() {
  const [completions, setCompletions] = useState(null);
  const controllerRef = useRef(null);
  const clear = useCallback(() => {
    controllerRef.current?.abort();
    setCompletions(null);
  }, []);
  const ask = useCallback(async (text, position) => {
    controllerRef.current?.abort();
    const controller = new AbortController();
    controllerRef.current = controller;
    await new Promise((resolve) => { setTimeout(resolve, COMPLETION_DELAY_MS); });
    if (controller.signal.aborted) return;
    try {
      const answer = await post('/v1/complete', { text, position }, { signal: controller.signal });
      if (!controller.signal.aborted) setCompletions(answer.items.length ? answer : null);
    } catch (error) {
      // Completions are a help: without them the search still works, and its own errors are shown.
      if (!isAbort(error)) setCompletions(null);
    }
  }, []);
  useEffect(() => clear, []);
  return { completions, ask, clear };
}
