/** The corpus view: saved views, and the verbs of the corpus API as forms with their results as tables. */
import { createContext, html, useContext, useState, useEffect, useRef, useMemo } from './vendor/preact-htm.js';
import { ApiError, post } from './api.js';
import { t, tn } from './i18n.js';
import { Button, Form, Link, Message, formatNumber, readable, toast, visibleText } from './components.js';
import {
  ConfirmDialog, DataTable, Disclosure, Evidence, Facts, Field, Listing, LoadState, PathText, Section, Select, Tabs, TextField, useHeadingFocus,
} from './components_views.js';
import { useAction, useLoad } from './hooks.js';
import { SchemaFields, formsOf, requestObject, schemaOfForm } from './schema_form.js';

const VERBS = ['QUERY', 'EXTRACT', 'DETECT', 'COMPARE', 'SUMMARIZE', 'TRACE', 'SCORE', 'NORMALIZE', 'DELTA', 'INGEST', 'EXPLAIN_FAILURE'];
const JOB_WAIT_MS = 5000;
const FINAL_STATES = ['completed', 'failed', 'cancelled'];

/** So much of a passage is enough to find it again in its file. */
const MAX_QUOTE = 300;

/** How files are shown: `{paths, openFile}`, the paths by the number of a file, and a function that opens one at the place of an item. */
const Files = createContext(null);

/**
 * Calls a verb. An error of the corpus API is an answer like any other, which has suggested actions.
 * @returns {Promise<object>} the envelope; throws ApiError if the answer has none
 */
function callVerb(verb, request, options) {
  return post(`/v1/corpus/${verb.toLowerCase().replace(/_/g, '-')}`, request, options).catch((error) => {
    if (error.answer && 'verb' in error.answer) return error.answer;
    throw error;
  });
}

/** Calls a verb and returns its data, or throws its error. */
async function dataOf(verb, request, options) {
  return checked(await callVerb(verb, request, options)).data;
}

/** The envelope of an answer, or throws its error. */
function checked(envelope) {
  if (envelope.error) throw new ApiError({ message: envelope.error.message, field: envelope.error.field, hint: (envelope.error.suggested_actions || []).join('; ') });
  return envelope;
}

/** What was typed and answered, by the holder of the session: evidence opens in the search, and the way back leads here. */
const kept = new Map();

/** A state of the view that is kept while the page is open. */
function useKept(holder, name, first) {
  const key = `${holder} ${name}`;
  const [value, setValue] = useState(kept.get(key) ?? first);
  useEffect(() => { kept.set(key, value); }, [key, value]);
  return [value, setValue];
}

/** The view at `/ui/corpus?verb=QUERY&form=...`. */
export function CorpusView({ session, navigate, openPreview, params }) {
  const [tab, setTab] = useState('verbs');
  const views = useLoad((options) => dataOf('VIEW', { action: 'list' }, options), []);
  const openFile = (path, item) => absolutePath(path)
    .then((absolute) => openPreview({ path: absolute, ...placeOf(item) }), (error) => toast(error.message, 'error'));
  return html`<div class="page page-wide"><h1>${t('nav_corpus')}</h1><p class="muted lead">${t('corpus_lead')}</p>
    <${Tabs} label=${t('nav_corpus')} active=${tab} onSelect=${setTab} tabs=${[['verbs', t('corpus_verbs')], ['views', t('corpus_views')]]}>
      <div hidden=${tab !== 'verbs'}><${VerbsPart} key=${session.holder} session=${session} views=${views.data?.views || []} params=${params || {}} navigate=${navigate} openFile=${openFile} /></div>
      <div hidden=${tab !== 'views'}><${ViewsPart} views=${views} openFile=${openFile} /></div>
    <//></div>`;
}

/** The place of an item of an answer, as the preview takes it. The part of a workbook is like `sheet Budget, A2:G2`. */
function placeOf({ page, lines, part, text, original } = {}) {
  const [, sheet, cell] = /(?:^|, )sheet (.+?)(?:, ([A-Z]+\d+(?::[A-Z]+\d+)?))?$/.exec(part || '') || [];
  const quote = [text, original].find((value) => typeof value === 'string');
  return { page, lines: Array.isArray(lines) ? lines.join('-') : undefined, sheet, cell, quote: quote?.slice(0, MAX_QUOTE) };
}

/** Paths of the corpus API are relative to a root: the file list has the absolute one. */
async function absolutePath(path) {
  if (path.startsWith('/')) return path;
  const name = path.split('/').pop();
  const answer = await post('/v1/files', { words: [name], limit: 1000 });
  const file = answer.files.find((candidate) => candidate.path.endsWith(`/${path}`));
  if (!file) throw new Error(t('corpus_file_unknown', { path: visibleText(path, true) }));
  return file.path;
}

function VerbsPart({ session, views, params, navigate, openFile }) {
  const [lastParams, setLastParams] = useKept(session.holder, 'params', {});
  useEffect(() => { if (params.verb) setLastParams(params); }, [params.verb, params.form]);
  const { verb: wantedVerb, form: wantedForm } = params.verb ? params : lastParams;
  const verb = VERBS.includes(wantedVerb) ? wantedVerb : VERBS[0];
  const schemas = useLoad((options) => dataOf('SCHEMA', { verb }, options), [verb]);
  const schema = schemas.data?.verb === verb ? schemas.data.request : null;
  const forms = formsOf(schema);
  const form = forms ? (forms.values.includes(wantedForm) ? wantedForm : forms.values[0]) : null;
  // What was typed is kept for each verb and form.
  const [typed, setTyped] = useKept(session.holder, 'typed', {});
  const [results, setResults] = useKept(session.holder, 'results', {});
  const key = `${verb} ${form || ''}`;
  return html`<div class="corpus-layout"><nav class="side-nav" aria-label=${t('corpus_verbs')}>${VERBS.map((name) => html`<${Link} key=${name}
      path="/ui/corpus" params=${{ verb: name }} navigate=${navigate} aria-current=${name === verb ? 'page' : undefined}>${t(`verb_${name}`)}<code class="muted">${name}</code><//>`)}</nav>
    <div class="corpus-main"><${LoadState} request=${schemas} />
      ${schema && html`<${VerbForm} key=${key} verb=${verb} form=${form} forms=${forms} schema=${schema} views=${views}
        typed=${typed[key] || {}} onTyped=${(values) => setTyped((old) => ({ ...old, [key]: values }))}
        onForm=${(name) => navigate('/ui/corpus', { verb, form: name })} onResult=${(result) => setResults((old) => ({ ...old, [key]: result }))} />`}
      ${results[key] && html`<${Envelope} envelope=${results[key]} openFile=${openFile} />`}</div></div>`;
}

/** Waits for the job of an answer; `onJob` is told of its state. Returns the final answer. */
async function waitForJob(envelope, { signal, onJob }) {
  let current = envelope;
  while (current.data?.job_id && !FINAL_STATES.includes(current.data.state)) {
    onJob(current.data);
    current = checked(await callVerb('JOB', { id: envelope.data.job_id, wait_ms: JOB_WAIT_MS }, { signal }));
  }
  onJob(null);
  return current.data?.answer || current;
}

function VerbForm({ verb, form, forms, schema, views, typed, onTyped, onForm, onResult }) {
  const [job, setJob] = useState(null);
  const [problem, setProblem] = useState(null);
  const { run, busy, error } = useAction();
  const controller = useRef(null);
  useEffect(() => () => controller.current?.abort(), []);
  // The schema of EXTRACT is a kind of form too: its help describes the filters.
  const helpForm = form || (verb === 'EXTRACT' && typed.schema) || undefined;
  const help = useLoad((options) => dataOf('HELP', { verb, form: helpForm }, options), [verb, helpForm]);
  const helpText = help.data?.help || '';
  const formSchema = schemaOfForm(schema, form);
  const submit = () => {
    controller.current?.abort();
    controller.current = new AbortController();
    const { signal } = controller.current;
    setProblem(null);
    run(async () => {
      const first = await callVerb(verb, requestObject(formSchema, typed) || {}, { signal });
      const envelope = first.error ? first : await waitForJob(first, { signal, onJob: setJob });
      setProblem(envelope.error);
      onResult(envelope);
    }).finally(() => setJob(null));
  };
  const cancel = () => callVerb('JOB', { id: job.job_id, cancel: true }).catch(() => {});
  const withViews = views.length && formSchema.properties.view
    ? { ...formSchema, properties: { ...formSchema.properties, view: { ...formSchema.properties.view, enum: views.map((view) => view.name), areNames: true } } } : formSchema;
  return html`<${Section} title=${html`${t(`verb_${verb}`)} <code class="muted">${verb}</code>`}>
    <p lang="en">${purposeOf(helpText)}</p>
    <${Form} class="form-fields" onSubmit=${submit}>
      ${forms && html`<${Field} label=${t('corpus_form')} hint=${html`<span lang="en">${visibleText(formSchema.properties[forms.name].description)}</span>`}>${(id, hint) => html`<${Select} id=${id}
        aria-describedby=${hint} value=${form} onChange=${onForm} options=${forms.values.map((name) => [name, readable(name)])} />`}<//>`}
      <${SchemaFields} schema=${withViews} values=${typed} onChange=${(name, value) => onTyped({ ...typed, [name]: value })} problem=${problem} />
      <div class="button-row"><${Button} type="submit" variant="primary" disabled=${busy}>${t('run')}<//>
        ${job && html`<${Button} icon="close" onClick=${cancel}>${t('cancel')}<//>`}
        <span role="status" class="muted">${job ? `${t('corpus_job')} ${job.documents ? tn('corpus_documents', job.documents) : ''}` : busy && t('loading')}</span></div><//>
    <${Message} error=${error} />
    ${helpText && html`<${Disclosure} title=${t('corpus_help')}><${Listing} label=${t('corpus_help')} text=${helpText} /><//>`}
  <//>`;
}

/** The first sentence of a help text, which says what the verb is for. */
function purposeOf(help) {
  const sentence = visibleText(help.split('\n')[0].replace(/^[A-Z_]+[^:]*: (use it )?/, ''));
  return sentence.charAt(0).toUpperCase() + sentence.slice(1);
}

function percent(value) {
  return typeof value === 'number' ? `${formatNumber(value * 100, 1)} %` : null;
}

/** An answer: its error with what to do, or its data with confidence, coverage, unknowns, method and evidence. */
function Envelope({ envelope, openFile }) {
  const { error, data, method, unknowns = [], evidence = [] } = envelope;
  const files = useMemo(() => ({ paths: new Map(evidence.filter((entry) => entry.path).map((entry) => [entry.file, entry.path])), openFile }), [envelope]);
  if (error) {
    return html`<${Message} kind="error"><p>${visibleText(error.message)}</p>${error.field && html`<p>${t('corpus_error_field')} ${readable(error.field)} <code class="muted">${visibleText(error.field)}</code></p>`}
      ${error.suggested_actions?.length > 0 && html`<p><strong>${t('corpus_suggested')}</strong></p><ul class="bullets">${error.suggested_actions.map((action) => html`<li key=${action}>${visibleText(action)}</li>`)}</ul>`}<//>`;
  }
  const methodText = method && Object.entries(method).map(([name, value]) => (name === 'name' ? value : `${readable(name)}: ${typeof value === 'object' ? JSON.stringify(value) : value}`)).join('; ');
  return html`<${Section} title=${t('corpus_answer')}>
    <${Files.Provider} value=${files}><${Facts} facts=${[
      [t('confidence'), percent(envelope.confidence)], [t('corpus_coverage'), percent(envelope.coverage)],
      [t('corpus_method'), visibleText(methodText)], [t('corpus_id'), envelope.id && html`<code>${visibleText(envelope.id)}</code>`],
    ]} />
    <${Value} name=${t('corpus_data')} value=${data} />
    ${unknowns.length > 0 && html`<h3>${t('corpus_unknowns')}</h3><${ObjectTable} label=${t('corpus_unknowns')} rows=${unknowns} />`}
    ${evidence.length > 0 && html`<${Disclosure} title=${tn('corpus_evidence', evidence.length)}>
      <ul class="evidence-list">${evidence.map((entry, index) => html`<li key=${index}><${EvidenceEntry} entry=${entry} /></li>`)}</ul><//>`}
  <//><//>`;
}

function EvidenceEntry({ entry }) {
  const { openFile } = useContext(Files);
  const place = entry.place || (entry.lines ? t('place_lines', { from: entry.lines[0], to: entry.lines[1] }) : entry.page ? t('place_page', { page: entry.page }) : '');
  if (!entry.path) return html`<bdi>${visibleText(JSON.stringify(entry))}</bdi>`;
  return html`<${Evidence} place=${`${entry.path} ${place}`} text=${entry.text} onOpen=${() => openFile(entry.path, entry)} />`;
}

function isObject(value) {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/** A value of an answer: lists of objects as tables, other fields as facts. */
function Value({ name, value }) {
  if (Array.isArray(value) && value.length && value.every(isObject)) return html`<${ObjectTable} label=${name} rows=${value} />`;
  if (!isObject(value)) return html`<${Cell} name=${name} value=${value} />`;
  const entries = Object.entries(value);
  const isLarge = ([, entry]) => (Array.isArray(entry) && entry.some(isObject)) || isObject(entry);
  return html`<${Facts} facts=${entries.filter((entry) => !isLarge(entry))
      .map(([key, entry]) => [readable(key), html`<${Cell} name=${key} value=${entry} item=${value} />`])} />
    ${entries.filter(isLarge).map(([key, entry]) => html`<h3 key=${key}>${readable(key)}</h3><${Value} name=${key} value=${entry} />`)}`;
}

function ObjectTable({ label, rows }) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return html`<${DataTable} label=${label} rows=${rows} columns=${names.map((name) => ({
    name, title: html`<span title=${visibleText(name, true)}>${readable(name)}</span>`,
    number: rows.every((row) => typeof row[name] === 'number') && name !== 'file',
    cell: (row) => html`<${Cell} name=${name} value=${row[name]} item=${row} />` }))} />`;
}

const FILE_FIELDS = ['file', 'files', 'doc_a', 'doc_b', 'path'];
const SHOWN_ITEMS = 8;

/** One value of an item in a table: files by their paths, numbers in the local notation, lists in one line, tables as tables. */
function Cell({ name, value, item }) {
  const { paths, openFile } = useContext(Files);
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return html`<${ListCell} name=${name} items=${value} />`;
  const path = FILE_FIELDS.includes(name) && (typeof value === 'number' ? paths.get(value) : name === 'path' && value);
  if (path) {
    const open = () => openFile(path, ['file', 'path'].includes(name) ? item : {});
    return html`<button type="button" class="link-button" onClick=${open}><${PathText} path=${path} /></button>`;
  }
  if (name === 'confidence') return percent(value);
  if (typeof value === 'number') return Number.isInteger(value) ? String(value) : formatNumber(value, 4);
  if (typeof value === 'boolean') return t(`boolean_${value}`);
  if (isObject(value)) return html`<bdi>${visibleText(Object.entries(value).map(([key, entry]) => `${readable(key)}: ${typeof entry === 'object' ? JSON.stringify(entry) : entry}`).join(', '))}</bdi>`;
  return html`<bdi class="clamped-text">${visibleText(value)}</bdi>`;
}

function ListCell({ name, items }) {
  const [all, setAll] = useState(false);
  const shown = items.slice(0, all ? undefined : SHOWN_ITEMS);
  const more = shown.length < items.length && html`<button type="button" class="link-button" onClick=${() => setAll(true)}>${tn('corpus_more', items.length - SHOWN_ITEMS)}</button>`;
  if (items.length && items.every(Array.isArray)) {
    return html`<table class="inner-table"><tbody>${shown.map((row, index) => html`<tr key=${index}>${row.map((cell, column) => html`<td key=${column}><bdi>${visibleText(cell)}</bdi></td>`)}</tr>`)}</tbody></table>${more}`;
  }
  return html`<span class="list-cell">${shown.map((item, index) => html`<span key=${index}><${Cell} name=${name} value=${item} /></span>`)}${more}</span>`;
}

function ViewsPart({ views, openFile }) {
  const [form, setForm] = useState({ name: '', filter: '' });
  const [shown, setShown] = useState(null);
  const [deleting, setDeleting] = useState(null);
  const { run, busy, error } = useAction();
  const change = (part) => setForm((old) => ({ ...old, ...part }));
  const call = (request) => callVerb('VIEW', request).then(checked);
  const create = () => {
    run(async () => {
      await call({ action: 'create', name: form.name.trim(), filter: form.filter.trim() });
      setForm({ name: '', filter: '' });
      views.reload();
    });
  };
  const show = (name) => run(async () => setShown(await call({ action: 'show', name })));
  const [headingRef, expectRemoval] = useHeadingFocus(views.data);
  const remove = async () => {
    await call({ action: 'delete', name: deleting.name });
    setShown(null);
    expectRemoval();
    views.reload();
  };
  return html`<${Section} title=${t('corpus_views')} headingRef=${headingRef}><p class="hint">${t('views_explain')}</p>
    <${LoadState} request=${views} />
    <${DataTable} label=${t('corpus_views')} rows=${views.data?.views} empty=${t('views_none')} rowKey=${(view) => view.name} columns=${[
      { name: 'name', title: t('column_name') }, { name: 'filter', title: t('view_filter') }, { name: 'type', title: t('model_kind'), cell: (view) => readable(view.type) },
      { name: 'actions', title: t('column_action'), cell: (view) => html`<div class="button-row"><${Button} disabled=${busy} onClick=${() => show(view.name)}>${t('view_show')}<//>
        <${Button} variant="danger" icon="trash" onClick=${() => setDeleting(view)}>${t('view_delete')}<//></div>` },
    ]} />
    <${Form} class="form-box" onSubmit=${create}><h3>${t('view_new')}</h3>
      <${TextField} label=${t('column_name')} required value=${form.name} onInput=${(name) => change({ name })} />
      <${TextField} label=${t('view_filter')} hint=${t('view_filter_hint')} required value=${form.filter} onInput=${(filter) => change({ filter })} />
      <div><${Button} type="submit" variant="primary" disabled=${busy || !form.name.trim() || !form.filter.trim()}>${t('view_create')}<//></div><//>
    <${Message} error=${error} />
    ${deleting && html`<${ConfirmDialog} title=${t('view_delete_title', { name: visibleText(deleting.name, true) })} confirmLabel=${t('view_delete')} onClose=${() => setDeleting(null)}
      action=${remove}><p>${t('view_delete_explain')}</p><//>`}
  <//>${shown && html`<${Envelope} envelope=${shown} openFile=${openFile} />`}`;
}
