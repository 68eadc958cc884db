/** Hooks that the views share: loading data, running actions, ids, and values that follow the window or the typing. */
import { useState, useEffect, useRef, useCallback } from './vendor/preact-htm.js';
import { get, isAbort, onConnection } from './api.js';

/**
 * Loads data and keeps the last answer while it is loaded again. Answers of older requests are dropped.
 * @param {(options: {signal: AbortSignal}) => Promise<any>} load
 * @param {any[]} deps that start a new request when they change
 * @param {number} delay in milliseconds before data is replaced, for requests that follow the typing
 * @returns {{data: any, error: Error|null, loading: boolean, reload: () => void, setData: (data: any) => void}}
 */
export function useLoad(load, deps, delay = 0) {
  const [state, setState] = useState({ data: null, error: null, loading: true });
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    setState((old) => ({ ...old, loading: true }));
    const start = () => Promise.resolve(load({ signal })).then(
      (data) => { if (!signal.aborted) setState({ data, error: null, loading: false }); },
      (error) => { if (!isAbort(error) && !signal.aborted) setState((old) => ({ ...old, error, loading: false })); },
    );
    let timer = null;
    if (delay && state.data) timer = setTimeout(start, delay);
    else start();
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [...deps, version]);
  // A request that failed because the daemon was away is repeated as soon as it is back.
  const wasAway = state.error?.status === 0;
  useEffect(() => (wasAway ? onConnection((isAway) => { if (!isAway) setVersion((number) => number + 1); }) : undefined), [wasAway]);
  const reload = useCallback(() => setVersion((number) => number + 1), []);
  const setData = useCallback((data) => setState({ data, error: null, loading: false }), []);
  return { ...state, reload, setData };
}

/** Loads the JSON of a path, as `useLoad` does. */
export function useGet(path, params) {
  return useLoad((options) => get(path, params, options), [path]);
}

/**
 * Runs an action of a button: `{run, busy, error, clearError}`. `run` gives the result, or `undefined` after an error. The state is that
 * of the newest action; it aborts the signal that the one before it got.
 */
export function useAction() {
  const [state, setState] = useState({ busy: false, error: null });
  const newest = useRef(null);
  const run = useCallback(async (action) => {
    newest.current?.abort();
    const controller = new AbortController();
    newest.current = controller;
    const end = (error) => { if (newest.current === controller) setState({ busy: false, error }); };
    setState({ busy: true, error: null });
    try {
      const result = await action(controller.signal);
      end(null);
      return result;
    } catch (error) {
      end(isAbort(error) ? null : error);
      return undefined;
    }
  }, []);
  const clearError = useCallback(() => setState({ busy: false, error: null }), []);
  return { ...state, run, clearError };
}

let nextId = 0;

/** An id that is unique in the page and stays the same for one component. */
export function useId(prefix = 'id') {
  const ref = useRef(null);
  ref.current ||= `${prefix}-${nextId += 1}`;
  return ref.current;
}

/** The value as it was when it last stayed the same for `delay` milliseconds. */
export function useDebounce(value, delay) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), delay);
    return () => clearTimeout(timer);
  }, [value, delay]);
  return settled;
}

/** True while a media query matches. */
export function useMediaQuery(query) {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const update = () => setMatches(list.matches);
    update();
    list.addEventListener('change', update);
    return () => list.removeEventListener('change', update);
  }, [query]);
  return matches;
}

/** Calls `onKey` for keys without Ctrl, Alt or Meta that are pressed outside of text fields and dialogs, and that no element has used. It says whether it used the key. */
export function useKeys(onKey, deps) {
  useEffect(() => {
    const listen = (event) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.('input, textarea, select, dialog')) return;
      if (!document.querySelector('dialog[open]') && onKey(event.key)) event.preventDefault();
    };
    addEventListener('keydown', listen);
    return () => removeEventListener('keydown', listen);
  }, deps);
}
