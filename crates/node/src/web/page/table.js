// A table that scrolls within its own box.

import { el } from "./dom.js";

/** Rows of a table; of more, the first. */
const ROWS_MAX = 1100;

/** Columns are [heading, cell of a row, whether it is a number]. The first cell names the row. `below` says what stands in a
 * line of its own below a row, if anything. What has the focus keeps it. */
export function table(parent, caption, columns, rows, nothing, below = () => null) {
  const head = columns.map(([heading, , number]) => el("th", { scope: "col", class: number && "number" }, heading));
  const body = rows.slice(0, ROWS_MAX).flatMap((row) => {
    const cells = columns.map(([, cell, number], at) => {
      const value = cell(row);
      return el(at ? "td" : "th", { class: number && "number", scope: at ? undefined : "row" },
        value === null || value === undefined || value === "" ? "–" : value);
    });
    const more = below(row);
    const line = more && el("tr", { class: "below" }, el("td", { colspan: columns.length }, el("p", {}, more)));
    return [el("tr", { class: more && "above" }, ...cells), ...(line ? [line] : [])];
  });
  let box = parent.querySelector(".scroll");
  if (!box) {
    box = el("div", { class: "scroll", tabindex: "0", role: "region" }, el("table"));
    parent.append(box);
  }
  box.setAttribute("aria-label", caption);
  const whole = rows.length
    ? [el("caption", {}, caption), el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body)]
    : [el("caption", { class: "nothing" }, nothing)];
  const focus = box.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  box.firstChild.replaceChildren(...whole);
  if (focus) [...box.querySelectorAll("a")].find((one) => one.getAttribute("href") === focus)?.focus({ preventScroll: true });
}
