// Charts over time: lines, or areas one upon the other. A chart can be read with the pointer and with the arrow keys.

import { linear, logarithmic, times } from "./axis.js";
import { clock, el, say, svg } from "./dom.js";
import { happening, isBad, isGood } from "./events.js";

const HEIGHT = 160;
const LEFT = 66;
const RIGHT = 6;
const BOTTOM = 18;
const TOP = 12;
/** Pixels within which two marks are one, and within which the cursor is at a mark. */
const NEAR = 4;

export class Chart {
  /** `series`: from the top of the legend down: { label, style, of(ring, index) }, null for nothing known. */
  constructor(parent, { title, note, format, base = 1000, least, stacked = false, log = false, series }) {
    Object.assign(this, { title, format, base, least, stacked, log, series });
    this.values = series.map(() => el("output", {}, "–"));
    this.legend = series.map(({ label, style }, at) =>
      el("li", {}, el("i", { class: `key ${style}` }), `${label} `, this.values[at]));
    this.plot = svg("svg", { role: "img", tabindex: "0", height: HEIGHT });
    this.when = el("output", { class: "when" });
    this.section = el("section", { class: "chart", "aria-label": title },
      el("h2", {}, title, note && el("small", {}, note)), el("ul", { class: "legend" }, ...this.legend), this.plot, this.when);
    parent.append(this.section);
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.mark(null));
    this.plot.addEventListener("blur", () => this.mark(null));
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.cursor = null;
  }

  /** Shows the last `seconds` of the ring, up to `now`, and what happened meanwhile. Of a volume not all is counted. */
  draw(ring, seconds, now, events, isVolume) {
    this.counted = this.series.map(({ ofNodes, of }) => (ofNodes && isVolume ? () => null : of));
    this.legend.forEach((item, at) => (item.hidden = Boolean(this.series[at].ofNodes && isVolume)));
    const width = this.plot.clientWidth || 320;
    this.state = { ring, seconds, now, width, first: ring.after(now - seconds), events };
    const { first } = this.state;
    const points = [];
    const all = [];
    for (let index = first; index < ring.length; index += 1) {
      const values = this.counted.map((of) => of(ring, index));
      const known = values.map((value) => value ?? 0);
      all.push(...(this.stacked ? [known.reduce((a, b) => a + b, 0)] : known));
      const end = this.x(ring.get(index, "time"));
      points.push({ index, values, end, begin: Math.max(LEFT, this.x(ring.get(index, "time") - ring.get(index, "seconds"))) });
    }
    const axis = this.log ? logarithmic(all) : linear(Math.max(this.least, ...all), this.base);
    const y = (value) => TOP + (1 - axis.at(value)) * (HEIGHT - TOP - BOTTOM);
    const shapes = this.stacked ? this.areas(points, y) : this.lines(points, y);
    this.cursorLine = svg("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
    this.plot.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.plot.replaceChildren(...this.grid(axis, y), ...shapes, ...this.marks(), this.cursorLine);
    if (points.length === 0) {
      this.plot.append(svg("text", { class: "nothing", x: (width + LEFT) / 2, y: HEIGHT / 2 }, "nothing measured yet"));
    }
    if (this.cursor !== null && this.cursor < now - seconds) this.cursor = null;
    this.show();
  }

  /** Where a time is. */
  x(time) {
    const { seconds, now, width } = this.state;
    return LEFT + ((time - now + seconds) / seconds) * (width - LEFT - RIGHT);
  }

  grid(axis, y) {
    const { seconds, now, width } = this.state;
    const lines = axis.ticks.flatMap((value) => [
      svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
      svg("text", { class: "axis", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, this.format(value)),
    ]);
    const labels = times(now - seconds, now, (width - LEFT) / 64).flatMap((time) => [
      svg("line", { class: "grid", x1: this.x(time), x2: this.x(time), y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 4 }),
      svg("text", { class: "axis", x: Math.min(this.x(time), width - 17), y: HEIGHT - 3, "text-anchor": "middle" },
        clock(time).slice(0, 5)),
    ]);
    return [...lines, ...labels];
  }

  /** A line for each moment at which something happened, the worst of what is too near to be told apart. */
  marks() {
    const { events, now, seconds } = this.state;
    const places = [];
    for (const event of events.filter(({ time_ms }) => time_ms / 1000 > now - seconds && time_ms / 1000 <= now)) {
      const x = this.x(event.time_ms / 1000);
      const last = places.at(-1);
      if (last && x - last.x < NEAR) last.events.push(event);
      else places.push({ x, events: [event] });
    }
    return places.map(({ x, events: these }) => {
      const kind = these.some(isBad) ? "bad" : these.some(isGood) ? "good" : "plain";
      const words = these.map((event) => `${clock(event.time_ms / 1000)} ${happening(event)}`).join("\n");
      return svg("g", { class: `mark ${kind}` }, svg("title", {}, words),
        svg("line", { x1: x, x2: x, y1: TOP - 4, y2: HEIGHT - BOTTOM }),
        svg("path", { d: `M${x - 5} ${TOP - 10}h10l-5 8Z` }));
    });
  }

  /** Runs of points between which nothing is missing. */
  runs(points, known) {
    const runs = [];
    for (const point of points) {
      if (!known(point)) continue;
      const last = runs.at(-1);
      if (last && last.at(-1).index === point.index - 1 && this.state.ring.goesOn(point.index)) last.push(point);
      else runs.push([point]);
    }
    return runs;
  }

  /** A run as a path: from the begin of its first interval through the end of each. */
  path(run, y) {
    const at = (x, point) => `${x.toFixed(1)} ${y(point).toFixed(1)}`;
    return [at(run[0].begin, run[0]), ...run.map((point) => at(point.end, point))];
  }

  lines(points, y) {
    return this.series.map(({ style }, at) => {
      const runs = this.runs(points, ({ values }) => values[at] !== null);
      const path = runs.map((run) => `M${this.path(run, ({ values }) => y(values[at])).join("L")}`);
      return svg("path", { class: `line ${style}`, d: path.join("") });
    });
  }

  /** The last series lies at the bottom. */
  areas(points, y) {
    const runs = this.runs(points, () => true);
    const sums = new Map(points.map(({ index }) => [index, 0]));
    return this.series.map(({ style }, at) => [style, at]).reverse().map(([style, at]) => {
      const path = runs.map((run) => {
        const sum = ({ index }) => y(sums.get(index));
        const below = this.path(run, sum);
        for (const { index, values } of run) sums.set(index, sums.get(index) + (values[at] ?? 0));
        return `M${this.path(run, sum).join("L")}L${below.reverse().join("L")}Z`;
      });
      return svg("path", { class: `area ${style}`, d: path.join("") });
    });
  }

  point(event) {
    if (!this.state?.ring.length) return;
    const { ring, first, width, now, seconds } = this.state;
    const at = event.clientX - this.plot.getBoundingClientRect().left;
    const time = now - seconds + ((at - LEFT) / (width - LEFT - RIGHT)) * seconds;
    const index = Math.min(Math.max(ring.after(time), first), ring.length - 1);
    this.mark(ring.get(index, "time"));
  }

  key(event) {
    const { ring, first } = this.state ?? {};
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -1e6, End: 1e6 }[event.key];
    if (event.key === "Escape") this.mark(null);
    if (!step || !ring?.length) return;
    event.preventDefault();
    const from = this.cursor === null ? ring.length : ring.after(this.cursor) - 1;
    const index = Math.min(Math.max(from + step, first), ring.length - 1);
    this.mark(ring.get(index, "time"));
  }

  /** Puts the cursor at the sample of a time, or takes it away. */
  mark(time) {
    this.cursor = time;
    if (this.state) this.show();
  }

  /** The numbers beside the legend: those at the cursor, or the latest. */
  show() {
    const { ring, first, events, now } = this.state;
    const index = this.cursor === null ? ring.length - 1 : ring.after(this.cursor) - 1;
    const known = index >= first && index < ring.length && (this.cursor !== null || ring.isRecent(index, now));
    const values = this.counted.map((of) => (known ? of(ring, index) : null));
    const texts = values.map((value) => (value === null ? "–" : this.format(value)));
    texts.forEach((text, at) => say(this.values[at], text));
    const marked = known && this.cursor !== null;
    this.cursorLine.setAttribute("visibility", marked ? "visible" : "hidden");
    let when = "";
    if (marked) {
      const x = this.x(ring.get(index, "time"));
      ["x1", "x2"].forEach((name) => this.cursorLine.setAttribute(name, x));
      const near = events.filter(({ time_ms }) => Math.abs(this.x(time_ms / 1000) - x) <= NEAR);
      when = [`at ${clock(ring.get(index, "time"))}`, ...near.map(happening)].join("; ");
    }
    const parts = this.series.map(({ label }, at) => `${label} ${texts[at]}`).filter((_, at) => !this.legend[at].hidden).join(", ");
    this.plot.setAttribute("aria-label", `${this.title} ${when || "now"}: ${parts}. Arrow keys look back.`);
    say(this.when, when);
  }
}
