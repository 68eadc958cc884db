/** The graph view: the neighbourhood of an entity as a drawing and as a table, and queries in AxQL. */
import { html, useState, useEffect, useMemo, useRef } from './vendor/preact-htm.js';
import { post } from './api.js';
import { t, tn } from './i18n.js';
import { Button, Form, Message, formatDate, formatNumber, readable, visibleText, word } from './components.js';
import { DataTable, Disclosure, Evidence, Facts, Field, Listing, LoadState, PathText, Section, Select, Tabs, TextField } from './components_views.js';
import { GraphDrawing, typeClass } from './graph_drawing.js';
import { useAction, useLoad } from './hooks.js';

const MAX_DRAWN = 60;
const FOUND_LIMIT = 20;
/** So much of a passage is enough to find it again on its page. */
const MAX_QUOTE = 300;
/** Passages are parts of files: they are shown only on demand, because they would hide the files. */
const HIDDEN_AT_FIRST = ['Chunk'];

function tool(name, args, options) {
  return post('/v1/graph', { tool: { name, args } }, options);
}

/** The view at `/ui/graph?entity=ID`, `?path=/abs/path` or `?name=words`. */
export function GraphView({ navigate, openPreview, params }) {
  const [mode, setMode] = useState('entity');
  const start = params?.entity || params?.path || '';
  // An entity chosen from a result of a query is shown in the drawing.
  const showEntity = (id) => { setMode('entity'); navigate('/ui/graph', { entity: String(id) }); };
  return html`<div class="page page-wide"><h1>${t('nav_graph')}</h1>
    <${Tabs} label=${t('graph_modes')} active=${mode} onSelect=${setMode} tabs=${[['entity', t('graph_mode_entity')], ['query', t('graph_mode_query')]]}>
      <div hidden=${mode !== 'entity'}>
        <${EntitySearch} name=${params?.name || ''} navigate=${navigate} showEntity=${showEntity} />
        ${start ? html`<${Neighbourhood} key=${start} start=${start} navigate=${navigate} openPreview=${openPreview} />` : html`<${GraphSummary} showEntity=${showEntity} />`}
      </div>
      <div hidden=${mode !== 'query'}><${QuerySection} showEntity=${showEntity} /></div>
    <//></div>`;
}

function EntitySearch({ name, navigate, showEntity }) {
  const [typed, setTyped] = useState(name);
  useEffect(() => setTyped(name), [name]);
  const found = useLoad((options) => (name ? tool('lookup_entity', { name, limit: FOUND_LIMIT }, options) : null), [name]);
  const submit = () => {
    if (typed.trim() === name) found.reload();
    else navigate('/ui/graph', { name: typed.trim() });
  };
  const entities = name ? found.data?.entities : null;
  return html`<${Form} class="inline-form" onSubmit=${submit}>
      <${TextField} type="search" label=${t('graph_name')} value=${typed} onInput=${setTyped} />
      <${Button} type="submit" variant="primary" disabled=${!typed.trim()}>${t('graph_find')}<//><//>
    ${name && html`<${LoadState} request=${found} />`}
    <div role="status">${entities?.length === 0 && html`<p>${t('graph_not_found')}</p>`}</div>
    <${EntityList} entities=${entities} showEntity=${showEntity} />`;
}

function TypeDot({ type }) {
  return html`<span class=${`type-dot ${typeClass(type)}`} aria-hidden="true"></span>`;
}

/** A kind (`kind`) or relation (`relation`) in words, with its name in queries beside it if that is another one. */
function Named({ of, name }) {
  const text = word(of, name);
  return html`<span>${text}${text !== name && html` <code class="muted">${visibleText(name, true)}</code>`}</span>`;
}

/** A connection in words. A mail mentions those it was sent to, and links to the mail that it answers. */
function connectionText({ relation, evidence }) {
  if (relation === 'mentions' && /^(to|cc|bcc):/i.test(evidence?.text || '')) return t('relation_sent_to');
  return word('relation', relation);
}

/** The name of an entity for people: that of a person and not the address; a passage is the file with its number, from 1, and not `plan.md#0`. */
function entityName({ name, called, entity_type: type }) {
  if (called) return called;
  const [, file, index] = (type === 'Chunk' && /^(.*)#(\d+)$/s.exec(name)) || [];
  return file === undefined ? name : t('passage_of_file', { file, number: Number(index) + 1 });
}

/** An entity as a button with the colour and the name of its type. */
function EntityButton({ entity, onClick }) {
  return html`<button type="button" class="entity-button" onClick=${onClick}><${TypeDot} type=${entity.entity_type} />
    <${PathText} path=${entityName(entity)} /> <span class="muted">${entity.called ? html`<bdi>${visibleText(entity.name, true)}</bdi>` : word('kind', entity.entity_type)}</span></button>`;
}

function EntityList({ entities, showEntity }) {
  if (!entities?.length) return null;
  return html`<ul class="entity-list">${entities.map((entity) => html`<li key=${entity.id}><${EntityButton} entity=${entity} onClick=${() => showEntity(entity.id)} /></li>`)}</ul>`;
}

function GraphSummary({ showEntity }) {
  const summary = useLoad((options) => tool('db_summary', {}, options), []);
  const [type, setType] = useState('');
  const examples = useLoad((options) => (type ? post('/v1/graph', { query: { axql: `select ?x where ?x is ${type} limit 30`, elaborate: false, explain: false } }, options) : null), [type]);
  const data = summary.data;
  return html`<${Section} title=${t('graph_summary')}><${LoadState} request=${summary} />
    ${data && html`<p>${t('graph_summary_sentence', { nodes: formatNumber(data.nodes), edges: formatNumber(data.edges) })}</p>
      <h3>${t('graph_types')}</h3><div class="button-row">${data.types.map((entry) => html`<button type="button" class="chip" key=${entry.name} aria-pressed=${String(entry.name === type)}
        onClick=${() => setType(entry.name)}><${TypeDot} type=${entry.name} /><${Named} of="kind" name=${entry.name} /> <span class="chip-count">${formatNumber(entry.count)}</span></button>`)}</div>
      <h3>${t('graph_relations')}</h3>
      <p class="name-list">${data.relations.map((entry) => html`<span key=${entry.name}><${Named} of="relation" name=${entry.name} /> <span class="chip-count">${formatNumber(entry.count)}</span></span>`)}</p>`}
    ${type && html`<${LoadState} request=${examples} />`}
    <${EntityList} entities=${examples.data?.rows.map((row) => row['?x'])} showEntity=${showEntity} />
  <//>`;
}

/** The edges of an entity. The daemon tells the text of a piece of evidence once, though several edges may have it. */
function edgesOf(entity) {
  const edges = [...(entity.out || []).map((edge) => ({ ...edge, isOutgoing: true })), ...(entity.in || []).map((edge) => ({ ...edge, isOutgoing: false }))];
  const placeOf = ({ chunk_id: chunk, start }) => `${chunk} ${start}`;
  const texts = new Map(edges.filter(({ evidence }) => evidence?.text).map(({ evidence }) => [placeOf(evidence), evidence.text]));
  return edges.map((edge) => (edge.evidence && !edge.evidence.text ? { ...edge, evidence: { ...edge.evidence, text: texts.get(placeOf(edge.evidence)) } } : edge));
}

/** Adds an entity with its edges to a graph; returns a new graph. */
function addDescription(graph, entity) {
  const nodes = new Map(graph.nodes);
  const edges = new Map(graph.edges);
  const old = nodes.get(entity.id);
  nodes.set(entity.id, { id: entity.id, name: entityName(entity), type: entity.entity_type, parent: old?.parent, expanded: true, description: entity });
  edgesOf(entity).forEach((edge) => {
    const other = edge.entity;
    if (!nodes.has(other.id)) nodes.set(other.id, { id: other.id, name: entityName(other), type: other.entity_type, parent: entity.id, expanded: false });
    const [source, target] = edge.isOutgoing ? [entity.id, other.id] : [other.id, entity.id];
    const key = `${source} ${edge.relation} ${target}`;
    if (!edges.get(key)?.evidence) edges.set(key, { key, source, target, relation: edge.relation, text: connectionText(edge), confidence: edge.confidence, evidence: edge.evidence });
  });
  return { nodes, edges };
}

const EMPTY_GRAPH = { nodes: new Map(), edges: new Map() };

/** The nodes and edges that are drawn: what is hidden left out, at most `MAX_DRAWN` nodes, those near the selected one first. */
function visiblePart(graph, hiddenKinds, hiddenRelations, selected) {
  const isShown = (node) => node.id === selected || !hiddenKinds.has(node.type);
  const edges = [...graph.edges.values()].filter((edge) => !hiddenRelations.has(edge.relation)
    && isShown(graph.nodes.get(edge.source)) && isShown(graph.nodes.get(edge.target)));
  const near = new Set([selected]);
  edges.forEach((edge) => { if (edge.source === selected) near.add(edge.target); if (edge.target === selected) near.add(edge.source); });
  const linked = new Set(edges.flatMap((edge) => [edge.source, edge.target]));
  // Of the entities that are left out, passages are missed least.
  const rank = (node) => (node.id === selected ? 0 : node.expanded ? 1 : (near.has(node.id) ? 2 : 4) + (node.type === 'Chunk' ? 1 : 0));
  const candidates = [...graph.nodes.values()].filter((node) => isShown(node) && (node.expanded || linked.has(node.id))).sort((one, other) => rank(one) - rank(other));
  const nodes = candidates.slice(0, MAX_DRAWN);
  const shown = new Set(nodes.map((node) => node.id));
  return { nodes, edges: edges.filter((edge) => shown.has(edge.source) && shown.has(edge.target)), allEdges: edges, left: candidates.length - nodes.length };
}

function Neighbourhood({ start, openPreview }) {
  const [graph, setGraph] = useState(EMPTY_GRAPH);
  const [selected, setSelected] = useState(null);
  const [hiddenKinds, setHiddenKinds] = useState(new Set(HIDDEN_AT_FIRST));
  const [hiddenRelations, setHiddenRelations] = useState(new Set());
  const [tab, setTab] = useState('drawing');
  const { run, busy, error } = useAction();
  const describe = (entity) => run(async (signal) => {
    const description = await tool('describe_entity', { entity: String(entity) }, { signal });
    setGraph((old) => addDescription(old, description));
    setSelected(description.id);
  });
  useEffect(() => { describe(start); }, []);
  const open = (node) => {
    if (node.expanded) setSelected(node.id);
    else describe(node.id);
  };
  const part = useMemo(() => visiblePart(graph, hiddenKinds, hiddenRelations, selected), [graph, hiddenKinds, hiddenRelations, selected]);
  const node = graph.nodes.get(selected);
  return html`<div role="status">${busy && html`<p class="muted">${t('loading')}</p>`}</div>
    ${error && html`<${Message} error=${error} actions=${html`<${Button} onClick=${() => describe(start)}>${t('try_again')}<//>`} />`}
    ${node && html`<${NameFilter} of="kind" title=${t('graph_types')} names=${[...graph.nodes.values()].map((other) => other.type)} hidden=${hiddenKinds} onChange=${setHiddenKinds} />
      <${NameFilter} of="relation" title=${t('graph_relations')} names=${[...graph.edges.values()].map((edge) => edge.relation)} hidden=${hiddenRelations} onChange=${setHiddenRelations} />
      <p class="hint">${t('graph_filter_explain')}</p>
      <div class="graph-layout"><div>
        <${Tabs} label=${t('graph_forms')} active=${tab} onSelect=${setTab} tabs=${[['drawing', t('graph_tab_drawing')], ['table', t('table')]]}>
          ${tab === 'drawing' ? html`<${GraphDrawing} nodes=${part.nodes} edges=${part.edges} selected=${selected} onOpen=${open} />
              ${part.left > 0 && html`<p class="muted">${tn('graph_left', part.left)}</p>`}<p class="hint">${t('graph_keys')}</p>`
            : html`<${EdgeTable} graph=${graph} edges=${part.allEdges} onOpen=${open} openPreview=${openPreview} />`}<//></div>
        <${EntityPanel} node=${node} graph=${graph} hiddenKinds=${hiddenKinds} onOpen=${open} openPreview=${openPreview} /></div>`}`;
}

/** Checkboxes for kinds or relations with their counts. For kinds, it is the legend of the drawing as well. */
function NameFilter({ of, title, names, hidden, onChange }) {
  const counts = new Map();
  names.forEach((name) => counts.set(name, (counts.get(name) || 0) + 1));
  const toggle = (name) => {
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    onChange(next);
  };
  return html`<fieldset class="name-list"><legend>${title}</legend>
    ${[...counts].sort((one, other) => other[1] - one[1]).map(([name, count]) => html`<label key=${name}><input type="checkbox" checked=${!hidden.has(name)} onChange=${() => toggle(name)} />
      ${of === 'kind' && html`<${TypeDot} type=${name} />`}<${Named} of=${of} name=${name} />${name === 'mentions' && ` (${t('relation_sent_to')})`} <span class="chip-count">${formatNumber(count)}</span></label>`)}</fieldset>`;
}

function evidenceTarget(evidence) {
  const anchor = evidence.anchor || {};
  const lines = anchor.line_start ? `${anchor.line_start}-${anchor.line_end || anchor.line_start}` : undefined;
  return { path: evidence.path, page: anchor.page, lines, sheet: anchor.sheet, cell: anchor.cell, part: anchor.part, member: anchor.member, quote: evidence.text?.slice(0, MAX_QUOTE) };
}

function EvidenceButton({ evidence, openPreview }) {
  if (!evidence?.path) return null;
  return html`<${Evidence} place=${evidence.citation || evidence.path} text=${evidence.text} onOpen=${() => openPreview(evidenceTarget(evidence))} />`;
}

function EdgeTable({ graph, edges, onOpen, openPreview }) {
  const entity = (id) => {
    const node = graph.nodes.get(id);
    return html`<${EntityButton} entity=${{ name: node.name, entity_type: node.type }} onClick=${() => onOpen(node)} />`;
  };
  return html`<${DataTable} label=${t('table')} rows=${edges} rowKey=${(edge) => edge.key} columns=${[
    { name: 'source', title: t('graph_from'), cell: (edge) => entity(edge.source) },
    { name: 'relation', title: t('graph_relation'), cell: (edge) => html`<span>${edge.text}${edge.text !== edge.relation && html` <code class="muted">${visibleText(edge.relation, true)}</code>`}</span>` },
    { name: 'target', title: t('graph_to'), cell: (edge) => entity(edge.target) },
    { name: 'confidence', title: t('confidence'), number: true, cell: (edge) => `${formatNumber(edge.confidence * 100, 0)} %` },
    { name: 'evidence', title: t('graph_evidence'), cell: (edge) => html`<${EvidenceButton} evidence=${edge.evidence} openPreview=${openPreview} />` },
  ]} />`;
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?$/;

/** The value of an attribute; a time is shown as everywhere in the page. */
function attributeText(value) {
  if (typeof value !== 'string') return visibleText(JSON.stringify(value));
  return visibleText(TIME.test(value) ? formatDate(value, true) : value);
}

function EntityPanel({ node, graph, hiddenKinds, onOpen, openPreview }) {
  const entity = node.description;
  if (!entity) return null;
  const path = entity.attributes?.path;
  const count = (entity.out_count ?? entity.out.length) + (entity.in_count ?? entity.in.length);
  const edges = edgesOf(entity);
  const shown = edges.filter((edge) => !hiddenKinds.has(edge.entity.entity_type));
  const passage = entity.entity_type === 'Chunk' && entity.in.find((edge) => edge.evidence?.path)?.evidence;
  const target = entity.entity_type === 'File' && path ? { path } : passage && evidenceTarget(passage);
  return html`<${Section} title=${html`<${TypeDot} type=${entity.entity_type} /> <bdi>${visibleText(entityName(entity), true)}</bdi>`} class="entity-panel">
    <p class="muted" title=${visibleText(entity.key, true)}>${word('kind', entity.entity_type)}</p>
    ${target && html`<div class="button-row"><${Button} icon="file" variant="primary" onClick=${() => openPreview(target)}>${t('open_preview')}<//></div>`}
    <${Facts} facts=${Object.entries({ ...(entity.called && { address: entity.name }), ...entity.attributes, called: '' })
      .map(([name, value]) => [word('field', name), value && html`<bdi>${attributeText(value)}</bdi>`])} />
    <h3>${tn('graph_edges', count)}</h3>
    ${shown.length < count && html`<p class="muted">${tn('graph_hidden', count - shown.length)}</p>`}
    <ul class="edge-list" tabindex="0" aria-label=${tn('graph_edges', count)}>${shown.map((edge, index) => html`<li key=${index}>
      <p><span class="muted" title=${visibleText(edge.relation, true)}>${edge.isOutgoing ? '→' : '←'} ${connectionText(edge)}
        ${edge.confidence < 1 && ` ${formatNumber(edge.confidence * 100, 0)} %`}</span>
        <${EntityButton} entity=${edge.entity} onClick=${() => onOpen(graph.nodes.get(edge.entity.id))} /></p>
      <${EvidenceButton} evidence=${edge.evidence} openPreview=${openPreview} /></li>`)}</ul>
  <//>`;
}

const EXAMPLES = [
  'select ?x where ?x is File limit 20',
  'select ?f, ?p where ?f -authored_by-> ?p limit 50',
  'select ?x where ?x is Person, contains(?x, "name", "ada")',
  'select ?f, ?c where ?f is File, ?f -contains-> ?c, fts(?c, "text", "notice rent")',
  'select ?a, ?b where ?a -links_to+-> ?b, ?b is File max_hops 3 limit 20',
];

function QuerySection({ showEntity }) {
  const [axql, setAxql] = useState(EXAMPLES[0]);
  const [asked, setAsked] = useState('');
  const [answer, setAnswer] = useState(null);
  const [form, setForm] = useState('run');
  const box = useRef(null);
  const { run, busy, error } = useAction();
  const ask = () => run(async (signal) => {
    setAsked(axql);
    setAnswer(await post('/v1/graph', { query: { axql, elaborate: form === 'elaborate', explain: form === 'explain' } }, { signal }));
  });
  const onKeyDown = (event) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    if (axql.trim()) ask();
  };
  const place = error && axqlErrorPosition(error.message, asked);
  useEffect(() => {
    // The text may have been edited since it was asked.
    if (!place || axql !== asked) return;
    box.current?.focus();
    box.current?.setSelectionRange(place.start, place.end);
  }, [error]);
  return html`<${Section} title=${t('axql_label')}>
    <${Form} onSubmit=${ask} class="form-box">
      <${Field} label=${t('graph_mode_query')} hint=${t('axql_hint')}>${(id, hint) => html`<textarea id=${id} ref=${box} class="code-box" rows="4" spellcheck="false" aria-describedby=${hint}
        aria-invalid=${error ? 'true' : undefined} value=${axql} onInput=${(event) => setAxql(event.target.value)}
        onKeyDown=${onKeyDown}></textarea>`}<//>
      ${error && html`<${Message} error=${error}>${place && html`<pre class="axql-error" tabindex="0"
        aria-label=${t('axql_error_place')}><bdi>${asked.slice(0, place.start)}<mark>${asked.slice(place.start, place.end) || ' '}</mark>${asked.slice(place.end)}</bdi></pre>`}<//>`}
      <div class="button-row"><${Button} type="submit" variant="primary" disabled=${busy || !axql.trim()}>${t('run')}<//>
        <${Select} aria-label=${t('axql_form')} value=${form} onChange=${setForm} options=${['run', 'explain', 'elaborate'].map((name) => [name, t(`axql_form_${name}`)])} /></div><//>
    <h3>${t('axql_examples')}</h3>
    <ul class="example-list">${EXAMPLES.map((example) => html`<li key=${example}>
      <button type="button" class="link-button" onClick=${() => setAxql(example)}><code>${example}</code></button></li>`)}</ul>
    <${Disclosure} title=${t('axql_grammar')}>${() => html`<${Grammar} />`}<//>
    <div role="status">${busy ? t('loading') : answer?.rows && tn('axql_rows', answer.rows.length)}${!busy && answer?.truncated && ` ${t('axql_truncated')}`}</div>
    ${answer && html`<${QueryAnswer} answer=${answer} showEntity=${showEntity} />`}
  <//>`;
}

/** The place of an error like "position 11: found `wher`, expected `where`"; positions count characters from 1. */
function axqlErrorPosition(message, axql) {
  const position = Number(/position (\d+)/.exec(message)?.[1]);
  if (!position) return null;
  const start = [...axql].slice(0, position - 1).join('').length;
  const found = /found `([^`]+)`/.exec(message)?.[1];
  const length = found && axql.startsWith(found, start) ? found.length : 1;
  return { start, end: Math.min(axql.length, start + length) };
}

function Grammar() {
  const help = useLoad((options) => tool('axql_help', {}, options), []);
  return html`<${LoadState} request=${help} />${help.data && html`<${Listing} label=${t('axql_grammar')} text=${help.data.grammar || JSON.stringify(help.data, null, 2)} />`}`;
}

function QueryAnswer({ answer, showEntity }) {
  const extra = Object.entries(answer).filter(([name]) => !['vars', 'rows', 'truncated'].includes(name));
  return html`${answer.rows?.length > 0 && html`<${DataTable} label=${t('axql_results')} rows=${answer.rows} columns=${answer.vars.map((name) => ({ name, title: name, cell: (row) => {
      const value = row[name];
      if (value?.id !== undefined && value.entity_type) return html`<${EntityButton} entity=${value} onClick=${() => showEntity(value.id)} />`;
      return html`<bdi>${visibleText(typeof value === 'object' ? JSON.stringify(value) : value)}</bdi>`;
    } }))} />`}
    ${extra.map(([name, value]) => html`<${Disclosure} key=${name} title=${readable(name)} open=${true}><${Listing} label=${readable(name)} text=${typeof value === 'string' ? value : JSON.stringify(value, null, 2)} /><//>`)}`;
}
