// The cluster as a picture: nodes in two columns with their memory and disks, and what flows between them.

import { byteRate, bytes, cut, el, percent, svg, wrap } from "./dom.js";

/** Nodes that are drawn; of more, those that are not well and the busiest. */
const NODES_MAX = 60;
/** Nodes that are drawn with all there is to say. */
const DETAILED_MAX = 8;
/** Flows that are drawn, the largest, where there is room for them; and those that have their number beside them. */
const FLOWS_MAX = 60;
const FLOWS_MAX_NARROW = 15;
const LABELS_MAX = 8;
/** Bytes a second: less is only the talk of nodes that have nothing to do. */
const LEAST = 1024;
/** Bytes a second: a flow is as wide as its share of the largest flow, or of this if that is larger. */
const WIDE = 1 << 20;
const NARROW = 480;
const CHARACTER = 6.6;
const LINE = 18;
/** Pixels of a line of the reason why a node is away, and lines at most. */
const REASON = 14.5;
const REASONS_MAX = 16;

export const stateWord = (state) => ({ here: "up", leaving: "leaving" })[state] ?? state;
export const isUp = (node) => node.state === "here" || node.state === "up";

const traffic = (node) => (node.did ? node.did.counted.bytes_sent + node.did.counted.bytes_read : 0);

/** The nodes to draw, in the order of the cluster. */
function chosen(nodes) {
  const present = nodes.filter((node) => node.state !== "left");
  if (present.length <= NODES_MAX) return present;
  const rank = (node) => (isUp(node) ? traffic(node) : Infinity);
  const kept = new Set([...present].sort((a, b) => rank(b) - rank(a)).slice(0, NODES_MAX));
  return present.filter((node) => kept.has(node));
}

/** One node as a box. */
function box(node, { x, y, width, height, detailed, disks }) {
  const room = Math.floor((width - 20) / CHARACTER);
  const word = stateWord(node.state);
  const { status, did } = node;
  const parts = [
    svg("title", {}, `${node.name}: ${word}${node.error ? `, ${node.error}` : ""}`),
    svg("rect", { class: "frame", width, height, rx: 8 }),
    svg("text", { class: "name", x: 10, y: 19 }, cut(node.name, room - word.length - 3)),
    svg("text", { class: "word", x: width - 10, y: 19, "text-anchor": "end" }, `${isUp(node) ? "●" : "✕"} ${word}`),
  ];
  if (status) {
    const share = status.cache.used / Math.max(1, status.cache.bytes);
    const of = `${percent(status.cache.used, status.cache.bytes)} of ${bytes(status.cache.bytes)}`;
    const tall = detailed ? 16 : 10;
    parts.push(
      svg("rect", { class: "memory", x: 10, y: 27, width: width - 20, height: tall, rx: 3 }),
      svg("rect", { class: "used", x: 10, y: 27, width: Math.min(1, share) * (width - 20), height: tall, rx: 3 }));
    if (detailed) {
      const text = width > 180 ? `cache ${of}` : of;
      parts.push(svg("text", { class: "inside", x: 15, y: 39.5 }, text));
      const seconds = did?.seconds ?? 1;
      const read = (did?.counted.bytes_read ?? 0) / seconds;
      const written = (did?.counted.bytes_written ?? 0) / seconds;
      const line = (at, text) => parts.push(svg("text", { class: "fact", x: 10, y: 60 + at * LINE }, cut(text, room)));
      line(0, width > 180 ? `clients read ${byteRate(read)}` : `read ${byteRate(read)}`);
      line(1, width > 180 ? `clients write ${byteRate(written)}` : `write ${byteRate(written)}`);
      if (disks > 0 && status.disks.length === 0) line(2, "no disk");
      status.disks.slice(0, 2).forEach((disk, at) => {
        const rates = did?.disks.find(({ name }) => name === disk.name);
        const rest = at === 1 && status.disks.length > 2 ? ` +${status.disks.length - 2}` : "";
        parts.push(cylinder(10, 60 + (2 + at) * LINE - 10, (rates?.read ?? 0) + (rates?.written ?? 0) > 0));
        const text = `${disk.name}${rest} ${byteRate((rates?.read ?? 0) + (rates?.written ?? 0))}`;
        parts.push(svg("text", { class: "fact", x: 26, y: 60 + (2 + at) * LINE }, cut(text, room - 2)));
      });
    } else if (status.disks.length > 0) {
      const busy = did?.disks.some((disk) => disk.read + disk.written > 0);
      parts.push(cylinder(width - 24 - CHARACTER * (word.length + 3), 8, busy));
    }
  } else {
    const lines = wrap(node.error ?? "no answer", room, detailed ? REASONS_MAX : 1);
    lines.forEach((text, at) => parts.push(svg("text", { class: "fact", x: 10, y: 38 + at * REASON }, text)));
  }
  const group = svg("g", { class: `node ${isUp(node) ? "up" : "away"}`, transform: `translate(${x} ${y})` }, ...parts);
  // The names in the table are the way for the keyboard.
  return svg("a", { href: `#/node/${encodeURIComponent(node.name)}`, tabindex: "-1" }, group);
}

function cylinder(x, y, busy) {
  return svg("path", {
    class: busy ? "disk busy" : "disk", transform: `translate(${x} ${y})`,
    d: "M0 2.5C0 -.8 12 -.8 12 2.5V9.5C12 12.8 0 12.8 0 9.5ZM0 2.5C0 5.8 12 5.8 12 2.5",
  });
}

/** One direction between two nodes. It leaves the upper half of a box and ends in the lower half. */
function flow({ from, to, rate }, places, most) {
  const [a, b] = [places.get(from), places.get(to)];
  const size = 1.5 + (a.detailed ? 9 : 5) * (rate / most);
  const head = 5 + size * 0.8;
  const [ya, yb] = [a.y + a.height * 0.36, b.y + b.height * 0.64];
  const end = b.inner - b.side * -head * 0.8;
  // Between boxes of one column it bends into the channel, the further the more.
  const bend = a.side === b.side ? Math.min(0.4, 0.16 + Math.abs(ya - yb) / 2500) * a.channel : 0.42 * a.channel;
  const [xa, xb] = [a.inner + a.side * bend, end + b.side * bend];
  const path = `M${a.inner} ${ya}C${xa} ${ya} ${xb} ${yb} ${end} ${yb}`;
  const middle = (p, q, r, s) => (p + 3 * q + 3 * r + s) / 8;
  const label = { x: middle(a.inner, xa, xb, end), y: middle(ya, ya, yb, yb) };
  const tip = b.inner;
  return {
    label, rate,
    shape: svg("g", { class: "flow" },
      svg("title", {}, `${from} to ${to}: ${byteRate(rate)}`),
      svg("path", { class: "stream", d: path, "stroke-width": size.toFixed(1) }),
      svg("path", { class: "head", d: `M${tip} ${yb}L${end} ${yb - head / 1.6}V${yb + head / 1.6}Z` })),
  };
}

/** Numbers beside the largest flows, as far as none covers another. */
function labels(flows) {
  const taken = [];
  const texts = [];
  for (const { label, rate } of flows) {
    if (texts.length === LABELS_MAX) break;
    const text = byteRate(rate);
    const half = (text.length * CHARACTER) / 2 + 4;
    if (taken.some(({ x, y, reach }) => Math.abs(x - label.x) < reach + half && Math.abs(y - label.y) < 17)) continue;
    taken.push({ ...label, reach: half });
    texts.push(svg("text", { class: "rate", x: label.x, y: label.y + 4, "text-anchor": "middle" }, text));
  }
  return texts;
}

/** Why no flow is drawn. */
const nothing = (model) => (model.measured ? "nothing flows between nodes" : "being measured …");

/** Draws the nodes and flows of `model` into `parent`. */
export function draw(parent, model) {
  const nodes = chosen(model.nodes);
  const width = Math.max(280, parent.clientWidth);
  const detailed = nodes.length <= DETAILED_MAX;
  const alone = nodes.length === 1;
  const boxWidth = Math.min(alone ? 320 : 236, Math.floor(alone ? width : (width - (width < NARROW ? 62 : 150)) / 2));
  const disks = Math.min(2, Math.max(0, ...nodes.map((node) => node.status?.disks.length ?? 0)));
  const reasons = nodes.map(({ status, error }) => (status ? 0 : wrap(error ?? "", Math.floor((boxWidth - 20) / CHARACTER), REASONS_MAX).length));
  const boxHeight = detailed ? Math.max(88 + disks * LINE, 38 + Math.max(...reasons) * REASON) : 46;
  const gap = detailed ? 22 : 10;
  const left = Math.ceil(nodes.length / 2);
  const height = left * (boxHeight + gap) - gap + 4;
  const places = new Map();
  const boxes = nodes.map((node, at) => {
    const side = at < left ? 1 : -1;
    const [row, rows] = side === 1 ? [at, left] : [at - left, nodes.length - left];
    const x = alone ? (width - boxWidth) / 2 : side === 1 ? 1 : width - boxWidth - 1;
    const y = 2 + row * (boxHeight + gap) + ((left - rows) * (boxHeight + gap)) / 2;
    const inner = side === 1 ? x + boxWidth : x;
    const place = { x, y, width: boxWidth, height: boxHeight, inner, side, channel: width - 2 * boxWidth, detailed, disks };
    places.set(node.name, place);
    return box(node, place);
  });
  const drawn = model.flows.filter(({ from, to, rate }) => rate >= LEAST && places.has(from) && places.has(to));
  drawn.sort((a, b) => b.rate - a.rate).splice(width < NARROW ? FLOWS_MAX_NARROW : FLOWS_MAX);
  const most = Math.max(WIDE, drawn[0]?.rate ?? 0);
  // The smallest at the bottom.
  const flows = drawn.map((one) => flow(one, places, most));
  const up = nodes.filter(isUp).length;
  const hidden = model.nodes.filter((node) => node.state !== "left").length - nodes.length;
  const summary = `${up} of ${nodes.length} nodes up. ` + (drawn.length
    ? `Largest flow: ${drawn[0].from} to ${drawn[0].to}, ${byteRate(drawn[0].rate)}.` : `${nothing(model)}.`);
  const picture = svg("svg", { role: "img", "aria-label": summary, viewBox: `0 0 ${width} ${height}`, width, height },
    ...flows.map(({ shape }) => shape).reverse(), ...boxes, ...(width < NARROW ? [] : labels(flows)));
  if (!drawn.length && !alone && width >= NARROW) {
    picture.append(svg("text", { class: "nothing", x: width / 2, y: height / 2 + 4 }, nothing(model)));
  }
  const note = hidden > 0 ? `The ${NODES_MAX} busiest nodes and those that are not up; ${hidden} more are in the table.` : "";
  parent.replaceChildren(picture, el("p", { class: "note" }, note));
}
