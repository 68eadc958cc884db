/** Choosing folders: a browser of the folders of this machine, and a look at what indexing a folder would read and leave out. */
import { html, useState, useEffect, useRef } from './vendor/preact-htm.js';
import { get, post } from './api.js';
import { t, tn } from './i18n.js';
import { Button, Form, Icon, Message, formatBytes, formatNumber, reasonText, visibleText } from './components.js';
import { Badge, Facts, Field, LoadState, PathText, TextField } from './components_views.js';
import { useAction, useDebounce, useGet, useLoad } from './hooks.js';

const TYPING_DELAY_MS = 250;
const parentOf = (path) => path.replace(/\/*[^/]*\/*$/, '') || '/';

/** The folders in a folder. Of a path that is still being typed, they are those that it may become. */
async function foldersIn(path, options) {
  try {
    return await post('/v1/folders', { path }, options);
  } catch (error) {
    if (error.status !== 404 || !/^\/.*[^/]$/.test(path)) throw error;
    const list = await post('/v1/folders', { path: parentOf(path) }, options).catch(() => { throw error; });
    const begin = path.slice(path.lastIndexOf('/') + 1).toLowerCase();
    return { ...list, folders: list.folders.filter(({ name }) => name.toLowerCase().startsWith(begin)) };
  }
}

/** Where the choice begins: beside the first indexed folder (for a key: in it), or in the home folder. */
async function firstFolder(roots, isForKey, options) {
  const first = roots[0] && (isForKey ? roots[0].path : parentOf(roots[0].path));
  return (first && await post('/v1/folders', { path: first }, options).catch(() => null)) || post('/v1/folders', {}, options);
}

/**
 * A browser of folders that works with the keyboard: arrow keys move, Enter or the right arrow opens a folder, Backspace or the left
 * arrow goes up. A path can be typed as well, and the list follows it.
 * @param {{onChoose: (path: string) => void, chooseLabel: string, offersRoots: boolean, autofocus: boolean}} props with `offersRoots`
 *   the indexed folders stand first
 */
export function FolderChooser({ onChoose, chooseLabel, offersRoots, autofocus }) {
  const [typed, setTyped] = useState(null);
  const [opened, setOpened] = useState(null);
  const roots = useGet('/v1/roots');
  const known = roots.data?.roots || (roots.error && []);
  const path = useDebounce(typed?.trim(), TYPING_DELAY_MS);
  // A folder that was opened is listed at once, one that is typed after a pause.
  const wanted = opened ?? path;
  const list = useLoad((options) => (wanted ? foldersIn(wanted, options) : known && firstFolder(known, offersRoots, options)), [wanted, Boolean(known)]);
  const open = (next) => { setTyped(next); setOpened(next); };
  const type = (next) => { setTyped(next); setOpened(null); };
  const shown = list.data;
  const chosen = typed?.trim() || shown?.path;
  // The list may be that of another folder than the typed one.
  const above = chosen === shown?.path || !chosen?.startsWith('/') ? shown?.parent : parentOf(chosen);
  return html`<div class="folder-chooser">
    ${offersRoots && known?.length > 0 && html`<p>${t('folder_roots')}</p><div class="button-row">${known.map((root) => html`<${Button} key=${root.path} icon="folder"
      onClick=${() => onChoose(root.path)}><${PathText} path=${root.path} /><//>`)}</div>`}
    <${Form} class="inline-form" onSubmit=${() => open(chosen)}>
      <${TextField} label=${t('facet_folder')} value=${typed ?? shown?.path ?? ''} onInput=${type} onFocus=${(event) => event.target.select()} autofocus=${autofocus} />
      <${Button} icon="up" disabled=${!above} onClick=${() => open(above)}>${t('folder_up')}<//>
    <//>
    <div class="folder-list-area"><${LoadState} request=${list} />
      ${shown && !list.error && html`<${FolderListBox} list=${shown} onOpen=${open} />`}</div>
    ${shown && html`<${Button} variant="primary" icon="plus" disabled=${Boolean(list.error)} onClick=${() => onChoose(chosen)}>
      ${chooseLabel} <bdi class="chosen-name">${visibleText(chosen, true)}</bdi><//>`}
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

/** Patterns as they are typed, one a line or separated by commas; a comma in braces belongs to its pattern, as in `*.{bak,tmp}`. */
function splitPatterns(text) {
  const patterns = [''];
  let depth = 0;
  for (const letter of text) {
    depth += (letter === '{') - (letter === '}');
    if (letter === '\n' || (letter === ',' && depth <= 0)) patterns.push('');
    else patterns[patterns.length - 1] += letter;
  }
  return patterns.map((pattern) => pattern.trim()).filter(Boolean);
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
  return { saved, patterns, setPatterns, changed: splitPatterns(patterns).join() !== splitPatterns(saved).join(), save, editable: setting?.editable };
}

/** An error of saving patterns. If another page has changed them meanwhile, they can be loaded again. */
export function PatternError({ error, settings }) {
  return html`<${Message} error=${error}
    actions=${error?.field === 'value_before' && html`<${Button} onClick=${settings.reload}>${t('setting_reload')}<//>`} />`;
}

/**
 * A look at what indexing would read and leave out, with patterns to try. Nothing is indexed by it.
 * @param {{path: string, patterns: string, onPatterns: (text: string) => void, saved?: string}} props `saved` are the patterns in
 *   effect, for a folder that is indexed
 */
export function FolderCheck({ path, patterns, onPatterns, saved }) {
  const { run, busy, error } = useAction();
  const [check, setCheck] = useState(null);
  const look = () => run(async (signal) => {
    const answer = await post('/v1/roots/check', { path, ignore: splitPatterns(patterns) }, { signal });
    setCheck({ ...answer, patterns });
  });
  useEffect(() => { look(); }, [path, saved]);
  return html`<div class="folder-check">
    <${Field} label=${t('ignore_label')} hint=${t('ignore_hint')}>${(id, hint) => html`<textarea id=${id} aria-describedby=${hint} rows="3"
      spellcheck="false" value=${patterns} onInput=${(event) => onPatterns(event.target.value)}></textarea>`}<//>
    <div class="button-row"><${Button} icon="refresh" disabled=${busy} onClick=${look}>${t('check_again')}<//>
      ${check && check.patterns !== patterns && html`<span class="muted" role="status">${t('check_stale')}</span>`}</div>
    ${busy && html`<p role="status" class="muted">${t('check_running')}</p>`}
    <${Message} error=${error} />
    ${check && html`<${CheckResult} check=${check} isNow=${check.patterns === saved} />`}</div>`;
}

const SHOWN_TYPES = 12;

function CheckResult({ check, isNow }) {
  const types = check.types.slice(0, SHOWN_TYPES).map((type) => `${type.extension || t('no_extension')} ${formatNumber(type.count)}`);
  const others = check.types.slice(SHOWN_TYPES).reduce((sum, type) => sum + type.count, 0);
  if (others) types.push(t('check_other_types', { count: formatNumber(others) }));
  return html`<${Facts} facts=${[
      [t(isNow ? 'check_read_now' : 'check_read'), `${tn('count_files', check.read_files)}, ${formatBytes(check.bytes)}`],
      [t('check_types'), html`<bdi>${visibleText(types.join(', '))}</bdi>`],
    ]} />
    ${!check.complete && html`<${Message} kind="info" text=${t('check_incomplete')} />`}
    <h3>${t(isNow ? 'check_left_out_now' : 'check_left_out')}</h3>
    ${check.left_out.length === 0 ? html`<p class="muted">${t('check_nothing_left_out')}</p>`
      : html`<ul class="rule-list">${check.left_out.map((rule) => html`<${RuleRow} key=${rule.rule} rule=${rule} />`)}</ul>`}`;
}

function RuleRow({ rule }) {
  const { name, explanation } = reasonText(rule.rule);
  return html`<li><p><strong class="numbers">${formatNumber(rule.count)}</strong> <strong>${name}</strong> <span class="muted">${explanation}</span></p>
    <p class="examples">${rule.examples.map((example) => html`<${PathText} key=${example} path=${example} />`)}</p></li>`;
}
