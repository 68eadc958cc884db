/** Components and hooks that the views beside the search share. */
import { html, useState, useEffect, useRef, useCallback } from './vendor/preact-htm.js';
import { isAbort, onConnection } from './api.js';
import { t, tn, hasText, language } from './i18n.js';
import { Button, Dialog, Icon, Message, copyText, formatNumber, visibleText } from './components.js';

/**
 * Loads data and keeps the last answer while it is loaded again. Answers of older requests are dropped.
 * @param {(options: {signal: AbortSignal}) => Promise<any>} load
 * @param {any[]} deps that start a new request when they change
 * @returns {{data: any, error: Error|null, loading: boolean, reload: () => void, setData: (data: any) => void}}
 */
export function useLoad(load, deps) {
  const [state, setState] = useState({ data: null, error: null, loading: true });
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    setState((old) => ({ ...old, loading: true }));
    Promise.resolve(load({ signal: controller.signal })).then(
      (data) => { if (!controller.signal.aborted) setState({ data, error: null, loading: false }); },
      (error) => { if (!isAbort(error) && !controller.signal.aborted) setState((old) => ({ ...old, error, loading: false })); },
    );
    return () => controller.abort();
  }, [...deps, version]);
  // A request that failed because the daemon was away is repeated as soon as it is back.
  const wasAway = state.error?.status === 0;
  useEffect(() => (wasAway ? onConnection((isAway) => { if (!isAway) setVersion((number) => number + 1); }) : undefined), [wasAway]);
  const reload = useCallback(() => setVersion((number) => number + 1), []);
  const setData = useCallback((data) => setState({ data, error: null, loading: false }), []);
  return { ...state, reload, setData };
}

/** Runs an action of a button: `{run, busy, error, clearError}`. `run` gives the result, or `undefined` after an error. */
export function useAction() {
  const [state, setState] = useState({ busy: false, error: null });
  const run = useCallback(async (action) => {
    setState({ busy: true, error: null });
    try {
      const result = await action();
      setState({ busy: false, error: null });
      return result;
    } catch (error) {
      setState({ busy: false, error: isAbort(error) ? null : error });
      return undefined;
    }
  }, []);
  const clearError = useCallback(() => setState({ busy: false, error: null }), []);
  return { ...state, run, clearError };
}

let nextId = 0;

/** An id that is unique in the page and stays the same for one component. */
export function useId(prefix = 'id') {
  const ref = useRef(null);
  if (!ref.current) {
    nextId += 1;
    ref.current = `${prefix}-${nextId}`;
  }
  return ref.current;
}

/** A part of a view with a heading. */
export function Section({ title, actions, children, class: className = '' }) {
  const id = useId('section');
  return html`<section class=${`panel ${className}`} aria-labelledby=${id}>
    <div class="panel-head"><h2 id=${id}>${title}</h2>${actions && html`<div class="button-row">${actions}</div>`}</div>
    ${children}</section>`;
}

/** A control with its label and an explanation. The child gets the id by the function `children(id, hintId)`. */
export function Field({ label, hint, required, children }) {
  const id = useId('field');
  return html`<div class="field"><label for=${id}>${label}${required && html`<span class="required"> (${t('required')})</span>`}</label>
    ${children(id, hint ? `${id}-hint` : undefined)}
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}</div>`;
}

/** A path or a name: isolated from the direction of the text around it, in one line, hidden characters visible. */
export function PathText({ path }) {
  return html`<bdi class="path">${visibleText(path, true)}</bdi>`;
}

/** A command to type in a terminal, with a button that copies it. */
export function Command({ text }) {
  return html`<div class="command-line"><code tabindex="0">${visibleText(text, true)}</code>
    <${Button} icon="copy" label=${t('copy_command')} variant="plain" onClick=${() => copyText(text)} /></div>`;
}

/** A sentence of the daemon: parts in backquotes are code, and those that are commands can be copied. */
export function SentenceWithCommands({ text }) {
  const parts = visibleText(text).split('`');
  const commands = parts.filter((part, index) => index % 2 === 1 && /^vicd? /.test(part));
  return html`<p>${parts.map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))}</p>
    ${[...new Set(commands)].map((command) => html`<${Command} key=${command} text=${command} />`)}`;
}

/**
 * A table in a region that scrolls by itself.
 * @param {object} props
 * @param {string} props.label of the table
 * @param {{name: string, title: string, number?: boolean, cell?: (row: any) => any}[]} props.columns
 * @param {any[]} props.rows
 */
export function DataTable({ label, columns, rows, rowKey }) {
  return html`<div class="table-region" tabindex="0" role="group" aria-label=${label}><table class="grid-table">
    <thead><tr>${columns.map((column) => html`<th key=${column.name} scope="col" class=${column.number ? 'number' : undefined}>${column.title}</th>`)}</tr></thead>
    <tbody>${rows.map((row, index) => html`<tr key=${rowKey ? rowKey(row) : index}>
      ${columns.map((column) => html`<td key=${column.name} class=${column.number ? 'number' : undefined}>
        ${column.cell ? column.cell(row) : html`<bdi>${visibleText(row[column.name])}</bdi>`}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** Names with values, as a description list. Empty values are left out. */
export function Facts({ facts }) {
  return html`<dl class="facts">${facts.filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** A bar that fills up. Without `max` the progress is not known. */
export function ProgressBar({ value, max, label }) {
  const percent = max ? Math.min(100, Math.round((value / max) * 100)) : null;
  return html`<div class=${`progress${percent === null ? ' progress-unknown' : ''}`} role="progressbar" aria-label=${label}
    aria-valuemin="0" aria-valuemax="100" aria-valuenow=${percent === null ? undefined : percent}>
    <span style=${{ width: `${percent ?? 30}%` }}></span></div>`;
}

/** Asks before something that cannot be undone. `action` runs on confirmation; its error is shown in the dialog. */
export function ConfirmDialog({ title, children, confirmLabel, action, onClose }) {
  const { run, busy, error } = useAction();
  const confirm = () => run(async () => { await action(); onClose(); });
  return html`<${Dialog} title=${title} onClose=${onClose}>${children}
    ${error && html`<${Message} error=${error} />`}
    <div class="button-row"><${Button} onClick=${onClose}>${t('cancel')}<//>
      <${Button} variant="danger" disabled=${busy} onClick=${confirm}>${confirmLabel}<//></div><//>`;
}

/** Tabs with their panel; the arrow keys move between the tabs. `tabs` are `[name, title]`. */
export function Tabs({ label, tabs, active, onSelect, children }) {
  const id = useId('tabs');
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const index = tabs.findIndex(([name]) => name === active);
    const [name] = tabs[(index + step + tabs.length) % tabs.length];
    onSelect(name);
    document.getElementById(`${id}-${name}`)?.focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${move}>
    ${tabs.map(([name, title]) => html`<button key=${name} type="button" role="tab" class="tab" id=${`${id}-${name}`}
      aria-selected=${String(name === active)} aria-controls=${`${id}-panel`} tabindex=${name === active ? 0 : -1}
      onClick=${() => onSelect(name)}>${title}</button>`)}</div>
    <div role="tabpanel" id=${`${id}-panel`} aria-labelledby=${`${id}-${active}`} class="tab-panel">${children}</div>`;
}

/** The state of a request: its error with a way to try again, or a note that it is under way. */
export function LoadState({ request }) {
  if (request.error) {
    return html`<${Message} kind="error" error=${request.error}
      actions=${html`<${Button} icon="refresh" onClick=${request.reload}>${t('try_again')}<//>`} />`;
  }
  return request.loading && !request.data ? html`<p role="status" class="muted">${t('loading')}</p>` : null;
}

/** A short text in a box, with the colour of its kind: `good`, `warning`, `bad` or none. */
export function Badge({ kind = '', children }) {
  return html`<span class=${`state-tag ${kind && `state-${kind}`}`}>${children}</span>`;
}

/** A disclosure whose content is made only when it is open. */
export function Disclosure({ title, children, open: startsOpen = false }) {
  const [open, setOpen] = useState(startsOpen);
  const id = useId('disclosure');
  return html`<div class="disclosure"><button type="button" class="disclosure-button" aria-expanded=${String(open)} aria-controls=${id}
      onClick=${() => setOpen(!open)}><${Icon} name=${open ? 'down' : 'right'} size=${13} /><span>${title}</span></button>
    <div id=${id} class="disclosure-content" hidden=${!open}>${open && (typeof children === 'function' ? children() : children)}</div></div>`;
}

/** A length of time in the two largest units, e.g. `2 h 5 min`. */
export function formatDuration(seconds) {
  if (seconds === null || seconds === undefined) return '';
  const total = Math.max(0, Math.round(seconds));
  const units = [['day', Math.floor(total / 86400)], ['hour', Math.floor(total / 3600) % 24], ['minute', Math.floor(total / 60) % 60], ['second', total % 60]];
  const first = units.findIndex(([, value]) => value > 0);
  const shown = first < 0 ? [units[3]] : units.slice(first, first + 2).filter(([, value]) => value > 0);
  return shown.map(([unit, value]) => new Intl.NumberFormat(language(), { style: 'unit', unit, unitDisplay: 'short' }).format(value)).join(' ');
}

/** The name of a language in the language of the page. */
export function languageName(code) {
  try {
    return new Intl.DisplayNames([language()], { type: 'language' }).of(code);
  } catch {
    return code;
  }
}

/** Name and explanation (with the cure) of a reason or rule why a file is not read. */
export function reasonText(reason) {
  const key = `reason_${reason}`;
  if (!reason || !hasText(key)) return { name: visibleText(reason), explanation: '' };
  const [name, explanation] = t(key).split('|');
  return { name, explanation };
}

const STATE_KINDS = { indexed: 'good', completed: 'good', running: 'accent', pending: 'warning', queued: 'warning', failed: 'bad' };

/** The state of a file or of a job as a tag. */
export function StateTag({ state }) {
  return html`<${Badge} kind=${STATE_KINDS[state]}>${hasText(`state_name_${state}`) ? t(`state_name_${state}`) : visibleText(state)}<//>`;
}

/** Figures and progress of an index job, as live text. */
export function JobProgress({ job }) {
  const done = job.phase === 'vectors' ? job.chunks_embedded : job.files_done;
  const total = job.phase === 'vectors' ? job.chunks_embedded + job.chunks_awaiting : job.files_total;
  const parts = [
    hasText(`phase_${job.phase}`) ? t(`phase_${job.phase}`) : visibleText(job.phase),
    total ? t('job_files', { done: formatNumber(job.files_done), total: formatNumber(job.files_total) }) : tn('count_files', job.files_found),
    job.tokens_per_second > 0 && t('job_rate', { rate: formatNumber(job.tokens_per_second, 0) }),
    job.eta_seconds !== null && job.eta_seconds !== undefined && t('job_eta', { time: formatDuration(job.eta_seconds) }),
    job.files_failed > 0 && tn('job_failed', job.files_failed),
  ].filter(Boolean);
  return html`<${ProgressBar} value=${done} max=${total} label=${t('job_progress')} /><p class="muted numbers">${parts.join(' · ')}</p>`;
}
