// The turns of a trajectory: cards of what was shown, said and noted, with a recovery beside what happened.

import { make, put, signed, words } from "./text.js";

export const COLOURS = ["advantage", "teacher's part", "log-prob", "none"];
export const colour = { mode: 0 };

// Which recovery begins after which turn.
export const recoveries = (record) => new Map((record.recoveries ?? []).map((branch) => [branch.after, branch]));

export function drawAlone(turns, record) {
  const tried = recoveries(record);
  let branch = null, step = 0;
  record.turns.forEach((turn, number) => {
    const before = tried.get(number - 1);
    // The next mistake may come before the recovery from the last one has ended.
    if (before && branch) turns.append(make("div", "pair", make("div"), leftOver(branch, step, record)));
    if (before) [branch, step] = [before, 0];
    const card = turnCard(turn, number, record);
    if (!branch) return turns.append(card);
    if (step === 0) turns.append(columns());
    const right = branch.turns[step] ? recoveryCard(branch.turns[step], number, record) : ending("then", branch.final);
    turns.append(make("div", "pair", card, right));
    step += 1;
    if (step > branch.turns.length) branch = null;
  });
  const last = ending("end", record.final, "turn");
  turns.append(branch ? make("div", "pair", last, leftOver(branch, step, record)) : last);
}

function columns() {
  const left = make("span", "", make("b", "", "what happened"), " after the mistake");
  const right = make("span", "", make("b", "", "recovery"), ": what the student did when shown the teacher's action");
  return make("div", "pair columns", left, right);
}

const ending = (title, text, style = "turn recovery") =>
  make("div", style, make("header", "", make("b", "", title)), words("p", "text observation", text));

// What is left of a recovery from turn `step` of it on.
function leftOver(branch, step, record) {
  const element = make("div", "turns");
  element.style.padding = 0;
  branch.turns.slice(step).forEach((turn, i) => element.append(recoveryCard(turn, branch.after + 1 + step + i, record)));
  element.append(ending("then", branch.final));
  return element;
}

export function turnCard(turn, number, record) {
  const card = make("section", "turn" + (turn.pivotal ? " pivotal" : ""));
  card.dataset.turn = number;
  const top = make("header", "", make("b", "", `turn ${number + 1}`));
  if (turn.pivotal) top.append(make("span", "badge pivotal", "pivotal"));
  if (turn.actor === "teacher") top.append(make("span", "badge teacher", "played by the teacher"));
  top.append(facts(turn));
  card.append(top, words("p", "text observation", turn.observation), response(turn, record), acted(turn));
  if (turn.lesson) card.append(words("p", "lesson", turn.lesson));
  if (typeof turn.prompt === "string") card.append(prompt(record, number));
  return card;
}

function recoveryCard(turn, number, record) {
  const top = make("header", "", make("b", "", `turn ${number + 1}`), make("span", "badge recovery", "recovery"), facts(turn));
  const line = acted(turn);
  line.prepend(make("span", "quiet", "hinted"), words("span", "action gold", turn.named), make("span", "quiet", "→"));
  return make("section", "turn recovery", top, words("p", "text observation", turn.observation), response(turn, record), line);
}

function facts(turn) {
  const parts = [];
  if (typeof turn.reward_advantage === "number" && turn.reward_advantage) parts.push(`reward advantage ${signed(turn.reward_advantage)}`);
  if (typeof turn.log_prob === "number") parts.push(`log-prob ${signed(turn.log_prob)}`);
  return make("span", "right", parts.join(" · "));
}

function acted(turn) {
  const line = make("div", "acted");
  const style = turn.action === null || turn.action === undefined ? "missing" : turn.accepted === false ? "rejected" : "";
  line.append(words("span", `action ${style}`, style === "missing" ? "no action" : turn.action));
  if (style === "rejected") line.append(make("span", "quiet", "not carried out"));
  if (turn.gold_action) line.append(make("span", "quiet", turn.pivotal ? "the teacher would have done" : "the teacher, too:"), words("span", "action gold", turn.gold_action));
  return line;
}

function response(turn, record) {
  const element = make("p", "text response");
  if (!Array.isArray(turn.tokens)) return put(element, turn.response);
  const values = credits(turn), most = largest(record);
  turn.tokens.forEach((token, i) => {
    const piece = words("span", `token ${shade(values[i], most)}`, token);
    const parts = [];
    if (turn.advantages) parts.push(`advantage ${signed(turn.advantages[i])}`);
    if (turn.log_probs) parts.push(`log-prob ${signed(turn.log_probs[i])}`);
    piece.title = parts.join(", ");
    element.append(piece);
  });
  return element;
}

// What colours the tokens of a turn.
function credits(turn) {
  if (colour.mode === 2) return turn.log_probs ?? [];
  if (colour.mode === 3 || !turn.advantages) return [];
  const shared = colour.mode === 1 ? (turn.reward_advantage ?? 0) : 0;
  return turn.advantages.map((value) => (Math.abs(value - shared) < 1e-6 ? 0 : value - shared));
}

export function largest(record) {
  const all = [...record.turns, ...(record.recoveries ?? []).flatMap((branch) => branch.turns)];
  return Math.max(0, ...all.map((turn) => credits(turn).reduce((most, value) => Math.max(most, Math.abs(value)), 0)));
}

function shade(value, most) {
  if (!value || !most) return "";
  return (value > 0 ? "p" : "n") + Math.min(5, Math.max(1, Math.ceil((5 * Math.abs(value)) / most)));
}

// The prompt is kept as what it adds to the turn before; put together when it is opened.
function prompt(record, number) {
  const element = make("details", "prompt", make("summary", "", "prompt"));
  element.addEventListener("toggle", () => {
    if (!element.open || element.children.length > 1) return;
    let whole = "", kept = "";
    for (let i = 0; i <= number; i++) {
      const before = i ? whole + (record.turns[i - 1].response ?? "") : "";
      kept = [...before].slice(0, record.turns[i].prompt_kept ?? 0).join("");
      whole = kept + (record.turns[i].prompt ?? "");
    }
    element.append(make("p", "text", words("span", "before", kept), words("span", "", whole.slice(kept.length))));
  });
  return element;
}
