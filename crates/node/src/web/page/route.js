// What the page shows, as the part of its address behind the #: #/node/n1, #/volume/disk, or all.

import { el } from "./dom.js";

const KINDS = ["node", "volume"];

/** What an address asks for: { kind, name }, null for all, undefined for what is none of ours. */
export function parse(hash) {
  if (hash === "" || hash === "#" || hash === "#/") return null;
  const [, kind, name] = hash.match(/^#\/(\w+)\/(.+)$/) ?? [];
  if (!KINDS.includes(kind)) return undefined;
  try {
    return { kind, name: decodeURIComponent(name) };
  } catch {
    return undefined;
  }
}

const link = (kind) => (name) => el("a", { href: `#/${kind}/${encodeURIComponent(name)}` }, name);

export const nodeLink = link("node");
export const volumeLink = link("volume");
