/** Components that the views beside the search share. */
import { html, useEffect, useRef, useState } from './vendor/preact-htm.js';
import { t, tn, language } from './i18n.js';
import { Button, Dialog, Icon, Loading, Message, TextWithCode, copyText, formatNumber, visibleText, word } from './components.js';
import { useAction, useId } from './hooks.js';

/** The heading of a section takes the focus with the next `data`, after what had it was removed: `[headingRef, expectRemoval]`. */
export function useHeadingFocus(data) {
  const ref = useRef(null);
  const isExpected = useRef(false);
  useEffect(() => {
    if (isExpected.current) ref.current?.focus();
    isExpected.current = false;
  }, [data]);
  return [ref, () => { isExpected.current = true; }];
}

/** A part of a view with a heading, which can take the focus if there is a `headingRef`. */
export function Section({ title, actions, headingRef, children, class: className = '' }) {
  const id = useId('section');
  return html`<section class=${`panel ${className}`} aria-labelledby=${id}>
    <div class="panel-head"><h2 id=${id} ref=${headingRef} tabindex=${headingRef ? -1 : undefined}>${title}</h2>
      ${actions && html`<div class="button-row">${actions}</div>`}</div>
    ${children}</section>`;
}

/** A control with its label and an explanation. The child gets the id by the function `children(id, hintId)`. */
export function Field({ label, hint, required, children }) {
  const id = useId('field');
  return html`<div class="field"><label for=${id}>${label}${required && html`<span class="required"> (${t('required')})</span>`}</label>
    ${children(id, hint ? `${id}-hint` : undefined)}
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}</div>`;
}

/** A text field with its label. `onInput` gets the text; other properties are attributes of the control. */
export function TextField({ label, hint, required, onInput, ...rest }) {
  return html`<${Field} label=${label} hint=${hint} required=${required}>${(id, hintId) => html`<input id=${id} type="text" aria-describedby=${hintId}
    spellcheck="false" autocomplete="off" ...${rest} onInput=${(event) => onInput(event.target.value)} />`}<//>`;
}

/** A choice of one of the `options`, which are `[value, text]`. Without a label the place names it by `aria-label`. */
export function Select({ options, onChange, ...rest }) {
  return html`<select ...${rest} onChange=${(event) => onChange(event.target.value)}>${options.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}</select>`;
}

/** A path or a name: isolated from the direction of the text around it, hidden characters visible. Lines break after its signs. */
export function PathText({ path }) {
  const parts = visibleText(path, true).split(/(?<=[/@._-])/);
  return html`<bdi class="path">${parts.map((part, index) => [index > 0 && html`<wbr key=${index} />`, part])}</bdi>`;
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
  return html`<p><${TextWithCode} text=${text} /></p>
    ${[...new Set(commands)].map((command) => html`<${Command} key=${command} text=${command} />`)}`;
}

/** A longer text of the daemon in its own notation, in a region that scrolls by itself. */
export function Listing({ label, text }) {
  return html`<pre class="listing" tabindex="0" aria-label=${label}>${visibleText(text)}</pre>`;
}

/**
 * A table in a region that scrolls by itself.
 * @param {object} props
 * @param {string} props.label of the table
 * @param {{name: string, title: string, number?: boolean, cell?: (row: any) => any}[]} props.columns
 * @param {any[]} [props.rows] without rows that are loaded yet, there is nothing
 * @param {string} [props.empty] is shown instead of a table without rows
 */
export function DataTable({ label, columns, rows, rowKey, empty }) {
  if (!rows?.length) return rows && empty ? html`<p class="muted">${empty}</p>` : null;
  return html`<div class="table-region" tabindex="0" role="group" aria-label=${label}><table class="grid-table">
    <thead><tr>${columns.map((column) => html`<th key=${column.name} scope="col" class=${column.number ? 'number' : undefined}>${column.title}</th>`)}</tr></thead>
    <tbody>${rows.map((row, index) => html`<tr key=${rowKey ? rowKey(row) : index}>
      ${columns.map((column) => html`<td key=${column.name} class=${column.number ? 'number' : undefined}>
        ${column.cell ? column.cell(row) : html`<bdi>${visibleText(row[column.name])}</bdi>`}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** A quoted passage as a button that opens its place. */
export function Evidence({ place, text, onOpen }) {
  return html`<button type="button" class="evidence" onClick=${onOpen}><span class="evidence-place"><${PathText} path=${place} /></span>
    ${text && html`<bdi class="evidence-text">${visibleText(text)}</bdi>`}</button>`;
}

/** Names with values, as a description list. Empty values are left out. */
export function Facts({ facts }) {
  return html`<dl class="facts">${facts.filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** A bar that fills up. Without `max` the progress is not known. */
function ProgressBar({ value, max, label }) {
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
    <${Message} error=${error} />
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
    return html`<${Message} error=${request.error}
      actions=${html`<${Button} icon="refresh" onClick=${request.reload}>${t('try_again')}<//>`} />`;
  }
  return request.loading && !request.data ? html`<${Loading} />` : null;
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

const STATE_KINDS = { indexed: 'good', completed: 'good', running: 'accent', pending: 'warning', queued: 'warning', failed: 'bad' };

/** The state of a file or of a job as a tag. */
export function StateTag({ state }) {
  return html`<${Badge} kind=${STATE_KINDS[state]}>${word('state_name', state)}<//>`;
}

/** Figures and progress of an index job, as live text. */
export function JobProgress({ job }) {
  const done = job.phase === 'vectors' ? job.chunks_embedded : job.files_done;
  const total = job.phase === 'vectors' ? job.chunks_embedded + job.chunks_awaiting : job.files_total;
  const parts = [
    word('phase', job.phase),
    total ? tn('job_files', job.files_total, { done: formatNumber(job.files_done) }) : tn('count_files', job.files_found),
    job.tokens_per_second > 0 && t('job_rate', { rate: formatNumber(job.tokens_per_second, 0) }),
    job.eta_seconds !== null && job.eta_seconds !== undefined && t('job_eta', { time: formatDuration(job.eta_seconds) }),
    job.files_failed > 0 && tn('job_failed', job.files_failed),
  ].filter(Boolean);
  return html`<${ProgressBar} value=${done} max=${total} label=${t('job_progress')} /><p class="muted numbers">${parts.join(' · ')}</p>`;
}
