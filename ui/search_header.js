/** What stands above the hits: their number and order, messages, the answer, or the start page. */
import { html } from './vendor/preact-htm.js';
import { t, tn } from './i18n.js';
import { Button, Link, Message, formatNumber, visibleText } from './components.js';
import { isUnread } from './results.js';
import { Answer, shownOutcome } from './answer.js';
import { SavedSearches } from './history.js';
import { SORT_NAMES } from './search_requests.js';

/** About so many hits are in view without scrolling. */
const HITS_IN_VIEW = 8;
/** In a search of at most so many words, a word with an extension, such as `budget-2026.xlsx`, is taken for the name of a file. */
const MAX_NAME_WORDS = 3;
const FILE_NAME = /^[^\s/:@"-][^\s/:@"]*\.\p{L}[\p{L}\d]{0,9}$/u;

/** "50 of 117 files", told to screen readers when it changes. */
function ResultCount({ state, counts, isOld, request, sort }) {
  const isStart = request.source === 'recent';
  const total = isStart ? null : state.total ?? counts?.total ?? null;
  let text = isStart ? '' : tn('count_files', state.hits.length);
  if (state.loading && !state.hits.length) text = t('loading');
  else if (total !== null && total > state.hits.length) {
    text = tn('count_of', total, { shown: formatNumber(state.hits.length) });
  }
  else if (total === null && !isStart && !state.done) text = t('count_first', { shown: formatNumber(state.hits.length) });
  // Meaning finds files without any of the words, and the filters count those with words.
  const isCounted = state.source === 'search' && request.query === state.query && counts?.complete && !isOld && !state.loading;
  const withWords = isCounted && counts.total < state.hits.length ? counts.total : 0;
  if (withWords) text += `, ${t('count_with_words', { count: formatNumber(withWords) })}`;
  return html`<p class="result-count"><span aria-live="polite">${text}</span>
    ${state.wordsOnly && !isStart && html` <span class="latency">${t('count_words_only')}</span>`}
    ${!state.done && sort !== 'relevance' && html` <span class="latency">${t('count_sorted')}</span>`}
    ${state.latency !== null && html` <span class="latency">${t('latency', { ms: formatNumber(state.latency, state.latency < 10 ? 1 : 0) })}</span>`}</p>`;
}

export function Toolbar({ state, counts, isOld, request, sort, setParams, toggles, onHistory }) {
  return html`<div class="result-toolbar">
    <${ResultCount} state=${state} counts=${counts} isOld=${isOld} request=${request} sort=${sort} />
    <label class="sort"><span>${t('sort')}</span>
      <select value=${sort} onChange=${(event) => setParams({ sort: event.target.value === 'relevance' ? '' : event.target.value })}>
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
export function ResultHeader({ state, request, searches, status, pathOf, onQuote, navigate, retry }) {
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
    ${state.warnings.map((warning) => html`<${Message} key=${warning} kind="warning" text=${`${warning[0].toUpperCase()}${warning.slice(1)}`}
      actions=${warning.includes('`vic status`') && html`<p><${Link} path="/ui/status" navigate=${navigate}>${t('nav_status')}<//></p>`} />`)}
    <div aria-live="polite">${state.answer && state.hits.length > 0 && html`<${Answer} answer=${state.answer} query=${state.query}
      intent=${state.plan?.intent} placeOf=${placeOf} onOpen=${onQuote} />`}</div>
    ${isStart && html`<${StartPage} status=${status} searches=${searches} onOpen=${(next) => navigate('/ui/', next)} />`}
    ${state.hits.slice(0, HITS_IN_VIEW).some(isUnread) && html`<p class="muted">${t('unread_explain')} <${Link} path="/ui/status" params=${{ show: 'reasons' }} navigate=${navigate}>${t('unread_reasons')}<//></p>`}
    ${!isStart && !state.loading && !state.error && !state.hits.length && html`<div class="nothing">
      <p>${t('nothing_found')}</p><p class="muted">${t('nothing_found_hint')}</p>
      ${hasDates(request, state) && html`<p class="muted">${t('dates_explain')}</p>`}</div>`}
    ${isFiltered(request) && !state.loading && (!state.hits.length || (state.answer && shownOutcome(state.answer, state.query, state.plan?.intent) === 'nothing')) && html`<p class="muted">${t('filters_hide')}${' '}
      <button type="button" class="link-button" onClick=${() => navigate('/ui/', { q: state.query })}>${t('filters_without')}</button></p>`}
    ${!isStart && !state.loading && !state.error && html`<${MissingFileHint} state=${state} navigate=${navigate} />`}
  </div>`;
}

/** A way to find out why a file is missing, if nothing was found or if a file name was typed that no hit has. */
function MissingFileHint({ state: { query, hits, wordsOnly }, navigate }) {
  const words = query.split(/\s+/).map((word) => word.replace(/^\+/, ''));
  const namesOf = ({ metadata }) => [metadata.name, metadata.anchor?.member?.split('/').pop()].map((name) => name?.toLowerCase() ?? '');
  // While one types, the name may go on.
  const isName = (other, name) => (wordsOnly ? other.startsWith(name) : other === name);
  const isFound = (name) => hits.some((hit) => namesOf(hit).some((other) => isName(other, name.toLowerCase())));
  const name = words.length <= MAX_NAME_WORDS && words.find((word) => FILE_NAME.test(word) && !isFound(word));
  if (!query || ((wordsOnly || hits.length > 0) && !name)) return null;
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
