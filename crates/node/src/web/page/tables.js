// The figures as tables: nodes, volumes, flows, slow requests.

import { byteRate, bytes, clock, el, percent, rate, time, uptime } from "./dom.js";
import { isUp, stateWord } from "./picture.js";

/** Rows of a table; of more, the first. */
const ROWS_MAX = 1100;
const SLOW_MAX = 10;

/** Columns are [heading, cell of a row, whether it is a number]. The first cell names the row. */
function table(parent, caption, columns, rows, nothing) {
  const head = columns.map(([heading, , number]) => el("th", { scope: "col", class: number && "number" }, heading));
  const body = rows.slice(0, ROWS_MAX).map((row) =>
    el("tr", {}, ...columns.map(([, cell, number], at) => {
      const value = cell(row);
      return el(at ? "td" : "th", { class: number && "number", scope: at ? undefined : "row" },
        value === null || value === undefined ? "–" : value);
    })));
  let box = parent.querySelector(".scroll");
  if (!box) {
    box = el("div", { class: "scroll", tabindex: "0", role: "region" }, el("table"));
    parent.append(box);
  }
  box.setAttribute("aria-label", caption);
  const whole = rows.length
    ? [el("caption", {}, caption), el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body)]
    : [el("caption", { class: "nothing" }, nothing)];
  box.firstChild.replaceChildren(...whole);
}

const counted = (field, show) => ({ did }) => (did ? show(did.counted[field] / did.seconds) : null);
const share = (field) => ({ did }) => (did ? percent(did.counted[field], did.counted.reads) : null);
const known = (show) => ({ status }) => (status ? show(status) : null);

export function nodes(parent, model) {
  table(parent, "Nodes: rates are those of the last two seconds", [
    ["node", ({ name }) => name],
    ["state", (node) => el("span", { class: isUp(node) ? "well" : "bad", title: node.error ?? "" },
      `${stateWord(node.state)}${isUp(node) && node.error ? `: ${node.error}` : ""}`)],
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
  ], model.nodes, "No node has answered yet.");
}

export function volumes(parent, model) {
  const text = (policy) => (typeof policy === "string" ? policy : policy ? JSON.stringify(policy) : null);
  const everywhere = (volume) => model.sum(({ volumes }) =>
    (volumes.find(({ name }) => name === volume.name)?.cached_blocks ?? 0) * volume.block);
  table(parent, "Volumes, as the node that serves this page sees them", [
    ["volume", ({ name }) => name],
    ["state", ({ state, reason }) => el("span", { class: state === "ready" ? "well" : "bad" },
      state + (reason ? `: ${reason}` : ""))],
    ["size", ({ size }) => (size ? bytes(size) : null), true],
    ["block", ({ block }) => (block ? bytes(block) : null), true],
    ["policy", ({ policy }) => text(policy)],
    ["disk at", ({ disk_node }) => disk_node],
    ["attached here", ({ attached, read_only }) => (attached ? (read_only ? "ro" : attached.mode) : "no")],
    ["clients here", ({ attached }) => attached?.clients, true],
    ["cached, all nodes", (volume) => bytes(everywhere(volume)), true],
  ], model.volumes(), "No volume is known yet.");
}

export function flows(parent, model) {
  const largest = [...model.flows].sort((a, b) => b.rate - a.rate).slice(0, 100);
  table(parent, "The largest flows", [
    ["from", ({ from }) => from],
    ["to", ({ to }) => to],
    ["rate", (flow) => byteRate(flow.rate), true],
  ], largest, "Nothing flows between nodes.");
}

/** What `/v1/slow` says. */
export function slow(parent, { last, count, threshold_ms, error }) {
  const limit = threshold_ms ? time(threshold_ms / 1000) : "";
  const nothing = error ?? (limit ? `No request took ${limit} or longer.` : "Slow requests are not noted here.");
  table(parent, `The last ${Math.min(SLOW_MAX, last.length)} of ${count} that took ${limit} or longer at this node`, [
    ["when", ({ time_ms }) => clock(time_ms / 1000)],
    ["volume", ({ volume }) => volume],
    ["request", ({ op, failed }) => (failed ? `${op}, failed` : op)],
    ["offset", ({ offset }) => offset, true],
    ["length", ({ length }) => bytes(length), true],
    ["took", ({ took_us }) => time(took_us / 1e6), true],
    ["waited for", ({ waited_for, node }) => (node ? `${waited_for} (${node})` : waited_for)],
  ], last.slice(0, SLOW_MAX), nothing);
}
