/** Choosing folders: a browser of the folders of this machine, and a look at what indexing a folder would read and leave out. */
import { html, useState, useEffect, useRef } from './vendor/preact-htm.js';
import { get, post } from './api.js';
import { t, tn } from './i18n.js';
import { Button, Form, Icon, Message, formatBytes, formatNumber, reasonText, visibleText } from './components.js';
import { Badge, Facts, Field, LoadState, PathText, TextField } from './components_views.js';
import { useAction, useLoad } from './hooks.js';

/**
 * A browser of folders that works with the keyboard: arrow keys move, Enter or the right arrow opens a folder, Backspace or the left
 * arrow goes up. A path can be typed as well.
 * @param {{onChoose: (path: string) => void, chooseLabel: string}} props
 */
export function FolderChooser({ onChoose, chooseLabel }) {
  const [path, setPath] = useState(null);
  const [typed, setTyped] = useState('');
  const list = useLoad((options) => post('/v1/folders', { path }, options), [path]);
  useEffect(() => { if (list.data) setTyped(list.data.path); }, [list.data]);
  const open = () => {
    if (typed.trim() === path) list.reload();
    else setPath(typed.trim() || null);
  };
  const shown = list.data;
  return html`<div class="folder-chooser">
    <${Form} class="inline-form" onSubmit=${open}>
      <${TextField} label=${t('facet_folder')} value=${typed} onInput=${setTyped} />
      <${Button} type="submit">${t('folder_go')}<//>
      <${Button} icon="up" disabled=${!shown?.parent} onClick=${() => setPath(shown.parent)}>${t('folder_up')}<//>
    <//>
    <${LoadState} request=${list} />
    ${shown?.problem && html`<${Message} kind="warning" text=${shown.problem} />`}
    ${shown && html`<${FolderListBox} list=${shown} onOpen=${setPath} />`}
    ${shown && html`<${Button} variant="primary" icon="plus" onClick=${() => onChoose(typed.trim() || shown.path)}>
      ${chooseLabel} <bdi class="chosen-name">${visibleText(typed.trim() || shown.path, true)}</bdi><//>`}
  </div>`;
}

function FolderListBox({ list, onOpen }) {
  const [active, setActive] = useState(0);
  const box = useRef(null);
  const { folders } = list;
  useEffect(() => setActive(0), [list.path]);
  useEffect(() => { box.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' }); }, [active]);
  const onKey = (event) => {
    const moves = { ArrowDown: active + 1, ArrowUp: active - 1, Home: 0, End: folders.length - 1 };
    if (event.key in moves) setActive(Math.max(0, Math.min(folders.length - 1, moves[event.key])));
    else if (['Enter', 'ArrowRight'].includes(event.key) && folders[active]) onOpen(folders[active].path);
    else if (['Backspace', 'ArrowLeft'].includes(event.key) && list.parent) onOpen(list.parent);
    else return;
    event.preventDefault();
  };
  if (!folders.length) return html`<p class="muted">${t('folder_none')}</p>`;
  return html`<ul class="folder-list" role="listbox" tabindex="0" ref=${box} aria-label=${t('folder_list', { path: visibleText(list.path, true) })}
    aria-activedescendant=${`folder-${active}`} onKeyDown=${onKey}>
    ${folders.map((folder, index) => html`<li key=${folder.path} id=${`folder-${index}`} role="option" aria-selected=${String(index === active)}
      class="folder-option" onClick=${() => onOpen(folder.path)}>
      <${Icon} name="folder" /><bdi class="path">${visibleText(folder.name, true)}</bdi>
      ${folder.indexed && html`<${Badge} kind="good">${t('folder_indexed')}<//>`}</li>`)}</ul>
    <p class="hint">${t('folder_keys')}</p>`;
}

/** Patterns as they are typed, one a line or separated by commas. */
export function splitPatterns(text) {
  return text.split(/[\n,]/).map((pattern) => pattern.trim()).filter(Boolean);
}

/** The settings; other sessions than those of the owner may not read them. */
export function useSettings(session) {
  return useLoad((options) => (session.owner ? get('/v1/settings', null, options) : null), []);
}

/** The patterns that are tried in a form, and a way to save them for all folders. */
export function usePatterns(settings) {
  const setting = settings.data?.settings.find(({ key }) => key === 'ignore');
  const saved = splitPatterns(setting?.value || '').join('\n');
  const [typed, setPatterns] = useState(null);
  const patterns = typed ?? saved;
  const save = async () => {
    settings.setData(await post('/v1/settings', { key: 'ignore', value: splitPatterns(patterns).join(','), value_before: setting?.value || '' }));
    setPatterns(null);
  };
  return { patterns, setPatterns, changed: splitPatterns(patterns).join() !== splitPatterns(saved).join(), save, editable: setting?.editable };
}

/**
 * A look at what indexing would read and leave out, with patterns to try. Nothing is indexed by it.
 * @param {{path: string, patterns: string, onPatterns: (text: string) => void}} props
 */
export function FolderCheck({ path, patterns, onPatterns }) {
  const { run, busy, error } = useAction();
  const [check, setCheck] = useState(null);
  const sequence = useRef(0);
  const look = () => run(async () => {
    sequence.current += 1;
    const mine = sequence.current;
    const answer = await post('/v1/roots/check', { path, ignore: splitPatterns(patterns) });
    if (mine === sequence.current) setCheck({ ...answer, patterns });
  });
  useEffect(() => { look(); }, [path]);
  return html`<div class="folder-check">
    <${Field} label=${t('ignore_label')} hint=${t('ignore_hint')}>${(id, hint) => html`<textarea id=${id} aria-describedby=${hint} rows="3"
      spellcheck="false" value=${patterns} onInput=${(event) => onPatterns(event.target.value)}></textarea>`}<//>
    <div class="button-row"><${Button} icon="refresh" disabled=${busy} onClick=${look}>${t('check_again')}<//>
      ${check && check.patterns !== patterns && html`<span class="muted" role="status">${t('check_stale')}</span>`}</div>
    ${busy && html`<p role="status" class="muted">${t('check_running')}</p>`}
    <${Message} error=${error} />
    ${check && html`<${CheckResult} check=${check} />`}</div>`;
}

function CheckResult({ check }) {
  const types = check.types.slice(0, 12).map((type) => `${type.extension || t('no_extension')} ${formatNumber(type.count)}`);
  return html`<${Facts} facts=${[
      [t('check_read'), `${tn('count_files', check.read_files)}, ${formatBytes(check.bytes)}`],
      [t('check_types'), html`<bdi>${visibleText(types.join(', '))}</bdi>`],
    ]} />
    ${!check.complete && html`<${Message} kind="info" text=${t('check_incomplete')} />`}
    <h3>${t('check_left_out')}</h3>
    ${check.left_out.length === 0 ? html`<p class="muted">${t('check_nothing_left_out')}</p>`
      : html`<ul class="rule-list">${check.left_out.map((rule) => html`<${RuleRow} key=${rule.rule} rule=${rule} />`)}</ul>`}`;
}

function RuleRow({ rule }) {
  const { name, explanation } = reasonText(rule.rule);
  return html`<li><p><strong class="numbers">${formatNumber(rule.count)}</strong> <strong>${name}</strong> <span class="muted">${explanation}</span></p>
    <p class="examples">${rule.examples.map((example) => html`<${PathText} key=${example} path=${example} />`)}</p></li>`;
}
