// The map of a volume: for each node, which part of the volume is in its memory.

import { bytes, el, percent, say } from "./dom.js";
import { byName } from "./model.js";

const TALL = 18;
/** A cell of which only little is cached is still seen. */
const LEAST = 0.16;

export class VolumeMap {
  constructor(parent) {
    this.rows = el("div", { class: "rows" });
    const grid = el("div", { class: "grid" });
    this.note = el("p", { class: "note" });
    this.slider = el("input", { type: "range", min: "0", max: "0", value: "0", "aria-label": "Place in the volume" });
    this.place = el("output", { class: "place", "aria-live": "polite" });
    this.ends = el("div", { class: "ends", "aria-hidden": "true" });
    this.scale = el("div", { class: "row" }, el("span", {}), this.ends, el("span", {}));
    this.cursor = el("div", { class: "row" }, el("span", { class: "soft" }, "look at"), this.slider, el("span", {}));
    grid.append(this.rows, this.scale, this.cursor);
    parent.append(grid, this.place, this.note);
    this.slider.addEventListener("input", () => this.look());
    this.rows.addEventListener("pointermove", (event) => {
      if (event.target.tagName !== "CANVAS" || !this.answer) return;
      const { left, width } = event.target.getBoundingClientRect();
      this.slider.value = Math.floor(((event.clientX - left) / width) * this.cells);
      this.look();
    });
    this.drawn = new Map();
    this.clear("No volume yet.");
  }

  clear(reason) {
    this.answer = null;
    this.drawn.clear();
    this.rows.replaceChildren();
    this.cursor.hidden = true;
    this.scale.hidden = true;
    say(this.place, "");
    say(this.note, reason);
  }

  /** Takes an answer of `/v1/map`. */
  show(answer) {
    this.answer = answer;
    this.cells = Math.max(0, ...answer.nodes.map(({ map }) => map?.cells.length ?? 0));
    this.cursor.hidden = this.scale.hidden = this.cells === 0;
    this.slider.max = Math.max(0, this.cells - 1);
    const rows = answer.nodes.sort(byName).map((node) => this.row(node));
    if (rows.some((row, at) => this.rows.children[at] !== row) || this.rows.children.length !== rows.length) {
      this.rows.replaceChildren(...rows);
    }
    this.ends.replaceChildren(...[0, 0.5, 1].map((part) => el("span", {}, bytes(part * answer.size))));
    const exact = answer.nodes.every(({ map }) => !map || map.exact);
    const each = bytes(answer.size / Math.max(1, this.cells));
    say(this.note, `Each mark is ${each} of ${answer.volume}; the darker, the more of it is in the node's memory.` +
      (exact ? "" : " Of each, 128 blocks are looked up.") + (answer.more ? ` ${answer.more} nodes cache less of it.` : ""));
    this.look();
  }

  row({ name, map, error }) {
    let row = this.drawn.get(name);
    if (!row) {
      row = { share: el("span", { class: "share" }), canvas: el("canvas", { role: "img", height: TALL }) };
      row.element = el("div", { class: "row" }, el("span", { class: "name", title: name }, name), row.canvas, row.share);
      this.drawn.set(name, row);
    }
    const cached = map ? map.cached_blocks * this.answer.block : 0;
    const text = map ? bytes(cached) : "no answer";
    say(row.share, text);
    row.share.title = map ? `${percent(cached, this.answer.size)} of the volume` : error ?? "";
    row.canvas.setAttribute("aria-label", `${name} caches ${map ? percent(cached, this.answer.size) : "an unknown part"}`);
    row.canvas.width = Math.max(1, this.cells);
    const pen = row.canvas.getContext("2d");
    pen.clearRect(0, 0, row.canvas.width, TALL);
    pen.fillStyle = getComputedStyle(row.canvas).color;
    (map?.cells ?? []).forEach((thousandths, cell) => {
      if (thousandths === 0) return;
      pen.globalAlpha = LEAST + ((1 - LEAST) * thousandths) / 1000;
      pen.fillRect(cell, 0, 1, TALL);
    });
    return row.element;
  }

  /** Says what is cached at the place of the slider. */
  look() {
    if (!this.answer || this.cells === 0) return;
    const { size, nodes } = this.answer;
    const cell = Math.min(Number(this.slider.value), this.cells - 1);
    const range = `${bytes((cell * size) / this.cells)} to ${bytes(((cell + 1) * size) / this.cells)}`;
    const holders = nodes.filter(({ map }) => map?.cells[cell] > 0);
    const text = holders.map(({ name, map }) => `${name} ${percent(map.cells[cell], 1000)}`).join(", ");
    this.slider.setAttribute("aria-valuetext", range);
    say(this.place, `${range}: ${text || "in no memory"}`);
  }
}
