/** The shell of the page: session, router, navigation, login, banner, help. */
import { html, render, useState, useEffect, useRef, useCallback, useErrorBoundary } from './vendor/preact-htm.js';
import { addressOf, get, post, onSessionEnd, onConnection, onTokenChange, setSessionToken, isAbort } from './api.js';
import { t, tn, loadTexts, onLanguage } from './i18n.js';
import { Button, Dialog, Form, Icon, Link, Loading, Message, Toast, focusAll, formatNumber, visibleText } from './components.js';
import { useAction, useKeys } from './hooks.js';
import { SearchView } from './search.js';

const STATUS_INTERVAL_MS = 10000;

/** Views that are loaded when they are first shown; a module that is missing breaks only its view. */
const VIEWS = {
  '/ui/status': { load: () => import('./status.js').then((module) => module.StatusView), title: 'nav_status' },
  '/ui/graph': { load: () => import('./graph.js').then((module) => module.GraphView), title: 'nav_graph' },
  '/ui/corpus': { load: () => import('./corpus.js').then((module) => module.CorpusView), title: 'nav_corpus' },
  '/ui/settings': { load: () => import('./settings.js').then((module) => module.SettingsView), title: 'nav_settings' },
  '/ui/setup': { load: () => import('./setup.js').then((module) => module.SetupView), title: 'nav_setup' },
};
const NAVIGATION = ['/ui/', '/ui/status', '/ui/graph', '/ui/corpus', '/ui/settings'];

function readLocation() {
  const path = location.pathname === '/ui' ? '/ui/' : location.pathname;
  return { path, params: Object.fromEntries(new URLSearchParams(location.search)) };
}

/** The place of the page, which the address bar holds: `[{path, params}, navigate]`. */
function useRouter() {
  const [place, setPlace] = useState(readLocation);
  useEffect(() => {
    const restore = () => setPlace(readLocation());
    addEventListener('popstate', restore);
    return () => removeEventListener('popstate', restore);
  }, []);
  const navigate = useCallback((path, params, { replace = false } = {}) => {
    const address = addressOf(path, params);
    if (address !== location.pathname + location.search) {
      history[replace ? 'replaceState' : 'pushState'](null, '', address);
    }
    setPlace(readLocation());
  }, []);
  return [place, navigate];
}

/** Logs in with the one-time code of the fragment, or finds the session of the cookie. */
async function startSession() {
  const code = new URLSearchParams(location.hash.slice(1)).get('code');
  if (code) {
    // The code must not stay in the address bar or in the history.
    history.replaceState(null, '', location.pathname + location.search);
    try {
      return await post('/ui/session', { code });
    } catch (error) {
      // A code that was used before (a reload) does no harm while the session of the cookie is still there.
      return get('/ui/session').catch(() => { throw Object.assign(error, { ofCode: true }); });
    }
  }
  return get('/ui/session');
}

/** Looks for a session that another page of this browser may have opened, for instance by `vic ui`. */
function useOtherSession(isNeeded, find) {
  useEffect(() => {
    if (!isNeeded) return undefined;
    const look = () => { if (document.visibilityState === 'visible') find(); };
    const stop = onTokenChange(find);
    document.addEventListener('visibilitychange', look);
    return () => {
      stop();
      document.removeEventListener('visibilitychange', look);
    };
  }, [isNeeded]);
}

/** The session: `undefined` while it is looked for, `null` if there is none. */
function useSession() {
  const [session, setSession] = useState(undefined);
  const [ended, setEnded] = useState(false);
  const sessionRef = useRef(null);
  sessionRef.current = session;
  const [error, setError] = useState(null);
  const accept = useCallback((next) => {
    // Only a login brings a token.
    if (next.csrf) setSessionToken(next.csrf);
    setSession(next);
    setEnded(false);
    setError(null);
  }, []);
  const find = useCallback(() => startSession().then(accept, (failure) => {
    if (failure.status !== 401 || failure.ofCode) setError(failure);
    if (failure.status !== 0) setSession((old) => old || null);
  }), []);
  useEffect(() => {
    find();
    // A new code, from `vic ui --print`, may be pasted into the address of the open page.
    addEventListener('hashchange', find);
    return () => removeEventListener('hashchange', find);
  }, []);
  useEffect(() => onSessionEnd(() => setEnded(true)), []);
  useOtherSession(!session || ended, find);
  useEffect(() => onConnection((isAway) => {
    if (isAway) return;
    if (sessionRef.current) {
      // A new object makes the views ask again for what failed while the daemon was away.
      setSession({ ...sessionRef.current });
    } else {
      find();
    }
  }), []);
  return { session, ended, error, accept };
}

/** The status of the daemon, read every ten seconds while the page is visible and has a session. */
function useStatus(session, ended) {
  const [status, setStatus] = useState(null);
  useEffect(() => {
    if (!session || ended) return undefined;
    const controller = new AbortController();
    const read = () => {
      if (document.visibilityState !== 'visible') return;
      get('/v1/status', null, { signal: controller.signal }).then(setStatus, (error) => {
        // A daemon that is away has the banner, an ended session has the login: nothing else to show here.
        if (!isAbort(error) && error.status !== 0 && error.status !== 401) setStatus({ error });
      });
    };
    read();
    const timer = setInterval(read, STATUS_INTERVAL_MS);
    document.addEventListener('visibilitychange', read);
    return () => {
      controller.abort();
      clearInterval(timer);
      document.removeEventListener('visibilitychange', read);
    };
  }, [session, ended]);
  return status;
}

function LoginForm({ accept, error: firstError }) {
  const [key, setKey] = useState('');
  const { run, busy, error } = useAction();
  const logIn = () => {
    run(async () => accept(await post('/ui/session', { key: key.trim() })));
  };
  // The code of the address may be tried while the form is shown.
  const shownError = error || firstError;
  return html`<${Form} class="login-form" onSubmit=${logIn}>
    <p>${t('login_explain')}</p>
    <pre class="command" tabindex="0" aria-label=${t('login_command')}>vic ui</pre>
    <label class="field"><span>${t('login_key')}</span>
      <input type="password" autocomplete="off" spellcheck="false" value=${key} onInput=${(event) => setKey(event.target.value)} /></label>
    <${Message} error=${shownError} />
    <${Button} type="submit" variant="primary" disabled=${busy || !key.trim()}>${t('login_submit')}<//>
  <//>`;
}

/** A short sentence on the state of the index, which leads to the status view. */
function StatusBadge({ status, navigate }) {
  if (!status || status.error) return null;
  const { found, indexed } = status.coverage;
  const running = status.running_jobs.find((job) => job.state === 'running');
  let kind = 'good';
  let text = tn('count_files', indexed);
  if (status.degraded.length > 0) {
    kind = 'warning';
    text = t('badge_degraded');
  } else if (status.paused) {
    kind = 'paused';
    text = t('badge_paused');
  } else if (running) {
    kind = 'running';
    text = t('badge_running', { indexed: formatNumber(indexed), found: formatNumber(found) });
  }
  const title = [tn('badge_title', found, { indexed: formatNumber(indexed) }), ...status.degraded].join('\n');
  return html`<${Link} class=${`badge badge-${kind}`} path="/ui/status" navigate=${navigate} title=${title}>
    <span class="badge-dot" aria-hidden="true"></span>${text}<//>`;
}

function Navigation({ session, place, navigate, lastSearch, status, onHelp }) {
  const paramsOf = (path) => (path === '/ui/' && place.path !== '/ui/' ? lastSearch : {});
  return html`<header class="topbar">
    <${Link} class="brand" path="/ui/" navigate=${navigate}>
      <span class="brand-mark" aria-hidden="true"><${Icon} name="search" size=${14} /></span>vic<//>
    <nav class="topnav" aria-label=${t('nav_label')}>
      ${NAVIGATION.map((path) => html`<${Link} key=${path} path=${path} params=${paramsOf(path)} navigate=${navigate}
        aria-current=${place.path === path ? 'page' : undefined}>${t(VIEWS[path]?.title || 'nav_search')}<//>`)}
    </nav>
    ${!session.owner && html`<${Link} class="badge" path="/ui/settings" params=${{ section: 'sessions' }} navigate=${navigate}>
      <span class="visually-hidden">${t('session_holder')} </span><bdi>${visibleText(session.holder, true)}</bdi><//>`}
    <${StatusBadge} status=${status} navigate=${navigate} />
    <${Button} icon="help" label=${t('help_title')} variant="plain" onClick=${onHelp} />
  </header>`;
}

const HELP_KEYS = [
  ['/', 'key_focus'], ['Enter', 'key_enter'], ['↑ ↓', 'key_arrows'], ['Enter', 'key_enter_hit'], ['Esc', 'key_escape'],
  ['Space', 'key_space'], ['n', 'key_next'], ['Shift+N', 'key_previous'], ['w', 'key_why'],
  ['Alt+↓', 'key_suggestions'], ['Home End', 'key_home_end'], ['?', 'key_help'],
];
const HELP_OPERATORS = [
  ['"spare key"', 'operator_phrase'], ['+lease', 'operator_required'], ['-draft', 'operator_excluded'], ['ext:pdf', 'operator_ext'], ['name:budget', 'operator_name'],
  ['path:2026/letters', 'operator_path'], ['from:anna', 'operator_author'], ['after:2026-03', 'operator_after'], ['before:7d', 'operator_before'],
  ['size:>5MB', 'operator_size'], ['lang:de', 'operator_lang'], ['owner:anna', 'operator_owner'],
];

function HelpDialog({ onClose }) {
  return html`<${Dialog} title=${t('help_title')} onClose=${onClose}>
    <h3>${t('help_keys')}</h3>
    <dl class="key-list">${HELP_KEYS.map(([key, text]) => html`<div key=${text}><dt><kbd>${key}</kbd></dt><dd>${t(text)}</dd></div>`)}</dl>
    <h3>${t('help_operators')}</h3>
    <dl class="key-list">${HELP_OPERATORS.map(([operator, text]) => html`<div key=${text}><dt><code>${operator}</code></dt><dd>${t(text)}</dd></div>`)}</dl>
    <p>${t('help_operators_explain')}</p>
  <//>`;
}

/** Loads the module of a view and renders it; an error of loading is shown in its place. */
function LazyView({ path, ...props }) {
  const [loaded, setLoaded] = useState({});
  useEffect(() => {
    let current = true;
    VIEWS[path].load().then(
      (View) => current && setLoaded({ path, View }),
      (error) => current && setLoaded({ path, error }),
    );
    return () => { current = false; };
  }, [path]);
  if (loaded.path !== path) return html`<main id="main" class="view"><${Loading} /></main>`;
  if (loaded.error || !loaded.View) {
    return html`<main id="main" class="view"><h1>${t(VIEWS[path].title)}</h1>
      <${Message} error=${loaded.error || new Error(path)}>${t('view_failed')}<//></main>`;
  }
  return html`<${ViewBoundary} key=${path}><main id="main" class="view" tabindex="-1"><${loaded.View} ...${props} /></main><//>`;
}

/** Shows an error of a view in its place. */
function ViewBoundary({ children }) {
  const [error] = useErrorBoundary();
  return error ? html`<main id="main" class="view"><${Message} error=${error}>${t('view_failed')}<//></main>` : children;
}

function DaemonBanner() {
  const [away, setAway] = useState(false);
  useEffect(() => onConnection(setAway), []);
  return html`<div role="alert">${away && html`<div class="banner">
    <${Icon} name="warning" /><span>${t('daemon_away')}</span></div>`}</div>`;
}

function useLanguageRerender() {
  const [, setName] = useState('');
  useEffect(() => onLanguage(setName), []);
}

function App() {
  useLanguageRerender();
  const [place, navigate] = useRouter();
  const { session, ended, error, accept } = useSession();
  const status = useStatus(session, ended);
  const [help, setHelp] = useState(false);
  const openHelp = useCallback(() => setHelp(true), []);
  // From another view, "Search" and a preview lead back to the search that was left.
  const lastSearch = useRef({});
  if (place.path === '/ui/') lastSearch.current = place.params;
  const focusSearch = useCallback(() => {
    if (!document.getElementById('search-box')) navigate('/ui/', lastSearch.current);
    // The search view may have to be rendered first.
    setTimeout(() => focusAll(document.getElementById('search-box')), 30);
  }, [navigate]);
  const openPreview = useCallback((target) => navigate('/ui/', { ...lastSearch.current, ...previewParams(target) }), [navigate]);
  // The help and the search box can be reached from every view.
  const keys = { '?': openHelp, '/': focusSearch };
  useKeys((key) => { keys[key]?.(); return key in keys; }, [openHelp, focusSearch]);
  const viewName = place.path === '/ui/' ? place.params.q || t('nav_search') : t(VIEWS[place.path]?.title || 'nav_search');
  useEffect(() => { document.title = `${viewName} - vic`; }, [viewName]);
  if (session === undefined && !error) return html`<${DaemonBanner} /><main class="view"><${Loading} /></main>`;
  if (!session) return html`<${DaemonBanner} /><${LoginPage} accept=${accept} error=${error} />`;
  const props = { session, navigate, openPreview, params: place.params, status };
  return html`<a class="skip-link" href="#main" onClick=${skipToMain}>${t('skip_to_content')}</a>
    <${Navigation} session=${session} place=${place} navigate=${navigate} lastSearch=${lastSearch.current} status=${status} onHelp=${openHelp} />
    <${DaemonBanner} />
    ${VIEWS[place.path] ? html`<${LazyView} path=${place.path} ...${props} />` : html`<${ViewBoundary} key="search"><${SearchView} ...${props} /><//>`}
    ${help && html`<${HelpDialog} onClose=${() => setHelp(false)} />`}
    ${ended && html`<${Dialog} title=${t('session_ended')}><${LoginForm} accept=${accept} /><//>`}
    <${Toast} />`;
}

function LoginPage({ accept, error }) {
  return html`<main id="main" class="view login"><h1>${t('login_title')}</h1>
    <${LoginForm} accept=${accept} error=${error} /></main>`;
}

function skipToMain(event) {
  event.preventDefault();
  const main = document.getElementById('main');
  main.setAttribute('tabindex', '-1');
  main.focus();
}

/** The parameters of the address that open the preview of a file at a place. */
function previewParams({ path, page, lines, sheet, cell, part, member, query, quote }) {
  return { file: path, page, lines, sheet, cell, part, member, marks: query, quote };
}

// The chosen theme is applied before the first rendering; without the module the system's colours stay.
await Promise.allSettled([loadTexts(), import('./theme.js')]);
render(html`<${App} />`, document.getElementById('app'));
