// What the nodes counted: from totals to rates, and the last hour of them in a memory of fixed size. Nothing here
// knows of the page.

/** What is kept of each moment. Names as in `/v1/history`. */
const COUNTED = [
  "reads", "local_hits", "remote_hits", "disk_reads", "failed", "writes", "bytes_read", "bytes_written",
  "bytes_sent", "bytes_received", "evictions", "forwarded", "stored_for_others", "invalidations",
  "locks_asked", "locks_given_up", "lock_waits", "disk_bytes_read", "disk_bytes_written",
  "read_requests", "read_us", "write_requests", "write_us",
];
/** Of these, the worst node's. */
const MOST = ["read_p99_us", "write_p99_us"];
const FIELDS = ["time", "seconds", ...COUNTED, ...MOST];
const CAPACITY = 2600;
/** Seconds after which a sample does not go on where the last one ended. */
const GAP = 15;

/** The last samples, each a row of numbers in one array that never grows. */
export class Ring {
  constructor(capacity = CAPACITY) {
    this.capacity = capacity;
    this.numbers = new Float64Array(capacity * FIELDS.length);
    this.clear();
  }

  clear() {
    this.first = 0;
    this.length = 0;
  }

  push(sample) {
    const place = (this.first + this.length) % this.capacity;
    FIELDS.forEach((field, at) => (this.numbers[place * FIELDS.length + at] = sample[field] ?? 0));
    if (this.length < this.capacity) this.length += 1;
    else this.first = (this.first + 1) % this.capacity;
  }

  /** A number of the sample `index`, the oldest being 0. */
  get(index, field) {
    return this.numbers[((this.first + index) % this.capacity) * FIELDS.length + FIELDS.indexOf(field)];
  }

  /** How often a second. */
  rate(index, field) {
    return this.get(index, field) / this.get(index, "seconds");
  }

  /** Seconds that a request took on average; null if there was none. */
  mean(index, op) {
    const requests = this.get(index, `${op}_requests`);
    return requests > 0 ? this.get(index, `${op}_us`) / requests / 1e6 : null;
  }

  /** Seconds that 99 % of the requests took at most, at the node where that was longest. */
  p99(index, op) {
    const us = this.get(index, `${op}_p99_us`);
    return us > 0 ? us / 1e6 : null;
  }

  /** Whether nothing is missing between the sample and the one before it. */
  goesOn(index) {
    return index > 0 && this.get(index, "time") - this.get(index - 1, "time") <= GAP;
  }

  /** The first sample after a time. */
  after(time) {
    let [low, high] = [0, this.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.get(middle, "time") > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** The sum of what was counted after a time. */
  sum(field, time) {
    let sum = 0;
    for (let index = this.after(time); index < this.length; index += 1) sum += this.get(index, field);
    return sum;
  }
}

/** Node 2 before node 10. */
export const byName = (a, b) => a.name.localeCompare(b.name, "en", { numeric: true });

/** The totals of one node. */
function totals(status) {
  const all = { ...status.counters, disk_bytes_read: 0, disk_bytes_written: 0 };
  for (const disk of status.disks) {
    all.disk_bytes_read += disk.bytes_read;
    all.disk_bytes_written += disk.bytes_written;
  }
  for (const [op, { count, us }] of Object.entries(requests(status))) {
    all[`${op}_requests`] = count;
    all[`${op}_us`] = us;
  }
  return all;
}

/** Requests of a node's clients by kind: how many, what they took together, and how many in each class of time. */
function requests(status) {
  const all = { read: { count: 0, us: 0, classes: new Map() }, write: { count: 0, us: 0, classes: new Map() } };
  for (const { op, total_us, latency } of status.volumes.flatMap(({ io }) => io?.ops ?? [])) {
    if (!all[op]) continue;
    all[op].us += total_us;
    for (const [begin, count] of latency) {
      all[op].count += count;
      all[op].classes.set(begin, (all[op].classes.get(begin) ?? 0) + count);
    }
  }
  return all;
}

/** The time in microseconds that 99 % of the requests since `before` took at most. */
function p99(before, now) {
  const since = [...now.classes].map(([begin, count]) => [begin, difference(count, before.classes.get(begin))]);
  let wanted = 0.99 * since.reduce((sum, [, count]) => sum + count, 0);
  for (const [begin, count] of since.sort(([a], [b]) => a - b)) {
    // Four classes for every power of two.
    const width = begin < 4 ? 1 : 2 ** (Math.floor(Math.log2(begin)) - 2);
    if (count > 0 && count >= wanted) return begin + (width * wanted) / count;
    wanted -= count;
  }
  return 0;
}

const difference = (now, before) => Math.max(0, (now ?? 0) - (before ?? 0));

/** What the node did between two of its statuses; null if they are of two lives, or the same. */
function between(before, now) {
  const seconds = (now.time_ms - before.time_ms) / 1000;
  if (!(seconds > 0) || now.uptime_s < before.uptime_s) return null;
  const [earlier, later] = [totals(before), totals(now)];
  const counted = Object.fromEntries(COUNTED.map((name) => [name, difference(later[name], earlier[name])]));
  const [asked, answered] = [requests(before), requests(now)];
  counted.read_p99_us = p99(asked.read, answered.read);
  counted.write_p99_us = p99(asked.write, answered.write);
  const named = (list, name) => list?.find((item) => item.name === name);
  const disks = now.disks.map((disk) => {
    const old = named(before.disks, disk.name);
    return {
      name: disk.name,
      read: difference(disk.bytes_read, old?.bytes_read) / seconds,
      written: difference(disk.bytes_written, old?.bytes_written) / seconds,
    };
  });
  const sent = now.members.map((member) => {
    const old = named(before.members, member.name) ?? member;
    return { to: member.name, rate: difference(member.bytes_sent, old.bytes_sent) / seconds };
  });
  return { seconds, counted, disks, sent };
}

export class Model {
  constructor() {
    this.ring = new Ring();
    this.previous = new Map();
    this.cluster = null;
    this.nodes = [];
    this.flows = [];
  }

  /** Takes an answer of `/v1/cluster`. */
  hear(cluster) {
    const previous = new Map();
    const sample = { time: 0, seconds: 0 };
    this.flows = [];
    this.cluster = cluster;
    this.nodes = [...cluster.nodes].sort(byName).map((node) => {
      const { name, state, status } = node;
      if (!status) return { name, state, error: node.error, status: null, did: null };
      const old = this.previous.get(name);
      // An answer that is the last one again says nothing new of its rates.
      const did = old && status.time_ms === old.status.time_ms ? old.did : old && between(old.status, status);
      previous.set(name, { status, did });
      if (did) {
        for (const { to, rate } of did.sent) if (rate > 0) this.flows.push({ from: name, to, rate });
        if (did !== old.did) {
          // Rates add up, though the nodes were not asked at the same moment.
          COUNTED.forEach((field) => (sample[field] = (sample[field] ?? 0) + did.counted[field] / did.seconds));
          MOST.forEach((field) => (sample[field] = Math.max(sample[field] ?? 0, did.counted[field])));
          sample.time = Math.max(sample.time, status.time_ms / 1000);
          sample.seconds = Math.max(sample.seconds, did.seconds);
        }
      }
      return { name, state, error: null, status, did };
    });
    this.previous = previous;
    if (sample.seconds > 0) {
      COUNTED.forEach((field) => (sample[field] *= sample.seconds));
      this.ring.push(sample);
    }
  }

  /** Takes an answer of `/v1/history` in place of what is known of the past. */
  recall({ step_ms, fields, samples }) {
    this.ring.clear();
    this.previous.clear();
    let last = null;
    for (const [step, ...values] of samples) {
      const sample = Object.fromEntries(fields.map((field, at) => [field, values[at]]));
      const steps = last === null ? 1 : step - last;
      sample.time = ((step + 1) * step_ms) / 1000;
      sample.seconds = (steps * step_ms) / 1000;
      this.ring.push(sample);
      last = step;
    }
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

  /** The number of samples that may be kept, and of those that are. */
  get memory() {
    return { capacity: this.ring.capacity, samples: this.ring.length };
  }
}
