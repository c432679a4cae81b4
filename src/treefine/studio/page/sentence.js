// The sentence on the screen: files, searches and sentences are opened, and everything about the sentence is drawn.

import { Refused, get, post } from "./api.js";
import { disputed, showOthers } from "./annotators.js";
import { attach, clickWord, editCell, editLines, isEditing, setCell, setLabel, stopEditing, take } from "./changes.js";
import { run } from "./commands.js";
import { $, element } from "./dom.js";
import { commandOf } from "./keys.js";
import { LabelField, showFaults, showSuggestions, showWord } from "./panel.js";
import { Queue } from "./queue.js";
import { act, clock, count, report, state } from "./state.js";
import { Tree } from "./tree.js";
import { settings } from "./view.js";

const N_CONTEXT = 2; // sentences below the current one

const choose = (word) => { count(); select(word); };
export const tree = new Tree($("tree"), {
  onWord: clickWord,
  onDrop: (word, head) => attach(word ?? state.selected, head),
  onArc: (word) => { choose(word); labelField.focus(); },
  onCell: (word, column) => { count(); editCell(word, column); },
  onNothing: () => select(0),
});
export const queue = new Queue($("rows"), (key) => act(() => open(key)));
export const labelField = new LabelField({
  onLabel: setLabel,
  onEnter: () => run("done"),
  onEscape: () => $("tree").focus(),
  onMove: (event) => { $("tree").focus(); run(commandOf(event), event); },
});

// Opening

/** Open a file. Until its first sentence is there, the person sees the one before, and nothing is changed in it. */
export async function openFile(number, key = null) {
  const file = state.project.files[number];
  Object.assign(state, { file: number, revision: 0, rated: 0, isSorted: false });
  for (const column of ["upos", "xpos", "feats"]) {
    $(`${column}-values`).replaceChildren(...file[column].map((value) => new Option(value, value)));
  }
  for (const [id, marks] of [["export-marks", 1], ["export-plain", 0]]) $(id).href = `api/export?file=${number}&marks=${marks}`;
  await findSentences();
  const first = queue.keys.includes(key) ? key : queue.keys[0];
  if (first !== undefined) await open(first);
}

/** Fill the list of sentences; return whether the query is valid. */
export async function findSentences() {
  const fields = { file: state.file, order: $("order").value, show: $("show").value, search: $("search").value };
  let text;
  const found = await get("queue", fields).catch((error) => {
    if (!(error instanceof Refused)) throw error;
    text = error.message;
  });
  if (found) {
    const n = found.keys.length;
    state.marked = new Map(Object.entries(found.marked).map(([key, words]) => [+key, words]));
    queue.show(state.file, found.keys);
    text = !n ? noMatch(fields.search) : fields.show === "all" && !fields.search.trim() ? "" : `${n.toLocaleString("en")} sentence${n === 1 ? "" : "s"}`;
    if (n && found.n_different === 0) text = `${text} Nothing differs.`.trim();
    showProgress(found);
  }
  $("found").textContent = text;
  $("found").classList.toggle("fault", !found);
  return Boolean(found);
}

/** Show the sentences that were asked for, and open the first. After a mistake in the query, everything stays. */
export async function search() {
  const asked = $("search").value;
  if (!(await findSentences()) || !queue.keys.length) return;
  await open(queue.keys[0]);
  if ($("search").value === asked) $("tree").focus({ preventScroll: true }); // else the person types the next query
}

function noMatch(search) {
  const arc = /^\s*(\S+)\s+(-\S*->)\s+(\S+)\s*$/.exec(search);
  return arc ? `No sentence matches. The arrow goes from the head to its dependent: try ${arc[3]} ${arc[2]} ${arc[1]}` : "No sentence matches.";
}

/** Show a sentence; `isSame` if it is the present one as it is now. */
export async function open(key, { isSame = false } = {}) {
  if (!isSame) await leave();
  const sentence = await get("sentence", { file: state.file, key });
  if (!isSame) {
    stopEditing();
    Object.assign(state, { selected: 0, last: 0, target: null, followed: [] });
    Object.assign(clock, { start: Date.now() / 1000, seconds: 0, actions: 0 });
    report("");
    $("lines-form").hidden = true;
  }
  Object.assign(state, { sentence, advice: null });
  history.replaceState(null, "", `#file=${state.file}&key=${key}`);
  queue.choose(key);
  draw();
  if (!isSame && !document.activeElement.matches("input, textarea")) $("tree").focus({ preventScroll: true });
  advise();
  showContext();
}

/** Show the sentence again as it is now, or the first one of the list if it does not exist any more. */
export async function refresh() {
  await findSentences();
  state.followed = [];
  await open(state.sentence.key, { isSame: true }).catch(() => open(queue.keys[0]));
}

/** Record the time and the actions that the sentence took. */
export async function leave() {
  if (!state.sentence || !clock.actions) return;
  const { file, key } = state.sentence;
  const { seconds, actions } = clock;
  clock.actions = 0;
  await post("spent", { file, key, seconds, actions });
}

/** Ask the parser about the sentence, and draw what it says. */
export async function advise() {
  const { file, key, version, words } = state.sentence;
  if (!words || !state.project.parser?.is_ready) return;
  const found = await get("advice", { file, key }).catch(() => null); // the parser or the sentence is not there any more
  const now = state.sentence;
  if (now.file !== file || now.key !== key || now.version !== version || found?.version !== version) return;
  state.advice = found.advice;
  draw();
}

/** Show the next sentences below this one. */
export async function showContext() {
  const { file, key } = state.sentence;
  const keys = [...Array(N_CONTEXT).keys()].map((index) => queue.neighbour(index + 1)).filter((each) => each !== null);
  const sentences = await Promise.all(keys.map((each) => get("sentence", { file, key: each }).catch(() => null)));
  if (state.sentence.key !== key) return;
  $("context").replaceChildren();
  for (const each of sentences.filter((found) => found?.words)) {
    const card = element("article", "card");
    const host = element("div", "small");
    card.append(element("button", "link", `${each.number} ${each.sent_id}`), host);
    card.addEventListener("click", () => act(() => open(each.key)));
    $("context").append(card);
    new Tree(host).show(each, { cells: [] });
  }
}

// Drawing

/** Select a word, or none; nothing else is asked of the person then. */
export function select(word, { isRange = false } = {}) {
  if (isRange) state.last = word;
  else Object.assign(state, { selected: word, last: 0 });
  state.target = null;
  $("tree").focus({ preventScroll: true }); // first, so that a field of the word before is saved
  draw();
}

/** Draw the sentence and the panel, unless a person types into the drawing. */
export function draw() {
  if (isEditing()) return;
  const { sentence, selected, last, target, advice, followed } = state;
  const { words, status } = sentence;
  const isMarked = { done: "✓ done", doubtful: "? doubtful", open: sentence.is_changed ? "changed" : "" }[status];
  $("place").textContent = [`${sentence.number}`, sentence.sent_id, isMarked].filter(Boolean).join(" · ");
  $("text").textContent = sentence.text;
  for (const id of ["done", "doubtful"]) $(id).setAttribute("aria-pressed", String(status === id));
  $("tree").hidden = !words;
  if (!words && document.activeElement !== $("lines")) editLines();
  showFaults(sentence.faults, choose);
  if (document.activeElement !== $("comments")) $("comments").value = (sentence.comments ?? []).join("\n");
  if (words) {
    tree.show(sentence, { selected, last, target, advice, marks: marksOf(sentence, followed), cells: settings.cells() });
    if (selected) $("tree").setAttribute("aria-activedescendant", `word-${selected}`);
    else $("tree").removeAttribute("aria-activedescendant");
    tree.box(selected)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  showWord(sentence, selected, advice, (word, column, value) => setCell(word, column, value, { focus: "" }));
  document.querySelector("[data-do=head]").setAttribute("aria-pressed", String(target !== null));
  if (selected && words) labelField.show(`${sentence.file} ${sentence.key} ${selected}`, words[selected - 1].label, labelsInOrder());
  showSuggestions(sentence, advice, { onTake: take, onChoose: choose });
  $("followed").hidden = !followed.length;
  if (followed.length) $("followed").querySelector("p").textContent = followedText(words, selected, followed);
  showOthers(sentence, selected);
}

function followedText(words, selected, followed) {
  const others = followed.filter((word) => word !== selected).map((word) => `${word} ${words[word - 1].form}`);
  const hasOwn = others.length < followed.length;
  const changed = others.length ? `changed ${others.length}${hasOwn ? " more" : ""} arc${others.length > 1 ? "s" : ""}: ${others.join(", ")}.` : "";
  if (!hasOwn) return `The parser ${changed}`;
  return `The parser chose the label ${words[selected - 1].label}. ${changed && `It ${changed}`}`.trim();
}

/** Return the labels of the file, the most frequent first. */
export function labelsInOrder() {
  return state.project.files[state.sentence.file].labels.filter((label) => label !== "root");
}

function marksOf(sentence, followed) {
  const marks = new Map();
  const add = (word, name) => marks.set(word, [...(marks.get(word) ?? []), name]);
  for (const word of followed) add(word, "moved");
  for (const { word, is_error: isError } of sentence.faults) if (word) add(word, isError ? "wrong" : "odd");
  for (const word of state.marked.get(sentence.key) ?? []) add(word, "found");
  for (const word of disputed(sentence)) add(word, "disputed");
  for (const { number, keeps_head: one, keeps_label: two } of sentence.words) {
    if ((state.advice?.confidence[number - 1] ?? 1) < state.project.doubtful && !(one && two)) add(number, "doubtful");
  }
  return marks;
}

/** Show how much of the file is done. */
export function showProgress(found) {
  const { counts, errors_left: left, rated, seconds, actions, visited } = found;
  const total = counts.done + counts.doubtful + counts.open;
  $("bar").value = total ? counts.done / total : 0;
  const parts = [`${counts.done.toLocaleString("en")} of ${total.toLocaleString("en")} done`];
  if (counts.doubtful) parts.push(`${counts.doubtful} doubtful`);
  if (state.project.parser && !state.project.parser.fault && rated > counts.done) {
    const share = rated < total ? ` in the ${rated.toLocaleString("en")} sentences that the parser has read` : "";
    parts.push(`about ${Math.round(left).toLocaleString("en")} wrong arc${Math.round(left) === 1 ? "" : "s"} left${share}`);
  }
  if (visited) parts.push(`${(seconds / visited).toFixed(0)} s and ${(actions / visited).toFixed(1)} actions per sentence`);
  $("counted").textContent = parts.join(" · ");
  showSteps(found);
}

/** Show whether there is something to undo or to make again, and remember the newest change. */
export function showSteps(found) {
  $("undo").disabled = !found.can_undo;
  $("redo").disabled = !found.can_redo;
  state.revision = Math.max(state.revision, found.revision);
}
