/** The preview of a spreadsheet or a CSV file as a table, with the cells of the hit marked. */
import { html, useEffect, useState } from './vendor/preact-htm.js';
import { post } from './api.js';
import { t } from './i18n.js';
import { Button, Loading, Marked, Message, ReadError, formatNumber, visibleText } from './components.js';
import { useLoad } from './hooks.js';
import { BlocksView, useRegisterMore, useTextMarks } from './preview_text.js';

const FIRST_ROWS = 200;
const MAX_ROWS = 1000;

/** The column of a cell as a number ("A" is 1) and its row, or null. */
function parseCell(name) {
  const match = /^([A-Z]+)(\d+)$/.exec(name || '');
  if (!match) return null;
  return { column: [...match[1]].reduce((sum, letter) => sum * 26 + letter.charCodeAt(0) - 64, 0), row: Number(match[2]) };
}

/** The name of a column, such as "A" for 1. */
function columnName(number) {
  const rest = Math.floor((number - 1) / 26);
  return (rest ? columnName(rest) : '') + String.fromCharCode(65 + ((number - 1) % 26));
}

/** The corners of a range like "A2:G2"; a single cell is a range too. */
function parseRange(text) {
  const [first, last] = (text || '').split(':').map(parseCell);
  return first ? { first, last: last || first } : null;
}

/** A function that says whether a cell (its row's anchor and its index in the row) belongs to the hit. */
function targetCells({ anchor }, { rows, name }) {
  // Another sheet than that of the hit has the same names of cells.
  if (anchor.sheet && anchor.sheet !== name) return () => false;
  const range = parseRange(anchor.cell);
  if (range) {
    const isIn = (row) => row >= range.first.row && row <= range.last.row;
    const rowRanges = rows.map((row) => parseRange(row.anchor.cell));
    // A hit that is the whole table marks nothing: the marks of the words show where to look.
    if (rows.length > 1 && rowRanges.every((row) => row && isIn(row.first.row))) return () => false;
    return (row, column) => {
      const own = parseRange(row.anchor.cell);
      return own && isIn(own.first.row) && own.first.column + column >= range.first.column && own.first.column + column <= range.last.column;
    };
  }
  if (!anchor.line_start) return () => false;
  const end = anchor.line_end || anchor.line_start;
  const hasLine = (row) => row.anchor.line_start <= end && (row.anchor.line_end || row.anchor.line_start) >= anchor.line_start;
  return rows.length > 1 && rows.every(hasLine) ? () => false : hasLine;
}

function SwitchChip({ label, isCurrent, onClick }) {
  return html`<button type="button" class="chip" aria-pressed=${String(isCurrent)} onClick=${onClick}><bdi>${visibleText(label, true)}</bdi></button>`;
}

/** The sheets of a workbook and, if a sheet or a file without sheets has several tables, these. */
function TableSwitch({ data, choice, onSheet, onTable }) {
  const sheets = data.sheets.length > 1 ? data.sheets : [];
  const tables = data.tables > 1 && (!sheets.length || choice.sheet) ? data.tables : 0;
  if (!sheets.length && !tables) return html`${data.name && html`<p class="section-name"><bdi>${visibleText(data.name, true)}</bdi></p>`}`;
  const current = choice.table || 1;
  return html`${sheets.length > 0 && html`<div class="table-switch" role="group" aria-label=${t('sheets')}>
      ${sheets.map((name) => html`<${SwitchChip} key=${name} label=${name} isCurrent=${name === data.name} onClick=${() => onSheet(name)} />`)}</div>`}
    ${tables > 0 && html`<div class="table-switch" role="group" aria-label=${t('tables')}>
      ${Array.from({ length: tables }, (_, index) => html`<${SwitchChip} key=${index} isCurrent=${index + 1 === current} onClick=${() => onTable(index + 1)}
        label=${index + 1 === current && !sheets.length && data.name ? data.name : t('table_number', { number: index + 1 })} />`)}</div>`}`;
}

function Rows({ data, target, rangesOf }) {
  const isTarget = targetCells(target, data);
  let targetSeen = false;
  return html`<tbody>${data.rows.map((row) => {
    const marked = row.cells.map((_, column) => isTarget(row, column));
    const isFirst = !targetSeen && marked.some(Boolean);
    targetSeen ||= isFirst;
    return html`<tr key=${row.place} data-target=${isFirst ? '' : undefined}>
      <th scope="row" class="row-place">${row.anchor.cell ? parseRange(row.anchor.cell)?.first.row : row.anchor.line_start}</th>
      ${row.cells.map((cell, column) => html`<td key=${column} class=${`cell-${data.columns[column]?.kind || 'text'}${marked[column] ? ' target-cell' : ''}`}>
        <${Marked} text=${cell} ranges=${rangesOf(cell)} /></td>`)}</tr>`;
  })}</tbody>`;
}

/**
 * A table of a file.
 * @param {{path: string, target: object, find: string, registerMore: Function}} props
 */
export function TableView({ path, target, find, registerMore }) {
  const { anchor } = target;
  const targetRow = parseRange(anchor.cell)?.first.row || anchor.line_start || 0;
  const [choice, setChoice] = useState({});
  const limit = choice.limit || (targetRow > FIRST_ROWS * 0.8 ? MAX_ROWS : FIRST_ROWS);
  useEffect(() => setChoice({}), [anchor.sheet, anchor.cell]);
  const sheet = choice.sheet || anchor.sheet;
  const request = { path, sheet, table: choice.table, limit };
  const { data, error, loading } = useLoad((options) => post('/v1/table', request, options), [JSON.stringify(request)]);
  useEffect(() => {
    // A sheet may have several tables: the hit may lie below the first one.
    const last = data && !data.truncated && !choice.isChosen && parseRange(data.rows.at(-1)?.anchor.cell);
    const current = choice.table || 1;
    if (last && targetRow > last.last.row && current < data.tables) setChoice({ sheet, table: current + 1 });
  }, [data]);
  const texts = data ? [...data.columns.map((column) => column.name), ...data.rows.flatMap((row) => row.cells)] : [];
  const rangesOf = useTextMarks(find, target.query, texts.filter((text) => /\p{L}|\d{3}/u.test(text)));
  const canGrow = data?.truncated && limit < MAX_ROWS && !loading;
  const loadMore = canGrow ? () => setChoice({ ...choice, limit: MAX_ROWS }) : null;
  useRegisterMore(registerMore, loadMore);
  // A sheet may hold no table; a file that has gone gives the same error as text.
  if (error?.status === 404) return html`<${BlocksView} path=${path} target=${target} find=${find} registerMore=${registerMore} />`;
  if (error) return html`<${ReadError} error=${error} />`;
  if (!data) return html`<${Loading} />`;
  const firstColumn = parseRange(data.rows[0]?.anchor.cell)?.first.column;
  return html`<div class="table-view">
    <${TableSwitch} data=${data} choice=${{ ...choice, sheet }} onSheet=${(name) => setChoice({ sheet: name, isChosen: true })}
      onTable=${(table) => setChoice({ sheet, table, isChosen: true })} />
    ${anchor.part && target.quote && html`<${Message} kind="info"><p><strong><bdi>${visibleText(anchor.part, true)}</bdi></strong>
      ${' '}<bdi>${visibleText(target.quote)}</bdi></p><//>`}
    ${data.warnings?.map((warning) => html`<${Message} key=${warning} kind="warning" text=${warning} />`)}
    <table class="data-table"><caption class="visually-hidden">${visibleText(data.name || path.split('/').pop(), true)}</caption>
      <thead><tr><th scope="col" class="row-place"><span class="visually-hidden">${t('row')}</span></th>
        ${data.columns.map((column, index) => html`<th scope="col" key=${index}>${firstColumn && html`<span class="column-letter" aria-hidden="true">${columnName(firstColumn + index)}</span>`}<${Marked} text=${column.name} ranges=${rangesOf(column.name)} oneLine /></th>`)}</tr></thead>
      <${Rows} data=${data} target=${target} rangesOf=${rangesOf} /></table>
    <p class="muted">${t('rows_of', { shown: formatNumber(data.rows.length), total: formatNumber(data.total_rows) })}
      ${data.rows.length >= MAX_ROWS && ` ${t('rows_limit')}`}</p>
    ${loadMore && html`<${Button} onClick=${loadMore}>${t('load_more')}<//>`}
  </div>`;
}
