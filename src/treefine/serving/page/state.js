// The state of the page, and its form in a link: after the #, which browsers do not send to servers.

import { decisionOf, spelled } from "./decisions.js";

export const MOST_STEPS = 8;
const LONGEST_LINK = 32000; // characters; not every browser opens longer links
const INITIALS = ["empty", "own", "given"];

/** Return whether a text is CoNLL-U: a line starts with a word number and a tab. */
export function isConllu(text) {
  return /^\d+([-.]\d+)?\t/m.test(text);
}

/** Return whether a text is CoNLL-U with heads. */
export function hasHeads(text) {
  return /^\d+\t(?:[^\t\n]*\t){5}\d+\t/m.test(text);
}

/** Return the text or CoNLL-U to parse. Pasted trees replace a plain text. */
export function sourceOf(state) {
  return usesTrees(state) ? state.trees : state.text;
}

function usesTrees(state) {
  return state.initial === "given" && !isConllu(state.text);
}

/** Return the request for the server, without empty fields. */
export function requestOf(state, constraints) {
  // stop_above 1 refines until nothing changes, so the page shows all steps.
  const request = { initial: state.initial, steps: state.steps, stop_above: 1 };
  if (state.model) request.model = state.model;
  if (state.language) request.language = state.language;
  request[isConllu(state.text) || usesTrees(state) ? "conllu" : "text"] = sourceOf(state);
  if (state.keep === "nothing") request.keep = state.keep; // the marks of the input are among the constraints
  if (constraints.length) request.constraints = constraints;
  return request;
}

/** Return a link to this page with the state after its #, or null if it would be too long. */
export function linkOf(state) {
  const link = `${location.href.split("#", 1)[0]}#${toFragment(state)}`;
  return link.length <= LONGEST_LINK ? link : null;
}

function toFragment(state) {
  const fields = new URLSearchParams({ text: state.text, initial: state.initial, steps: state.steps });
  if (usesTrees(state)) fields.set("trees", state.trees);
  if (state.model) fields.set("model", state.model);
  if (state.language) fields.set("language", state.language);
  if (state.sentence > 1) fields.set("sentence", state.sentence);
  if (state.t !== null) fields.set("t", state.t);
  if (state.keep === "nothing") fields.set("keep", state.keep);
  for (const decision of state.decisions) fields.append("decide", spelled(decision));
  return fields.toString();
}

/** Return the state of a link, or null if it has none. Invalid parts are ignored, because anyone may have written the link. */
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
    language: fields.get("language") ?? "",
    initial: INITIALS.includes(fields.get("initial")) ? fields.get("initial") : null, // null: as the text suggests
    steps: whole("steps", 1, 999999),
    sentence: whole("sentence", 1, 999999) ?? 1,
    t: whole("t", 0, 999),
    keep: fields.get("keep") === "nothing" ? "nothing" : "marked",
    decisions: fields.getAll("decide").map(decisionOf).filter((decision) => decision !== null),
  };
}
