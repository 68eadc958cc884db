/** The settings view: folders, models, privacy, audit log, keys, sessions, limits, language and theme of the page. */
import { html, useState, useEffect } from './vendor/preact-htm.js';
import { get, post } from './api.js';
import { t, tn, language, setLanguage, LANGUAGES } from './i18n.js';
import {
  Button, Dialog, Form, Icon, Link, Message, copyText, formatBytes, formatDate, formatNumber, readable, toast, visibleText, word,
} from './components.js';
import {
  Badge, Command, ConfirmDialog, DataTable, Disclosure, Facts, Field, LoadState, PathText, Section, Select, SentenceWithCommands, TextField, languageName,
  useHeadingFocus,
} from './components_views.js';
import { FolderCheck, FolderChooser, PatternError, usePatterns, useSettings } from './folder_chooser.js';
import { useAction, useGet } from './hooks.js';
import { THEMES, setTheme, theme } from './theme.js';

/** The parts of the view; those with `owner` are shown only to the owner. */
const PARTS = [
  { name: 'folders', Part: FoldersPart },
  { name: 'models', Part: ModelsPart, owner: true },
  { name: 'privacy', Part: PrivacyPart },
  { name: 'audit', Part: AuditPart, owner: true },
  { name: 'keys', Part: KeysPart, owner: true },
  { name: 'sessions', Part: SessionsPart },
  { name: 'limits', Part: LimitsPart, owner: true },
  { name: 'page', Part: PagePart },
];

/** With `show=left_out`, at most this many folders show at once what is left out: a look at a folder walks all of it. */
const SHOWN_CHECKS = 3;

/** The view at `/ui/settings?section=NAME`. */
export function SettingsView({ session, navigate, params, status }) {
  const parts = PARTS.filter((part) => session.owner || !part.owner);
  const shown = parts.find((part) => part.name === params?.section) || parts[0];
  return html`<div class="page"><h1>${t('nav_settings')}</h1><div class="settings-layout">
    <nav class="side-nav" aria-label=${t('settings_sections')}>${parts.map(({ name }) => html`<${Link} key=${name} path="/ui/settings" params=${{ section: name }}
      navigate=${navigate} aria-current=${name === shown.name ? 'page' : undefined}>${t(`settings_${name}`)}<//>`)}</nav>
    <div><${shown.Part} key=${shown.name} session=${session} params=${params} navigate=${navigate} status=${status} /></div></div></div>`;
}

function FoldersPart({ session, params, navigate }) {
  const roots = useGet('/v1/roots');
  const settings = useSettings(session);
  const [adding, setAdding] = useState(false);
  const [headingRef, expectRemoval] = useHeadingFocus(roots.data);
  const list = roots.data?.roots || [];
  return html`<${Section} title=${t('settings_folders')} headingRef=${headingRef}
    actions=${session.owner && html`<${Button} icon="plus" variant="primary" onClick=${() => setAdding(true)}>${t('folder_add')}<//>`}>
    <${LoadState} request=${roots} />
    ${session.folders && html`<p class="muted">${t('scoped_explain')}</p>`}
    ${roots.data && list.length === 0 && html`<p>${t('no_folders_yet')}</p>`}
    <ul class="folder-cards">${list.map((root, index) => html`<${RootCard} key=${root.path} root=${root}
      open=${params?.show === 'left_out' && index < SHOWN_CHECKS} owner=${session.owner} settings=${settings} onRemoved=${() => { expectRemoval(); roots.reload(); }} />`)}</ul>
    ${adding && html`<${AddFolderDialog} settings=${settings} navigate=${navigate} onClose=${() => { setAdding(false); roots.reload(); }} />`}
  <//>`;
}

function RootCard({ root, open, owner, settings, onRemoved }) {
  const [removing, setRemoving] = useState(false);
  const { run, busy, error } = useAction();
  const index = () => run(async () => { await post('/v1/index/start', { root: root.path }); toast(t('folder_started')); });
  return html`<li class="folder-card"><div class="job-head"><${Icon} name="folder" /><strong class="job-paths"><${PathText} path=${root.path} /></strong>
      ${!root.available && html`<${Badge} kind="bad">${t('root_unavailable_short')}<//>`}
      ${owner && html`<${Button} icon="refresh" aria-label=${`${t('folder_again')}: ${visibleText(root.path, true)}`} disabled=${busy} onClick=${index}>${t('folder_again')}<//>
        <${Button} icon="trash" variant="danger" onClick=${() => setRemoving(true)}>${t('remove')}<//>`}</div>
    <${Message} error=${error} />
    ${root.problem && html`<p class="muted">${visibleText(root.problem)}</p>`}
    ${owner && settings.data && html`<${Disclosure} title=${t('folder_left_out')} open=${open}>${() => html`<${RootPatterns} root=${root} settings=${settings} />`}<//>`}
    ${removing && html`<${ConfirmDialog} title=${t('folder_remove_title')} confirmLabel=${t('remove')} onClose=${() => setRemoving(false)}
      action=${async () => { await post('/v1/roots/remove', { path: root.path }); onRemoved(); }}>
      <p><${PathText} path=${root.path} /></p><p>${t('folder_remove_explain')}</p><//>`}</li>`;
}

function RootPatterns({ root, settings }) {
  const { saved, patterns, setPatterns, changed, save, editable } = usePatterns(settings);
  const { run, busy, error } = useAction();
  return html`<${FolderCheck} path=${root.path} patterns=${patterns} onPatterns=${setPatterns} saved=${saved} />
    <${PatternError} error=${error} settings=${settings} />
    ${editable ? html`<div class="button-row"><${Button} variant="primary" disabled=${busy || !changed} onClick=${() => run(async () => { await save(); toast(t('saved')); })}>
      ${t('ignore_save')}<//><span class="hint">${t('ignore_save_explain')}</span></div>` : html`<p class="hint">${t('setting_not_editable')}</p>`}`;
}

function AddFolderDialog({ settings, onClose, navigate }) {
  const [path, setPath] = useState(null);
  const { patterns, setPatterns, changed, save } = usePatterns(settings);
  const { run, busy, error } = useAction();
  const start = () => run(async () => {
    if (changed) await save();
    await post('/v1/index/start', { root: path });
    onClose();
    navigate('/ui/status', {});
  });
  return html`<${Dialog} title=${t('folder_add')} onClose=${onClose} class="wide-dialog">
    ${!path && html`<${FolderChooser} onChoose=${setPath} chooseLabel=${t('setup_choose')} autofocus />`}
    ${path && html`<p><strong><${PathText} path=${path} /></strong></p><${FolderCheck} path=${path} patterns=${patterns} onPatterns=${setPatterns} />
      <${PatternError} error=${error} settings=${settings} />
      <div class="button-row"><${Button} icon="left" onClick=${() => setPath(null)}>${t('back')}<//>
        <${Button} variant="primary" disabled=${busy} onClick=${start}>${t('folder_index')}<//></div>`}<//>`;
}

function ModelsPart() {
  const models = useGet('/v1/models');
  const data = models.data;
  return html`<${Section} title=${t('settings_models')}>
    <${LoadState} request=${models} />
    ${data && html`<p>${t('setup_model_current')} <strong><bdi>${visibleText(data.current)}</bdi></strong></p><p class="hint">${t('models_explain')}</p>
      ${data.suggestion && html`<${Message} kind="info"><p><strong>${visibleText(data.suggestion.name)}</strong></p><${SentenceWithCommands} text=${data.suggestion.reason} /><//>`}
      <div class="model-list">${data.models.map((model) => html`<${ModelCard} key=${model.name} model=${model} current=${data.current} />`)}</div>`}
  <//>`;
}

const SHOWN_LANGUAGES = 6;

function ModelCard({ model, current }) {
  const inUse = current.split(' ')[0] === model.name;
  const names = model.languages.map(languageName);
  const languages = names.length > SHOWN_LANGUAGES ? html`<details><summary>${tn('model_languages', names.length)}</summary>${names.join(', ')}</details>` : names.join(', ');
  return html`<article class="folder-card"><div class="job-head"><h3 class="job-paths"><bdi>${visibleText(model.name)}</bdi></h3>
      ${inUse && html`<${Badge} kind="good">${t('model_in_use')}<//>`}
      ${!model.present && html`<${Badge}>${t('model_absent')}<//>`}</div>
    <${Facts} facts=${[
      [t('model_kind'), visibleText(model.kind)],
      [t('health_languages'), languages],
      [t('facet_size'), formatBytes(model.bytes)],
      [t('model_dimension'), model.dimension],
      [t('model_speed'), model.speed !== null && model.speed !== undefined && t('model_speed_value', { factor: formatNumber(model.speed) })],
      [t('model_licence'), visibleText(model.licence)],
      [t('model_quality'), model.quality?.length > 0 && model.quality.map((quality) => html`<p key=${quality.benchmark}>${formatNumber(quality.score)}${' '}
        <span class="muted">${visibleText(quality.benchmark)} (${visibleText(quality.source)})</span></p>`)],
      [t('model_checksums'), word('checksums', model.checksums)],
      [t('model_cost'), model.chunks_to_embed > 0 && tn('model_passages', model.chunks_to_embed)],
    ].filter(([, value]) => value !== false)} />
    ${!inUse && model.command && html`<${Command} text=${model.command} />`}</article>`;
}

const PRIVACY_MODES = ['local_only', 'cloud_reasoning_ok', 'cloud_embedding_ok'];

function PrivacyPart({ session, status }) {
  const settings = useSettings(session);
  const mode = settings.data?.privacy_mode || status?.privacy_mode;
  return html`<${Section} title=${t('settings_privacy')}>
    <${LoadState} request=${settings} />
    ${mode && html`<ul class="mode-list">${PRIVACY_MODES.map((name) => {
        const [title, explanation] = t(`privacy_${name}`).split('|');
        return html`<li key=${name} class=${`mode${name === mode ? ' mode-current' : ''}`} aria-current=${name === mode ? 'true' : undefined}>
          <p><strong>${title}</strong> <code>${name}</code> ${name === mode && html`<${Badge} kind="good">${t('privacy_current')}<//>`}</p><p>${explanation}</p></li>`;
      })}</ul>
      ${settings.data && html`<${Disclosure} title=${t('privacy_change')}><p>${t('privacy_terminal')}</p><${Command} text=${`VIC_PRIVACY_MODE=${mode === 'local_only' ? 'cloud_reasoning_ok' : 'local_only'} vic daemon start`} />
      <p class="hint">${t('privacy_file')} <${PathText} path=${settings.data.config_file} /></p><//>`}`}
  <//>`;
}

function AuditPart() {
  const audit = useGet('/v1/audit', { limit: 100 });
  const records = audit.data?.records;
  return html`<${Section} title=${t('settings_audit')} actions=${html`<${Button} icon="refresh" onClick=${audit.reload}>${t('reload')}<//>`}>
    <p class="hint">${t('audit_explain')}</p>
    <${LoadState} request=${audit} />
    ${records?.length === 0 && html`<${Message} kind="success" text=${t('audit_none')} />`}
    <${DataTable} label=${t('settings_audit')} rows=${records} columns=${[
      { name: 'time_ms', title: t('column_time'), cell: (record) => formatDate(record.time_ms, true) },
      { name: 'allowed', title: t('column_state'), cell: (record) => html`<${Badge} kind=${record.allowed ? 'warning' : 'good'}>${t(record.allowed ? 'audit_sent' : 'audit_refused')}<//>` },
      { name: 'destination', title: t('audit_destination') },
      { name: 'purpose', title: t('audit_purpose') },
      { name: 'bytes', title: t('facet_size'), number: true, cell: (record) => formatBytes(record.bytes) },
      { name: 'privacy_mode', title: t('settings_privacy'), cell: (record) => word('privacy', record.privacy_mode).split('|')[0] },
    ]} />
  <//>`;
}

const LOCAL_HOSTS = ['127.0.0.1', 'localhost', '[::1]'];
const listenCommand = (port) => `vic daemon stop; VIC_LISTEN=0.0.0.0:${port} VIC_BRIDGE_HOSTS=${t('key_host')} VIC_BRIDGE_TLS_CERT=$PWD/cert.pem VIC_BRIDGE_TLS_KEY=$PWD/key.pem vic daemon start`;

/** How the holder of a key logs in: on this computer, and from others once vic listens on the network. */
function KeyInstructions() {
  const { origin, hostname, port } = location;
  const isLocal = LOCAL_HOSTS.includes(hostname);
  const remote = new URL(`${origin}/ui/`);
  Object.assign(remote, { protocol: 'https:', hostname: t('key_host') });
  return html`<p>${t(isLocal ? 'key_use_here' : 'key_use', { address: `${origin}/ui/` })}</p>
    ${isLocal && html`<p>${t('key_use_others', { name: t('key_host') })}</p><${Command} text=${listenCommand(port)} />
      <p>${t('key_use', { address: remote.href })}</p>`}`;
}

function KeysPart() {
  const keys = useGet('/v1/keys');
  const [revoking, setRevoking] = useState(null);
  const [created, setCreated] = useState(null);
  const [headingRef, expectRemoval] = useHeadingFocus(keys.data);
  const revoke = async () => {
    await post('/v1/keys/revoke', { name: revoking.name });
    setCreated((key) => (key?.name === revoking.name ? null : key));
    expectRemoval();
    keys.reload();
  };
  return html`<${Section} title=${t('settings_keys')} headingRef=${headingRef}>
    <p class="hint">${t('keys_explain')}</p>
    <${LoadState} request=${keys} />
    ${created && html`<${Message} kind="success" onClose=${() => setCreated(null)}><p>${t('key_created', { name: visibleText(created.name) })}</p>
      <div class="command-line"><code tabindex="0">${created.key}</code><${Button} icon="copy" onClick=${() => copyText(created.key)}>${t('key_copy')}<//></div>
<//>`}
    <${Disclosure} key=${created?.name} title=${t('key_how')} open=${Boolean(created)}><${KeyInstructions} /><//>
    <${DataTable} label=${t('settings_keys')} rows=${keys.data?.keys} empty=${t('keys_none')} rowKey=${(key) => key.name} columns=${[
      { name: 'name', title: t('column_name') },
      { name: 'roots', title: t('settings_folders'), cell: (key) => (key.roots || []).map((path) => html`<div key=${path}><${PathText} path=${path} /></div>`) },
      { name: 'right', title: t('key_right'), cell: (key) => t(`right_${key.right}`) },
      { name: 'created_ms', title: t('key_since'), cell: (key) => formatDate(key.created_ms) },
      { name: 'revoke', title: t('column_action'), cell: (key) => html`<${Button} variant="danger" onClick=${() => setRevoking(key)}>${t('key_revoke')}<//>` },
    ]} />
    ${revoking && html`<${ConfirmDialog} title=${t('key_revoke_title', { name: visibleText(revoking.name, true) })} confirmLabel=${t('key_revoke')}
      onClose=${() => setRevoking(null)} action=${revoke}><p>${t('key_revoke_explain')}</p><//>`}
    <${NewKeyForm} onCreated=${(key) => { setCreated(key); keys.reload(); }} />
  <//>`;
}

function NewKeyForm({ onCreated }) {
  const [form, setForm] = useState({ name: '', folders: [], right: 'read' });
  const [choosing, setChoosing] = useState(false);
  const { run, busy, error } = useAction();
  const change = (part) => setForm((old) => ({ ...old, ...part }));
  const submit = () => {
    run(async () => {
      onCreated(await post('/v1/keys', { ...form, name: form.name.trim() }));
      setForm({ name: '', folders: [], right: 'read' });
    });
  };
  return html`<${Form} class="form-box" onSubmit=${submit}><h3>${t('key_new')}</h3>
    <${TextField} label=${t('key_name')} required value=${form.name} onInput=${(name) => change({ name })} />
    <${Field} label=${t('key_right')}>${(id) => html`<${Select} id=${id} value=${form.right} onChange=${(right) => change({ right })}
      options=${['read', 'index'].map((name) => [name, t(`right_${name}`)])} />`}<//>
    <div class="field"><span>${t('key_folders')} <span class="muted">(${t('required')})</span></span>
      <ul class="chosen-folders">${form.folders.map((path) => html`<li key=${path}><${PathText} path=${path} />
        <${Button} icon="close" label=${`${t('remove')}: ${visibleText(path, true)}`} variant="plain" onClick=${() => change({ folders: form.folders.filter((folder) => folder !== path) })} /></li>`)}</ul>
      <div><${Button} icon="folder" onClick=${() => setChoosing(true)}>${t('setup_choose')}<//></div></div>
    <${Message} error=${error} />
    <div><${Button} type="submit" variant="primary" disabled=${busy || !form.name.trim() || !form.folders.length}>${t('key_create')}<//></div>
    ${choosing && html`<${Dialog} title=${t('key_folders')} onClose=${() => setChoosing(false)} class="wide-dialog"><${FolderChooser} chooseLabel=${t('setup_choose')} offersRoots autofocus
      onChoose=${(path) => { setChoosing(false); change({ folders: form.folders.includes(path) ? form.folders : [...form.folders, path] }); }} /><//>`}
  <//>`;
}

function SessionsPart({ session }) {
  const { run, busy, error } = useAction();
  const [ending, setEnding] = useState(false);
  // The page is loaded anew: it then has no session and shows the login.
  const end = (path) => post(path, {}).then(() => location.reload());
  return html`<${Section} title=${t('settings_sessions')}>
    <${Facts} facts=${[
      [t('session_holder'), session.holder === 'owner' ? t('session_owner') : visibleText(session.holder)],
      [t('key_right'), t(`right_${session.right}`)],
      [t('settings_folders'), session.folders ? session.folders.map((path) => html`<div key=${path}><${PathText} path=${path} /></div>`) : t('session_all_folders')],
      [t('session_place'), t(session.local ? 'session_local' : 'session_key')],
    ]} />
    <${Message} error=${error} />
    <div class="button-row"><${Button} disabled=${busy} onClick=${() => run(() => end('/ui/session/end'))}>${t('session_end')}<//>
      ${session.owner && html`<${Button} variant="danger" onClick=${() => setEnding(true)}>${t('session_end_all')}<//>`}</div>
    ${ending && html`<${ConfirmDialog} title=${t('session_end_all')} confirmLabel=${t('session_end_all')} onClose=${() => setEnding(false)}
      action=${() => end('/ui/session/end_all')}><p>${t('session_end_all_explain')}</p><//>`}
  <//>`;
}

function LimitsPart({ session }) {
  const settings = useSettings(session);
  const [filter, setFilter] = useState('');
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const textOf = (setting) => [setting.name, setting.key, setting.description, setting.value ?? '', waitsForRestart(setting, session.owner) ? t('setting_restart') : ''].join(' ');
  const matches = (setting) => words.every((word) => textOf(setting).toLowerCase().includes(word));
  const list = (settings.data?.settings || []).filter(matches);
  return html`<${Section} title=${t('settings_limits')}>
    <${LoadState} request=${settings} />
    ${settings.data && html`<p class="hint">${t('settings_file')} <${PathText} path=${settings.data.config_file} /></p>
      ${settings.data.restart_needed.length > 0 && html`<${Message} kind="warning"><p>${t('restart_needed', { names: settings.data.restart_needed.join(', ') })}</p><${Command} text="vic daemon stop && vic daemon start" /><//>`}
      <${TextField} type="search" label=${t('settings_filter')} value=${filter} onInput=${setFilter} />
      <p role="status" class="muted">${t('shown_of', { shown: formatNumber(list.length), total: formatNumber(settings.data.settings.length) })}</p>
      <ul class="setting-list">${list.map((setting) => html`<${SettingRow} key=${setting.key} setting=${setting} owner=${session.owner} onChange=${settings.setData} />`)}</ul>`}
  <//>`;
}

/** True if the setting can be changed here. The privacy mode is changed in the terminal only. */
const isEditable = (setting, owner) => owner && setting.editable && setting.key !== 'privacy_mode';
const waitsForRestart = (setting, owner) => setting.needs_restart && isEditable(setting, owner);

/** A setting; a change names the value it replaces, so that the change of another page is not overwritten unseen. */
function SettingRow({ setting, owner, onChange }) {
  const [typed, setTyped] = useState(null);
  const [conflict, setConflict] = useState(null);
  const { run, busy, error, clearError } = useAction();
  const editable = isEditable(setting, owner);
  const save = (before) => run(async () => {
    setConflict(null);
    try {
      onChange(await post('/v1/settings', { key: setting.key, value: typed, value_before: before }));
      setTyped(null);
      toast(t(setting.needs_restart ? 'saved_restart' : 'saved'));
    } catch (failure) {
      if (failure.field !== 'value_before') throw failure;
      const now = await get('/v1/settings');
      setConflict(now.settings.find((other) => other.key === setting.key)?.value || '');
    }
  });
  const cancel = () => { setTyped(null); setConflict(null); clearError(); };
  return html`<li class="setting"><div class="setting-head"><strong lang="en">${readable(setting.key)}</strong> <code class="muted">${setting.key}</code>
      <${Badge} kind=${setting.origin === 'default' ? '' : 'accent'}>${word('origin', setting.origin)}<//>
      ${waitsForRestart(setting, owner) && html`<span class="muted">${t('setting_restart')}</span>`}</div>
    <p class="muted">${visibleText(setting.description)}</p>
    ${typed === null ? html`<div class="setting-value"><bdi>${setting.value === null || setting.value === undefined ? html`<span class="muted">${t('setting_unset')}</span>` : visibleText(setting.value)}</bdi>
        ${editable && html`<${Button} label=${`${t('change')}: ${setting.key}`} onClick=${() => setTyped(setting.value ?? '')}>${t('change')}<//>`}</div>`
      : html`<${Form} class="setting-value" onSubmit=${() => save(setting.value ?? '')}>
        <input type="text" aria-label=${setting.key} spellcheck="false" value=${typed} onInput=${(event) => setTyped(event.target.value)} />
        <${Button} type="submit" variant="primary" disabled=${busy}>${t('save')}<//><${Button} onClick=${cancel}>${t('cancel')}<//><//>`}
    <${Message} error=${error} />
    ${conflict !== null && html`<${Message} kind="warning" actions=${html`<div class="button-row"><${Button} onClick=${() => save(conflict)}>${t('conflict_mine')}<//>
        <${Button} onClick=${() => { cancel(); get('/v1/settings').then(onChange, () => {}); }}>${t('conflict_theirs')}<//></div>`}>
      <p>${t('conflict')}</p><p>${t('conflict_now')} <code><bdi>${visibleText(conflict)}</bdi></code></p><p>${t('conflict_typed')} <code><bdi>${visibleText(typed)}</bdi></code></p><//>`}</li>`;
}

function PagePart() {
  const [chosen, setChosen] = useState(theme());
  useEffect(() => setTheme(chosen), [chosen]);
  return html`<${Section} title=${t('settings_page')}>
    <${Field} label=${t('facet_language')}>${(id) => html`<${Select} id=${id} value=${language()} onChange=${setLanguage}
      options=${LANGUAGES.map((name) => [name, new Intl.DisplayNames([name], { type: 'language' }).of(name)])} />`}<//>
    <${Field} label=${t('page_theme')}>${(id) => html`<${Select} id=${id} value=${chosen} onChange=${setChosen} options=${THEMES.map((name) => [name, t(`theme_${name}`)])} />`}<//>
    <p class="hint">${t('page_explain')}</p>
  <//>`;
}
