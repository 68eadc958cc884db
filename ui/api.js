/**
 * Access to the JSON API of the daemon: requests, errors, event streams, the CSRF token of the session,
 * and the state of the connection (is the daemon there?).
 */

/** An error of the API (or of the network: then `status` is 0 and `code` is `unavailable`). */
export class ApiError extends Error {
  constructor({ status = 0, code = 'unknown', message = '', hint = null, field = null }) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.code = code;
    this.hint = hint;
    this.field = field;
  }
}

const RETRY_FIRST_MS = 1000;
const RETRY_MAX_MS = 10000;

let csrfToken = '';
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

/** Remembers the CSRF token that `post` sends. */
export function setCsrfToken(token) {
  csrfToken = token || '';
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
  let error = null;
  try {
    error = (await response.json()).error;
  } catch {
    // An answer that is not JSON (a proxy, an older daemon) has only its status line.
  }
  return new ApiError({
    status: response.status,
    code: error?.code,
    message: error?.message || `HTTP ${response.status} ${response.statusText}`.trim(),
    hint: error?.hint,
    field: error?.field,
  });
}

/** Sends a request. Throws ApiError, or an AbortError when `signal` was aborted. */
async function request(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: 'same-origin', cache: 'no-store', ...options });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    setDaemonAway(true);
    throw new ApiError({ code: 'unavailable', message: 'vicd does not answer' });
  }
  if (response.ok) {
    setDaemonAway(false);
    if (response.status === 204) return null;
    const text = await response.text();
    return text ? JSON.parse(text) : null;
  }
  const error = await errorFrom(response);
  if (response.status === 401) sessionEndListeners.forEach((fn) => fn(error));
  throw error;
}

/** Writes parameters as a query string, without empty ones. */
export function queryString(params) {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(params || {})) {
    if (value !== null && value !== undefined && value !== '') pairs.set(name, value);
  }
  const text = pairs.toString();
  return text ? `?${text}` : '';
}

/** GET of JSON. */
export function get(path, params, { signal } = {}) {
  return request(path + queryString(params), { method: 'GET', signal });
}

/** POST of JSON, with the CSRF token of the session. */
export function post(path, body, { signal } = {}) {
  return request(path, {
    method: 'POST',
    signal,
    headers: { 'content-type': 'application/json', 'x-vic-csrf': csrfToken },
    body: JSON.stringify(body ?? {}),
  });
}

/** True for the error of a request that was aborted because a newer one replaced it. */
export function isAbort(error) {
  return error?.name === 'AbortError';
}

/**
 * Opens a stream of server-sent events and opens it again after an interruption.
 * @param {string} path of the stream
 * @param {(data: any, name: string) => void} onEvent gets the parsed data and the name of each event
 * @param {(error: ApiError) => void} [onError] is called when the stream broke off (it is tried again)
 * @param {string[]} [names] of the events that are listened for
 * @returns {() => void} stops the stream
 */
export function events(path, onEvent, onError, names = ['status', 'progress', 'done', 'message']) {
  let source = null;
  let timer = null;
  let delay = RETRY_FIRST_MS;
  const open = () => {
    source = new EventSource(path);
    source.onopen = () => { delay = RETRY_FIRST_MS; };
    for (const name of names) {
      source.addEventListener(name, (event) => onEvent(parseEventData(event.data), name));
    }
    source.onerror = () => {
      source.close();
      onError?.(new ApiError({ code: 'unavailable', message: 'the event stream broke off' }));
      timer = setTimeout(open, delay);
      delay = Math.min(delay * 2, RETRY_MAX_MS);
    };
  };
  open();
  return () => {
    clearTimeout(timer);
    source.close();
  };
}

function parseEventData(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
