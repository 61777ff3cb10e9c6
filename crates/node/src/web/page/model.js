// What the cluster says: its nodes now, and what they did in the last hour. Nothing here knows of the page.

import { between, goesOn } from "./counted.js";
import { COUNTED, MOST, Ring } from "./ring.js";

/** Seconds of an interval of the charts, as in `/v1/history`: shorter ones would be higher and lower than those before them. */
const STEP = 5;
/** Seconds of the first interval at least: it begins when the page does, and ends with a step. */
const STEP_LEAST = 4;

/** Node 2 before node 10. */
export const byName = (a, b) => a.name.localeCompare(b.name, "en", { numeric: true });

/** What several did at the same time: rates add up, though they were not asked at the same moment; of `MOST`, the worst. */
function together(parts) {
  const sample = { seconds: Math.max(...parts.map(({ seconds }) => seconds)) };
  for (const field of COUNTED) {
    sample[field] = parts.reduce((sum, { counted, seconds }) => sum + counted[field] / seconds, 0) * sample.seconds;
  }
  for (const field of MOST) sample[field] = Math.max(...parts.map(({ counted }) => counted[field]));
  return sample;
}

export class Model {
  constructor() {
    this.ring = new Ring();
    this.previous = new Map();
    /** The statuses at the end of the last interval, and when that was. */
    this.begin = null;
    this.cluster = null;
    this.nodes = [];
    this.flows = [];
    this.events = [];
    this.looked = new Ring();
    this.look = null;
  }

  /** Takes an answer of `/v1/cluster`. */
  hear(cluster) {
    const previous = new Map();
    this.flows = [];
    this.cluster = cluster;
    this.nodes = [...cluster.nodes].sort(byName).map((node) => {
      const { name, state, status } = node;
      if (!status) return { name, state, error: node.error, status: null, did: null };
      let last = this.previous.get(name);
      if (last && goesOn(last.status, status)) {
        last = { status, did: between(last.status, status) };
      } else if (!last || status.uptime_s < last.status.uptime_s || status.time_ms < last.status.time_ms) {
        last = { status, did: null };
      }
      previous.set(name, last);
      const { did } = last;
      for (const { to, rate } of did?.sent ?? []) if (rate > 0) this.flows.push({ from: name, to, rate });
      return { name, state, error: null, status, did };
    });
    this.previous = previous;
    this.measure();
  }

  /** Adds an interval to what was measured, if one ends now. */
  measure() {
    const time = this.now();
    const step = Math.floor(time / STEP);
    const { begin } = this;
    if (begin && time >= begin.time && (step === begin.step || time - begin.time < STEP_LEAST)) return;
    const statuses = this.nodes.map(({ status }) => status).filter((status) => status);
    this.begin = { step, time, statuses: new Map(statuses.map((status) => [status.node, status])) };
    const all = statuses.flatMap((status) => {
      const before = begin?.statuses.get(status.node);
      return before && goesOn(before, status) ? [{ node: status.node, ...between(before, status) }] : [];
    });
    const push = (ring, parts) => parts.length && ring.push({ ...together(parts), time });
    push(this.ring, all);
    if (this.look) push(this.looked, this.parts(all));
  }

  /** What the nodes did of what is looked at, of all that they did. */
  parts(all) {
    const { kind, name } = this.look;
    if (kind === "node") return all.filter(({ node }) => node === name);
    const parts = all.filter(({ volumes }) => volumes.has(name));
    return parts.map(({ seconds, volumes }) => ({ seconds, counted: volumes.get(name) }));
  }

  /** Looks at one node or volume, { kind, name }, or at all with null. */
  lookAt(look) {
    this.look = look;
    this.looked.clear();
  }

  /** Takes an answer of `/v1/history` in place of what is known of the past. */
  recall(history) {
    this.previous.clear();
    this.begin = null;
    this.refill(this.ring, history);
    this.events = history.events ?? [];
  }

  /** Takes the history of the one node that is looked at. */
  recallOne(history) {
    this.refill(this.looked, history);
  }

  refill(ring, { step_ms, fields, samples }) {
    ring.clear();
    for (const [step, ...values] of samples) {
      const sample = Object.fromEntries(fields.map((field, at) => [field, values[at]]));
      ring.push({ ...sample, time: ((step + 1) * step_ms) / 1000, seconds: step_ms / 1000 });
    }
  }

  /** What was measured of what is looked at. */
  get shown() {
    return this.look ? this.looked : this.ring;
  }

  /** Whether rates are known: that takes two looks. */
  get measured() {
    return this.nodes.some(({ did }) => did);
  }

  /** The status of the node that was asked. */
  get asked() {
    return this.nodes.find(({ name }) => name === this.cluster?.node)?.status;
  }

  /** The time by that node's clock, in seconds since 1970. */
  now() {
    return (this.asked?.time_ms ?? Date.now()) / 1000;
  }

  /** The sum over the nodes that have answered. */
  sum(of) {
    return this.nodes.reduce((sum, node) => sum + (node.status ? of(node.status) : 0), 0);
  }

  /** All volumes of the cluster by name, as the node that was asked sees them. */
  volumes() {
    return this.asked?.volumes ?? [];
  }

  /** The events that are about what is looked at. */
  happened() {
    if (!this.look) return this.events;
    const { kind, name } = this.look;
    if (kind === "node") return this.events.filter(({ node }) => node === name);
    // What befalls a node befalls its volumes.
    return this.events.filter(({ subject }) => subject === undefined || subject === name);
  }

  /** Slow requests of all nodes that are about what is looked at, the latest first. */
  slow() {
    const { kind, name } = this.look ?? {};
    const nodes = this.nodes.filter(({ status }) => status && (kind !== "node" || status.node === name));
    const all = nodes.flatMap(({ name: at, status }) => status.slow.last.map((request) => ({ at, ...request })));
    return all.filter(({ volume }) => kind !== "volume" || volume === name).sort((a, b) => b.time_ms - a.time_ms);
  }

  /** The number of samples that may be kept, and of those that are. */
  get memory() {
    return { capacity: this.ring.capacity, samples: this.ring.length };
  }
}
