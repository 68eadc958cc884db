/** The status view: how much of the files can be searched, why others cannot, running work, problems and health. */
import { html, useState, useEffect, useCallback, useMemo, useRef } from './vendor/preact-htm.js';
import { events, get, post } from './api.js';
import { t, tn } from './i18n.js';
import { Button, Form, Link, Loading, Message, formatBytes, formatDate, formatNumber, reasonText, visibleText, word } from './components.js';
import {
  Command, DataTable, Disclosure, Facts, JobProgress, LoadState, PathText, Section, Select, SentenceWithCommands, StateTag, TextField,
  formatDuration, languageName,
} from './components_views.js';
import { useAction, useLoad } from './hooks.js';

const FILES_PER_PAGE = 100;
const SEARCHED_FILES = 50;
const EXPLAINED_FILES = 8;

/** The status as it changes: `{status, error}`. `first` is shown until the first event arrives. */
export function useLiveStatus(first) {
  const [live, setLive] = useState({ status: first && !first.error ? first : null, error: null });
  useEffect(() => events('/v1/status/events', (data) => {
    if (data?.coverage) setLive({ status: data, error: null });
  }, (error) => setLive((old) => ({ ...old, error }))), []);
  return live;
}

/** The view at `/ui/status`. */
export function StatusView({ session, navigate, openPreview, params, status: firstStatus }) {
  const { status, error } = useLiveStatus(firstStatus);
  const shown = status || (firstStatus?.coverage ? firstStatus : null);
  const mayIndex = session.right !== 'read';
  return html`<div class="page"><h1>${t('nav_status')}</h1>
    ${error && html`<${Message} kind="warning" error=${error} />`}
    ${!shown && !error && html`<${Loading} />`}
    ${shown && html`
      <${Problems} status=${shown} />
      ${shown.roots.length === 0 && session.owner && html`<${Message} kind="info"
        actions=${html`<${Button} variant="primary" onClick=${() => navigate('/ui/setup', {})}>${t('nav_setup')}<//>`}><p>${t('no_folders_yet')}</p><//>`}
      <${CoverageSection} status=${shown} owner=${session.owner} mayIndex=${mayIndex} showReasons=${params?.show === 'reasons'} openPreview=${openPreview} />
      <${MissingFileSection} key=${params?.missing} missing=${params?.missing} roots=${session.owner ? shown.roots : []} openPreview=${openPreview} mayIndex=${mayIndex} />
      <${JobsSection} status=${shown} mayIndex=${mayIndex} owner=${session.owner} />
      ${session.owner && html`<${HealthSection} status=${shown} />`}`}
  </div>`;
}

function Problems({ status }) {
  return html`${status.degraded.map((problem) => html`<${Message} key=${problem} kind="error"><${SentenceWithCommands} text=${problem} /><//>`)}
    ${status.roots.filter((root) => !root.available).map((root) => html`<${Message} key=${root.path} kind="warning">
      <p>${t('root_unavailable')} <${PathText} path=${root.path} /></p><p>${visibleText(root.problem)}</p><//>`)}
    ${status.advice.map((advice) => html`<${Message} key=${advice} kind="info"><${SentenceWithCommands} text=${advice} /><//>`)}`;
}

const COVERAGE_PARTS = ['indexed', 'pending', 'skipped', 'failed'];

function CoverageSection({ status, owner, mayIndex, showReasons, openPreview }) {
  const { coverage, upkeep } = status;
  const share = coverage.found ? coverage.indexed / coverage.found : 0;
  return html`<${Section} title=${t('coverage')}>
    <p class="coverage-headline"><strong>${formatNumber(Math.floor(share * 1000) / 10, 1)} %</strong>
      <span>${tn('coverage_sentence', coverage.found, { indexed: formatNumber(coverage.indexed) })}</span></p>
    <div class="stacked-bar" aria-hidden="true">${COVERAGE_PARTS.filter((part) => coverage[part] > 0).map((part) => html`<span key=${part}
      class=${`part-${part}`} style=${{ flexGrow: coverage[part] }}></span>`)}</div>
    <ul class="legend">${COVERAGE_PARTS.map((part) => html`<li key=${part}><span class=${`swatch part-${part}`} aria-hidden="true"></span>
      ${t(`state_name_${part}`)} <strong class="numbers">${formatNumber(coverage[part])}</strong></li>`)}
      ${coverage.awaiting_vectors > 0 && html`<li>${t('awaiting_vectors')} <strong class="numbers">${formatNumber(coverage.awaiting_vectors)}</strong></li>`}</ul>
    ${coverage.awaiting_vectors > 0 && html`<p class="hint">${t('awaiting_vectors_explain')}</p>`}
    ${upkeep?.unread_pictures > 0 && html`<p class="hint">${tn('unread_pictures', upkeep.unread_pictures)}</p>`}
    <${ReasonList} coverage=${coverage} isWanted=${showReasons} openPreview=${openPreview} mayIndex=${mayIndex} />
    ${owner && html`<p class="hint">${t('coverage_left_out')} <${FolderRules} /></p>`}
  <//>`;
}

/** A link to the rules that leave out files. */
function FolderRules() {
  return html`<${Link} path="/ui/settings" params=${{ section: 'folders', show: 'left_out' }}>${t('missing_folders')}<//>`;
}

/** Why files cannot be searched. A link to `/ui/status?show=reasons` leads here. */
function ReasonList({ coverage, isWanted, openPreview, mayIndex }) {
  const heading = useRef(null);
  useEffect(() => {
    if (!isWanted) return;
    heading.current?.scrollIntoView();
    heading.current?.focus();
  }, [isWanted]);
  const reasons = Object.entries(coverage.reasons || {}).sort((one, other) => other[1] - one[1]);
  if (!reasons.length && !coverage.pending) return null;
  return html`<h3 ref=${heading} tabindex="-1">${t('not_searchable')}</h3><div class="reason-list">
    ${coverage.pending > 0 && html`<${Disclosure} title=${html`<strong>${t('state_name_pending')}</strong> <span class="count">${formatNumber(coverage.pending)}</span>`}>
      <p>${t('pending_explain')}</p><${FileList} query=${{ state: 'pending' }} label=${t('state_name_pending')} openPreview=${openPreview} /><//>`}
    ${reasons.map(([reason, count]) => {
      const { name, explanation } = reasonText(reason);
      return html`<${Disclosure} key=${reason} title=${html`<strong>${name}</strong> <span class="count">${formatNumber(count)}</span>
        <span class="muted reason-explanation">${explanation}</span>`}>
        <${FileList} query=${{ reason }} label=${name} openPreview=${openPreview} mayIndex=${mayIndex} /><//>`;
    })}</div>`;
}

/** The files of a state or reason, a hundred at a time. */
function FileList({ query, label, openPreview, mayIndex }) {
  const [files, setFiles] = useState([]);
  const [total, setTotal] = useState(null);
  const { run, busy, error } = useAction();
  const more = useCallback(() => run(async () => {
    const answer = await post('/v1/files', { ...query, limit: FILES_PER_PAGE, offset: files.length });
    setTotal(answer.total);
    setFiles((old) => [...old, ...answer.files]);
  }), [files.length]);
  useEffect(() => { more(); }, []);
  const isLast = total <= files.length + FILES_PER_PAGE;
  const onMore = ({ currentTarget }) => {
    // The button goes with the last part, so the focus moves to the table.
    if (isLast) currentTarget.closest('.disclosure').querySelector('.table-region')?.focus();
    if (!busy) more();
  };
  return html`<${FileTable} files=${files} label=${label} openPreview=${openPreview} mayIndex=${mayIndex} />
    ${error && html`<${Message} error=${error} actions=${html`<${Button} onClick=${more}>${t('try_again')}<//>`} />`}
    <div class="button-row"><span role="status" class="muted">${busy ? t('loading') : total !== null && tn('count_of', total, { shown: formatNumber(files.length) })}</span>
      ${total > files.length && html`<${Button} onClick=${onMore}>${t('load_more')}<//>`}</div>`;
}

const isRetried = (file) => file.state === 'failed';

/** Reads a file again whose reading failed, once its cause is mended. */
function ReadAgain({ path }) {
  const { run, busy, error } = useAction();
  const [started, setStarted] = useState(false);
  const start = () => run(async () => { await post('/v1/index/start', { root: path, full: true }); setStarted(true); });
  if (started) return html`<span role="status" class="muted">${t('file_again_started')}</span>`;
  return html`<${Button} icon="refresh" aria-label=${`${t('file_again')}: ${visibleText(path, true)}`} disabled=${busy} onClick=${start}>${t('file_again')}<//>
    <${Message} error=${error} />`;
}

function FileTable({ files, label, openPreview, mayIndex, withReason }) {
  const columns = [
    { name: 'path', title: t('column_file'), cell: (file) => (file.state === 'indexed'
      ? html`<button type="button" class="link-button path" onClick=${() => openPreview({ path: file.path })}><${PathText} path=${file.path} /></button>`
      : html`<${PathText} path=${file.path} />`) },
    withReason && { name: 'state', title: t('column_state'), cell: (file) => html`<${StateTag} state=${file.state} />` },
    withReason && { name: 'reason', title: t('column_why'), cell: (file) => html`<${ReasonCell} file=${file} />` },
    !withReason && { name: 'detail', title: t('column_detail') },
    { name: 'size', title: t('facet_size'), number: true, cell: (file) => formatBytes(file.size) },
    { name: 'modified', title: t('column_modified'), cell: (file) => formatDate(file.modified) },
    mayIndex && files?.some(isRetried) && { name: 'action', title: t('column_action'), cell: (file) => isRetried(file) && html`<${ReadAgain} path=${file.path} />` },
  ].filter(Boolean);
  return html`<${DataTable} label=${label} columns=${columns} rows=${files} rowKey=${(file) => file.path} />`;
}

function ReasonCell({ file }) {
  if (file.state === 'pending') return t('pending_explain');
  if (!file.reason) return file.chunks ? tn('file_passages', file.chunks) : '';
  const { name, explanation } = reasonText(file.reason);
  return html`<strong>${name}.</strong> ${explanation} ${file.detail && html`<bdi class="muted">${visibleText(file.detail)}</bdi>`}`;
}

/** What the daemon says about a path that it does not know, such as the rule that leaves the file out. */
async function explainPath(path) {
  try {
    await post('/v1/read', { path });
  } catch (error) {
    if (error.status === 404) return error;
  }
  return null;
}

/** What the daemon says about files below the roots that are not known but have these words in their names. */
async function explainWords(words, roots) {
  const checks = await Promise.all(roots.map(({ path }) => post('/v1/roots/check', { path, words })));
  const paths = checks.flatMap(({ path, left_out: rules }) => rules.flatMap((rule) => rule.examples.map((example) => `${path}/${example}`)));
  return Promise.all([...new Set(paths)].slice(0, EXPLAINED_FILES).map(explainPath)).then((errors) => errors.filter(Boolean));
}

/** Looks a missing file up. A link to `/ui/status?missing=NAME` leads here. */
function MissingFileSection({ missing = '', roots, openPreview, mayIndex }) {
  const [words, setWords] = useState(missing);
  const form = useRef(null);
  const [answer, setAnswer] = useState(null);
  const { run, busy, error } = useAction();
  const look = () => run(async () => {
    const isPath = words.includes('/');
    const name = isPath ? words.trim().replace(/\/+$/, '').split('/').pop() : words;
    const nameWords = name.split(/\s+/).filter(Boolean);
    const found = await post('/v1/files', { words: nameWords, limit: SEARCHED_FILES });
    const isKnown = found.files.some((file) => file.path === words.trim());
    const explained = isPath && !isKnown ? [await explainPath(words.trim())].filter(Boolean) : [];
    setAnswer({ ...found, unknown: explained, looksFurther: !explained.length && !isKnown });
    if (!explained.length && !isKnown) setAnswer({ ...found, unknown: await explainWords(nameWords, roots) });
  });
  useEffect(() => {
    if (!missing) return;
    look();
    form.current.scrollIntoView({ block: 'center' });
    form.current.querySelector('input').focus();
  }, []);
  return html`<div ref=${form}><${Section} title=${t('missing_title')}>
    <${Form} class="inline-form" onSubmit=${look}>
      <${TextField} type="search" label=${t('missing_label')} hint=${t('missing_hint')} value=${words} onInput=${setWords} />
      <${Button} type="submit" disabled=${busy || !words.trim()}>${t('missing_submit')}<//><//>
    <${Message} error=${error} />
    ${answer?.warnings?.map((warning) => html`<${Message} key=${warning} kind="warning"><p><bdi>${visibleText(warning)}</bdi></p><//>`)}
    ${answer?.unknown.map((error) => html`<${Message} key=${error.message} kind="warning" error=${error} />`)}
    ${answer?.unknown.length > 0 && html`<p class="muted">${t('missing_rules')} <${FolderRules} /></p>`}
    <div role="status">${answer && (answer.total === 0 ? !answer.unknown.length && (answer.looksFurther ? html`<${Loading} />` : html`<p>${t('missing_unknown')} <${FolderRules} /></p>`)
      : html`<p class="muted">${tn('count_of', answer.total, { shown: formatNumber(answer.files.length) })}</p>`)}</div>
    <${FileTable} files=${answer?.files} label=${t('missing_title')} openPreview=${openPreview} mayIndex=${mayIndex} withReason />
  <//></div>`;
}

function JobsSection({ status, mayIndex, owner }) {
  const running = status.running_jobs;
  // The list of past jobs changes when a running job ends or a new one starts.
  const past = useLoad((options) => get('/v1/jobs', { limit: 20 }, options), [running.map((job) => job.job_id + job.state).join()]);
  const ended = (past.data?.jobs || []).filter((job) => !['queued', 'running'].includes(job.state));
  return html`<${Section} title=${t('jobs')} actions=${owner && html`<${PauseControl} paused=${status.paused} />`}>
    ${status.paused && html`<${Message} kind="warning" text=${pauseText(status.paused)} />`}
    ${running.length === 0 && html`<p class="muted">${t('jobs_none')}</p>`}
    <ul class="job-list">${running.map((job) => html`<${RunningJob} key=${job.job_id} job=${job} mayIndex=${mayIndex} />`)}</ul>
    <${LoadState} request=${past} />
    ${ended.length > 0 && html`<${Disclosure} title=${tn('jobs_past', ended.length)}><${PastJobs} jobs=${ended} /><//>`}
  <//>`;
}

function pauseText(paused) {
  const reason = paused.reason === 'battery' ? t('paused_battery') : t('paused_asked');
  return paused.until_ms ? `${reason} ${t('paused_until', { time: formatDate(paused.until_ms, true) })}` : reason;
}

/** The folders or files of a job. */
function jobPaths(job) {
  const request = job.request || {};
  const paths = request.paths || (request.root ? [request.root] : []);
  return html`${paths.slice(0, 3).map((path) => html`<${PathText} key=${path} path=${path} /> `)}${paths.length > 3 && `+${paths.length - 3}`}`;
}

function RunningJob({ job, mayIndex }) {
  const { run, busy, error } = useAction();
  const cancel = () => run(() => post('/v1/jobs/cancel', { job_id: job.job_id }));
  return html`<li class="job"><div class="job-head"><${StateTag} state=${job.state} /><span class="job-paths">${jobPaths(job)}</span>
      ${mayIndex && html`<${Button} icon="close" disabled=${busy} onClick=${cancel}>${t('cancel')}<//>`}</div>
    <${JobProgress} job=${job} />
    ${job.last_error && html`<p class="muted"><bdi>${visibleText(job.last_error)}</bdi></p>`}
    <${Message} error=${error} /></li>`;
}

function PastJobs({ jobs }) {
  return html`<${DataTable} label=${t('jobs')} rows=${jobs} rowKey=${(job) => job.job_id} columns=${[
    { name: 'finished_ms', title: t('column_time'), cell: (job) => formatDate(job.finished_ms || job.created_ms, true) },
    { name: 'state', title: t('column_state'), cell: (job) => html`<${StateTag} state=${job.state} />` },
    { name: 'paths', title: t('facet_folder'), cell: jobPaths },
    // A scan is counted again when its words are read.
    { name: 'files_done', title: t('column_files_read'), number: true, cell: (job) => formatNumber(Math.min(job.files_done, job.files_found || job.files_done)) },
    { name: 'files_failed', title: t('state_name_failed'), number: true, cell: (job) => formatNumber(job.files_failed) },
    { name: 'seconds', title: t('column_duration'), cell: (job) => (job.started_ms && job.finished_ms ? formatDuration((job.finished_ms - job.started_ms) / 1000) : '') },
    { name: 'error', title: t('column_problem'), cell: (job) => html`<bdi>${visibleText(job.error || job.last_error || '')}</bdi>` },
  ]} />`;
}

const PAUSE_CHOICES = [['900', 'pause_15'], ['3600', 'pause_60'], ['14400', 'pause_240'], ['', 'pause_open']];

function PauseControl({ paused }) {
  const [seconds, setSeconds] = useState('3600');
  const { run, busy, error } = useAction();
  const pause = () => run(() => post('/v1/pause', seconds ? { seconds: Number(seconds) } : {}));
  const resume = () => run(() => post('/v1/resume', {}));
  return html`<${Message} error=${error} />
    ${paused ? html`<${Button} icon="play" disabled=${busy} onClick=${resume}>${t('resume')}<//>`
      : html`<${Select} aria-label=${t('pause_length')} value=${seconds} onChange=${setSeconds} options=${PAUSE_CHOICES.map(([value, key]) => [value, t(key)])} />
        <${Button} icon="pause" disabled=${busy} onClick=${pause}>${t('pause')}<//>`}`;
}

function watchText(watch) {
  if (!watch?.watching) return t('watch_off');
  const parts = [tn('watch_folders', watch.folders)];
  if (watch.missing) parts.push(tn('watch_missing', watch.missing));
  if (watch.overflows) parts.push(`${tn('watch_overflows', watch.overflows)}, ${tn('watch_rescans', watch.rescans)}`);
  if (watch.restarts) parts.push(tn('watch_restarts', watch.restarts));
  return parts.join(' · ');
}

/** How long the daemon runs, counted on from when its status came. */
function Uptime({ seconds }) {
  const start = useMemo(() => Date.now() - seconds * 1000, [seconds]);
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return formatDuration(Math.max(now - start, seconds * 1000) / 1000);
}

function HealthSection({ status }) {
  const mebibytes = (value) => formatBytes(value * 1024 * 1024);
  const languages = Object.entries(status.languages || {}).sort((one, other) => other[1] - one[1])
    .map(([code, count]) => `${languageName(code)} ${formatNumber(count)}`).join(', ');
  const { upkeep } = status;
  return html`<${Section} title=${t('health')}>
    <${Facts} facts=${[
      [t('health_memory'), t('health_memory_value', { now: mebibytes(status.rss_mib), peak: mebibytes(status.peak_rss_mib) })],
      [t('health_disk'), formatBytes(upkeep?.disk_free_bytes)],
      [t('health_store'), `${visibleText(upkeep?.store)} · ${formatBytes(status.store_bytes)} · ${tn('file_passages', status.chunks)}`],
      [t('health_upkeep'), visibleText(upkeep?.now)],
      [t('health_model'), html`<bdi>${visibleText(status.embed_model)}</bdi>`],
      [t('health_languages'), languages],
      [t('health_watcher'), watchText(status.watch)],
      [t('health_polled'), status.watch?.polled?.map((path) => html`<${PathText} key=${path} path=${path} /> `)],
      [t('settings_privacy'), word('privacy', status.privacy_mode).split('|')[0]],
      [t('health_data_dir'), html`<${PathText} path=${status.data_dir} />`],
      [t('health_uptime'), html`<${Uptime} seconds=${status.uptime_seconds} />`],
      [t('health_version'), visibleText(status.version)],
    ].filter(([, value]) => !Array.isArray(value) || value.length > 0)} />
    ${status.memory_caps?.length > 0 && html`<${Disclosure} title=${t('health_caps')}><${Facts}
      facts=${status.memory_caps.map((cap) => [visibleText(cap.part), mebibytes(cap.mib)])} /><//>`}
    <${Command} text="vic doctor" />
  <//>`;
}
