// The last hour of samples in a memory of fixed size. Nothing here knows of the page.

/** What is kept of each moment. Names as in `/v1/history`. */
export const COUNTED = [
  "reads", "local_hits", "remote_hits", "disk_reads", "failed", "writes", "bytes_read", "bytes_written",
  "bytes_sent", "bytes_received", "evictions", "forwarded", "stored_for_others", "invalidations",
  "locks_asked", "locks_given_up", "lock_waits", "disk_bytes_read", "disk_bytes_written",
  "read_requests", "read_us", "write_requests", "write_us",
];
/** Of these, the worst node's. */
export const MOST = ["read_p99_us", "write_p99_us"];
const FIELDS = ["time", "seconds", ...COUNTED, ...MOST];
/** More than an hour of intervals of five seconds. */
const CAPACITY = 760;
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

  /** Whether a sample is still how things are. */
  isRecent(index, now) {
    return now - this.get(index, "time") <= GAP;
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
