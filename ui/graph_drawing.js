/** Layout and SVG drawing of a part of the graph. */
import { html, useLayoutEffect, useMemo, useRef } from './vendor/preact-htm.js';
import { t } from './i18n.js';
import { visibleText, word } from './components.js';

const ITERATIONS = 220;
const EDGE_LENGTH = 105;
/** Labels are wider than they are high, so the finished layout is stretched to the sides. */
const STRETCH = 1.55;
const LABEL_CHARACTERS = 24;
const LABEL_END = 8;
const MARGIN = { x: 90, y: 44 };
/** Typical width of a character of a name and of the label of a line, and the room that a point takes with its name. */
const NAME_WIDTH = 6.4;
const LABEL_WIDTH = 4.8;
const POINT = { above: 13, below: 40 };
const SPREAD_STEPS = 60;
/** Smaller graphs are not enlarged: their labels would become larger than the text around the drawing. */
const MIN_SIZE = { width: 780, height: 420 };
/** Larger graphs are not drawn smaller than this, so that labels stay readable: their region scrolls. */
const MIN_SCALE = 0.85;

/** A number from 0 to 1 that depends only on the seed: the same graph is always drawn alike. */
function seededNumber(seed) {
  const value = Math.sin(seed * 12.9898) * 43758.5453;
  return value - Math.floor(value);
}

function startPosition(node, index, old, nodesById) {
  const kept = old.get(node.id);
  if (kept) return { x: kept.x / STRETCH, y: kept.y };
  const parent = nodesById.get(node.parent) && old.get(node.parent);
  const angle = index * 2.399963; // The golden angle spreads points evenly.
  const radius = parent ? 60 : EDGE_LENGTH * Math.sqrt(index / 2);
  return {
    x: (parent?.x || 0) / STRETCH + Math.cos(angle) * radius + seededNumber(node.id) * 8,
    y: (parent?.y || 0) + Math.sin(angle) * radius + seededNumber(node.id + 1) * 8,
  };
}

function repel(points) {
  for (let i = 0; i < points.length; i += 1) {
    for (let j = i + 1; j < points.length; j += 1) {
      const a = points[i];
      const b = points[j];
      const dx = a.x - b.x || 0.1;
      const dy = a.y - b.y || 0.1;
      const squared = Math.max(dx * dx + dy * dy, 80);
      const force = 14000 / squared;
      const length = Math.sqrt(squared);
      a.fx += (dx / length) * force; a.fy += (dy / length) * force;
      b.fx -= (dx / length) * force; b.fy -= (dy / length) * force;
    }
  }
}

function attract(edges, points) {
  for (const edge of edges) {
    const a = points.get(edge.source);
    const b = points.get(edge.target);
    const dx = b.x - a.x;
    const dy = b.y - a.y;
    const length = Math.max(Math.hypot(dx, dy), 1);
    const force = (length - EDGE_LENGTH) * 0.06;
    a.fx += (dx / length) * force; a.fy += (dy / length) * force;
    b.fx -= (dx / length) * force; b.fy -= (dy / length) * force;
  }
}

/**
 * A force-directed layout. Positions of `old` are where their nodes start, so that a graph that grows keeps its shape.
 * @param {{id: number, parent?: number}[]} nodes
 * @param {{source: number, target: number}[]} edges between these nodes
 * @param {Map<number, {x: number, y: number}>} old
 * @returns {Map<number, {x: number, y: number}>}
 */
function layoutGraph(nodes, edges, old) {
  const nodesById = new Map(nodes.map((node) => [node.id, node]));
  const points = new Map(nodes.map((node, index) => [node.id, { ...startPosition(node, index, old, nodesById), fx: 0, fy: 0 }]));
  const list = [...points.values()];
  for (let step = 0; step < ITERATIONS; step += 1) {
    const limit = 30 * (1 - step / ITERATIONS) + 0.5;
    repel(list);
    attract(edges, points);
    for (const point of list) {
      point.fx -= point.x * 0.01; point.fy -= point.y * 0.016;
      const length = Math.max(Math.hypot(point.fx, point.fy), 0.01);
      const move = Math.min(length, limit) / length;
      point.x += point.fx * move; point.y += point.fy * move;
      point.fx = 0; point.fy = 0;
    }
  }
  for (const point of list) point.x *= STRETCH;
  spread(nodes.map((node) => ({ point: points.get(node.id), half: nameWidth(node) / 2 })));
  return points;
}

const nameWidth = (node) => Math.max(24, shortLabel(node.name).length * NAME_WIDTH);

/** Moves points apart until the names below them do not cover one another. */
function spread(labels) {
  for (let step = 0; step < SPREAD_STEPS; step += 1) {
    let moved = false;
    labels.forEach((one, index) => labels.slice(index + 1).forEach((other) => {
      const dx = other.point.x - one.point.x;
      const dy = other.point.y - one.point.y;
      const [x, y] = [one.half + other.half + 8 - Math.abs(dx), POINT.above + POINT.below + 4 - Math.abs(dy)];
      if (x <= 0 || y <= 0) return;
      const [axis, way] = y < x ? ['y', Math.sign(dy || 1) * y / 2] : ['x', Math.sign(dx || 1) * x / 2];
      one.point[axis] -= way;
      other.point[axis] += way;
      moved = true;
    }));
    if (!moved) return;
  }
}

function boundsOf(points) {
  const list = [...points.values()];
  if (!list.length) return [0, 0, 100, 100];
  const xs = list.map((point) => point.x);
  const ys = list.map((point) => point.y);
  const [left, right] = [Math.min(...xs) - MARGIN.x, Math.max(...xs) + MARGIN.x];
  const [top, bottom] = [Math.min(...ys) - MARGIN.y, Math.max(...ys) + MARGIN.y];
  const width = Math.max(right - left, MIN_SIZE.width);
  const height = Math.max(bottom - top, MIN_SIZE.height);
  return [(left + right - width) / 2, (top + bottom - height) / 2, width, height];
}

const TYPE_COLOURS = 8;
const KNOWN_TYPES = ['File', 'Person', 'Folder', 'Section', 'Chunk', 'CodeSymbol', 'Module', 'Tag'];

/** The class with the colour of a type; types that are not known share the colours. */
export function typeClass(type) {
  const known = KNOWN_TYPES.indexOf(type);
  if (known >= 0) return `type-${known}`;
  return `type-${[...type].reduce((sum, character) => sum + character.codePointAt(0), 0) % TYPE_COLOURS}`;
}

function shortLabel(name) {
  const characters = [...visibleText(name, true)];
  if (characters.length <= LABEL_CHARACTERS) return characters.join('');
  // The end of a name tells passages of a file and types of files apart.
  return `${characters.slice(0, LABEL_CHARACTERS - LABEL_END - 1).join('')}…${characters.slice(-LABEL_END).join('')}`;
}

/**
 * The drawing. A node is a button: a click or Enter selects and expands it; the arrow keys go to the nearest node in a direction.
 * @param {{nodes: any[], edges: any[], selected: number, onOpen: (node: any) => void}} props
 */
export function GraphDrawing({ nodes, edges, selected, onOpen }) {
  const positions = useRef(new Map());
  const svg = useRef(null);
  const points = useMemo(() => {
    positions.current = layoutGraph(nodes, edges, positions.current);
    return positions.current;
  }, [nodes, edges]);
  const [left, top, width, height] = boundsOf(points);
  const lines = useMemo(() => placeLines(nodes, edges, points, selected), [nodes, edges, points, selected]);
  const onKey = (event, node) => {
    if (event.key === 'Enter' || event.key === ' ') onOpen(node);
    else if (event.key.startsWith('Arrow')) focusNearest(svg.current, points, node, event.key);
    else return;
    event.preventDefault();
  };
  useLayoutEffect(() => scrollToNode(svg.current, selected), [points, selected]);
  return html`<div class="graph-region"><svg ref=${svg} class="graph-drawing" role="group" aria-label=${t('graph_drawing')} viewBox=${`${left} ${top} ${width} ${height}`}
    preserveAspectRatio="xMidYMid meet" style=${{ minWidth: `${Math.round(width * MIN_SCALE)}px`, minHeight: `${Math.round(height * MIN_SCALE)}px` }}>
    ${lines.map((line) => html`<line key=${line.key} class=${`edge${line.isActive ? ' edge-active' : ''}`} aria-hidden="true" x1=${line.a.x} y1=${line.a.y} x2=${line.b.x} y2=${line.b.y} />`)}
    ${lines.map((line) => line.at && html`<g key=${line.key} aria-hidden="true" transform=${`translate(${line.at.x} ${line.at.y})`}>
      <${LabelBack} width=${line.width} top=${-8} height=${11} /><text class="edge-label" text-anchor="middle">${line.label}</text></g>`)}
    ${nodes.map((node) => html`<${NodeMark} key=${node.id} node=${node} point=${points.get(node.id)} selected=${node.id === selected}
      onOpen=${onOpen} onKey=${onKey} />`)}</svg></div>`;
}

/** Scrolls the region of the drawing, and only that, so that a node is in its middle. */
function scrollToNode(svg, id) {
  const node = svg.querySelector(`[data-node="${id}"] .node-dot`);
  if (!node) return;
  const region = svg.parentElement;
  const inner = node.getBoundingClientRect();
  const outer = region.getBoundingClientRect();
  region.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
  region.scrollTop += inner.top + inner.height / 2 - outer.top - outer.height / 2;
}

/** One line for all edges between two nodes, with what they say as its label. */
function mergeEdges(edges) {
  const lines = new Map();
  for (const edge of edges) {
    const key = [edge.source, edge.target].sort((one, other) => one - other).join(' ');
    if (!lines.has(key)) lines.set(key, { key, source: edge.source, target: edge.target, texts: new Set() });
    if (edge.relation !== 'contains') lines.get(key).texts.add(edge.text);
  }
  return [...lines.values()];
}

/** Where on its line a label may stand, the best place first. */
const LABEL_PLACES = [0.55, 0.45, 0.65, 0.35, 0.75, 0.25];

const areaOf = (one, other) => Math.max(0, Math.min(one[2], other[2]) - Math.max(one[0], other[0]))
  * Math.max(0, Math.min(one[3], other[3]) - Math.max(one[1], other[1]));

/** The lines with their ends, and the labels of those at the selected point where they cover the least of the names and of one another. */
function placeLines(nodes, edges, points, selected) {
  const taken = nodes.map((node) => {
    const { x, y } = points.get(node.id);
    const half = nameWidth(node) / 2;
    return [x - half - 6, y - POINT.above, x + half + 6, y + POINT.below];
  });
  return mergeEdges(edges).map((edge) => {
    const isActive = edge.source === selected || edge.target === selected;
    const a = points.get(edge.target === selected ? edge.target : edge.source);
    const b = points.get(edge.target === selected ? edge.source : edge.target);
    const label = [...edge.texts].join(', ');
    if (!isActive || !label) return { ...edge, isActive, a, b };
    const width = label.length * LABEL_WIDTH;
    const places = LABEL_PLACES.map((part) => {
      const at = { x: a.x + (b.x - a.x) * part, y: a.y + (b.y - a.y) * part };
      const box = [at.x - width / 2, at.y - 8, at.x + width / 2, at.y + 3];
      return { at, box, cost: taken.reduce((sum, other) => sum + areaOf(box, other), 0) };
    });
    const best = places.reduce((one, other) => (other.cost < one.cost ? other : one));
    taken.push(best.box);
    return { ...edge, isActive, a, b, label, width, at: best.at };
  });
}

/** The ground of a label, which hides the lines behind it. */
function LabelBack({ width, top, height }) {
  return html`<rect class="label-back" x=${-width / 2 - 2} y=${top} width=${width + 4} height=${height} rx="3" />`;
}

function NodeMark({ node, point, selected, onOpen, onKey }) {
  const name = visibleText(node.name, true).slice(0, 400);
  const label = `${word('kind', node.type)} ${name}${node.expanded ? '' : t('graph_node_expand')}`;
  return html`<g class=${`node ${typeClass(node.type)}${selected ? ' node-selected' : ''}`} role="button" tabindex="0" data-node=${node.id} aria-pressed=${String(selected)}
    transform=${`translate(${point.x} ${point.y})`} onClick=${() => onOpen(node)} onKeyDown=${(event) => onKey(event, node)}>
    <title>${label}</title>
    <${LabelBack} width=${nameWidth(node)} top=${14} height=${24} />
    <circle class="node-target" r="16" /><circle class="node-dot" r=${selected ? 11 : 8} />
    ${!node.expanded && html`<path class="node-plus" d="M-3 0h6M0 -3v6" />`}
    <text class="node-name" aria-hidden="true" y="24" text-anchor="middle">${shortLabel(node.name)}</text>
    <text class="node-type" aria-hidden="true" y="35" text-anchor="middle">${word('kind', node.type)}</text></g>`;
}

/** Moves the focus to the nearest node in the direction of an arrow key. */
function focusNearest(svg, points, node, key) {
  const from = points.get(node.id);
  const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  let best = null;
  for (const [id, point] of points) {
    const along = (point.x - from.x) * dx + (point.y - from.y) * dy;
    if (id === node.id || along <= 1) continue;
    const across = Math.abs((point.x - from.x) * dy) + Math.abs((point.y - from.y) * dx);
    const cost = along + across * 2;
    if (!best || cost < best.cost) best = { id, cost };
  }
  if (best) svg.querySelector(`[data-node="${best.id}"]`)?.focus();
}
