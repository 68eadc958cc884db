/** The preview of a page as a picture, with frames around the words of the query and around a quote; for PDF files, images and slides. */
import { html, useCallback, useEffect, useRef, useState } from './vendor/preact-htm.js';
import { getPicture, isAbort, post } from './api.js';
import { t } from './i18n.js';
import { Button, Form, Loading, Message, ReadError, formatNumber, visibleText } from './components.js';
import { useLoad } from './hooks.js';
import { BlocksView, waitForPart } from './preview_text.js';

const MIN_WIDTH = 200;
const MAX_WIDTH = 2400;
const WIDTH_STEP = 200;
const FIND_DELAY_MS = 200;
/** This many characters of a passage are looked for on the page: the passage may go on on the next one. */
const PASSAGE_START = 160;

/** How many times wider than the preview an enlarged page is. */
const ENLARGED = 2;

/** The width of the picture in device pixels, in steps, so that a small change of the window loads no new one. */
function pictureWidth(isLarge) {
  const width = (document.getElementById('preview')?.clientWidth || 800) * (isLarge ? ENLARGED : 1);
  const wanted = width * (globalThis.devicePixelRatio || 1);
  return Math.min(MAX_WIDTH, Math.max(MIN_WIDTH, Math.ceil(wanted / WIDTH_STEP) * WIDTH_STEP));
}

function PageNavigation({ page, pages, setPage, children }) {
  const [typed, setTyped] = useState(null);
  if (pages < 2) return children ? html`<div class="page-navigation">${children}</div>` : null;
  const goTo = () => {
    const wanted = Number(typed);
    if (wanted >= 1 && wanted <= pages) setPage(Math.floor(wanted));
    setTyped(null);
  };
  return html`<${Form} class="page-navigation" aria-label=${t('page_navigation')} onSubmit=${goTo}>
    <${Button} icon="left" label=${t('previous_page')} variant="plain" disabled=${page <= 1} onClick=${() => setPage(page - 1)} />
    <label><span class="visually-hidden">${t('page_number')}</span>
      <input inputmode="numeric" size="3" value=${typed ?? page} onInput=${(event) => setTyped(event.target.value)} onBlur=${() => setTyped(null)} /></label>
    <span>${t('of_pages', { pages: formatNumber(pages) })}</span>
    <${Button} icon="right" label=${t('next_page')} variant="plain" disabled=${page >= pages} onClick=${() => setPage(page + 1)} />
    ${children}
  <//>`;
}

/** The picture of a page as an address of this page; errors go to `onError`. */
function usePicture(info, isLarge, onError) {
  const [picture, setPicture] = useState(null);
  const address = `${info.picture}&width=${pictureWidth(isLarge)}`;
  useEffect(() => {
    const controller = new AbortController();
    let made = null;
    getPicture(address, { signal: controller.signal }).then(
      (url) => {
        made = url;
        if (controller.signal.aborted) URL.revokeObjectURL(url);
        else setPicture({ address, url });
      },
      (error) => !isAbort(error) && onError(error),
    );
    return () => {
      controller.abort();
      if (made) URL.revokeObjectURL(made);
    };
  }, [address]);
  // An enlarged picture is on its way: the smaller one of the same page stays until then.
  return picture?.address.startsWith(`${info.picture}&`) ? picture.url : null;
}

/** The share of a page from which on a frame would only hide the words in it. */
const MAX_FRAMED_AREA = 0.5;

const areaOf = (places) => places.reduce((sum, place) => sum + (place.right - place.left) * (place.bottom - place.top), 0);

/** The frames of words that are places: a box around most of a scan says nothing about where a word stands. */
const placesOf = (frames) => frames.filter((frame) => areaOf([frame]) <= MAX_FRAMED_AREA);

/** Frames around places of the picture; the preview scrolls to the first one of the `target`. */
function Frames({ places, name, isTarget }) {
  const percent = (fraction) => `${fraction * 100}%`;
  return places.map((place, index) => html`<span key=${`${name}${index}`} class=${name} data-target=${isTarget && index === 0 ? '' : undefined} style=${{
    left: percent(place.left), top: percent(place.top), width: percent(place.right - place.left), height: percent(place.bottom - place.top) }}></span>`);
}

/** The text that is marked on the page: a whole quote, or the beginning of a passage up to the end of a word. */
function markedText({ quote = '', isQuote }) {
  if (isQuote || quote.length <= PASSAGE_START) return quote;
  const end = quote.lastIndexOf(' ', PASSAGE_START);
  return quote.slice(0, end > 0 ? end : PASSAGE_START);
}

/** The picture with its frames. While the frames of another quote are on their way, none of them is the target. */
function PagePicture({ info, isLarge, isCurrent, isQuote, name, onError }) {
  const url = usePicture(info, isLarge, onError);
  // What was looked for stays in view when the page becomes larger or smaller.
  const wasLarge = useRef(isLarge);
  useEffect(() => {
    if (wasLarge.current === isLarge) return;
    wasLarge.current = isLarge;
    document.querySelector('#preview .current-mark, #preview [data-target]')?.scrollIntoView({ block: 'center', inline: 'center' });
  }, [isLarge]);
  const quoteFrames = isQuote || areaOf(info.quote_frames) <= MAX_FRAMED_AREA ? info.quote_frames : [];
  const hasQuote = quoteFrames.length > 0;
  const shape = { aspectRatio: `${info.width} / ${info.height}`, width: isLarge ? `${ENLARGED * 100}%` : undefined };
  return html`<div class="page-scroller" tabindex=${isLarge ? 0 : undefined} role="group" aria-label=${t('page_number')}><div class="page-picture" style=${shape}>
    ${url && html`<img src=${url} data-page=${info.page} alt=${t('page_alt', { name: visibleText(name, true), page: info.page })}
      onError=${() => onError(new Error(t('picture_unreadable')))} />`}
    <${Frames} places=${quoteFrames} name=${isQuote ? 'quote-frame' : 'passage-frame'} isTarget=${isCurrent && hasQuote} />
    <${Frames} places=${placesOf(info.frames)} name="frame" isTarget=${isCurrent && !hasQuote} />
  </div></div>`;
}

/**
 * Registers the next page for "next match" after the last one of this page. While the page is on its way, its matches are waited for.
 * Gives the function by which the text of this page registers its further parts, which come first.
 */
function useNextPage(registerMore, { page, pages, setPage, isPicture, isWanted, isLoading }) {
  const hasNext = isWanted && page < pages;
  const register = useCallback((more) => {
    const turn = hasNext ? () => setPage(page + 1) : null;
    registerMore(more || (isWanted && isLoading ? waitForPart : turn), Boolean(more));
  }, [page, hasNext, isWanted, isLoading]);
  useEffect(() => { if (isPicture) register(null); }, [register, isPicture]);
  return register;
}

/**
 * A page of a file, as a picture or (switched, or if there is no picture) as text.
 * @param {{path: string, target: object, find: string, asText: boolean, registerMore: Function}} props
 */
export function PageView({ path, target, find, asText, registerMore }) {
  const [page, setPage] = useState(target.anchor.page || 1);
  const [failure, setFailure] = useState(null);
  const [isLarge, setLarge] = useState(false);
  const request = { path, page, query: find || target.query, quote: markedText(target) };
  const key = JSON.stringify(request);
  const { data, error } = useLoad((options) => post('/v1/page', { ...request, width: pictureWidth(false) }, options)
    .then((info) => ({ info, key })), [key], FIND_DELAY_MS);
  const info = data?.info;
  useEffect(() => setPage(target.anchor.page || 1), [target.anchor.page, target.quote, path]);
  useEffect(() => setFailure(null), [path, page]);
  const problem = error || failure;
  const showText = asText || problem;
  const pages = info?.pages || 1;
  // Where the file cannot be read at all, its text cannot be shown instead.
  const isUnreadable = error && [0, 401, 403, 404].includes(error.status);
  const registerText = useNextPage(registerMore, {
    page, pages, setPage, isPicture: !showText || isUnreadable,
    isWanted: Boolean((find || target.query) && !isUnreadable), isLoading: !error && data?.key !== key,
  });
  if (isUnreadable) return html`<${ReadError} error=${error} />`;
  return html`<div class="page-view">
    <${PageNavigation} page=${page} pages=${pages} setPage=${setPage}>${!showText && info && html`<${Button} icon="search" variant="plain"
      pressed=${isLarge} onClick=${() => setLarge(!isLarge)}>${t('enlarge')}<//>`}<//>
    ${!showText && !info && html`<${Loading} />`}
    ${!showText && info && html`<${PagePicture} key=${info.page} info=${info} isLarge=${isLarge} isCurrent=${data.key === key}
        isQuote=${target.isQuote} name=${path.split('/').pop()} onError=${setFailure} />
      ${info.simplified && html`<p class="muted">${t('layout_simplified')}</p>`}
      ${info.words_from === 'ocr' && html`<p class="muted">${t('words_from_ocr')}</p>`}
      ${info.words_from === 'none' && html`<p class="muted">${t('words_from_none')}</p>`}`}
    ${showText && html`<${BlocksView} key=${page} path=${path} page=${pages > 1 ? String(page) : undefined}
      target=${target} find=${find} registerMore=${registerText}
      notice=${problem && !asText && html`<${Message} kind="warning" error=${problem}><p>${t('no_picture')}</p><//>`} />`}
  </div>`;
}
