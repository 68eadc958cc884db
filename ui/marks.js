/** Marks of the words of a query in texts: asked of the daemon in batches and kept for the query. */
import { useEffect, useReducer, useRef } from './vendor/preact-htm.js';
import { post, isAbort } from './api.js';
import { toast } from './components.js';

const BATCH_SIZE = 200;
const NO_RANGES = [];

/**
 * The mark ranges of texts for a query.
 * @param {string} query
 * @param {string[]} texts that are shown now; those that are not known yet are asked for together
 * @param {boolean} isBegun whether the last word of the query is still being typed
 * @returns {(text: string) => Array<[number, number]>}
 */
export function useMarks(query, texts, isBegun = false) {
  const [, rerender] = useReducer((n) => n + 1, 0);
  const cacheRef = useRef({ key: null, ranges: new Map() });
  const key = `${query}\n${isBegun}`;
  if (cacheRef.current.key !== key) cacheRef.current = { key, ranges: new Map() };
  const cache = cacheRef.current;
  const missing = query ? [...new Set(texts)].filter((text) => text && !cache.ranges.has(text)) : [];
  useEffect(() => {
    if (!missing.length) return undefined;
    const controller = new AbortController();
    loadMarks({ query, prefix: isBegun }, missing, cache.ranges, controller.signal).then(rerender, (error) => {
      if (isAbort(error)) return;
      // Without marks the texts can still be read; asking again at each rendering would not help.
      missing.forEach((text) => cache.ranges.set(text, NO_RANGES));
      if (error.status !== 0 && error.status !== 401) toast(error.message, 'error');
    });
    return () => controller.abort();
  }, [key, missing.join('\u0000')]);
  return (text) => cache.ranges.get(text) || NO_RANGES;
}

async function loadMarks(request, texts, ranges, signal) {
  for (let start = 0; start < texts.length; start += BATCH_SIZE) {
    const batch = texts.slice(start, start + BATCH_SIZE);
    const answer = await post('/v1/marks', { ...request, texts: batch }, { signal });
    batch.forEach((text, index) => ranges.set(text, answer.marks[index] || NO_RANGES));
  }
}

/** The ranges of a plain text in another, without regard to upper and lower case. */
export function findRanges(text, wanted) {
  const ranges = [];
  const needle = wanted.toLowerCase();
  const haystack = text.toLowerCase();
  // A few letters change their length with their case; then positions would be wrong.
  if (!needle || haystack.length !== text.length) return ranges;
  for (let at = haystack.indexOf(needle); at >= 0; at = haystack.indexOf(needle, at + needle.length)) {
    ranges.push([at, at + needle.length]);
  }
  return ranges;
}

/** The part of the ranges that lies in text[start..end], relative to `start`. */
export function sliceRanges(ranges, start, end) {
  return ranges
    .filter(([from, to]) => from < end && to > start)
    .map(([from, to]) => [Math.max(from, start) - start, Math.min(to, end) - start]);
}
