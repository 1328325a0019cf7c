// The reading room: the list with its filters, the trajectory that is open, and the keys.

import { make, plural, put, signed, sought, words } from "./text.js";
import { COLOURS, colour, drawAlone, largest, recoveries, turnCard } from "./turns.js";

const ROW = 52; // pixels, the height of .entry in style.css
const SPARE = 6; // rows kept above and below those in sight
const OUTCOMES = ["all", "won", "failed"];
const FILE = 0, LINE = 1, TASK = 2, KIND = 3, GROUP = 4, WON = 5, SCORE = 6, TURNS = 7, PIVOTAL = 8, RECOVERIES = 9;

const at = (id) => document.getElementById(id);
const log = { run: "", files: [], tasks: [], kinds: [], rows: [], problems: [] };
const view = { shown: [], place: -1, record: null, turn: 0, other: null, otherRow: null, found: null };
const filter = { outcome: "all", file: "", kind: "", pivotal: false, recovered: false };

// ---- small helpers

const fileName = (row) => log.files[row[FILE]].name;
const occasion = (file) => `${file.occasion}, ${file.occasion === "training" ? "step " + file.step : "after " + plural(file.step, "step")}`;

async function ask(address) {
  const answer = await fetch(address);
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error ?? answer.statusText);
  return content;
}

// ---- the list

async function load() {
  Object.assign(log, await ask("/api/index"));
  document.title = `${log.run}: trajectories`;
  at("run").replaceChildren();
  put(at("run"), log.run);
  choices("file", "every step", log.files.map((file) => [file.name, occasion(file)]));
  choices("kind", "every type", log.kinds.map((kind) => [kind, kind]));
  at("problems").hidden = !log.problems.length;
  at("problems").querySelector("summary").textContent = `${plural(log.problems.length, "line")} cannot be read`;
  at("problems").querySelector("ul").replaceChildren(...log.problems.map((text) => words("li", "", text)));
  apply();
}

function choices(id, every, options) {
  const select = at(id);
  select.replaceChildren(new Option(every, ""), ...options.map(([value, text]) => new Option(text, value)));
  select.value = filter[id];
}

function wanted(row) {
  return (
    (filter.outcome === "all" || (filter.outcome === "won") === !!row[WON]) &&
    (!filter.file || fileName(row) === filter.file) &&
    (!filter.kind || log.kinds[row[KIND]] === filter.kind) &&
    (!filter.pivotal || row[PIVOTAL] > 0) &&
    (!filter.recovered || row[RECOVERIES] > 0) &&
    (!view.found || view.found.keys.has(`${fileName(row)}/${row[LINE]}`))
  );
}

function apply() {
  const current = view.shown[view.place];
  view.shown = log.rows.filter(wanted);
  const more = view.found && !view.found.complete ? " (search stopped at the first 1,000)" : "";
  at("count").textContent = `${view.shown.length.toLocaleString("en")} of ${plural(log.rows.length, "trajectory").replace(/ys$/, "ies")}${more}`;
  for (const button of at("outcome").children) button.classList.toggle("on", button.dataset.value === filter.outcome);
  for (const id of ["pivotal", "recovered"]) at(id).classList.toggle("on", filter[id]);
  at("rows").style.height = `${view.shown.length * ROW}px`;
  view.place = current ? view.shown.findIndex((row) => row[FILE] === current[FILE] && row[LINE] === current[LINE]) : -1;
  reveal();
  drawList();
  if (view.place < 0) view.shown.length ? open(0) : nothing();
}

// Scrolls the list as little as brings the chosen row into sight.
function reveal() {
  const list = at("list"), top = view.place * ROW;
  if (view.place < 0) return;
  if (top < list.scrollTop) list.scrollTop = top;
  if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
}

function nothing() {
  view.record = null;
  at("reader").replaceChildren(make("p", "quiet start", "No trajectory matches."));
}

// Only the rows in sight exist.
function drawList() {
  const list = at("list"), first = Math.max(0, Math.floor(list.scrollTop / ROW) - SPARE);
  const last = Math.min(view.shown.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + SPARE);
  const rows = [];
  for (let place = first; place < last; place++) rows.push(entry(view.shown[place], place));
  at("rows").replaceChildren(...rows);
}

function entry(row, place) {
  const file = log.files[row[FILE]];
  const element = make("div", "entry" + (place === view.place ? " chosen" : ""));
  element.role = "option";
  element.style.top = `${place * ROW}px`;
  const marks = make("span", "small marks", plural(row[TURNS], "turn"));
  if (row[RECOVERIES]) marks.prepend(make("i", "dot recovery"));
  if (row[PIVOTAL]) marks.prepend(make("i", "dot pivotal"));
  element.append(
    words("span", "task", shortened(log.tasks[row[TASK]])),
    result(row[WON], row[SCORE]),
    words("span", "small", `${log.kinds[row[KIND]]} · ${occasion(file)} · ${row[LINE]}`),
    marks,
  );
  element.addEventListener("click", () => open(place));
  return element;
}

// Names of tasks often begin alike: the middle goes first.
const shortened = (text) => (text.length > 30 ? text.slice(0, 12) + "…" + text.slice(-17) : text);

function result(won, score) {
  const partial = score > 0 && score < 1 ? ` ${Number(score.toFixed(2))}` : "";
  return make("span", won ? "result won" : "result", (won ? "won" : "failed") + partial);
}

// ---- one trajectory

async function open(place, turn = 0) {
  if (place < 0 || place >= view.shown.length) return;
  view.place = place;
  view.other = null;
  view.otherRow = null;
  const row = view.shown[place];
  reveal();
  drawList();
  try {
    const record = await fetchRecord(row);
    if (view.shown[view.place] !== row) return; // another one was chosen meanwhile
    view.record = record;
    draw();
    go(turn, turn > 0);
    if (!turn) at("reader").scrollTop = 0;
  } catch (error) {
    if (view.shown[view.place] === row) at("reader").replaceChildren(words("p", "start", error.message));
  }
}

const fetchRecord = (row) => ask(`/api/trajectory?file=${encodeURIComponent(fileName(row))}&line=${row[LINE]}`);

function draw() {
  const { record } = view, row = view.shown[view.place];
  const turns = make("div", view.other ? "turns two" : "turns");
  if (view.other) drawBeside(turns, record, view.other, row, view.otherRow);
  else drawAlone(turns, record);
  const top = head(record, row);
  at("reader").replaceChildren(top, turns);
  at("reader").style.scrollPaddingTop = `${top.offsetHeight + 12}px`;
}

function head(record, row) {
  const file = log.files[row[FILE]], line = make("div", "headline"), same = sameTask(row);
  line.append(
    words("h2", "", record.task),
    result(row[WON], row[SCORE]),
    words("span", "quiet", `${record.kind} · ${occasion(file)} · rollout ${row[LINE]}`),
    make("span", "spacer"),
  );
  if (same.length) line.append(beside(same));
  const strip = make("div", "strip"), tried = recoveries(record);
  record.turns.forEach((turn, number) => {
    const button = make("button", stripClass(turn, tried.has(number)), String(number + 1));
    button.addEventListener("click", () => go(number));
    strip.append(button);
  });
  strip.append(legend(record));
  return make("header", "", line, strip);
}

const stripClass = (turn, tried) => [turn.pivotal && "pivotal", turn.accepted === false && "rejected", tried && "recovered"].filter(Boolean).join(" ");

const sameTask = (row) => log.rows.filter((other) => other[TASK] === row[TASK] && other !== row);

function beside(same) {
  const select = make("select", "");
  select.id = "beside";
  select.append(new Option(`compare with … (${same.length})`, ""));
  same.forEach((row, i) => select.append(new Option(`${occasion(log.files[row[FILE]])}, rollout ${row[LINE]}: ${row[WON] ? "won" : "failed"}`, i)));
  if (view.otherRow) select.value = String(same.indexOf(view.otherRow));
  select.addEventListener("change", () => compare(select.value === "" ? null : same[Number(select.value)]));
  return select;
}

async function compare(row) {
  const asked = view.shown[view.place], found = row ? await fetchRecord(row) : null;
  if (view.shown[view.place] !== asked) return;
  view.otherRow = row;
  view.other = found;
  draw();
  go(found ? parting(view.record, found) : view.turn);
}

// The first turn at which two trajectories do not do the same.
function parting(one, other) {
  const place = one.turns.findIndex((turn, i) => turn.action !== other.turns[i]?.action);
  return place < 0 ? one.turns.length - 1 : place;
}

function compareNext() {
  const row = view.shown[view.place];
  const same = row ? sameTask(row) : [];
  if (!same.length) return;
  // The same game under another checkpoint comes before the other rollouts of this step.
  same.sort((a, b) => (a[FILE] === row[FILE]) - (b[FILE] === row[FILE]) || a[FILE] - b[FILE] || a[LINE] - b[LINE]);
  compare(same[(same.indexOf(view.otherRow) + 1) % same.length]);
}

function legend(record) {
  const element = make("span", "legend");
  const button = make("button", "", `colour: ${COLOURS[colour.mode]}`);
  button.style.width = "auto";
  button.style.paddingInline = ".5em";
  button.addEventListener("click", recolour);
  element.append(button);
  const most = largest(record);
  if (most) {
    const scale = make("span", "scale");
    const ends = colour.mode === 2 ? [["n5", signed(-most)], ["n1", "0"]] : [["n5", signed(-most)], ["n2", ""], ["", "0"], ["p2", ""], ["p5", signed(most)]];
    for (const [style, text] of ends) scale.append(make("span", style, text));
    element.append(scale);
  }
  return element;
}

function drawBeside(turns, left, right, leftRow, rightRow) {
  const title = (row) => make("span", "", make("b", "", occasion(log.files[row[FILE]])), `, rollout ${row[LINE]} · `, result(row[WON], row[SCORE]));
  turns.append(make("div", "pair columns", title(leftRow), title(rightRow)));
  const apart = parting(left, right);
  for (let number = 0; number < Math.max(left.turns.length, right.turns.length); number++) {
    const [one, two] = [left.turns[number], right.turns[number]];
    const cards = [one ? turnCard(one, number, left) : make("div"), two ? turnCard(two, number, right) : make("div")];
    if (number === apart) for (const card of cards) card.classList.add("differs");
    delete cards[1].dataset.turn;
    turns.append(make("div", "pair", ...cards));
  }
}

// ---- moving about

function mark(number) {
  view.turn = number;
  for (const card of document.querySelectorAll(".turn[data-turn]")) card.classList.toggle("now", Number(card.dataset.turn) === number);
  document.querySelectorAll(".strip > button").forEach((button, i) => button.classList.toggle("now", i === number));
  const row = view.shown[view.place];
  history.replaceState(null, "", `#${fileName(row)}/${row[LINE]}/${number + 1}`);
}

function go(number, scroll = true) {
  if (!view.record?.turns.length) return;
  mark(Math.max(0, Math.min(number, view.record.turns.length - 1)));
  if (scroll) document.querySelector(`.turn[data-turn="${view.turn}"]`)?.scrollIntoView({ block: "start" });
}

function goPivotal(direction) {
  const turns = view.record?.turns ?? [];
  for (let i = view.turn + direction; i >= 0 && i < turns.length; i += direction) if (turns[i].pivotal) return go(i);
  if (turns[view.turn]?.pivotal) go(view.turn);
}

function redraw() {
  if (!view.record) return;
  const scroll = at("reader").scrollTop;
  draw();
  mark(view.turn);
  at("reader").scrollTop = scroll;
}

function recolour() {
  colour.mode = (colour.mode + 1) % COLOURS.length;
  redraw();
}

function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch { /* then it is not remembered */ }
}

let searches = 0;
async function search() {
  const text = at("search").value.trim(), mine = ++searches;
  if (!text) view.found = null;
  else {
    at("count").textContent = "searching …";
    const answer = await ask(`/api/search?text=${encodeURIComponent(text)}`);
    if (mine !== searches) return;
    view.found = { keys: new Set(answer.found.map(([file, line]) => `${file}/${line}`)), complete: answer.complete };
  }
  sought.words = text.toLowerCase();
  apply();
  redraw();
}

function set(change) {
  Object.assign(filter, change);
  at("list").scrollTop = 0;
  apply();
}

const KEYS = {
  j: () => open(view.place + 1),
  k: () => open(view.place - 1),
  ArrowDown: () => go(view.turn + 1),
  ArrowUp: () => go(view.turn - 1),
  ArrowRight: () => go(view.turn + 1),
  ArrowLeft: () => go(view.turn - 1),
  p: () => goPivotal(1),
  P: () => goPivotal(-1),
  c: compareNext,
  x: () => view.other && compare(null),
  o: () => { const found = document.querySelector(".turn.now .prompt"); if (found) found.open = !found.open; },
  a: recolour,
  f: () => set({ outcome: OUTCOMES[(OUTCOMES.indexOf(filter.outcome) + 1) % 3] }),
  m: () => set({ pivotal: !filter.pivotal }),
  v: () => set({ recovered: !filter.recovered }),
  r: () => load(),
  t: theme,
  "/": () => at("search").focus(),
  "?": () => at("keys").showModal(),
};

function fail(error) {
  at("reader").replaceChildren(words("p", "start", `This cannot be read: ${error.message}`));
}

document.addEventListener("keydown", (event) => {
  if (event.target.id === "search" && ["Escape", "Enter"].includes(event.key)) return event.target.blur();
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || at("keys").open) return;
  const action = KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  Promise.resolve(action()).catch(fail);
});

let waiting;
at("search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(() => search().catch(fail), 250); });
at("list").addEventListener("scroll", drawList);
addEventListener("resize", drawList);
at("file").addEventListener("change", (event) => set({ file: event.target.value }));
at("kind").addEventListener("change", (event) => set({ kind: event.target.value }));
at("outcome").addEventListener("click", (event) => event.target.dataset.value && set({ outcome: event.target.dataset.value }));
at("pivotal").addEventListener("click", () => set({ pivotal: !filter.pivotal }));
at("recovered").addEventListener("click", () => set({ recovered: !filter.recovered }));
at("reader").addEventListener("click", (event) => {
  const card = event.target.closest(".turn[data-turn]");
  if (card) mark(Number(card.dataset.turn));
});
at("reload").addEventListener("click", () => load().catch(fail));
at("theme").addEventListener("click", theme);
at("help").addEventListener("click", () => at("keys").showModal());

function remembered() {
  try { return localStorage.getItem("theme"); } catch { return null; }
}

if (remembered()) document.documentElement.dataset.theme = remembered();
const link = location.hash.slice(1).split("/");
load().then(() => {
  const place = view.shown.findIndex((row) => fileName(row) === link[0] && row[LINE] === Number(link[1]));
  if (place >= 0) open(place, Number(link[2] ?? 1) - 1);
}).catch(fail);
