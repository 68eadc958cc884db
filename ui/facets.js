/** Filters with counts, the active filters, and their place in the address and in the requests. */
import { html, useState } from './vendor/preact-htm.js';
import { post } from './api.js';
import { t } from './i18n.js';
import { Chip, Message, formatBytes, formatDate } from './components.js';
import { languageName } from './components_views.js';
import { useLoad } from './hooks.js';

const SHOWN_VALUES = 7;
const TYPING_DELAY_MS = 150;

/** The parameters of the address that filter. */
export const FILTER_PARAMS = ['ext', 'under', 'after', 'before', 'size', 'language', 'author', 'owner', 'similar'];

const listOf = (text) => (text ? text.split(',').filter(Boolean) : []);

/** The filters of a request (`L0Filters`), or undefined if the address holds none. */
export function filtersOf({ ext, after, before, size, language, author, owner }) {
  const [minimum, maximum] = (size || '..').split('..');
  const filters = {
    extensions: ext ? listOf(ext).map((extension) => `.${extension}`) : undefined,
    modified_after: after || undefined,
    modified_before: before || undefined,
    min_size: minimum ? Number(minimum) : undefined,
    max_size: maximum ? Number(maximum) : undefined,
    language: language || undefined,
    author: author || undefined,
    owner: owner || undefined,
  };
  const given = Object.entries(filters).filter(([, value]) => value !== undefined);
  return given.length ? Object.fromEntries(given) : undefined;
}

/** The parameter of the address that holds the value of a group; a date has two. */
const PARAM_OF = { type: 'ext', folder: 'under', size: 'size', language: 'language', person: 'author', owner: 'owner' };

function chosenValues(group, params) {
  if (group === 'type') return listOf(params.ext);
  if (group === 'date') return params.after || params.before ? [`${params.after || ''}..${params.before || ''}`] : [];
  return [params[PARAM_OF[group]]];
}

/** The change of the parameters that a click on the value of a group makes; a second click takes it back. */
function toggled(group, value, params) {
  const chosen = chosenValues(group, params);
  const next = chosen.includes(value) ? chosen.filter((item) => item !== value) : [...(group === 'type' ? chosen : []), value];
  if (group !== 'date') return { [PARAM_OF[group]]: next.join(',') };
  const [after, before] = (next[0] || '..').split('..');
  return { after, before };
}

/** Counts of the values of each filter for a request, and their error; none if not enabled. */
export function useCounts(request, enabled, session) {
  const key = enabled ? JSON.stringify(request) : '';
  const { data, error } = useLoad((options) => (enabled ? post('/v1/counts', request, options) : null), [key, session], TYPING_DELAY_MS);
  return { counts: enabled ? data : null, error };
}

function FacetGroup({ group, params, onChange }) {
  const [showAll, setShowAll] = useState(false);
  // One owner of all files is no choice.
  if (!group.values.length || (group.name === 'owner' && group.values.length < 2 && !params.owner)) return null;
  const values = showAll ? group.values : group.values.slice(0, SHOWN_VALUES);
  const headingId = `facet-${group.name}`;
  return html`<section class="facet" aria-labelledby=${headingId}>
    <h3 id=${headingId} class="facet-title">${t(`facet_${group.name}`)}</h3>
    <ul>
      ${values.map(({ label, value, count }) => html`<li key=${value}>
        <${Chip} label=${group.name === 'language' ? languageName(value) : label} count=${count} active=${chosenValues(group.name, params).includes(value)}
          onClick=${() => onChange(toggled(group.name, value, params))} /></li>`)}
    </ul>
    ${group.values.length > SHOWN_VALUES && html`<button type="button" class="link-button" aria-expanded=${String(showAll)}
      onClick=${() => setShowAll(!showAll)}>${showAll ? t('facet_less') : t('facet_more', { count: group.values.length - SHOWN_VALUES })}</button>`}
  </section>`;
}

/** All filters with counts. `onChange` gets the parameters of the address that change. */
export function Facets({ counts, error, params, onChange }) {
  return html`<aside class="facets" aria-label=${t('facets_label')} tabindex="0">
    ${error && html`<${Message} error=${error}>${t('counts_failed')}<//>`}
    <h2 class="facet-title">${t('filters')}</h2>
    ${counts && html`<p class="facet-note">${t(params.q ? 'counts_of_words' : 'counts_of_all')}</p>`}
    ${counts?.groups.map((group) => html`<${FacetGroup} key=${group.name} group=${group} params=${params} onChange=${onChange} />`)}
    ${counts && !counts.complete && html`<p class="facet-note">${t('counts_incomplete')}</p>`}
  </aside>`;
}

const baseName = (path) => path.split('/').filter(Boolean).pop() || path;

function sizeLabel(size) {
  const [minimum, maximum] = size.split('..');
  if (!minimum) return t('filter_size_below', { size: formatBytes(maximum) });
  if (!maximum) return t('filter_size_above', { size: formatBytes(minimum) });
  return `${formatBytes(minimum)} - ${formatBytes(maximum)}`;
}

function dateLabel({ after, before }) {
  if (!after) return t('filter_before', { date: formatDate(before) });
  if (!before) return t('filter_after', { date: formatDate(after) });
  return `${formatDate(after)} - ${formatDate(before)}`;
}

/** The active filters as a list of `{label, icon, without}`: `without` are the parameters that remove it. */
export function activeFilters(params) {
  const active = [];
  if (params.similar) active.push({ label: t('filter_similar', { name: baseName(params.similar) }), icon: 'similar', without: { similar: '' } });
  for (const extension of listOf(params.ext)) {
    active.push({ label: `.${extension}`, icon: 'file', without: toggled('type', extension, params) });
  }
  if (params.under) active.push({ label: t('filter_under', { name: baseName(params.under) }), icon: 'folder', without: { under: '' } });
  if (params.after || params.before) active.push({ label: dateLabel(params), icon: 'history', without: { after: '', before: '' } });
  if (params.size) active.push({ label: sizeLabel(params.size), icon: 'info', without: { size: '' } });
  if (params.language) active.push({ label: languageName(params.language), icon: 'info', without: { language: '' } });
  if (params.author) active.push({ label: t('filter_author', { name: params.author }), icon: 'star', without: { author: '' } });
  if (params.owner) active.push({ label: t('filter_owner', { name: params.owner }), icon: 'star', without: { owner: '' } });
  return active;
}

/** The active filters as chips; a click removes one. */
export function ActiveFilters({ params, onChange }) {
  const active = activeFilters(params);
  if (!active.length) return null;
  return html`<ul class="active-filters" aria-label=${t('active_filters')}>
    ${active.map(({ label, icon, without }) => html`<li key=${label}>
      <${Chip} label=${label} icon=${icon} onRemove=${() => onChange(without)} /></li>`)}
    ${active.length > 1 && html`<li><button type="button" class="link-button"
      onClick=${() => onChange(Object.fromEntries(FILTER_PARAMS.map((name) => [name, ''])))}>${t('remove_all_filters')}</button></li>`}
  </ul>`;
}
