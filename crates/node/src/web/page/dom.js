// Elements, and numbers for people.

const SVG = "http://www.w3.org/2000/svg";

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

/** An HTML element. Text is text: nothing that a node says is ever read as HTML. */
export const el = (name, attributes = {}, ...children) =>
  build(document.createElement(name), attributes, children);

/** An SVG element. */
export const svg = (name, attributes = {}, ...children) =>
  build(document.createElementNS(SVG, name), attributes, children);

export const byId = (id) => document.getElementById(id);

/** Sets a text only if it is another one: a screen reader then speaks only news. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** About three digits. */
function digits(value) {
  return value < 10 && value % 1 ? value.toFixed(1) : String(Math.round(value));
}

function scaled(value, step, units) {
  let unit = 0;
  while (value >= step * 0.9995 && unit < units.length - 1) {
    value /= step;
    unit += 1;
  }
  return [digits(value), units[unit]];
}

/** Bytes, as `cards status` writes them. */
export function bytes(value) {
  return scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]).join(" ");
}

/** Bytes per second. */
export const byteRate = (value) => `${bytes(value)}/s`;

/** A number, or how often. */
export const count = (value) => scaled(value, 1000, ["", "k", "M", "G", "T"]).join("");

/** How often a second. */
export const rate = (value) => `${count(value)}/s`;

/** A time given in seconds. */
export function time(seconds) {
  if (seconds < 1e-3) return `${digits(seconds * 1e6)} µs`;
  if (seconds < 1) return `${digits(seconds * 1e3)} ms`;
  return `${digits(seconds)} s`;
}

/** A share in percent; a dash if there is nothing to share. */
export function percent(part, of) {
  if (!(of > 0)) return "–";
  const value = (100 * part) / of;
  if (value > 0 && value < 1) return "< 1 %";
  return value < 100 && value > 99 ? "> 99 %" : `${Math.round(value)} %`;
}

/** A time of day, from seconds since 1970. */
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");

/** How long a daemon has been up. */
export function uptime(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} days`;
}

/** A text in lines of so many characters, the last one cut. */
export function wrap(text, most, lines) {
  const all = [""];
  for (const word of text.split(" ")) {
    const longer = all.at(-1) ? `${all.at(-1)} ${word}` : word;
    if (longer.length <= most || !all.at(-1)) all[all.length - 1] = longer;
    else all.push(word);
  }
  if (all.length <= lines) return all.map((line) => cut(line, most));
  const kept = all.slice(0, lines - 1);
  return [...kept, cut(all.slice(kept.length).join(" "), most)];
}

/** A text cut to so many characters. */
export const cut = (text, most) => (text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text);
