/** The marks of the previewed content: how many there are, which is the current one, and the way from one to the next. */
import { useCallback, useEffect, useRef, useState } from './vendor/preact-htm.js';

const MATCHES = 'mark, .frame';
/** An element that fills so much of the pane or more is shown from its start on. */
const FILLS_PANE = 0.8;

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

function scrollToTarget(target, pane) {
  target.scrollIntoView({ block: target.offsetHeight > pane.clientHeight * FILLS_PANE ? 'start' : 'center' });
}

/** Calls `update` soon and, at most once per frame, when the content changes. Returns what ends this. */
function observeContent(content, update) {
  let frame = 0;
  const schedule = () => { frame ||= requestAnimationFrame(() => { frame = 0; update(); }); };
  const observer = new MutationObserver(schedule);
  observer.observe(content, { childList: true, subtree: true, characterData: true, attributes: true, attributeFilter: ['data-target'] });
  schedule();
  return () => {
    observer.disconnect();
    cancelAnimationFrame(frame);
  };
}

/** The mark that becomes the current one after the content has changed, and whether it is scrolled to. */
function chooseMatch(state, elements, target) {
  // On another page, the last mark is not there any more, and its marks begin anew.
  const next = elements.indexOf(state.last) + 1;
  if (state.isWaiting && next < elements.length) {
    Object.assign(state, { moved: true, isWaiting: false });
    return [next, true];
  }
  if (!state.moved || state.current < 0) state.current = firstFrom(elements, target);
  return [Math.min(state.current, elements.length - 1), state.scrollToMatch];
}

/**
 * Counts the marks of the content, goes from one to the next, and scrolls to the target once. `go` gives false at the last mark if
 * more can be loaded (`hasMore`): the first mark that comes then is shown.
 * @param {{current: HTMLElement}} contentRef the pane that scrolls
 * @param {string} targetKey changes with the file and the place that are shown
 * @param {string} find the text of the find field
 * @returns {[matches: {count: number, current: number}, go: (step: number, hasMore: boolean) => boolean]}
 */
export function useMatches(contentRef, targetKey, find) {
  const [matches, setMatches] = useState({ count: 0, current: -1 });
  const stateRef = useRef({});
  const show = useCallback((elements, index, scroll) => {
    contentRef.current.querySelector('.current-mark')?.classList.remove('current-mark');
    elements[index]?.classList.add('current-mark');
    if (scroll) elements[index]?.scrollIntoView({ block: 'center' });
    stateRef.current.current = index;
    setMatches({ count: elements.length, current: index });
  }, []);
  useEffect(() => {
    const state = { current: -1, jumped: false, moved: false, scrollToMatch: false, isWaiting: false, last: undefined };
    stateRef.current = state;
    return observeContent(contentRef.current, () => {
      const target = contentRef.current.querySelector('[data-target]');
      if (target && !state.jumped) scrollToTarget(target, contentRef.current);
      state.jumped ||= Boolean(target);
      const elements = [...contentRef.current.querySelectorAll(MATCHES)];
      show(elements, ...chooseMatch(state, elements, target));
    });
  }, [targetKey]);
  useEffect(() => {
    // A new text in the find field starts at the first match from the target on, and shows it.
    Object.assign(stateRef.current, { moved: false, scrollToMatch: Boolean(find), isWaiting: false });
  }, [find]);
  const go = useCallback((step, hasMore) => {
    const elements = contentRef.current.querySelectorAll(MATCHES);
    const count = elements.length;
    const next = stateRef.current.current + step;
    const isWaiting = hasMore && next >= count;
    Object.assign(stateRef.current, { isWaiting, last: elements[count - 1] });
    if (isWaiting || !count) return !isWaiting;
    Object.assign(stateRef.current, { moved: true, scrollToMatch: false });
    show(elements, (next + count) % count, true);
    return true;
  }, []);
  return [matches, go];
}
