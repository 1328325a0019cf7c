// Texts of a page. Everything that a model, a teacher or a log says becomes text nodes, never markup.

// What a screen would not show, or would let rearrange or hide the text around it.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|\p{Cs}/gu;

// The words that were searched for, in lower case; they are marked wherever they are shown.
export const sought = { words: "" };

export function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}

function name(code) {
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  return code === 0x7f ? "\u2421" : "U+" + code.toString(16).toUpperCase().padStart(4, "0");
}

// Appends `text` with its control characters shown, and the words that were searched for marked.
export function put(element, text) {
  text = String(text ?? "");
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    marked(element, text.slice(from, match.index));
    element.append(make("span", "control", name(match[0].codePointAt(0))));
    from = match.index + match[0].length;
  }
  marked(element, text.slice(from));
  return element;
}

function marked(element, text) {
  const low = text.toLowerCase();
  // Lower case may be longer than the text was; then nothing is marked.
  for (let from = 0; text; ) {
    const place = sought.words && low.length === text.length ? low.indexOf(sought.words, from) : -1;
    element.append(text.slice(from, place < 0 ? undefined : place));
    if (place < 0) return;
    element.append(make("mark", "mark", text.slice(place, place + sought.words.length)));
    from = place + sought.words.length;
  }
}

export const words = (tag, style, text) => put(make(tag, style), text);
export const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
export const signed = (value) => (value > 0 ? "+" : value < 0 ? "−" : "") + Number(Math.abs(value).toPrecision(3));
