// The figures at the top.

import { byId, byteRate, bytes, el, percent, time, uptime } from "./dom.js";

/** Seconds that they look back. */
const RECENT = 60;

const grouped = (value) => value.toLocaleString("en").replaceAll(",", "\u202f");

/** What the figures of the last minute come to: of all nodes, or of what is looked at. */
export function draw(model) {
  const { look, shown: ring } = model;
  const from = model.now() - RECENT;
  const recent = (field) => ring.sum(field, from);
  // None before there are two looks: that is not the same as nothing.
  const seconds = Math.min(RECENT, recent("seconds"));
  const perSecond = (field) => (seconds ? byteRate(recent(field) / seconds) : "–");
  const reads = recent("local_hits") + recent("remote_hits") + recent("disk_reads");
  const hits = reads ? `${percent(recent("local_hits"), reads)} own cache, ${percent(recent("remote_hits"), reads)} another node's` : seconds ? "no read in the last minute" : "being measured …";
  const content = [
    ["Reads without the disk", percent(reads - recent("disk_reads"), reads), hits.replaceAll(" %", "\u00a0%")],
    ["Clients read", perSecond("bytes_read"), `and write ${perSecond("bytes_written")}`],
    ...({ node: ofNode, volume: ofVolume }[look?.kind] ?? ofAll)(model, { recent }),
  ];
  byId("tiles").replaceChildren(...content.map(([name, value, note]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value), el("dd", { class: "note" }, note))));
}

function ofAll(model) {
  return [spared(model.nodes), memory(model.nodes)];
}

function ofNode(model) {
  const node = model.nodes.find(({ name }) => name === model.look.name);
  const up = node?.status ? uptime(node.status.uptime_s) : "–";
  return [spared([node]), ["Up", up, node?.status ? `version ${node.status.version}, epoch ${node.status.epoch}` : "it does not answer"], memory([node])];
}

function ofVolume(model, { recent }) {
  const { name } = model.look;
  const volume = model.volumes().find((one) => one.name === name);
  const here = model.nodes.flatMap(({ status }) => status?.volumes.filter((one) => one.name === name) ?? []);
  const used = here.filter(({ attached }) => attached);
  const clients = used.reduce((sum, { attached }) => sum + attached.clients, 0);
  const cached = here.reduce((sum, { cached_blocks, block }) => sum + cached_blocks * block, 0);
  const mean = (op) => (recent(`${op}_requests`) ? time(recent(`${op}_us`) / recent(`${op}_requests`) / 1e6) : "–");
  return [
    ["A read takes", mean("read"), `and a write ${mean("write")}, on average in the last minute`],
    ["Cached", bytes(cached), volume?.size ? `in all nodes together; it has ${bytes(volume.size)}` : "in all nodes together"],
    ["Attached at", `${used.length} ${used.length === 1 ? "node" : "nodes"}`, clients === 1 ? "1 client" : `${clients} clients`],
  ];
}

/** Of the nodes that answer. */
const sum = (nodes, of) => nodes.reduce((sum, node) => sum + (node?.status ? of(node.status) : 0), 0);

function spared(nodes) {
  const hits = sum(nodes, ({ counters }) => counters.local_hits + counters.remote_hits);
  const all = hits + sum(nodes, ({ counters }) => counters.disk_reads);
  return ["Disk spared since start", percent(hits, all), all ? `${grouped(hits)} of ${grouped(all)} block reads` : "no block read yet"];
}

function memory(nodes) {
  const [used, of] = [sum(nodes, ({ cache }) => cache.used), sum(nodes, ({ cache }) => cache.bytes)];
  return ["Memory in use", of ? bytes(used) : "–", of ? `of ${bytes(of)} for caches` : "nothing is known of it now"];
}
