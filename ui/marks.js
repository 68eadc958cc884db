/** Marks of the words of a query in texts: asked of the daemon in batches and kept for the query. */
import { useCallback, useEffect, useReducer, useRef } from './vendor/preact-htm.js';
import { post, isAbort } from './api.js';
import { toast } from './components.js';

/** A request takes at most 500 texts of 256 KiB in UTF-8. */
const BATCH_SIZE = 200;
const BATCH_BYTES = 256 * 1024;
const NO_RANGES = [];

/**
 * The mark ranges of texts for a query.
 * @param {string} query
 * @param {string[]} texts that are shown now; those that are not known yet are asked for together
 * @param {boolean} isBegun whether the last word of the query is still being typed
 * @returns {(text: string) => Array<[number, number]>} another function when marks arrive
 */
export function useMarks(query, texts, isBegun = false) {
  const [version, rerender] = useReducer((n) => n + 1, 0);
  const cacheRef = useRef({});
  const key = `${query}\n${isBegun}`;
  if (cacheRef.current.key !== key) cacheRef.current = { key, ranges: new Map(), failures: 0 };
  const cache = cacheRef.current;
  const missing = query ? [...new Set(texts)].filter((text) => text && !cache.ranges.has(text)) : [];
  useEffect(() => {
    if (!missing.length) return undefined;
    const controller = new AbortController();
    loadMarks({ query, prefix: isBegun }, missing, cache.ranges, controller.signal).then(rerender, (error) => {
      if (isAbort(error)) return;
      if (error.status === 0 || error.status === 401) {
        // A new login, or the daemon when it is back, renders anew; then the texts are asked for again.
        cache.failures += 1;
        return;
      }
      // Without marks the texts can still be read; asking again at each rendering would not help.
      leaveUnmarked(missing, cache.ranges);
      rerender();
      toast(error.message, 'error');
    });
    return () => controller.abort();
  }, [key, missing.join('\u0000'), cache.failures]);
  return useCallback((text) => cache.ranges.get(text) || NO_RANGES, [cache, version]);
}

function leaveUnmarked(texts, ranges) {
  texts.forEach((text) => { if (!ranges.has(text)) ranges.set(text, NO_RANGES); });
}

/** Texts in batches within the limits of a request; one that is too long for any is left out. */
function batchesOf(texts) {
  const encoder = new TextEncoder();
  const batches = [[]];
  let bytes = 0;
  for (const text of texts) {
    const size = encoder.encode(text).length;
    if (size > BATCH_BYTES) continue;
    if (batches.at(-1).length === BATCH_SIZE || bytes + size > BATCH_BYTES) {
      batches.push([]);
      bytes = 0;
    }
    batches.at(-1).push(text);
    bytes += size;
  }
  return batches.filter((batch) => batch.length);
}

async function loadMarks(request, texts, ranges, signal) {
  for (const batch of batchesOf(texts)) {
    const answer = await post('/v1/marks', { ...request, texts: batch }, { signal });
    batch.forEach((text, index) => ranges.set(text, answer.marks[index] || NO_RANGES));
  }
  leaveUnmarked(texts, ranges);
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
