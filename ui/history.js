/** Searches that were asked before, and those that were saved under a name. */
import { html, useState } from './vendor/preact-htm.js';
import { get, post } from './api.js';
import { t } from './i18n.js';
import { Button, Dialog, Form, Message, formatDate, visibleText } from './components.js';
import { activeFilters } from './facets.js';
import { useAction, useLoad } from './hooks.js';

const SAVED_PARAMS = ['q', 'ext', 'under', 'after', 'before', 'size', 'language', 'author', 'owner', 'sort', 'similar', 'plain'];

/** The part of the address that makes up a search, as the text that is kept. */
export function searchString(params) {
  const pairs = new URLSearchParams();
  for (const name of SAVED_PARAMS) if (params[name]) pairs.set(name, params[name]);
  return pairs.toString();
}

/** The parameters of a kept search. */
function paramsOfSearch(query) {
  return Object.fromEntries(new URLSearchParams(query));
}

/** A kept search in words: its query and its filters. */
function searchLabel(query) {
  const params = paramsOfSearch(query);
  return [params.q, ...activeFilters(params).map((filter) => filter.label)].filter(Boolean).join(' \u00b7 ');
}

/** History and saved searches, with functions that change them; an error of any of them is kept in `error`. */
export function useSearches(session) {
  const { data, error, reload } = useLoad((options) => get('/v1/searches', null, options), [session]);
  const action = useAction();
  const change = (path, body) => action.run(async () => {
    await post(path, body);
    reload();
    return true;
  });
  return {
    history: data?.history || [],
    saved: data?.saved || [],
    error: action.error || error,
    remember: (query) => change('/v1/searches', { query }),
    save: (name, query) => change('/v1/searches', { name, query }),
    remove: (which) => change('/v1/searches/remove', which),
  };
}

function SearchRow({ label, detail, onOpen, onRemove }) {
  return html`<li class="search-row">
    <button type="button" class="search-row-open" onClick=${onOpen}>
      <bdi>${visibleText(label, true)}</bdi><span class="search-row-detail">${detail}</span></button>
    <${Button} icon="trash" label=${t('remove_search', { name: visibleText(label, true) })} variant="plain" onClick=${onRemove} /></li>`;
}

/** Saved searches as links of the start page. */
export function SavedSearches({ searches, onOpen }) {
  if (!searches.saved.length) return null;
  return html`<section class="saved-searches" aria-labelledby="saved-title">
    <h2 id="saved-title">${t('saved_searches')}</h2>
    <ul>${searches.saved.map(({ name, query }) => html`<li key=${name}>
      <button type="button" class="chip" title=${visibleText(searchLabel(query), true)} onClick=${() => onOpen(paramsOfSearch(query))}>
        <bdi class="chip-label">${visibleText(name, true)}</bdi></button></li>`)}</ul></section>`;
}

function SaveForm({ current, searches }) {
  const [name, setName] = useState('');
  if (!current) return null;
  const save = async () => {
    if (name.trim() && await searches.save(name.trim(), current)) setName('');
  };
  return html`<${Form} class="save-form" onSubmit=${save}>
    <label class="field"><span>${t('save_name', { search: visibleText(searchLabel(current), true) })}</span>
      <input value=${name} maxlength="120" onInput=${(event) => setName(event.target.value)} /></label>
    <${Button} type="submit" variant="primary" disabled=${!name.trim()}>${t('save')}<//><//>`;
}

/** A heading of the dialog; it takes the focus when a row below it is removed. */
function ListHeading({ id, text }) {
  return html`<h3 id=${id} tabindex="-1">${text}</h3>`;
}

/** The dialog with saved searches and the history; `current` is the search that can be saved. */
export function HistoryDialog({ searches, current, onOpen, onClose }) {
  const open = (query) => {
    onClose();
    onOpen(paramsOfSearch(query));
  };
  const remove = (which, headingId) => {
    document.getElementById(headingId).focus();
    searches.remove(which);
  };
  return html`<${Dialog} title=${t('history_title')} onClose=${onClose}>
    <${Message} error=${searches.error} />
    <${SaveForm} current=${current} searches=${searches} />
    <${ListHeading} id="saved-heading" text=${t('saved_searches')} />
    ${searches.saved.length === 0 && html`<p class="muted">${t('saved_none')}</p>`}
    <ul>${searches.saved.map(({ name, query }) => html`<${SearchRow} key=${name} label=${name}
      detail=${searchLabel(query)} onOpen=${() => open(query)} onRemove=${() => remove({ name }, 'saved-heading')} />`)}</ul>
    <${ListHeading} id="history-heading" text=${t('history')} />
    ${searches.history.length === 0 && html`<p class="muted">${t('history_none')}</p>`}
    <ul>${searches.history.map(({ query, time_ms: time }) => html`<${SearchRow} key=${query}
      label=${searchLabel(query)} detail=${formatDate(time, true)} onOpen=${() => open(query)} onRemove=${() => remove({ query }, 'history-heading')} />`)}</ul>
    ${searches.history.length > 0 && html`<${Button} icon="trash" onClick=${() => remove({ all: true }, 'history-heading')}>${t('history_clear')}<//>`}
  <//>`;
}
