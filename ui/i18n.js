/** Texts of the page in English and German. The files in `texts/` map a key to a text with `{name}` places. */

const STORAGE_KEY = 'vic-language';
const FILES = { en: './texts/en.js', de: './texts/de.js' };

/** The languages of the page, in the order of the switch. */
export const LANGUAGES = Object.keys(FILES);

let texts = {};
let pluralRules = new Intl.PluralRules('en');
let counts = new Intl.NumberFormat('en');
let current = chooseLanguage();
const listeners = new Set();

function chooseLanguage() {
  const stored = localStorage.getItem(STORAGE_KEY);
  if (LANGUAGES.includes(stored)) return stored;
  return navigator.language.toLowerCase().startsWith('de') ? 'de' : 'en';
}

/** The language in use: `en` or `de`. */
export function language() {
  return current;
}

/** Loads the texts of the language in use. A file that cannot be loaded leaves its keys as they are. */
export async function loadTexts() {
  texts = await import(FILES[current]).then((module) => module.default, () => ({}));
  pluralRules = new Intl.PluralRules(current);
  counts = new Intl.NumberFormat(current);
  document.documentElement.lang = current;
}

/** Switches the language, remembers the choice and tells the listeners. */
export async function setLanguage(name) {
  if (!LANGUAGES.includes(name)) return;
  localStorage.setItem(STORAGE_KEY, name);
  current = name;
  await loadTexts();
  listeners.forEach((fn) => fn(name));
}

/** Calls `fn` after a switch of the language. Returns a function that unsubscribes. */
export function onLanguage(fn) {
  listeners.add(fn);
  return () => listeners.delete(fn);
}

/** The text of a key, with `{name}` replaced by `params.name`. A key without a text is shown as it is. */
export function t(key, params) {
  const text = texts[key] ?? key;
  if (!params) return text;
  return text.replace(/\{(\w+)\}/g, (place, name) => (name in params ? String(params[name]) : place));
}

/** True if there is a text for this key. */
export function hasText(key) {
  return key in texts;
}

/** The text of `key_one` or `key_other` for a count; `{count}` is the count in the local notation. */
export function tn(key, count, params) {
  const form = pluralRules.select(count) === 'one' ? 'one' : 'other';
  return t(`${key}_${form}`, { count: counts.format(count), ...params });
}
