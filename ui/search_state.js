/** The state of the search view: the text of the search box, the selected hit, and what the preview shows. */
import { useEffect, useMemo, useRef, useState } from './vendor/preact-htm.js';
import { useDebounce } from './hooks.js';
import { hitKey } from './results.js';
import { targetOfHit } from './preview.js';

/** Parameters of the address that name a file beside the hits (see `openPreview`). */
const FILE_PARAMS = ['file', 'page', 'lines', 'sheet', 'cell', 'part', 'member', 'marks', 'quote'];
export const withoutFile = (params) => Object.fromEntries(Object.entries(params).filter(([name]) => !FILE_PARAMS.includes(name)));

/**
 * The text of the search box and what was last submitted. The address follows the text: while typing the entry of
 * the browser's history is replaced, Enter makes a new one and gives the old one its submitted text back.
 */
export function useQuery(params, navigate) {
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
    // The best hit of another question comes first, whatever the order was before.
    const sort = text === submitted ? '' : params.sort;
    navigate('/ui/', { ...withoutFile(params), q: next, hit: '', similar: '', plain: '', sort }, { replace: true });
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

/** The selected hit of a list. It is kept by file, so that it stays when hits are added or sorted. */
function useSelectedIndex(hits, resultKey, params, autoSelect) {
  const [selectedKey, setSelectedKey] = useState(null);
  const [moved, setMoved] = useState(false);
  useEffect(() => {
    // Typing, asking and sorting remove `hit` from the address; it is there after a reload or "back".
    // A place beyond the hits that are loaded selects none of them, because another hit would be the wrong one.
    const hit = hits[Number(params.hit || 1) - 1];
    setSelectedKey(hit && (autoSelect || params.hit) ? hitKey(hit) : null);
    setMoved(false);
  }, [resultKey]);
  const selected = useMemo(() => (selectedKey === null ? -1 : hits.findIndex((hit) => hitKey(hit) === selectedKey)), [hits, selectedKey]);
  const selectHit = (hit) => {
    setSelectedKey(hitKey(hit));
    setMoved(true);
  };
  return { selected, selectHit, moved, setMoved };
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

/** The preview follows the selection a little later, so that typing and holding an arrow key stay smooth. */
const PREVIEW_DELAY_MS = 60;
const PREVIEW_DELAY_TYPING_MS = 250;

/**
 * The selected hit, the passage of it that the preview shows, and what selects another one.
 * @param {{hits: object[], state: object, key: string, isStart: boolean}} search see `useSearch`
 */
export function useSelection({ hits, state, key, isStart }, params, navigate, isTyping) {
  const { selected, selectHit, moved, setMoved } = useSelectedIndex(hits, key, params, !isStart);
  const [place, setPlace] = useState(null);
  useEffect(() => setPlace(null), [state.key]);
  const target = useDebounce(usePreviewTarget(params, hits[selected], place, state), isTyping ? PREVIEW_DELAY_TYPING_MS : PREVIEW_DELAY_MS);
  const showPassage = (hit, passage) => setPlace(passage ? { key: hitKey(hit), anchor: passage.anchor, text: passage.excerpt } : null);
  /** Selects the hit of a number, at its best passage or at the one of `window`. */
  const select = (index, window) => {
    const hit = hits[Math.max(0, Math.min(index, hits.length - 1))];
    if (!hit) return;
    selectHit(hit);
    showPassage(hit, hit.metadata.windows?.[window]);
    navigate('/ui/', { ...withoutFile(params), hit: hits.indexOf(hit) + 1 }, { replace: true });
  };
  const selectQuote = (quote) => {
    const hit = state.hits[quote.hit - 1];
    select(hits.indexOf(hit));
    setPlace(placeOfQuote(quote, hit));
  };
  return { selected, moved, setMoved, target, select, selectQuote, showPassage };
}
