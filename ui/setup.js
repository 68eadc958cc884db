/** The first run: choose folders, see what would be left out, start indexing, and search as soon as the first words are there. */
import { html, useState, useEffect } from './vendor/preact-htm.js';
import { events, get, post } from './api.js';
import { t, tn } from './i18n.js';
import { Button, Form, Icon, Message, formatNumber, visibleText } from './components.js';
import {
  Command, JobProgress, LoadState, PathText, Section, SentenceWithCommands, StateTag, TextField, languageName,
} from './components_views.js';
import { FolderChooser, FolderCheck, PatternError, usePatterns, useSettings } from './folder_chooser.js';
import { useAction, useLoad } from './hooks.js';
import { useLiveStatus } from './status.js';

/** How often the model that fits is asked for while files are read: their languages become known by and by. */
const MODELS_INTERVAL_MS = 20000;

/** The view at `/ui/setup`. */
export function SetupView({ session, navigate, status: firstStatus }) {
  const { status } = useLiveStatus(firstStatus);
  const [folders, setFolders] = useState([]);
  const [jobs, setJobs] = useState([]);
  const settings = useSettings(session);
  const { patterns, setPatterns, changed, save } = usePatterns(settings);
  const addFolder = (path) => setFolders((old) => (old.includes(path) ? old : [...old, path]));
  const { run, busy, error } = useAction();
  const start = () => run(async () => {
    if (changed) await save();
    for (const root of folders) {
      const job = await post('/v1/index/start', { root });
      setJobs((old) => [...old, job.job_id]);
      setFolders((old) => old.filter((folder) => folder !== root));
    }
  });
  if (!session.owner) return html`<div class="page"><h1>${t('nav_setup')}</h1><${Message} kind="info" text=${t('owner_only')} /></div>`;
  return html`<div class="page page-narrow"><h1>${t('setup_title')}</h1><p class="muted lead">${t('setup_lead')}</p>
    <${Section} title=${t('setup_step_folders')}>
      <${FolderChooser} onChoose=${addFolder} chooseLabel=${t('setup_choose')} />
      <ul class="folder-cards">${folders.map((path) => html`<li key=${path} class="folder-card">
        <div class="job-head"><${Icon} name="folder" /><strong class="job-paths"><${PathText} path=${path} /></strong>
          <${Button} icon="close" onClick=${() => setFolders((old) => old.filter((folder) => folder !== path))}>${t('setup_drop')}<//></div>
        <${FolderCheck} path=${path} patterns=${patterns} onPatterns=${setPatterns} /></li>`)}</ul>
    <//>
    <${ModelSection} status=${status} />
    <${Section} title=${t('setup_step_start')}>
      <${PatternError} error=${error} settings=${settings} />
      ${jobs.length === 0 && html`<p class="muted">${t('setup_start_explain')}</p>`}
      ${(folders.length > 0 || jobs.length === 0) && html`<div class="button-row"><${Button} variant="primary" icon="play" disabled=${busy || folders.length === 0} onClick=${start}>
        ${folders.length ? tn('setup_start', folders.length) : t('setup_start_none')}<//></div>`}
      ${jobs.map((id) => html`<${StartedJob} key=${id} id=${id} />`)}
    <//>
    <${FirstSearch} status=${status} navigate=${navigate} started=${jobs.length > 0} />
  </div>`;
}

function ModelSection({ status }) {
  const hasFiles = status?.coverage.indexed > 0;
  const isRunning = status?.running_jobs.length > 0;
  const models = useLoad((options) => get('/v1/models', null, options), [hasFiles, isRunning]);
  useEffect(() => {
    const timer = isRunning && setInterval(models.reload, MODELS_INTERVAL_MS);
    return () => clearInterval(timer);
  }, [isRunning]);
  const suggestion = models.data?.suggestion;
  const languages = Object.keys(models.data?.languages || {}).map(languageName).join(', ');
  return html`<${Section} title=${t('setup_step_model')}>
    <${LoadState} request=${models} />
    ${models.data && html`<p>${t('setup_model_current')} <strong><bdi>${visibleText(models.data.current)}</bdi></strong></p>
      ${languages && html`<p class="muted">${t('setup_model_languages', { languages })}</p>`}
      ${suggestion ? html`<${Message} kind="info"><${SentenceWithCommands} text=${suggestion.reason} />
          ${!suggestion.reason.includes('`') && html`<${Command} text=${`vic models use ${suggestion.name}`} />`}<//>`
        : html`<p class="muted">${t(languages ? 'setup_model_fits' : 'setup_model_later')}</p>`}`}
  <//>`;
}

function StartedJob({ id }) {
  const [job, setJob] = useState(null);
  const [lost, setLost] = useState(null);
  useEffect(() => {
    const stop = events(`/v1/index/events?job_id=${encodeURIComponent(id)}`, (data, name) => {
      if (data?.job_id) setJob(data);
      setLost(null);
      // The daemon closes the stream after the end; opening it again would only repeat the last event.
      if (name === 'done') setTimeout(() => stop(), 0);
    }, setLost);
    return stop;
  }, [id]);
  if (!job) return html`<p role="status" class="muted">${t('setup_job_waiting')}</p>`;
  return html`<div class="job"><div class="job-head"><${StateTag} state=${job.state} /></div><${JobProgress} job=${job} />
    ${job.error && html`<${Message} kind="error" text=${job.error} />`}
    ${lost && !job.finished_ms && html`<p class="muted">${t('status_not_live')}</p>`}</div>`;
}

/** The search box that appears as soon as one file can be searched. */
function FirstSearch({ status, navigate, started }) {
  const [query, setQuery] = useState('');
  const indexed = status?.coverage.indexed || 0;
  const search = () => {
    if (query.trim()) navigate('/ui/', { q: query.trim() });
  };
  const title = indexed > 0 && t(started ? 'setup_ready_now' : 'setup_ready');
  // Only the sentence is told to screen readers, and once: the numbers change all the time.
  return html`<div role="status" class="visually-hidden">${title}</div>${title && html`<${Section} title=${title} class="panel-accent">
    <p>${tn('coverage_sentence', status.coverage.found, { indexed: formatNumber(indexed) })}</p>
    <${Form} class="inline-form" onSubmit=${search}>
      <${TextField} type="search" label=${t('search_label')} placeholder=${t('search_placeholder')} value=${query} onInput=${setQuery} />
      <${Button} type="submit" variant="primary" disabled=${!query.trim()}>${t('nav_search')}<//><//><//>`}`;
}
