// The state that the modules of the page share, and the order of changes: one is sent after another.

import { Refused } from "./api.js";
import { $ } from "./dom.js";

const IDLE = 60; // seconds without an action after which the clock of a sentence stops

export const state = {
  project: null,
  file: 0, // whose list of sentences is shown
  sentence: null,
  selected: 0, // a word
  last: 0, // the other end of a range of words
  target: null, // the head that the person is choosing for the selected word; null at other times
  typed: "", // digits of that head
  advice: null,
  followed: [], // words that the parser changed because of the last correction
  marked: new Map(), // words that the search found, by sentence
  revision: 0,
};
export const clock = { start: 0, seconds: 0, actions: 0 };
let work = Promise.resolve();
let onStale = async () => {};

/** Call `refresh` when the server refuses a change because the sentence has changed elsewhere. */
export function whenStale(refresh) {
  onStale = refresh;
}

/** Run something after everything before it; show why if it is refused. */
export function queued(change) {
  work = work.then(change).catch(explain);
  return work;
}

/** Run something that the person wants. */
export function act(change) {
  count();
  return queued(change);
}

/** Change the sentence that is on the screen now, and not another one if that is open when the change can be sent. */
export function correct(change, { focus = "tree" } = {}) {
  const { file, key } = state.sentence;
  const forms = formsOf(state.sentence);
  state.target = null;
  if (focus) $(focus).focus({ preventScroll: true });
  return act(() => {
    const now = state.sentence;
    if (now.file === file && now.key === key && formsOf(now) === forms) return change();
    report("The last change was not made: another sentence is open, or its words have changed in the meantime.");
  });
}

function formsOf({ words }) {
  return (words ?? []).map(({ form }) => form).join(" ");
}

async function explain(error) {
  if (!(error instanceof Refused)) {
    reportError(error);
    report("The page has an internal error. All changes up to now are saved. Reload the page.");
    return;
  }
  if (error.status === 409) await onStale().catch(reportError);
  report(error.message);
}

/** Count an action of the person, and the time since the last one. */
export function count() {
  const now = Date.now() / 1000;
  if (clock.start) clock.seconds += Math.min(IDLE, now - clock.start);
  clock.start = now;
  clock.actions += 1;
}

/** Show a problem, or none. */
export function report(text) {
  show($("problem"), text);
}

/** Show a text in its place for messages, which is hidden without a text. */
export function show(message, text) {
  message.hidden = !text;
  (message.querySelector("span") ?? message).textContent = text;
}
