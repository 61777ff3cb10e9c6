// Axes: where a value is between the ends, and at which values there is a line.

/** Seconds between two times of an axis, full minutes. */
const PAUSES = [60, 120, 300, 600, 900, 1800, 3600];

/** A number at or above `value` that has one digit that counts. */
function above(value, base) {
  const unit = base === 1024 ? 1024 ** Math.floor(Math.log2(Math.max(1, value)) / 10) : 1;
  const scaled = value / unit;
  const power = 10 ** Math.floor(Math.log10(scaled));
  const step = [1, 2, 3, 4, 6, 8, 10].find((step) => step * power >= scaled) ?? 10;
  return step * power * unit;
}

/** From nothing to `most`. */
export function linear(most, base) {
  const top = above(most, base);
  return { at: (value) => value / top, ticks: [0, 0.5, 1].map((part) => part * top) };
}

/** From a power of ten to another, so that all of `values` that are more than nothing lie between. */
export function logarithmic(values) {
  const known = values.filter((value) => value > 0);
  const low = Math.floor(Math.log10(known.length ? Math.min(...known) : 1e-5) + 1e-9);
  const high = Math.max(low + 1, Math.ceil(Math.log10(known.length ? Math.max(...known) : 1e-2) - 1e-9));
  const at = (value) => Math.max(0, (Math.log10(Math.max(value, 1e-12)) - low) / (high - low));
  const pace = Math.ceil((high - low) / 4);
  const ticks = [];
  for (let power = low; power <= high; power += pace) ticks.push(10 ** power);
  return { at, ticks };
}

/** Full minutes between two times, as many as there is room for. */
export function times(from, to, room) {
  const pause = PAUSES.find((pause) => (to - from) / pause <= Math.max(1, room)) ?? to - from;
  const all = [];
  for (let time = Math.ceil(from / pause) * pause; time <= to; time += pause) all.push(time);
  return all;
}
