/** The preview of a page as a picture, with frames around the words of the query and around a quote; for PDF files, images and slides. */
import { html, useEffect, useState } from './vendor/preact-htm.js';
import { getPicture, isAbort, post } from './api.js';
import { t } from './i18n.js';
import { Button, Form, Loading, Message, ReadError, formatNumber, visibleText } from './components.js';
import { useLoad } from './hooks.js';
import { BlocksView } from './preview_text.js';

const MIN_WIDTH = 200;
const MAX_WIDTH = 2400;
const WIDTH_STEP = 200;
const FIND_DELAY_MS = 200;
/** This many characters of a passage are looked for on the page: the passage may go on on the next one. */
const PASSAGE_START = 160;

/** The width of the picture in device pixels, in steps, so that a small change of the window loads no new one. */
function pictureWidth(element) {
  const wanted = (element?.clientWidth || 800) * (globalThis.devicePixelRatio || 1);
  return Math.min(MAX_WIDTH, Math.max(MIN_WIDTH, Math.ceil(wanted / WIDTH_STEP) * WIDTH_STEP));
}

function PageNavigation({ page, pages, setPage }) {
  const [typed, setTyped] = useState(null);
  if (pages < 2) return null;
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
  <//>`;
}

/** The picture of a page as an address of this page; errors go to `onError`. */
function usePicture(address, onError) {
  const [picture, setPicture] = useState(null);
  useEffect(() => {
    const controller = new AbortController();
    let made = null;
    getPicture(`${address}&width=${pictureWidth(document.getElementById('preview'))}`, { signal: controller.signal }).then(
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
  return picture?.address === address ? picture.url : null;
}

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
function PagePicture({ info, isCurrent, isQuote, name, onError }) {
  const url = usePicture(info.picture, onError);
  const hasQuote = info.quote_frames.length > 0;
  return html`<div class="page-picture" style=${{ aspectRatio: `${info.width} / ${info.height}` }}>
    ${url && html`<img src=${url} data-page=${info.page} alt=${t('page_alt', { name: visibleText(name, true), page: info.page })}
      onError=${() => onError(new Error(t('picture_unreadable')))} />`}
    <${Frames} places=${info.quote_frames} name=${isQuote ? 'quote-frame' : 'passage-frame'} isTarget=${isCurrent && hasQuote} />
    <${Frames} places=${info.frames} name="frame" isTarget=${isCurrent && !hasQuote} />
  </div>`;
}

/**
 * A page of a file, as a picture or (switched, or if there is no picture) as text.
 * @param {{path: string, target: object, find: string, asText: boolean, registerMore: Function}} props
 */
export function PageView({ path, target, find, asText, registerMore }) {
  const [page, setPage] = useState(target.anchor.page || 1);
  const [failure, setFailure] = useState(null);
  const request = { path, page, query: find || target.query, quote: markedText(target) };
  const key = JSON.stringify(request);
  const { data, error } = useLoad((options) => post('/v1/page', { ...request, width: pictureWidth(document.getElementById('preview')) }, options)
    .then((info) => ({ info, key })), [key], FIND_DELAY_MS);
  const info = data?.info;
  useEffect(() => setPage(target.anchor.page || 1), [target.anchor, path]);
  useEffect(() => setFailure(null), [path, page]);
  // Where the file cannot be read at all, its text cannot be shown instead.
  if (error && [0, 401, 403, 404].includes(error.status)) return html`<${ReadError} error=${error} />`;
  const problem = error || failure || (info?.problem ? new Error(info.problem) : null);
  const showText = asText || problem;
  const pages = info?.pages || 1;
  return html`<div class="page-view">
    <${PageNavigation} page=${page} pages=${pages} setPage=${setPage} />
    ${!showText && !info && html`<${Loading} />`}
    ${!showText && info && html`<${PagePicture} info=${info} isCurrent=${data.key === key} isQuote=${target.isQuote} name=${path.split('/').pop()} onError=${setFailure} />
      ${info.simplified && html`<p class="muted">${t('layout_simplified')}</p>`}
      ${info.words_from === 'ocr' && html`<p class="muted">${t('words_from_ocr')}</p>`}
      ${info.words_from === 'none' && html`<p class="muted">${t('words_from_none')}</p>`}`}
    ${showText && html`<${BlocksView} key=${page} path=${path} page=${pages > 1 ? String(page) : undefined} target=${target} find=${find} registerMore=${registerMore}
      notice=${problem && !asText && html`<${Message} kind="warning" error=${problem}><p>${t('no_picture')}</p><//>`} />`}
  </div>`;
}
