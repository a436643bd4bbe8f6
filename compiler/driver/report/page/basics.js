"use strict";
// Formats numbers and creates elements. Names come from models, so they only become text nodes and attributes, never HTML.

const UNITS = ["", "k", "M", "G", "T", "P"];

// A number with three digits and a prefix for powers of 1000: "12.3 MB".
function scaled(value, unit, names) {
  let step = 0;
  while (value >= 999.5 && step < names.length - 1) {
    value /= 1000;
    ++step;
  }
  const digits = step === 0 && Number.isInteger(value) ? 0 : value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return value.toFixed(digits) + " " + names[step] + unit;
}
const bytesText = (bytes) => scaled(bytes, "B", ["", "K", "M", "G", "T", "P"]);
const countText = (count) => scaled(count, "", UNITS).trim();
const rateText = (rate, unit) => scaled(rate, unit + "/s", UNITS);
const rounded = (value) => Math.round(value * 10) / 10;  // for coordinates in pixels
const percentText = (fraction) => (100 * fraction).toFixed(fraction < 0.0995 && fraction > 0 ? 1 : 0) + " %";
const plural = (count, noun) => count + " " + noun + (count === 1 ? "" : noun.endsWith("ch") ? "es" : "s");

// A ratio as text: "0.25", "12", "140".
const ratioText = (ratio) => (ratio >= 99.5 ? ratio.toFixed(0) : ratio.toPrecision(2));

function microsecondsText(us) {
  return us >= 1000 ? scaled(us / 1000, "ms", [""]) : us.toFixed(us < 100 ? 2 : 0) + " us";
}

// The text, or only its beginning and its end if it is longer than `most` characters.
function shortened(text, most) {
  const letters = Array.from(text);
  if (letters.length <= most) return text;
  const tail = Math.floor((most - 1) / 2);
  return letters.slice(0, most - 1 - tail).join("") + "\u2026" + letters.slice(letters.length - tail).join("");
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === "") continue;
    element.append(child instanceof Node ? child : document.createTextNode(child));
  }
  return element;
}
const html = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const span = (name, ...children) => html("span", { class: name }, ...children);
const byId = (id) => document.getElementById(id);

function replaceAll(element, ...children) {
  element.replaceChildren();
  return fill(element, null, children);
}
