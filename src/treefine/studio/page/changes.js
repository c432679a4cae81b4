// What a person changes: arcs, labels, cells, words and lines. Each change is one action that the server makes.

import { Refused, newId, post } from "./api.js";
import { $, element } from "./dom.js";
import { advise, draw, findSentences, labelField, open, queue, select, showContext, showSteps, tree } from "./sentence.js";
import { correct, count, queued, report, state } from "./state.js";

const FOLLOWED = ["arc", "label", "tree", "forbid", "free"]; // actions after which the parser looks at the rest
let editing = null; // the field that is open in the tree, and what closes it

/** Send an action, show the sentence after it, and let the parser follow. */
export async function edit(action, version = state.sentence.version) {
  const { file, key } = state.sentence;
  const answer = await post("edit", { file, key, version, id: newId(), action, confirms: $("confirms").checked });
  await accept(answer);
  if (FOLLOWED.includes(action.do) && answer.is_changed) await follow();
  else advise();
}

async function accept(answer, { isFollowUp = false } = {}) {
  report("");
  showSteps(answer);
  queue.forget(answer.sentences.map(({ key }) => key));
  const now = answer.sentences.find(({ key }) => key === state.sentence.key) ?? answer.sentences[0];
  if (answer.is_new_order) await findSentences();
  if (!now) return;
  if (now.key !== state.sentence.key) {
    await open(now.key);
    return;
  }
  const selected = Math.min(state.selected, now.words?.length ?? 0);
  Object.assign(state, { sentence: now, followed: isFollowUp ? answer.words : [], selected, last: 0 });
  if (answer.is_changed) state.advice = null;
  draw();
  if (answer.is_new_order) showContext();
  if (document.activeElement === document.body) $("tree").focus({ preventScroll: true }); // what had the focus is gone
}

/** Let the parser change what follows from the correction, and show it. */
async function follow() {
  const { file, key, version } = state.sentence;
  if (!state.project.parser?.is_ready) return;
  const answer = await post("follow", { file, key, version, id: newId() });
  if (answer.is_changed && state.sentence.key === key) await accept(answer, { isFollowUp: true });
  advise();
}

/** Let the parser parse the sentence again; decided arcs stay. */
export async function parse() {
  const { file, key, version } = state.sentence;
  const answer = await post("parse", { file, key, version, id: newId() });
  await accept(answer, { isFollowUp: true });
  if (!answer.is_changed) report("The parser would change nothing.");
  advise();
}

/** Take back the last change or what the parser changed (`isRefusal`), or make a change again. */
export async function undo({ isRedo = false, isRefusal = false } = {}) {
  const { file, revision, sentence: { key } } = state;
  const answer = await post("undo", { file, key, id: newId(), is_redo: isRedo, is_refusal: isRefusal, revision });
  if (!answer.is_changed) return;
  if (!queue.keys.includes(answer.sentences[0]?.key)) await findSentences();
  await accept(answer);
  advise();
}

/** Mark the sentence, and open the next one. */
export async function setStatus(value) {
  const wrong = state.sentence.faults.filter(({ is_error: isError, source }) => isError && source === "treefine");
  const asked = `${state.sentence.key} ${state.sentence.version}`;
  if (value === "done" && wrong.length && state.asked !== asked) {
    state.asked = asked;
    report(`This is not a valid tree yet: ${wrong[0].message} Press Enter again to mark it as done all the same.`);
    return;
  }
  const next = queue.neighbour(1);
  await edit({ do: "status", value });
  if (next !== null) await open(next);
  else report("This was the last sentence of the list.");
}

// Arcs

/** Select a word, ask for the head of the selected one, or take a word as that head. */
export function clickWord(word, isRange) {
  if (state.target !== null && word !== state.selected && !isRange) {
    attach(state.selected, word);
    return;
  }
  count();
  if (isRange && state.selected) select(word, { isRange });
  else if (word === state.selected && state.target === null) chooseHead();
  else select(word);
}

/** Ask for the head of the selected word, until the person chooses one or does something else. */
export function chooseHead() {
  if (!state.selected) return;
  $("tree").focus({ preventScroll: true });
  Object.assign(state, { typed: "", target: state.sentence.words[state.selected - 1].head ?? state.selected });
  draw();
}

/** Attach a word. The person can type its label at once. */
export function attach(word, head) {
  if (!word || word === head) return;
  select(word);
  const attached = async () => {
    const isSame = state.sentence.words[word - 1].head === head;
    await edit(isSame ? { do: "keep", words: [word] } : { do: "arc", word, head });
  };
  correct(attached, { focus: head ? "label" : "tree" });
}

/** Give the selected word a label; `isNew` if it is meant although the treebank does not have it. */
export function setLabel(label, isNew) {
  const { selected: word } = state;
  correct(async () => {
    try {
      await edit({ do: "label", word, label, is_new: isNew });
      const { labels } = state.project.files[state.file];
      if (!labels.includes(label)) labels.push(label);
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 422) throw error;
      if (state.selected !== word) select(word);
      labelField.refuse(label, error.message);
    }
  });
}

/** Take the arc that the parser suggests. */
export function take({ word, head, label }) {
  select(word);
  correct(() => edit({ do: "arc", word, head, label, is_new: true }));
}

// Cells, words and lines

/** Change a column of a word. */
export function setCell(word, column, value, { focus = "tree", onRefused = () => {} } = {}) {
  const set = async () => {
    try {
      await edit({ do: "cell", word, column, value });
    } catch (error) {
      if (error instanceof Refused && error.status !== 409) onRefused();
      throw error;
    }
  };
  correct(set, { focus });
}

/** Return whether a person types into the drawing, which is not drawn again then. */
export function isEditing() {
  return editing !== null;
}

/** Close the field in the drawing, and leave its column as it is. */
export function stopEditing() {
  editing?.cancel();
}

/** Edit a column in its place under the word; `refused` is a value that was typed before and is not valid. */
export function editCell(word, column, refused = null) {
  if (state.selected !== word || state.target !== null) select(word);
  const box = tree.box(word);
  let cell = box.querySelector(column === "form" ? ".form" : `.cell.${column}`);
  if (!cell) box.append((cell = element("span", `cell ${column}`))); // its row is not shown
  const field = element("input", "in-place");
  const before = state.sentence.words[word - 1][column];
  field.value = refused ?? (before === "_" && column !== "form" ? "" : before);
  field.setAttribute("aria-label", `${column} of ${word}`);
  field.spellcheck = false;
  if (["upos", "xpos", "feats"].includes(column)) field.setAttribute("list", `${column}-values`);
  const finish = (isWanted) => {
    if (editing?.field !== field) return;
    editing = null;
    draw();
    const value = field.value.trim();
    const onRefused = () => { if (!editing) editCell(word, column, value); };
    if (isWanted && value !== (before === "_" ? "" : before)) setCell(word, column, value, { onRefused });
  };
  field.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (!["Enter", "Escape", "Tab"].includes(event.key)) return;
    event.preventDefault();
    finish(event.key !== "Escape");
    if (event.key === "Tab") {
      const next = word + (event.shiftKey ? -1 : 1);
      queued(() => { if (!editing && state.sentence.words[next - 1]) editCell(next, column); });
    } else $("tree").focus({ preventScroll: true });
  });
  field.addEventListener("blur", () => finish(field.value.trim() !== refused)); // a click elsewhere gives up
  cell.append(field); // over the cell, so that no word moves
  editing = { field, cancel: () => finish(false) };
  field.focus();
  if (refused === null) field.select();
}

/** Show the lines of the sentence as text. */
export function editLines() {
  $("lines").dataset.version = state.sentence.version;
  $("lines").value = state.sentence.lines.join("\n");
  $("lines-form").hidden = false;
}

/** Ask where the selected word is split. */
export function showSplit() {
  $("split-form").hidden = false;
  $("split").value = state.sentence.words[state.selected - 1].form;
  $("split").focus();
}

/** Split the selected word as the form says. */
export function split(isMultiword) {
  const forms = $("split").value.split("|").map((each) => each.trim()).filter(Boolean);
  const { selected: word } = state;
  $("split-form").hidden = true;
  correct(() => edit({ do: isMultiword ? "split_into_multiword" : "split_word", word, forms }));
}

/** Return the selected words, or the selected one and the next. */
export function range() {
  const { selected, last, sentence } = state;
  if (last && last !== selected) return [Math.min(selected, last), Math.max(selected, last)];
  return [selected, Math.min(selected + 1, sentence.words.length)];
}
