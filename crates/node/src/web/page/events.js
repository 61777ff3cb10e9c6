// What has happened, in words.

import { clock, el } from "./dom.js";
import { table } from "./table.js";
import { nodeLink, volumeLink } from "./route.js";

const ROWS_MAX = 12;

const VERBS = {
  started: "was started", joined: "joined the cluster", down: "cannot be reached", died: "was declared dead",
  returned: "is back", left: "left the cluster", attached: "attached", detached: "detached",
  moved: "has the disk of", copy_dropped: "has a stale copy of", copy_filling: "fills its copy of",
  copy_filled: "has in sync again its copy of", copy_added: "has a new copy of", copy_left: "has given up its copy of", grown: "has more room in", error: "has errors", other: "did what this page does not know",
};
const BAD = new Set(["down", "died", "error", "copy_dropped"]);
const GOOD = new Set(["started", "joined", "returned", "copy_filled", "grown"]);

export const isBad = ({ kind }) => BAD.has(kind);
export const isGood = ({ kind }) => GOOD.has(kind);

const verb = (kind) => VERBS[kind] ?? VERBS.other;
const often = ({ count }) => (count > 1 ? `, ${count} times` : "");

/** One event in a line: "n3 was declared dead". */
export function happening(event) {
  const { kind, node, subject, reason } = event;
  const what = kind === "error" ? `${reason}${subject ? ` (${subject})` : ""}${often(event)}` : verb(kind);
  return kind === "error" ? `${node}: ${what}` : `${node} ${what}${subject ? ` ${subject}` : ""}`;
}

/** The latest events as a table. */
export function draw(parent, events, volumes) {
  const latest = [...events].reverse();
  const isVolume = (name) => volumes.some((volume) => volume.name === name);
  table(parent, `The last ${Math.min(ROWS_MAX, latest.length)} of ${latest.length} events that nodes remember`, [
    ["when", ({ time_ms }) => clock(time_ms / 1000)],
    ["node", ({ node }) => nodeLink(node)],
    ["event", (event) => el("span", { class: isBad(event) ? "bad" : isGood(event) ? "well" : "" }, `${verb(event.kind)}${often(event)}`)],
    ["what", ({ subject }) => (subject ? (isVolume(subject) ? volumeLink(subject) : subject) : null)],
    ["said by", ({ by }) => by.join(", ")],
  ], latest.slice(0, ROWS_MAX), "Nothing has happened that a node remembers.",
  ({ reason }) => reason && el("span", { class: "soft" }, reason));
}
