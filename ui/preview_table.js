/** The preview of a spreadsheet or a CSV file as a table, with the cells of the hit marked. */
import { html, useEffect, useState } from './vendor/preact-htm.js';
import { post } from './api.js';
import { t, tn } from './i18n.js';
import { Loading, Marked, Message, ReadError, formatNumber, visibleText } from './components.js';
import { useLoad } from './hooks.js';
import { BlocksView, LoadMore, useRegisterMore, useTextMarks } from './preview_text.js';

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

/** The rows before the row of the hit that are shown with it. */
const ROWS_BEFORE_TARGET = 100;
/** A row of the hit that is beside the shown part is looked for so often; the first guess takes rows for lines. */
const MAX_GUESSES = 4;

const rowNumber = (row) => parseRange(row?.anchor.cell)?.first.row || row?.anchor.line_start || 0;

/** Where the part of a table that holds a row begins, after the part from `offset` on did not; `null` if the row is in it. */
function offsetOf(targetRow, { rows, truncated, matched_rows: total }, offset) {
  const [first, last] = [rowNumber(rows[0]), rowNumber(rows.at(-1))];
  if (!rows.length && offset > 0) return Math.max(0, total - FIRST_ROWS);
  if (targetRow < first && offset > 0) return Math.max(0, offset - (first - targetRow) - ROWS_BEFORE_TARGET);
  return targetRow > last && truncated ? offset + targetRow - last : null;
}

/** The part of a table that holds the row of the hit, and what shows another part, sheet or table. */
function useTable(path, { anchor }) {
  const targetRow = rowNumber({ anchor });
  const start = { offset: Math.max(0, targetRow - ROWS_BEFORE_TARGET), limit: FIRST_ROWS, guesses: 0 };
  const [choice, setChoice] = useState(start);
  useEffect(() => setChoice(start), [anchor.sheet, anchor.cell, anchor.line_start]);
  const sheet = choice.sheet || anchor.sheet;
  const { offset, limit, table } = choice;
  const request = { path, sheet, table, limit, offset };
  const { data, error, loading } = useLoad((options) => post('/v1/table', request, options), [JSON.stringify(request)]);
  useEffect(() => {
    if (!data || !targetRow || choice.isChosen || choice.guesses >= MAX_GUESSES) return;
    const next = offsetOf(targetRow, data, offset);
    const guesses = choice.guesses + 1;
    if (next !== null) setChoice({ ...choice, offset: next, guesses });
    // A sheet may have several tables: the hit may lie below the first one.
    else if (targetRow > rowNumber(data.rows.at(-1)) && (table || 1) < data.tables) setChoice({ ...start, sheet, table: (table || 1) + 1, offset: 0 });
  }, [data]);
  const show = (part) => setChoice({ ...choice, isChosen: true, ...part });
  return {
    data, error, loading, choice: { ...choice, sheet },
    showSheet: (name) => show({ sheet: name, table: undefined, offset: 0 }),
    showTable: (number) => show({ sheet, table: number, offset: 0 }),
    showEarlier: offset > 0 && !loading ? () => show({ offset: Math.max(0, offset - FIRST_ROWS), limit: Math.min(MAX_ROWS, limit + Math.min(offset, FIRST_ROWS)) }) : null,
    showMore: data?.truncated && limit < MAX_ROWS && !loading ? () => show({ limit: MAX_ROWS }) : null,
    showLater: data?.truncated && limit >= MAX_ROWS && !loading ? () => show({ offset: offset + MAX_ROWS }) : null,
  };
}

/** "Rows 401 to 600 of 5,000", or their number if all are shown. */
function rowsText({ rows, matched_rows: total }, offset) {
  if (rows.length === total) return tn('count_rows', total);
  return tn('rows_of', total, { from: formatNumber(offset + 1), to: formatNumber(offset + rows.length) });
}

function TableHead({ data, rangesOf }) {
  const firstColumn = parseRange(data.rows[0]?.anchor.cell)?.first.column;
  return html`<thead><tr><th scope="col" class="row-place"><span class="visually-hidden">${t('row')}</span></th>
    ${data.columns.map((column, index) => html`<th scope="col" key=${index}>
      ${firstColumn && html`<span class="column-letter" aria-hidden="true">${columnName(firstColumn + index)}</span>`}
      <${Marked} text=${column.name} ranges=${rangesOf(column.name)} oneLine /></th>`)}</tr></thead>`;
}

/**
 * A table of a file.
 * @param {{path: string, target: object, find: string, registerMore: Function}} props
 */
export function TableView({ path, target, find, registerMore }) {
  const { data, error, loading, choice, showSheet, showTable, showEarlier, showMore, showLater } = useTable(path, target);
  const { anchor } = target;
  const texts = data ? [...data.columns.map((column) => column.name), ...data.rows.flatMap((row) => row.cells)] : [];
  const rangesOf = useTextMarks(find, target.query, texts.filter((text) => /\p{L}|\d{3}/u.test(text)));
  useRegisterMore(registerMore, showMore, loading);
  // A sheet may hold no table; a file that has gone gives the same error as text.
  if (error?.status === 404) return html`<${BlocksView} path=${path} target=${target} find=${find} registerMore=${registerMore} />`;
  if (error) return html`<${ReadError} error=${error} />`;
  if (!data) return html`<${Loading} />`;
  return html`<div class="table-view">
    <${TableSwitch} data=${data} choice=${choice} onSheet=${showSheet} onTable=${showTable} />
    ${anchor.part && target.quote && html`<${Message} kind="info"><p><strong><bdi>${visibleText(anchor.part, true)}</bdi></strong>
      ${' '}<bdi>${visibleText(target.quote)}</bdi></p><//>`}
    ${data.warnings?.map((warning) => html`<${Message} key=${warning} kind="warning" text=${warning} />`)}
    ${showEarlier && html`<${LoadMore} icon="up" text="rows_earlier" onClick=${showEarlier} />`}
    <table class="data-table"><caption class="visually-hidden">${visibleText(data.name || path.split('/').pop(), true)}</caption>
      <${TableHead} data=${data} rangesOf=${rangesOf} />
      <${Rows} data=${data} target=${target} rangesOf=${rangesOf} /></table>
    <p class="muted">${rowsText(data, choice.offset)}</p>
    ${showMore && html`<${LoadMore} onClick=${showMore} />`}
    ${showLater && html`<${LoadMore} icon="down" text="rows_later" onClick=${showLater} />`}
  </div>`;
}
