// The page: asks its node again and again, and shows what it hears. It never changes anything.

import { charts as allCharts, isFor } from "./charts.js";
import { byId, el, say } from "./dom.js";
import * as events from "./events.js";
import { VolumeMap } from "./map.js";
import { Model } from "./model.js";
import * as picture from "./picture.js";
import { parse } from "./route.js";
import * as tables from "./tables.js";
import { theme } from "./theme.js";
import * as tiles from "./tiles.js";

/** Seconds between two looks, at first and while nobody answers. */
const EVERY = 2;
const EVERY_MAX = 30;
/** Seconds until the second look: rates take two. */
const SOON = 1.1;
/** Seconds that an answer may take. */
const PATIENCE = 10;
/** Looks between two of what changes slowly. */
const SELDOM = 2;
/** Seconds without a look after which the daemon's own history is better than ours. */
const STALE = 15;

const model = new Model();
const state = { range: 300, paused: false, pause: EVERY, looks: 0, heard: -Infinity, timer: 0, asking: false, stale: true };
const charts = allCharts();
const map = new VolumeMap(byId("map"));

async function get(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE * 1000), cache: "no-store" });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error?.message ?? `${path}: ${answer.status}`);
  return body;
}

/** The first line and what else is wrong, in the words of `cards status`. */
function health() {
  const { headline } = model.cluster;
  const { problems, healthy, cluster } = model.asked ?? { problems: [], healthy: false, cluster: "" };
  byId("health").className = `health ${healthy ? "well" : "bad"}`;
  say(byId("headline"), headline);
  const list = byId("problems");
  // Those that the first line does not say as a whole.
  const rest = problems.filter((text) => !headline?.endsWith(text));
  if (list.children.length !== rest.length || rest.some((text, at) => list.children[at].textContent !== text)) {
    list.replaceChildren(...rest.map((text) => el("li", {}, text)));
  }
  say(byId("cluster"), cluster && `cluster ${cluster}`);
  document.title = `${healthy ? "✓" : "!"} ${model.look ? `${model.look.name} – ` : ""}${cluster} – CARDs`;
}

/** What is looked at, and how it is. */
function subject() {
  const { kind, name } = model.look;
  say(byId("subject"), `${kind === "node" ? "Node" : "Volume"} ${name}`);
  if (kind === "node") {
    const node = model.nodes.find((one) => one.name === name);
    const word = node ? picture.stateWord(node.state) : "no member of this cluster";
    return say(byId("condition"), [word, node?.error].filter((text) => text).join(": "));
  }
  const volume = model.volumes().find((one) => one.name === name);
  const text = volume
    ? [volume.state, volume.reason].filter((text) => text).join(": ")
    : "no node of the cluster has a disk of this name";
  const rest = volume?.disk_node ? `; its disk is at ${volume.disk_node}` : "";
  say(byId("condition"), text + rest);
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
  const { look } = model;
  health();
  tiles.draw(model);
  document.body.classList.toggle("many", model.nodes.length > 8);
  const now = model.now();
  for (const chart of charts) {
    chart.section.hidden = !isFor(chart, look);
    if (!chart.section.hidden) chart.draw(model.shown, state.range, now, model.events, look?.kind === "volume");
  }
  if (look) subject();
  else picture.draw(byId("picture"), model);
  if (look?.kind === "volume") tables.nodesOf(byId("nodes"), model, look.name);
  else if (!look) tables.nodes(byId("nodes"), model);
  if (look?.kind === "node") {
    const node = model.nodes.find(({ name }) => name === look.name);
    tables.disks(byId("disks"), node);
    tables.peers(byId("peers"), node);
  }
  if (look?.kind !== "volume") tables.volumes(byId("volumes"), model, look?.name);
  events.draw(byId("events"), model.happened(), model.volumes());
  tables.slow(byId("slow"), model);
  if (byId("flows").open) tables.flows(byId("flows"), model);
  pickVolumes();
}

async function showMap() {
  const { look } = model;
  if (look?.kind === "node") return;
  const volume = look?.name ?? byId("volume").value;
  if (!volume) return map.clear("No volume yet.");
  try {
    const answer = await get(`/v1/map?volume=${encodeURIComponent(volume)}`);
    if (look === model.look && volume === (look?.name ?? byId("volume").value)) map.show(answer);
  } catch (error) {
    map.clear(error.message);
  }
}

async function hearEvents() {
  const told = await get("/v1/events");
  model.events = told;
  events.draw(byId("events"), model.happened(), model.volumes());
}

/** Asks for the past of all, if the page knows less of it. */
async function recall() {
  if (performance.now() / 1000 - state.heard <= STALE) return;
  model.recall(await get("/v1/history"));
  state.stale = true;
}

/** Asks for the past of what is looked at. */
async function recallOne() {
  const { look } = model;
  const known = look?.kind === "node" ? model.nodes : model.volumes();
  if (state.stale && look && known.some(({ name }) => name === look.name)) {
    const told = await get(`/v1/history?${look.kind}=${encodeURIComponent(look.name)}`);
    if (look === model.look) model.recallOne(told);
  }
  state.stale = false;
}

/** One look; the next one comes after a pause. */
async function look() {
  if (state.asking) return;
  clearTimeout(state.timer);
  if (state.paused || document.hidden) return;
  state.asking = true;
  let pause = EVERY;
  try {
    await recall();
    model.hear(await get("/v1/cluster"));
    await recallOne();
    state.heard = performance.now() / 1000;
    document.body.classList.remove("away");
    // It may have been paused meanwhile.
    if (!state.paused) live("live", `live, every ${EVERY} s`);
    show();
    if (state.looks++ % SELDOM === 0) await Promise.all([showMap(), hearEvents()]);
    if (!model.measured) pause = SOON;
    state.pause = EVERY;
  } catch (error) {
    pause = away(error);
  }
  state.asking = false;
  state.timer = setTimeout(look, pause * 1000);
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
  return state.pause;
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

/** Shows what the address asks for. */
function follow() {
  const asked = parse(location.hash);
  // #main and the like are places on the page.
  if (asked === undefined) return;
  model.lookAt(asked);
  state.stale = true;
  state.looks = 0;
  const view = asked?.kind ?? "overview";
  document.querySelectorAll("main [data-view]").forEach((part) => (part.hidden = !part.dataset.view.split(" ").includes(view)));
  document.body.dataset.view = view;
  if (!model.cluster) return;
  scrollTo(0, 0);
  show();
  clearTimeout(state.timer);
  look();
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
addEventListener("hashchange", () => {
  follow();
  if (parse(location.hash) !== undefined) byId("main").focus({ preventScroll: true });
});
theme(byId("theme"), showMap);
let width = 0;
new ResizeObserver(([{ contentRect }]) => {
  if (contentRect.width === width || !model.cluster) return;
  width = contentRect.width;
  show();
}).observe(byId("main"));
// What is kept is bounded; the tests look.
globalThis.cards = { model, show };
follow();
look();
