// The page: asks its node again and again, and shows what it hears. It never changes anything.

import { Chart } from "./chart.js";
import { byId, byteRate, bytes, el, percent, rate, say, time } from "./dom.js";
import { VolumeMap } from "./map.js";
import { Model } from "./model.js";
import * as picture from "./picture.js";
import * as tables from "./tables.js";

/** Seconds between two looks, at first and while nobody answers. */
const EVERY = 2;
const EVERY_MAX = 30;
/** Seconds that an answer may take. */
const PATIENCE = 10;
/** Looks between two of what changes slowly. */
const SELDOM = 2;
/** Seconds without a look after which the daemon's own history is better than ours. */
const STALE = 15;
/** Seconds that the tiles look back. */
const TILES = 60;

const model = new Model();
const state = { range: 300, paused: false, pause: EVERY, looks: 0, heard: -Infinity, timer: 0, asking: false };

async function get(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE * 1000), cache: "no-store" });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error?.message ?? `${path}: ${answer.status}`);
  return body;
}

const per = (field) => (ring, index) => ring.rate(index, field);
const series = (label, style, field) => ({ label, style, of: per(field) });
const charts = [
  new Chart(byId("charts"), {
    title: "Blocks read by clients", note: "where they came from", format: rate, least: 10, stacked: true,
    series: [
      series("disk", "disk", "disk_reads"),
      series("another node's cache", "remote", "remote_hits"),
      series("own cache", "local", "local_hits"),
    ],
  }),
  new Chart(byId("charts"), {
    title: "Throughput", format: byteRate, base: 1024, least: 1024,
    series: [
      series("clients read", "local", "bytes_read"),
      series("clients write", "written", "bytes_written"),
      series("between nodes", "remote", "bytes_sent"),
      series("disks read", "disk", "disk_bytes_read"),
    ],
  }),
  new Chart(byId("activity"), {
    title: "Latency", note: "at the daemons", format: time, least: 1e-5,
    series: [
      { label: "reads, mean", style: "local", of: (ring, index) => ring.mean(index, "read") },
      { label: "99 %", style: "local dashed", of: (ring, index) => ring.p99(index, "read") },
      { label: "writes, mean", style: "written", of: (ring, index) => ring.mean(index, "write") },
      { label: "99 %", style: "written dashed", of: (ring, index) => ring.p99(index, "write") },
    ],
  }),
  new Chart(byId("activity"), {
    title: "Locks", format: rate, least: 1,
    series: [
      series("asked for", "local", "locks_asked"),
      series("given up", "remote", "locks_given_up"),
      series("reads that waited", "written", "lock_waits"),
      series("copies invalidated", "disk", "invalidations"),
    ],
  }),
  new Chart(byId("activity"), {
    title: "Policy", note: "blocks that leave a cache", format: rate, least: 1,
    series: [
      series("evicted", "disk", "evictions"),
      series("sent to another node", "remote", "forwarded"),
      series("taken in for others", "local", "stored_for_others"),
    ],
  }),
];
const map = new VolumeMap(byId("map"));

/** What the figures of the last minute and of all time come to. */
function tiles() {
  const { ring } = model;
  const from = model.now() - TILES;
  const recent = (field) => ring.sum(field, from);
  const seconds = Math.min(TILES, recent("seconds")) || 1;
  const reads = recent("local_hits") + recent("remote_hits") + recent("disk_reads");
  const [spared, all] = [
    model.sum(({ counters }) => counters.local_hits + counters.remote_hits),
    model.sum(({ counters }) => counters.local_hits + counters.remote_hits + counters.disk_reads),
  ];
  const memory = [model.sum(({ cache }) => cache.used), model.sum(({ cache }) => cache.bytes)];
  const content = [
    ["Reads without the disk", percent(reads - recent("disk_reads"), reads),
      reads ? `${percent(recent("local_hits"), reads)} own cache, ${percent(recent("remote_hits"), reads)} another node's` : "no read in the last minute"],
    ["Clients read", byteRate(recent("bytes_read") / seconds), `and write ${byteRate(recent("bytes_written") / seconds)}`],
    ["Disk spared since start", percent(spared, all), all ? `${bigCount(spared)} of ${bigCount(all)} block reads` : "no block read yet"],
    ["Memory in use", bytes(memory[0]), `of ${bytes(memory[1])} for caches`],
  ];
  byId("tiles").replaceChildren(...content.map(([name, value, note]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value), el("dd", { class: "note" }, note))));
}

const bigCount = (value) => value.toLocaleString("en").replaceAll(",", "\u202f");

/** The first line and what else is wrong, in the words of `cards status`. */
function health() {
  const { headline } = model.cluster;
  const { problems, healthy, cluster } = model.asked ?? { problems: [], healthy: false, cluster: "" };
  byId("health").className = `health ${healthy ? "well" : "bad"}`;
  say(byId("headline"), headline);
  const list = byId("problems");
  const rest = problems.slice(1);
  if (list.children.length !== rest.length || rest.some((text, at) => list.children[at].textContent !== text)) {
    list.replaceChildren(...rest.map((text) => el("li", {}, text)));
  }
  say(byId("cluster"), cluster && `cluster ${cluster}`);
  document.title = `${healthy ? "✓" : "!"} ${cluster} – CARDs`;
}

function pickVolumes() {
  const names = model.volumes().filter(({ size }) => size > 0).map(({ name }) => name);
  const select = byId("volume");
  if (names.join() !== [...select.options].map(({ value }) => value).join()) {
    const chosen = select.value;
    select.replaceChildren(...names.map((name) => el("option", { value: name }, name)));
    if (names.includes(chosen)) select.value = chosen;
  }
  select.disabled = names.length === 0;
}

function show() {
  health();
  tiles();
  document.body.classList.toggle("many", model.nodes.length > 8);
  picture.draw(byId("picture"), model);
  const now = model.now();
  charts.forEach((chart) => chart.draw(model.ring, state.range, now));
  tables.nodes(byId("nodes"), model);
  tables.volumes(byId("volumes"), model);
  if (byId("flows").open) tables.flows(byId("flows"), model);
  pickVolumes();
}

async function showMap() {
  const volume = byId("volume").value;
  if (!volume) return map.clear("No volume yet.");
  try {
    const answer = await get(`/v1/map?volume=${encodeURIComponent(volume)}`);
    if (volume === byId("volume").value) map.show(answer);
  } catch (error) {
    map.clear(error.message);
  }
}

async function showSlow() {
  try {
    tables.slow(byId("slow"), await get("/v1/slow"));
  } catch (error) {
    tables.slow(byId("slow"), { last: [], count: 0, error: error.message });
  }
}

/** One look; the next one comes after a pause. */
async function look() {
  if (state.asking) return;
  clearTimeout(state.timer);
  if (state.paused || document.hidden) return;
  state.asking = true;
  try {
    if (performance.now() / 1000 - state.heard > STALE) model.recall(await get("/v1/history"));
    model.hear(await get("/v1/cluster"));
    state.heard = performance.now() / 1000;
    state.pause = EVERY;
    document.body.classList.remove("away");
    // It may have been paused meanwhile.
    if (!state.paused) live("live", `live, every ${EVERY} s`);
    show();
    if (state.looks++ % SELDOM === 0) await Promise.all([showMap(), showSlow()]);
  } catch (error) {
    away(error);
  }
  state.asking = false;
  state.timer = setTimeout(look, state.pause * 1000);
}

/** The daemon does not answer: says so, and asks less and less often. */
function away(error) {
  state.pause = Math.min(EVERY_MAX, state.pause * 2);
  const reason = error instanceof TypeError || error.name === "TimeoutError" ? "it may have been stopped" : error.message;
  document.body.classList.add("away");
  byId("health").className = "health bad";
  say(byId("headline"), `The daemon at ${location.host} does not answer: ${reason}. Start \`cards serve\` there, or look into its log.`);
  byId("problems").replaceChildren();
  document.title = "! no answer – CARDs";
  if (!state.paused) live("gone", `no answer, again in ${state.pause} s`);
}

function live(kind, text) {
  byId("live").className = `live ${kind}`;
  say(byId("live"), text);
}

function setPaused(paused) {
  state.paused = paused;
  byId("pause").setAttribute("aria-pressed", paused);
  say(byId("pause"), paused ? "Go on" : "Pause");
  if (paused) live("held", "paused");
  else look();
}

byId("pause").addEventListener("click", () => setPaused(!state.paused));
byId("volume").addEventListener("change", showMap);
byId("flows").addEventListener("toggle", () => tables.flows(byId("flows"), model));
document.querySelectorAll("input[name=range]").forEach((input) =>
  input.addEventListener("change", () => {
    state.range = Number(input.value);
    if (model.cluster) show();
  }));
document.addEventListener("visibilitychange", () => {
  state.pause = EVERY;
  look();
});
let width = 0;
new ResizeObserver(([{ contentRect }]) => {
  if (contentRect.width === width || !model.cluster) return;
  width = contentRect.width;
  show();
}).observe(byId("main"));
// What is kept is bounded; the tests look.
globalThis.cards = { model, show };
look();
