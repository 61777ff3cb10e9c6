// Charts over time: lines, or areas one upon the other. A chart can be read with the pointer and with the arrow keys.

import { clock, el, say, svg } from "./dom.js";

const HEIGHT = 150;
const LEFT = 62;
const BOTTOM = 18;
const TOP = 8;

/** A number at or above `value` that has one digit that counts. */
function round(value, base) {
  const unit = base === 1024 ? 1024 ** Math.floor(Math.log2(Math.max(1, value)) / 10) : 1;
  const scaled = value / unit;
  const power = 10 ** Math.floor(Math.log10(scaled));
  const step = [1, 2, 3, 4, 6, 8, 10].find((step) => step * power >= scaled) ?? 10;
  return step * power * unit;
}

export class Chart {
  /** `series`: from the top of the legend down: { label, style, of(ring, index) }, null for nothing known. */
  constructor(parent, { title, note, format, base = 1000, least, stacked = false, series }) {
    Object.assign(this, { title, format, base, least, stacked, series });
    this.values = series.map(() => el("output", {}, "–"));
    const legend = series.map(({ label, style }, at) =>
      el("li", {}, el("i", { class: `key ${style}` }), `${label} `, this.values[at]));
    this.plot = svg("svg", { role: "img", tabindex: "0", height: HEIGHT });
    this.when = el("output", { class: "when" });
    const section = el("section", { class: "chart", "aria-label": title },
      el("h2", {}, title, note && el("small", {}, note)), this.when, el("ul", { class: "legend" }, ...legend), this.plot);
    parent.append(section);
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.mark(null));
    this.plot.addEventListener("blur", () => this.mark(null));
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.cursor = null;
  }

  /** Shows the last `seconds` of the ring, up to `now`. */
  draw(ring, seconds, now) {
    const width = this.plot.clientWidth || 320;
    this.state = { ring, seconds, now, width, first: ring.after(now - seconds) };
    const { first } = this.state;
    const points = [];
    let most = 0;
    for (let index = first; index < ring.length; index += 1) {
      const values = this.series.map(({ of }) => of(ring, index));
      const known = values.map((value) => value ?? 0);
      most = Math.max(most, this.stacked ? known.reduce((a, b) => a + b, 0) : Math.max(...known));
      points.push({ index, values });
    }
    const top = round(Math.max(most, this.least), this.base);
    const x = (index) => LEFT + ((ring.get(index, "time") - now + seconds) / seconds) * (width - LEFT - 4);
    const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
    this.state.x = x;
    const shapes = this.stacked ? this.areas(points, x, y) : this.lines(points, x, y);
    this.cursorLine = svg("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
    this.plot.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.plot.replaceChildren(...this.grid(width, top, y), ...shapes, this.cursorLine);
    if (points.length === 0) {
      this.plot.append(svg("text", { class: "nothing", x: (width + LEFT) / 2, y: HEIGHT / 2 }, "nothing measured yet"));
    }
    if (this.cursor !== null && this.cursor < now - seconds) this.cursor = null;
    this.show();
  }

  grid(width, top, y) {
    const { seconds, now } = this.state;
    const lines = [0, 0.5, 1].flatMap((part) => [
      svg("line", { class: "grid", x1: LEFT, x2: width - 4, y1: y(part * top), y2: y(part * top) }),
      svg("text", { class: "axis", x: LEFT - 6, y: y(part * top) + 4, "text-anchor": "end" }, this.format(part * top)),
    ]);
    const times = [[0, "start"], [0.5, "middle"], [1, "end"]].map(([part, anchor]) =>
      svg("text", { class: "axis", x: LEFT + part * (width - LEFT - 4), y: HEIGHT - 4, "text-anchor": anchor },
        clock(now - seconds * (1 - part)).slice(0, 5)));
    return [...lines, ...times];
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

  lines(points, x, y) {
    return this.series.map(({ style }, at) => {
      const runs = this.runs(points, ({ values }) => values[at] !== null);
      const path = runs.map((run) => {
        const steps = run.map(({ index, values }) => `${x(index).toFixed(1)} ${y(values[at]).toFixed(1)}`);
        return `M${steps.join("L")}${steps.length === 1 ? "h1" : ""}`;
      });
      return svg("path", { class: `line ${style}`, d: path.join("") });
    });
  }

  /** The last series lies at the bottom. */
  areas(points, x, y) {
    const runs = this.runs(points, () => true);
    const sums = new Map(points.map(({ index }) => [index, 0]));
    return this.series.map(({ style }, at) => [style, at]).reverse().map(([style, at]) => {
      const path = runs.map((run) => {
        const below = run.map(({ index }) => `${x(index).toFixed(1)} ${y(sums.get(index)).toFixed(1)}`);
        const above = run.map(({ index, values }) => {
          sums.set(index, sums.get(index) + (values[at] ?? 0));
          return `${x(index).toFixed(1)} ${y(sums.get(index)).toFixed(1)}`;
        });
        return `M${above.join("L")}L${below.reverse().join("L")}Z`;
      });
      return svg("path", { class: `area ${style}`, d: path.join("") });
    });
  }

  point(event) {
    if (!this.state?.ring.length) return;
    const { ring, first, width, now, seconds } = this.state;
    const at = event.clientX - this.plot.getBoundingClientRect().left;
    const time = now - seconds + ((at - LEFT) / (width - LEFT - 4)) * seconds;
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
    const { ring, first, x } = this.state;
    const index = this.cursor === null ? ring.length - 1 : ring.after(this.cursor) - 1;
    const known = index >= first && index < ring.length;
    const values = this.series.map(({ of }) => (known ? of(ring, index) : null));
    const texts = values.map((value) => (value === null ? "–" : this.format(value)));
    texts.forEach((text, at) => say(this.values[at], text));
    const marked = known && this.cursor !== null;
    this.cursorLine.setAttribute("visibility", marked ? "visible" : "hidden");
    if (marked) ["x1", "x2"].forEach((name) => this.cursorLine.setAttribute(name, x(index)));
    const when = marked ? `at ${clock(ring.get(index, "time"))}` : "";
    const parts = this.series.map(({ label }, at) => `${label} ${texts[at]}`).join(", ");
    this.plot.setAttribute("aria-label", `${this.title} ${when || "now"}: ${parts}. Arrow keys look back.`);
    say(this.when, when);
  }
}
