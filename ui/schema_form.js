/** Forms that are generated from a JSON Schema: the kinds of schema that the verbs of the corpus API use. */
import { html } from './vendor/preact-htm.js';
import { t } from './i18n.js';
import { readable, visibleText } from './components.js';
import { Disclosure, Field, Select } from './components_views.js';

/** Fields that every verb has; they are shown in a part of their own. */
const COMMON_FIELDS = ['view', 'session', 'limit', 'offset', 'verbose', 'async', 'wait_ms', 'format'];
/** Fields that the page sets itself: it needs JSON and waits for jobs by asking again. */
const PAGE_FIELDS = ['wait_ms', 'async'];

/** The name of the field that chooses a form of a request (`form` or `action`), and its values. */
export function formsOf(schema) {
  if (!schema?.oneOf) return null;
  const [name] = ['form', 'action'].filter((key) => schema.oneOf.every((form) => form.properties?.[key]?.const !== undefined));
  return name ? { name, values: schema.oneOf.map((form) => form.properties[name].const) } : null;
}

/** The schema of one form of a request, or the schema itself if it has no forms. */
export function schemaOfForm(schema, form) {
  const forms = formsOf(schema);
  return forms ? schema.oneOf[Math.max(0, forms.values.indexOf(form))] : schema;
}

function typesOf(schema) {
  return [].concat(schema.type || []);
}

/** The value of a request for what was typed; `undefined` leaves the field out. */
function requestValue(schema, typed) {
  if (typed === undefined || typed === '') return undefined;
  if (schema.anyOf) return requestObject(mergedObject(schema), typed);
  const types = typesOf(schema);
  if (types.includes('object')) return requestObject(schema, typed);
  if (types.includes('array')) {
    const items = String(typed).split('\n').map((line) => line.trim()).filter(Boolean).map((line) => requestValue(schema.items, line));
    return items.length ? items : undefined;
  }
  if (types.includes('boolean')) return typed === 'true';
  const isNumber = types.some((type) => type === 'integer' || type === 'number') && /^-?\d+(\.\d+)?$/.test(String(typed).trim());
  return isNumber ? Number(typed) : typed;
}

/** A request object from typed values; `undefined` if it has no fields. */
export function requestObject(schema, typed) {
  const result = {};
  for (const [name, field] of Object.entries(schema.properties || {})) {
    const value = field.const ?? requestValue(field, typed?.[name]);
    if (value !== undefined) result[name] = value;
  }
  return Object.keys(result).length ? result : undefined;
}

/** Alternatives of objects (the filters of EXTRACT) as one object, for an alternative that is not known. */
function mergedObject(schema, title) {
  const chosen = schema.anyOf.find((alternative) => alternative.title === title);
  return chosen || { type: 'object', properties: Object.assign({}, ...schema.anyOf.map((alternative) => alternative.properties)) };
}

/**
 * The fields of an object. `values` are the typed values by name, `onChange(name, value)` changes one.
 * `problem` is `{field, message}` of an error, which is shown at its field.
 */
export function SchemaFields({ schema, values, onChange, problem }) {
  const names = Object.keys(schema.properties || {}).filter((name) => schema.properties[name].const === undefined);
  const own = names.filter((name) => !isCommon(schema, name));
  const common = names.filter((name) => isCommon(schema, name) && !PAGE_FIELDS.includes(name));
  const field = (name) => html`<${SchemaField} key=${name} name=${name} schema=${schema.properties[name]} value=${values[name]} values=${values}
    onChange=${(value) => onChange(name, value)} required=${schema.required?.includes(name)} problem=${problem?.field === name ? problem.message : null} />`;
  return html`${own.map(field)}${common.length > 0 && html`<${Disclosure} title=${t('corpus_common')}><div class="form-fields">${common.map(field)}</div><//>`}`;
}

function isCommon(schema, name) {
  const { format } = schema.properties;
  // Some forms have a format of their own, such as that of dates.
  if (name === 'format') return format.enum?.every((value) => ['json', 'yaml', 'csv'].includes(value));
  return COMMON_FIELDS.includes(name);
}

function rangeText(schema) {
  if (schema.minimum === undefined || schema.maximum === undefined || schema.maximum > 1e9) return '';
  return t('range', { from: schema.minimum, to: schema.maximum });
}

function SchemaField({ name, schema, value, values, onChange, required, problem }) {
  const object = schema.anyOf ? mergedObject(schema, values.schema) : schema;
  // The other names of a field are for programs.
  const description = visibleText(schema.description).replace(/; also [\w, ]+$/, '');
  // The name of the field is what a program sends, and what errors and the help call it.
  const label = html`<span lang="en">${readable(name)}</span>${name !== readable(name).toLowerCase() && html` <code class="muted">${name}</code>`}`;
  if (object.properties) {
    const inner = value || {};
    return html`<fieldset class="form-box field-grid"><legend>${label}${required && ` (${t('required')})`}</legend>${description && html`<p class="hint" lang="en">${description}</p>`}
      ${Object.entries(object.properties).map(([key, field]) => html`<${SchemaField} key=${key} name=${key} schema=${field} value=${inner[key]} values=${inner}
        onChange=${(next) => onChange({ ...inner, [key]: next })} required=${object.required?.includes(key)} />`)}</fieldset>`;
  }
  const words = [name === 'filter' && t('view_filter_hint'), typesOf(schema).includes('array') && t('one_per_line'), rangeText(schema)].filter(Boolean).join(' · ');
  const hint = (problem || description || words) && html`${problem && html`<span class="field-error">${visibleText(problem)}</span> `}
    <span lang="en">${description}</span>${description && words && ' · '}${words}`;
  return html`<${Field} label=${label} required=${required} hint=${hint}>${(id, hintId) => html`<${Control} id=${id} hintId=${hintId} schema=${schema} value=${value ?? ''}
    onChange=${onChange} required=${required} invalid=${Boolean(problem)} />`}<//>`;
}

function Control({ id, hintId, schema, value, onChange, required, invalid }) {
  const common = { id, value, 'aria-describedby': hintId, 'aria-required': required ? 'true' : undefined, 'aria-invalid': invalid ? 'true' : undefined, onInput: (event) => onChange(event.target.value) };
  const types = typesOf(schema);
  const options = schema.enum || (types.includes('boolean') ? ['true', 'false'] : null);
  if (options) {
    // The names of views are those of the user.
    const text = (option) => (schema.areNames ? visibleText(option, true) : schema.enum ? readable(option) : t(`boolean_${option}`));
    return html`<${Select} ...${common} onInput=${undefined} onChange=${onChange} options=${[['', t('not_chosen')], ...options.map((option) => [String(option), text(option)])]} />`;
  }
  if (types.includes('array') || schema.maxLength > 400) return html`<textarea ...${common} rows="2" spellcheck="false"></textarea>`;
  const isNumber = types.length === 1 && ['integer', 'number'].includes(types[0]);
  return html`<input ...${common} type=${isNumber ? 'number' : 'text'} min=${schema.minimum} max=${isNumber ? schema.maximum : undefined}
    step=${types[0] === 'number' ? 'any' : undefined} spellcheck="false" autocomplete="off" />`;
}
