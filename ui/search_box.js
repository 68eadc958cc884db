/** The search box with its completions. */
import { html, useEffect, useRef, useState } from './vendor/preact-htm.js';
import { hasText, t } from './i18n.js';
import { Button, Icon, focusAll, visibleText } from './components.js';
import { useCompletions } from './search_requests.js';

/** What an operator means in the language of the page, or how many files have a value. */
function detailOf({ kind, label, detail }) {
  const name = label.slice(0, -1);
  const key = `operator_${name === 'from' ? 'author' : name}`;
  return kind === 'operator' && hasText(key) ? t(key) : visibleText(detail || '', true);
}

function CompletionList({ completions, active, onPick }) {
  return html`<ul class="completions" id="completions" role="listbox" aria-label=${t('completions_label')}>
    ${completions.items.map((item, index) => html`<li key=${index} id=${`completion-${index}`} role="option" class="completion"
      aria-selected=${String(index === active)} onMouseDown=${(event) => { event.preventDefault(); onPick(item); }}>
      <span class=${`completion-kind completion-${item.kind}`}>${t(`completion_${item.kind}`)}</span>
      <bdi class="completion-label">${visibleText(item.label, true)}</bdi>
      <span class="completion-detail"><bdi>${detailOf(item)}</bdi></span></li>`)}</ul>`;
}

/** The completions of the text, the active one, and the keys that move and use it. Index -1 is the text as it was typed. */
function useCompletionList(query, inputRef) {
  const { completions, ask, clear: hide } = useCompletions();
  const [active, setActive] = useState(-1);
  const clear = () => {
    hide();
    setActive(-1);
  };
  const pick = (item) => {
    query.type(query.text.slice(0, completions.from) + item.insert + query.text.slice(completions.to));
    clear();
    inputRef.current.focus();
  };
  const update = (text, cursor, all) => {
    setActive(-1);
    if (text || all) ask(text, cursor);
    else hide();
  };
  /** True if the key belongs to the list. */
  const onKey = ({ key, shiftKey }) => {
    if (!completions) return false;
    const count = completions.items.length;
    if (key === 'ArrowDown') setActive(active + 1 >= count ? -1 : active + 1);
    else if (key === 'ArrowUp') setActive(active < 0 ? count - 1 : active - 1);
    else if (key === 'Escape') clear();
    else if (key === 'Tab' && !shiftKey) pick(completions.items[Math.max(active, 0)]);
    else if (key === 'Enter' && active >= 0) pick(completions.items[active]);
    else return false;
    return true;
  };
  return { completions, active, pick, update, onKey, clear };
}

/** The search box: a combobox whose list holds completions; its arrow keys move the selection of the hits otherwise. */
export function SearchBox({ query, onSubmit, onListKey, onClose, selected, loading }) {
  const inputRef = useRef(null);
  const list = useCompletionList(query, inputRef);
  useEffect(() => { if (matchMedia('(min-width: 700px)').matches) focusAll(inputRef.current); }, []);
  const onKeyDown = (event) => {
    if (event.isComposing) return;
    const wantsAll = (event.altKey && event.key === 'ArrowDown') || (event.ctrlKey && event.key === ' ');
    if (wantsAll) list.update(query.text, event.target.selectionStart, true);
    else if (list.onKey(event)) { /* The list used the key. */ } else if (event.key === 'Enter') {
      list.clear();
      onSubmit();
    } else if (event.key === 'Escape') {
      if (onClose()) query.text ? query.submit('') : inputRef.current.blur();
    } else if (!onListKey(event)) return;
    event.preventDefault();
  };
  const { completions, active } = list;
  const option = completions && active >= 0 ? `completion-${active}` : undefined;
  return html`<form role="search" class="search-form" onSubmit=${(event) => event.preventDefault()}>
    <label class="visually-hidden" for="search-box">${t('search_label')}</label>
    <span class="search-icon"><${Icon} name="search" size=${18} /></span>
    <input id="search-box" ref=${inputRef} class="search-box" type="text" role="combobox" autocomplete="off" autocapitalize="off"
      spellcheck="false" enterkeyhint="search" placeholder=${t('search_placeholder')} value=${query.text} aria-autocomplete="list"
      aria-expanded=${String(Boolean(completions))} aria-controls=${completions ? 'completions' : 'results'}
      aria-activedescendant=${option || (!completions && selected >= 0 ? `hit-${selected}` : undefined)}
      onInput=${({ target }) => { query.type(target.value); list.update(target.value, target.selectionStart, false); }}
      onKeyDown=${onKeyDown} onBlur=${list.clear} />
    ${loading && html`<span class="spinner" aria-hidden="true"></span>`}
    ${query.text && html`<${Button} icon="close" label=${t('clear')} variant="plain" onClick=${() => { query.submit(''); inputRef.current.focus(); }} />`}
    ${!query.text && html`<kbd class="search-key" aria-hidden="true">/</kbd>`}
    ${completions && html`<${CompletionList} completions=${completions} active=${active} onPick=${list.pick} />`}
  </form>`;
}
