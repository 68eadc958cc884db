/** Layout and SVG drawing of a part of the graph. */
import { html, useMemo, useRef } from './vendor/preact-htm.js';
import { t } from './i18n.js';
import { visibleText } from './components.js';

const ITERATIONS = 220;
const EDGE_LENGTH = 110;
const LABEL_CHARACTERS = 24;
const MARGIN = { x: 90, y: 44 };

/** A number from 0 to 1 that depends only on the seed: the same graph is always drawn alike. */
function seededNumber(seed) {
  const value = Math.sin(seed * 12.9898) * 43758.5453;
  return value - Math.floor(value);
}

function startPosition(node, index, old, nodesById) {
  const kept = old.get(node.id);
  if (kept) return { x: kept.x, y: kept.y };
  const parent = nodesById.get(node.parent) && old.get(node.parent);
  const angle = index * 2.399963; // The golden angle spreads points evenly.
  const radius = parent ? 60 : EDGE_LENGTH * Math.sqrt(index / 2);
  return {
    x: (parent?.x || 0) + Math.cos(angle) * radius + seededNumber(node.id) * 8,
    y: (parent?.y || 0) + Math.sin(angle) * radius + seededNumber(node.id + 1) * 8,
  };
}

function repel(points) {
  for (let i = 0; i < points.length; i += 1) {
    for (let j = i + 1; j < points.length; j += 1) {
      const a = points[i];
      const b = points[j];
      const dx = a.x - b.x || 0.1;
      // Labels are wide and low, so nodes need more room to the sides than above and below.
      const dy = (a.y - b.y) * 1.7 || 0.1;
      const squared = Math.max(dx * dx + dy * dy, 80);
      const force = 9000 / squared;
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
export function layoutGraph(nodes, edges, old) {
  const nodesById = new Map(nodes.map((node) => [node.id, node]));
  const points = new Map(nodes.map((node, index) => [node.id, { ...startPosition(node, index, old, nodesById), fx: 0, fy: 0 }]));
  const list = [...points.values()];
  for (let step = 0; step < ITERATIONS; step += 1) {
    const limit = 30 * (1 - step / ITERATIONS) + 0.5;
    repel(list);
    attract(edges, points);
    for (const point of list) {
      point.fx -= point.x * 0.012; point.fy -= point.y * 0.016;
      const length = Math.max(Math.hypot(point.fx, point.fy), 0.01);
      const move = Math.min(length, limit) / length;
      point.x += point.fx * move; point.y += point.fy * move;
      point.fx = 0; point.fy = 0;
    }
  }
  return points;
}

function boundsOf(points) {
  const list = [...points.values()];
  if (!list.length) return [0, 0, 100, 100];
  const xs = list.map((point) => point.x);
  const ys = list.map((point) => point.y);
  const left = Math.min(...xs) - MARGIN.x;
  const top = Math.min(...ys) - MARGIN.y;
  return [left, top, Math.max(...xs) + MARGIN.x - left, Math.max(...ys) + MARGIN.y - top];
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
  return characters.length > LABEL_CHARACTERS ? `${characters.slice(0, LABEL_CHARACTERS - 1).join('')}…` : characters.join('');
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
  const onKey = (event, node) => {
    if (event.key === 'Enter' || event.key === ' ') onOpen(node);
    else if (event.key.startsWith('Arrow')) focusNearest(svg.current, points, node, event.key);
    else return;
    event.preventDefault();
  };
  return html`<svg ref=${svg} class="graph-drawing" role="group" aria-label=${t('graph_drawing')} viewBox=${`${left} ${top} ${width} ${height}`}
    preserveAspectRatio="xMidYMid meet" style=${{ height: `${Math.max(320, Math.min(640, height))}px` }}>
    ${edges.map((edge) => html`<${EdgeLine} key=${edge.key} edge=${edge} points=${points} active=${edge.source === selected || edge.target === selected} />`)}
    ${nodes.map((node) => html`<${NodeMark} key=${node.id} node=${node} point=${points.get(node.id)} selected=${node.id === selected}
      onOpen=${onOpen} onKey=${onKey} />`)}</svg>`;
}

function EdgeLine({ edge, points, active }) {
  const a = points.get(edge.source);
  const b = points.get(edge.target);
  return html`<g class=${`edge${active ? ' edge-active' : ''}`} aria-hidden="true"><line x1=${a.x} y1=${a.y} x2=${b.x} y2=${b.y} />
    ${active && edge.relation !== 'contains' && html`<text class="edge-label" x=${(a.x + b.x) / 2} y=${(a.y + b.y) / 2 - 3} text-anchor="middle">${edge.relation}</text>`}</g>`;
}

function NodeMark({ node, point, selected, onOpen, onKey }) {
  const name = visibleText(node.name, true);
  return html`<g class=${`node ${typeClass(node.type)}${selected ? ' node-selected' : ''}`} role="button" tabindex="0" data-node=${node.id}
    aria-label=${t(node.expanded ? 'graph_node' : 'graph_node_expand', { type: node.type, name: name.slice(0, 200) })} aria-pressed=${String(selected)}
    transform=${`translate(${point.x} ${point.y})`} onClick=${() => onOpen(node)} onKeyDown=${(event) => onKey(event, node)}>
    <title>${`${node.type}: ${name.slice(0, 400)}`}</title>
    <circle class="node-target" r="16" /><circle class="node-dot" r=${selected ? 11 : 8} />
    ${!node.expanded && html`<path class="node-plus" d="M-3 0h6M0 -3v6" />`}
    <text class="node-name" y="24" text-anchor="middle">${shortLabel(node.name)}</text>
    <text class="node-type" y="35" text-anchor="middle">${node.type}</text></g>`;
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
