/** The colours of the page: as the system has them, light, or dark. The choice is kept in this browser. */

const STORAGE_KEY = 'vic-theme';

/** The choices, in the order of the switch. */
export const THEMES = ['system', 'light', 'dark'];

/** The chosen theme. */
export function theme() {
  const stored = localStorage.getItem(STORAGE_KEY);
  return THEMES.includes(stored) ? stored : 'system';
}

/** Marks the document with the chosen theme; `style.css` has the colours for the mark. */
function applyTheme() {
  const root = document.documentElement;
  if (theme() === 'system') delete root.dataset.theme;
  else root.dataset.theme = theme();
}

/** Chooses a theme and applies it. */
export function setTheme(name) {
  localStorage.setItem(STORAGE_KEY, name);
  applyTheme();
}

applyTheme();
