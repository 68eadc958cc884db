/** Filters with counts, the active filters, and their place in the address and in the requests. */
import { html, useState } from './vendor/preact-htm.js';
import { post } from './api.js';
import { t, tn } from './i18n.js';
import { Chip, Message, formatBytes, formatDay, formatMonths, shiftDay, word } from './components.js';
import { languageName } from './components_views.js';
import { useLoad } from './hooks.js';

const SHOWN_VALUES = 7;
/** The daemon counts this many values of a group, those with the most files. */
const COUNTED_VALUES = 40;
/** Longer than between two keys, because counts take the daemon as long as a search. */
const TYPING_DELAY_MS = 300;
/** Up to this many chosen extensions have a chip each. */
const MAX_EXTENSION_CHIPS = 2;
const SHOWN_EXTENSIONS = 4;

/** The parameters of the address that filter. */
const FILTER_PARAMS = ['ext', 'under', 'after', 'before', 'size', 'language', 'author', 'owner', 'similar'];

const listOf = (text) => (text ? text.split(',').filter(Boolean) : []);

/** An extension with its dot; files without one have the dot alone. */
const dotted = (extension) => (extension === '.' ? '.' : `.${extension}`);

/** The filters of a request (`L0Filters`), or undefined if the address holds none. */
export function filtersOf({ ext, after, before, size, language, author, owner }) {
  const [minimum, maximum] = (size || '..').split('..');
  const filters = {
    extensions: ext ? listOf(ext).map(dotted) : undefined,
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
const PARAM_OF = { kind: 'ext', type: 'ext', folder: 'under', size: 'size', language: 'language', person: 'author', owner: 'owner' };

/** Whether the address holds a value of a group. A kind is chosen if all its extensions are. */
function isChosen(group, value, params) {
  if (PARAM_OF[group] === 'ext') return listOf(value).every((extension) => listOf(params.ext).includes(extension));
  return value === (group === 'date' ? `${params.after || ''}..${params.before || ''}` : params[PARAM_OF[group]]);
}

/** The change of the parameters that a click on the value of a group makes; a second click takes it back. */
function toggled(group, value, params) {
  const next = isChosen(group, value, params) ? '' : value;
  if (PARAM_OF[group] === 'ext') {
    const others = listOf(params.ext).filter((extension) => !listOf(value).includes(extension));
    return { ext: [...others, ...listOf(next)].join(',') };
  }
  if (group !== 'date') return { [PARAM_OF[group]]: next };
  const [after, before] = (next || '..').split('..');
  return { after, before };
}

/** The filters of a request that the values of a group set. */
const FIELDS_OF = {
  kind: ['extensions'], type: ['extensions'], date: ['modified_after', 'modified_before'], size: ['min_size', 'max_size'], language: ['language'], person: ['author'], owner: ['owner'],
};

/** The counts of a request; those of a group leave its own filter out, so that another value can be chosen instead. */
async function loadCounts(request, options) {
  const without = (fields) => ({ ...request, filters: Object.fromEntries(Object.entries(request.filters).filter(([name]) => !fields.includes(name))) });
  const others = Object.entries(FIELDS_OF).filter(([, fields]) => fields.some((field) => request.filters?.[field] !== undefined))
    .map(([name, fields]) => [name, without(fields)]);
  if (request.warehouse_root) others.push(['folder', { ...request, warehouse_root: null }]);
  const ask = (body) => post('/v1/counts', body, options);
  const asked = new Map();
  const askOnce = (body) => {
    const key = JSON.stringify(body);
    // A group whose own request fails keeps the counts of the whole request.
    if (!asked.has(key)) asked.set(key, ask(body).catch(() => null));
    return asked.get(key);
  };
  const [counts, ...answers] = await Promise.all([ask(request), ...others.map(([, other]) => askOnce(other))]);
  const groups = new Map(others.map(([name], index) => [name, answers[index]?.groups.find((group) => group.name === name)]));
  const complete = counts.complete && answers.every((answer) => answer?.complete !== false);
  return { ...counts, complete, groups: counts.groups.map((group) => groups.get(group.name) || group) };
}

/** Counts of the values of each filter for a request, their error, and whether they are those of an older request; none if not enabled. */
export function useCounts(request, enabled, session) {
  const key = enabled ? JSON.stringify(request) : '';
  const { data, error, loading } = useLoad((options) => (enabled ? loadCounts(request, options) : null), [key, session], TYPING_DELAY_MS);
  return { counts: enabled ? data : null, error, isOld: loading || Boolean(error) };
}

const baseName = (path) => path.split('/').filter(Boolean).pop() || path;

const isIn = (path, folder) => path === folder || path.startsWith(`${folder}/`);

/** The indexed folder that holds a path. */
const rootOf = (path, roots) => roots.filter((root) => isIn(path, root)).sort((one, other) => other.length - one.length)[0];

/** How a path is shown: if several folders are indexed, it begins with the name of its own, or with two names where one is not enough. */
export function shownPath(root, path, roots) {
  if (roots.length < 2 || !root) return path;
  const isShared = roots.some((other) => other !== root && baseName(other) === baseName(root));
  return [isShared ? root.split('/').slice(-2).join('/') : baseName(root), path].filter(Boolean).join('/');
}

/**
 * The values of the group of folders: each indexed folder, if there are several, and the folders in them. The daemon counts the
 * folders right below the outer ones, so a folder indexed deeper has no count.
 */
function folderValues(values, roots) {
  if (roots.length < 2) return values;
  const isComplete = values.length < COUNTED_VALUES;
  const countOf = (root) => {
    const below = values.filter(({ value }) => isIn(value, root));
    const isNested = roots.some((other) => other !== root && isIn(root, other));
    return isNested && !below.length ? undefined : below.reduce((sum, { count }) => sum + count, 0);
  };
  return [
    ...roots.map((root) => ({ label: shownPath(root, '', roots), value: root, count: isComplete ? countOf(root) : undefined })).filter(({ count }) => count !== 0),
    ...values.filter(({ value }) => !roots.includes(value)).map((entry) => ({ ...entry, label: shownPath(rootOf(entry.value, roots), entry.label, roots) })),
  ];
}

/** Two fields for the first and the last day. */
function DateFields({ params, onChange }) {
  const set = (name, day, days) => {
    // A year that is still being typed has zeros in front.
    if (!day || day > '1900') onChange({ [name]: shiftDay(day, days) });
  };
  return html`<div class="date-fields">${[['after', 0], ['before', 1]].map(([name, days]) => html`<label key=${name}><span>${t(`date_${name}`)}</span>
    <input type="date" value=${shiftDay(params[name], -days)} onChange=${(event) => set(name, event.target.value, days)} /></label>`)}</div>`;
}

function labelOf(group, { label, value }) {
  if (group === 'kind') return word('kind_of_files', label);
  if (group === 'date') return formatMonths(value);
  if (group === 'type' && value === '.') return t('no_extension');
  return group === 'language' ? languageName(value) : label;
}

function FacetGroup({ group, params, roots, onChange }) {
  const [showAll, setShowAll] = useState(false);
  // The kinds come first: the extensions are for those who ask for them.
  const shown = group.name === 'type' ? 0 : SHOWN_VALUES;
  const all = group.name === 'folder' ? folderValues(group.values, roots) : group.values;
  // One owner of all files is no choice.
  if (!group.values.length || (group.name === 'owner' && all.length < 2 && !params.owner)) return null;
  const values = showAll ? all : all.filter((entry, index) => index < shown || isChosen(group.name, entry.value, params));
  const headingId = `facet-${group.name}`;
  return html`<section class="facet" aria-labelledby=${headingId}>
    <h3 id=${headingId} class="facet-title">${t(`facet_${group.name}`)}</h3>
    <ul>
      ${values.map((entry) => html`<li key=${entry.value}>
        <${Chip} label=${labelOf(group.name, entry)} count=${entry.count} active=${isChosen(group.name, entry.value, params)}
          onClick=${() => onChange(toggled(group.name, entry.value, params))} /></li>`)}
    </ul>
    ${showAll && group.values.length >= COUNTED_VALUES && html`<p class="facet-note">${t('facet_most')}</p>`}
    ${all.length > shown && html`<button type="button" class="link-button" aria-expanded=${String(showAll)}
      onClick=${() => setShowAll(!showAll)}>
      ${showAll ? t('facet_less') : shown ? t('facet_more', { count: all.length - shown }) : tn('facet_all', all.length)}</button>`}
    ${group.name === 'date' && html`<${DateFields} params=${params} onChange=${onChange} /><p class="facet-note">${t('facet_date_note')}</p>`}
  </section>`;
}

function countsTitle(params) {
  if (params.q) return 'counts_of_words';
  return FILTER_PARAMS.some((name) => params[name]) ? 'counts_of_filters' : 'counts_of_all';
}

/** All filters with counts. `onChange` gets the parameters of the address that change. */
export function Facets({ counts, error, params, roots, onChange }) {
  return html`<aside class="facets" aria-label=${t('facets_label')} tabindex="0">
    ${error && html`<${Message} error=${error}>${t('counts_failed')}<//>`}
    <h2 class="facet-title">${t('filters')}</h2>
    ${counts && html`<p class="facet-note">${t(countsTitle(params))}</p>`}
    ${counts?.groups.map((group) => html`<${FacetGroup} key=${group.name} group=${group} params=${params} roots=${roots} onChange=${onChange} />`)}
    ${counts && !counts.complete && html`<p class="facet-note">${t('counts_incomplete')}</p>`}
  </aside>`;
}

function sizeLabel(size) {
  const [minimum, maximum] = size.split('..');
  if (!minimum) return t('filter_size_below', { size: formatBytes(maximum) });
  if (!maximum) return t('filter_size_above', { size: formatBytes(minimum) });
  return `${formatBytes(minimum)} - ${formatBytes(maximum)}`;
}

/** A range of days in words. Its end in the address is the day after the last one. */
function dateLabel({ after, before }) {
  const last = shiftDay(before, -1);
  if (!after) return last ? t('filter_until', { date: formatDay(last) }) : t('filter_before', { date: formatDay(before) });
  if (!before) return t('filter_after', { date: formatDay(after) });
  return `${formatDay(after)} - ${formatDay(last || before)}`;
}

/** Filters of a plan, each with the operator of the search box that sets it, and the parameters of the address that stand for it. */
const PLAN_FIELDS = [
  ['extensions', /\b(ext|lang):/i, (value) => ({ ext: value.map((extension) => extension.slice(1)).join() })],
  ['path_glob', /\b(path|name):/i, (glob) => ({ under: glob.replace(/^\*\*\/|\/\*\*$/g, '') })],
  ['modified_after', /\bafter:/i, (after) => ({ after })], ['modified_before', /\bbefore:/i, (before) => ({ before })],
  ['min_size', /\bsize:/i, (size, { max_size: most = '' }) => ({ size: `${size}..${most}` })],
  ['max_size', /\bsize:/i, (size, { min_size: least = '' }) => ({ size: `${least}..${size}` })],
  ['language', /\blang:/i, (language) => ({ language })], ['author', /\b(author|from):/i, (author) => ({ author })], ['owner', /\bowner:/i, (owner) => ({ owner })],
];

/**
 * A chip for the filters that the plan of a question took from its words, such as the type from "slides"; null without any.
 * Its removal has all words searched.
 */
function planFilter(plan, filters) {
  const query = plan?.raw_user_text || '';
  const taken = PLAN_FIELDS.filter(([field, operator]) => plan?.l0_filters?.[field] && filters?.[field] === undefined && !operator.test(query));
  const params = Object.assign({}, ...taken.map(([field, , paramsOf]) => paramsOf(plan.l0_filters[field], plan.l0_filters)));
  const labels = activeFilters(params).map(({ label }) => label);
  if (!labels.length) return null;
  return { label: t('filter_plan', { filters: labels.join(' ') }), icon: 'filter', without: { plain: '1' } };
}

/** A folder in words: below one of several indexed folders, that one's name stands first. */
function folderName(path, roots) {
  const root = rootOf(path, roots);
  return root && roots.length > 1 ? shownPath(root, path.slice(root.length + 1), roots) : baseName(path);
}

/** Extensions with their dots; of many, the first ones and the number of the others. */
function extensionsLabel(extensions) {
  const more = extensions.length - SHOWN_EXTENSIONS;
  return [...extensions.slice(0, SHOWN_EXTENSIONS).map(dotted), ...(more > 0 ? [`+${more}`] : [])].join(' ');
}

/** The label of the kind that has just these extensions, if one has. */
function kindLabel(extensions, kinds) {
  const kind = kinds.find(({ value }) => listOf(value).sort().join() === [...extensions].sort().join());
  return kind && labelOf('kind', kind);
}

/** The active filters as a list of `{label, icon, without}`: `without` are the parameters that remove it. `kinds` are those with files. */
export function activeFilters(params, roots = [], kinds = []) {
  const active = [];
  if (params.similar) active.push({ label: t('filter_similar', { name: baseName(params.similar) }), icon: 'similar', without: { similar: '' } });
  const extensions = listOf(params.ext);
  // Many extensions are those of a kind: they are removed together.
  for (const part of extensions.length > MAX_EXTENSION_CHIPS ? [extensions.join()] : extensions) {
    active.push({ label: kindLabel(listOf(part), kinds) || extensionsLabel(listOf(part)), icon: 'file', without: toggled('type', part, params) });
  }
  if (params.under) active.push({ label: t('filter_under', { name: folderName(params.under, roots) }), icon: 'folder', without: { under: '' } });
  if (params.after || params.before) active.push({ label: dateLabel(params), icon: 'history', without: { after: '', before: '' } });
  if (params.size) active.push({ label: sizeLabel(params.size), icon: 'info', without: { size: '' } });
  if (params.language) active.push({ label: languageName(params.language), icon: 'info', without: { language: '' } });
  if (params.author) active.push({ label: t('filter_author', { name: params.author }), icon: 'info', without: { author: '' } });
  if (params.owner) active.push({ label: t('filter_owner', { name: params.owner }), icon: 'info', without: { owner: '' } });
  if (params.plain) active.push({ label: t('filter_plain'), icon: 'text', without: { plain: '' } });
  return active;
}

/** The active filters as chips; a click removes one. `plan` is that of the question, `filters` are those that it was asked with. */
export function ActiveFilters({ params, roots, kinds, plan, filters, onChange }) {
  const planned = params.plain ? null : planFilter(plan, filters);
  const active = [...activeFilters(params, roots, kinds), planned].filter(Boolean);
  if (!active.length) return null;
  const remove = (without) => {
    // The chip goes, and the focus with it.
    document.getElementById('search-box')?.focus();
    onChange(without);
  };
  const removeAll = () => remove({ ...Object.fromEntries(FILTER_PARAMS.map((name) => [name, ''])), plain: planned || params.plain ? '1' : '' });
  return html`<ul class="active-filters" aria-label=${t('active_filters')}>
    ${active.map(({ label, icon, without }) => html`<li key=${label}>
      <${Chip} label=${label} icon=${icon} onRemove=${() => remove(without)} /></li>`)}
    ${active.length > 1 && html`<li><button type="button" class="link-button"
      onClick=${removeAll}>${t('remove_all_filters')}</button></li>`}
  </ul>`;
}
