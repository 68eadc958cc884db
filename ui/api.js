/**
 * Access to the JSON API of the daemon: requests, errors, event streams, the token of the session,
 * and the state of the connection (is the daemon there?).
 */
import { t } from './i18n.js';

/** An error of the API (or of the network: then `status` is 0 and `code` is `unavailable`). */
export class ApiError extends Error {
  constructor({ status = 0, code = 'unknown', message = '', hint = null, field = null, answer = null }) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.code = code;
    this.hint = hint;
    this.field = field;
    /** The whole answer, which may say more, as those of the corpus API do. */
    this.answer = answer;
  }
}

const RETRY_FIRST_MS = 1000;
const RETRY_MAX_MS = 10000;

/**
 * The token of the session lies in the storage of the page, which belongs to its port; the cookie goes to every port of the
 * host, and opens nothing without the token. Other pages of this browser find the token here.
 */
const TOKEN_KEY = 'vic-session-token';
let daemonAway = false;
const sessionEndListeners = new Set();
const connectionListeners = new Set();

function subscribe(listeners, fn) {
  listeners.add(fn);
  return () => listeners.delete(fn);
}

/** Calls `fn` when a request was answered with 401. Returns a function that unsubscribes. */
export function onSessionEnd(fn) {
  return subscribe(sessionEndListeners, fn);
}

/** Calls `fn(isAway)` when the daemon stops or starts to answer. Returns a function that unsubscribes. */
export function onConnection(fn) {
  return subscribe(connectionListeners, fn);
}

/** Remembers the token that every request sends. */
export function setSessionToken(token) {
  try {
    localStorage.setItem(TOKEN_KEY, token || '');
  } catch {
    // Without storage the session lasts as long as the page.
  }
  sessionToken = token || '';
}

let sessionToken = '';

/** Calls `fn` when another page of this browser has opened a session. Returns a function that unsubscribes. */
export function onTokenChange(fn) {
  const listen = (event) => { if (event.key === TOKEN_KEY) fn(); };
  addEventListener('storage', listen);
  return () => removeEventListener('storage', listen);
}

/** The headers that show the session. */
function sessionHeaders() {
  try {
    // Another page may have opened a newer session.
    return { 'x-vic-csrf': localStorage.getItem(TOKEN_KEY) || sessionToken };
  } catch {
    return { 'x-vic-csrf': sessionToken };
  }
}

function setDaemonAway(isAway) {
  if (daemonAway === isAway) return;
  daemonAway = isAway;
  connectionListeners.forEach((fn) => fn(isAway));
  if (isAway) probeDaemon(RETRY_FIRST_MS);
}

/** Asks for the session until the daemon answers anything: the wait doubles up to ten seconds. */
function probeDaemon(delay) {
  setTimeout(async () => {
    try {
      const response = await fetch('/ui/session', { credentials: 'same-origin', cache: 'no-store' });
      if (response.status < 502 || response.status > 504) return setDaemonAway(false);
    } catch {
      // The daemon is still away: the next try follows below.
    }
    probeDaemon(Math.min(delay * 2, RETRY_MAX_MS));
  }, delay);
}

async function errorFrom(response) {
  // An answer that is not JSON (a proxy, an older daemon) has only its status line.
  const answer = await response.json().catch(() => null);
  const { code, message, hint, field } = answer?.error || {};
  return new ApiError({
    status: response.status, code, message: message || `HTTP ${response.status} ${response.statusText}`.trim(), hint, field, answer,
  });
}

/** Fetches a path with the session. */
function fetchOf(path, options) {
  return fetch(path, { credentials: 'same-origin', cache: 'no-store', ...options, headers: { ...sessionHeaders(), ...options?.headers } });
}

/** Sends a request and reads its answer by `read`. Throws ApiError, or an AbortError when `signal` was aborted. */
async function send(path, options, read) {
  let response;
  let answer;
  try {
    response = await fetchOf(path, options);
    // The connection may also be lost while the answer is read.
    if (response.ok) answer = await read(response);
  } catch (error) {
    if (isAbort(error)) throw error;
    setDaemonAway(true);
    throw new ApiError({ code: 'unavailable', message: t('no_answer') });
  }
  if (response.ok) {
    setDaemonAway(false);
    return answer;
  }
  const error = await errorFrom(response);
  if (response.status === 401) sessionEndListeners.forEach((fn) => fn(error));
  throw error;
}

/** Sends a request for JSON. */
async function request(path, options) {
  const text = await send(path, options, (response) => response.text());
  return text ? JSON.parse(text) : null;
}

/** An address of a path with parameters, without the empty ones. */
export function addressOf(path, params) {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(params || {})) {
    if (value !== null && value !== undefined && value !== '') pairs.set(name, value);
  }
  const query = pairs.toString();
  return query ? `${path}?${query}` : path;
}

/** GET of JSON. */
export function get(path, params, { signal } = {}) {
  return request(addressOf(path, params), { method: 'GET', signal });
}

/** POST of JSON. */
export function post(path, body, { signal } = {}) {
  return request(path, {
    method: 'POST',
    signal,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body ?? {}),
  });
}

/** True for the error of a request that was aborted because a newer one replaced it. */
export function isAbort(error) {
  return error?.name === 'AbortError';
}

/** GET of a picture, as an address of this page that `URL.revokeObjectURL` frees. Throws as `get`. */
export async function getPicture(path, { signal } = {}) {
  return URL.createObjectURL(await send(path, { signal }, (response) => response.blob()));
}

/**
 * Opens a stream of server-sent events and opens it again after an interruption. `EventSource` cannot send the token of the
 * session, so the stream is read with `fetch`.
 * @param {string} path of the stream
 * @param {(data: any, name: string) => void} onEvent gets the parsed data and the name of each event
 * @param {(error: ApiError) => void} [onError] is called when the stream broke off (it is tried again)
 * @returns {() => void} stops the stream
 */
export function events(path, onEvent, onError) {
  const controller = new AbortController();
  let timer = null;
  let delay = RETRY_FIRST_MS;
  const open = async () => {
    try {
      const response = await fetchOf(path, { signal: controller.signal, headers: { accept: 'text/event-stream' } });
      if (!response.ok) throw await errorFrom(response);
      delay = RETRY_FIRST_MS;
      await readEvents(response.body, onEvent);
    } catch (error) {
      if (isAbort(error)) return;
      if (error.status === 401) sessionEndListeners.forEach((fn) => fn(error));
    }
    if (controller.signal.aborted) return;
    onError?.(new ApiError({ code: 'unavailable', message: t('status_not_live') }));
    timer = setTimeout(open, delay);
    delay = Math.min(delay * 2, RETRY_MAX_MS);
  };
  open();
  return () => {
    clearTimeout(timer);
    controller.abort();
  };
}

/** Reads events, which a blank line separates, until the stream ends. */
async function readEvents(body, onEvent) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split('\n\n');
    rest = parts.pop();
    for (const part of parts) {
      const lines = part.split('\n');
      const field = (name) => lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trimStart()).join('\n');
      // The daemon ends a stream by an error, for instance when the session ends: the next try tells which.
      if (field('event') === 'error') return;
      if (field('data')) onEvent(parseEventData(field('data')), field('event') || 'message');
    }
  }
}

function parseEventData(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
