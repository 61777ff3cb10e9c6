// The figures as tables: nodes, volumes, disks, peers, flows, slow requests.

import { byteRate, bytes, clock, el, percent, rate, time, uptime } from "./dom.js";
import { byName } from "./model.js";
import { isUp, stateWord } from "./picture.js";
import { nodeLink, volumeLink } from "./route.js";
import { table } from "./table.js";

const SLOW_MAX = 12;

const counted = (field, show) => ({ did }) => (did ? show(did.counted[field] / did.seconds) : null);
const share = (field) => ({ did }) => (did ? percent(did.counted[field], did.counted.reads) : null);
const known = (show) => ({ status }) => (status ? show(status) : null);
const state = (word, well) => el("span", { class: well ? "well" : "bad" }, word);

export function nodes(parent, model) {
  table(parent, "Nodes: rates are those of the last two seconds", [
    ["node", ({ name }) => nodeLink(name)],
    ["state", (node) => state(stateWord(node.state), isUp(node))],
    ["cache", known(({ cache }) => `${bytes(cache.used)} of ${bytes(cache.bytes)}`), true],
    ["reads", counted("reads", rate), true],
    ["local", share("local_hits"), true],
    ["remote", share("remote_hits"), true],
    ["disk", share("disk_reads"), true],
    ["read", counted("bytes_read", byteRate), true],
    ["written", counted("bytes_written", byteRate), true],
    ["to peers", counted("bytes_sent", byteRate), true],
    ["disks read", counted("disk_bytes_read", byteRate), true],
    ["evictions", counted("evictions", rate), true],
    ["replacement", known(({ cache }) => cache.replacement)],
    ["up", known(({ uptime_s }) => uptime(uptime_s)), true],
  ], model.nodes, "No node has answered yet.", ({ error }) => error);
}

/** The nodes, and what each does with one volume. */
export function nodesOf(parent, model, name) {
  const rows = model.nodes.map(({ name: node, state, error, status, did }) => {
    const volume = status?.volumes.find((one) => one.name === name);
    return { name: node, state, error, status, volume, did: did && { seconds: did.seconds, counted: did.volumes.get(name) } };
  });
  const here = (show) => ({ volume }) => (volume ? show(volume) : null);
  const did = (field, show) => ({ did }) => (did?.counted ? show(did.counted[field] / did.seconds) : null);
  const part = (field) => ({ did }) => (did?.counted ? percent(did.counted[field], did.counted.reads) : null);
  table(parent, `Nodes, and what each does with ${name}`, [
    ["node", ({ name }) => nodeLink(name)],
    ["state", (node) => state(stateWord(node.state), isUp(node))],
    ["attached", ({ status, volume }) => status && attachment(volume)],
    ["clients", here(({ attached }) => attached?.clients), true],
    ["cached", here(({ cached_blocks, block }) => bytes(cached_blocks * block)), true],
    ["reads", did("reads", rate), true],
    ["local", part("local_hits"), true],
    ["remote", part("remote_hits"), true],
    ["disk", part("disk_reads"), true],
    ["read", did("bytes_read", byteRate), true],
    ["written", did("bytes_written", byteRate), true],
  ], rows, "No node has answered yet.", ({ error, volume }) => error ?? (volume?.attached ? volume.reason : null));
}

const attachment = (volume) => volume?.attached?.mode ?? "no";
const policy = ({ policy }) => (typeof policy === "string" ? policy : policy ? JSON.stringify(policy) : null);

/** The volumes as a node sees them: the one that is looked at, or else the one that was asked. */
export function volumes(parent, model, node) {
  const status = node ? model.nodes.find(({ name }) => name === node)?.status : model.asked;
  const cached = (volume) => (node ? volume.cached_blocks * volume.block : model.sum(({ volumes }) =>
    (volumes.find(({ name }) => name === volume.name)?.cached_blocks ?? 0) * volume.block));
  table(parent, node ? `Volumes that ${node} has or uses` : "Volumes, as the node that serves this page sees them", [
    ["volume", ({ name }) => volumeLink(name)],
    ["state", (volume) => state(volume.state, volume.state === "ready")],
    ["size", ({ size }) => (size ? bytes(size) : null), true],
    ["block", ({ block }) => (block ? bytes(block) : null), true],
    ["policy", policy],
    ["disk at", ({ disk_node }) => disk_node && nodeLink(disk_node)],
    [node ? "attached" : "attached here", attachment],
    [node ? "clients" : "clients here", ({ attached }) => attached?.clients, true],
    [node ? "cached" : "cached, all nodes", (volume) => bytes(cached(volume)), true],
  ], status?.volumes ?? [], node ? "Nothing is known of its volumes now." : "No volume is known yet.", ({ reason }) => reason);
}

export function disks(parent, node) {
  const did = (name) => node?.did?.disks.find((disk) => disk.name === name);
  table(parent, "Disks that it contributes", [
    ["disk", ({ name }) => name],
    ["read", ({ name }) => did(name) && byteRate(did(name).read), true],
    ["written", ({ name }) => did(name) && byteRate(did(name).written), true],
    ["read since start", ({ bytes_read }) => bytes(bytes_read), true],
    ["written since start", ({ bytes_written }) => bytes(bytes_written), true],
    ["errors", ({ errors }) => (errors ? el("span", { class: "bad" }, errors) : 0), true],
  ], node?.status?.disks ?? [], node?.status ? "It contributes none." : "Nothing is known of its disks now.");
}

/** Other members, as a node sees them that answers for itself; another node than the one asked tells less of them. */
export function peers(parent, node) {
  const others = (node?.status?.members ?? []).filter(({ state }) => state !== "here" && state !== "left").sort(byName);
  const sent = (name) => node.did?.sent.find(({ to }) => to === name)?.rate;
  table(parent, "Other nodes, as it sees them", [
    ["node", ({ name }) => nodeLink(name)],
    ["state", (peer) => state(stateWord(peer.state), isUp(peer))],
    ["sends it", ({ name }) => (sent(name) === undefined ? null : byteRate(sent(name))), true],
    ["sent since start", ({ bytes_sent }) => bytes(bytes_sent), true],
    ["received since start", ({ bytes_received }) => bytes(bytes_received), true],
    ["encryption", ({ encryption }) => encryption],
    ["damaged", ({ checksum_errors }) => (checksum_errors ? el("span", { class: "bad" }, checksum_errors) : 0), true],
  ], others, node?.status ? "There are none." : "It does not answer.", ({ reason }) => reason);
}

export function flows(parent, model) {
  const largest = [...model.flows].sort((a, b) => b.rate - a.rate).slice(0, 100);
  table(parent, "The largest flows", [
    ["from", ({ from }) => nodeLink(from)],
    ["to", ({ to }) => nodeLink(to)],
    ["rate", (flow) => byteRate(flow.rate), true],
  ], largest, model.measured ? "Nothing flows between nodes." : "Being measured …");
}

/** Slow requests of all nodes, or of what is looked at. */
export function slow(parent, model) {
  const rows = model.slow().slice(0, SLOW_MAX);
  const noted = model.nodes.map(({ status }) => status?.slow).filter((slow) => slow);
  const limits = [...new Set(noted.map(({ threshold_ms }) => threshold_ms).filter((ms) => ms))].sort((a, b) => a - b);
  const limit = limits.map((ms) => time(ms / 1000)).join(" or ");
  const count = noted.reduce((sum, { count }) => sum + count, 0);
  const what = model.look ? ` of ${model.look.name}` : "";
  const caption = `The latest requests${what} that took ${limit} or longer; all nodes have had ${count}, and each tells its last 8`;
  table(parent, caption, [
    ["when", ({ time_ms }) => clock(time_ms / 1000)],
    ["at", ({ at }) => nodeLink(at)],
    ["volume", ({ volume }) => volumeLink(volume)],
    ["request", ({ op, failed }) => (failed ? el("span", { class: "bad" }, `${op}, failed`) : op)],
    ["offset", ({ offset }) => offset, true],
    ["length", ({ length }) => bytes(length), true],
    ["took", ({ took_us }) => time(took_us / 1e6), true],
    ["waited for", ({ waited_for, node }) => (node ? `${waited_for} (${node})` : waited_for)],
  ], rows, limit ? `No request${what} took ${limit} or longer.` : "Slow requests are not noted by these nodes.");
}
