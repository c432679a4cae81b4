// What the person asks for, and the same in the address of the page: behind the #, which no browser sends to a server.

import { decisionOf, spelled } from "./decisions.js";

export const MOST_STEPS = 8;
const LONGEST_LINK = 32000; // characters; of longer ones not every browser opens the whole
const INITIALS = ["empty", "own", "given"];

/** Whether a text is CoNLL-U: a line of it starts with the number of a word and a tab. */
export function isConllu(text) {
  return /^\d+([-.]\d+)?\t/m.test(text);
}

/** The text or CoNLL-U whose words are parsed: trees that are pasted beside a plain text have words of their own. */
export function sourceOf(state) {
  return usesTrees(state) ? state.trees : state.text;
}

function usesTrees(state) {
  return state.initial === "given" && !isConllu(state.text);
}

/** What is sent to the server; fields that say nothing are left out. */
export function requestOf(state, constraints) {
  // A sentence takes all its steps, as long as they change something: that is what the page is there to show.
  const request = { initial: state.initial, steps: state.steps, stop_above: 1 };
  if (state.model) request.model = state.model;
  request[isConllu(state.text) || usesTrees(state) ? "conllu" : "text"] = sourceOf(state);
  if (constraints.length) request.constraints = constraints;
  return request;
}

/** A link to this page with the state behind its #; null where it would be too long. */
export function linkOf(state) {
  const link = `${location.href.split("#", 1)[0]}#${toFragment(state)}`;
  return link.length <= LONGEST_LINK ? link : null;
}

function toFragment(state) {
  const fields = new URLSearchParams({ text: state.text, initial: state.initial, steps: state.steps });
  if (usesTrees(state)) fields.set("trees", state.trees);
  if (state.model) fields.set("model", state.model);
  if (state.sentence > 1) fields.set("sentence", state.sentence);
  if (state.t !== null) fields.set("t", state.t);
  for (const decision of state.decisions) fields.append("decide", spelled(decision));
  return fields.toString();
}

/** The state of a link, or null where it has none. Anybody may have written it: what is not as it should be is left out. */
export function fromFragment(fragment) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  if (!fields.has("text")) return null;
  const whole = (name, least, most) => {
    const value = fields.get(name) ?? "";
    return /^\d{1,6}$/.test(value) && +value >= least && +value <= most ? +value : null;
  };
  return {
    text: fields.get("text"),
    trees: fields.get("trees") ?? "",
    model: fields.get("model") ?? "",
    initial: INITIALS.includes(fields.get("initial")) ? fields.get("initial") : "empty",
    steps: whole("steps", 1, 999999),
    sentence: whole("sentence", 1, 999999) ?? 1,
    t: whole("t", 0, 999),
    decisions: fields.getAll("decide").map(decisionOf).filter((decision) => decision !== null),
  };
}
