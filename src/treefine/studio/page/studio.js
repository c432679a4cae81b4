// The studio: what the person sees and does. The server keeps the sentences; this page sends it one action at a time.

import { Refused, get, newId, post, whenConnectionChanges } from "./api.js";
import { commandOf, helpOf } from "./keys.js";
import { $, LabelField, arcText, element, showAgreement, showFaults, showSuggestions, showWord } from "./panel.js";
import { Queue } from "./queue.js";
import { Tree } from "./tree.js";

const FOLLOWED = ["arc", "label", "tree", "forbid", "free"]; // actions after which the parser looks at the rest
const POLL = 1500; // milliseconds between two looks at the state of the server
const IDLE = 60; // seconds without an action after which the clock of a sentence stops
const N_CONTEXT = 2; // sentences below the current one
const TAB = newId();

const state = {
  project: null,
  file: 0,
  sentence: null,
  selected: 0, // a word
  last: 0, // the other end of a range of words
  mode: "idle", // "awaiting": the next click names the head; "head": the keyboard chooses it
  target: null, // the head that the keyboard is at
  advice: null,
  followed: [], // words that the parser changed because of the last correction
  marked: new Map(), // words that the search found, by sentence
  revision: 0,
  typed: "", // digits of a head
};
let work = Promise.resolve(); // changes are sent one after another
let editing = null; // the field that is open in the tree; nothing is drawn while a person types there
const clock = { start: 0, seconds: 0, actions: 0 };

const tree = new Tree($("tree"), {
  onWord: clickWord,
  onDrop: (word, head) => attach(word ?? state.selected, head),
  onArc: (word) => { count(); select(word); labelField.focus(); },
  onCell: (word, column) => { count(); editCell(word, column); },
  onNothing: () => select(0),
});
const queue = new Queue($("rows"), (key) => { count(); act(() => open(key)); });
const labelField = new LabelField({
  onLabel: setLabel,
  onEnter: () => run("done"),
  onEscape: () => { $("tree").focus(); },
  onMove: (event) => { $("tree").focus(); run(commandOf(event), event); },
});

/** Run something after everything before it; show why if it is refused. */
function queued(change) {
  work = work.then(change).catch(explain);
  return work;
}

/** Run something that the person wants. */
function act(change) {
  count();
  return queued(change);
}

/** Change the sentence that is on the screen now, and not another one if that is open when the change can be sent. */
function correct(change, { focus = "tree" } = {}) {
  const { file, key } = state.sentence;
  const forms = formsOf(state.sentence);
  state.mode = "idle";
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
  if (error.status === 409) await refresh().catch(reportError);
  report(error.message);
}

/** Show the sentence again as it is now, or the first one of the list if it does not exist any more. */
async function refresh() {
  await findSentences();
  state.followed = [];
  await open(state.sentence.key, { isSame: true }).catch(() => open(queue.keys[0]));
}

function count() {
  const now = Date.now() / 1000;
  if (clock.start) clock.seconds += Math.min(IDLE, now - clock.start);
  clock.start = now;
  clock.actions += 1;
}

function report(text) {
  $("problem").hidden = !text;
  $("problem").querySelector("span").textContent = text;
}

// Opening

async function begin() {
  settings.load();
  state.project = await get("project");
  const { files, is_example: isExample } = state.project;
  const asked = new URLSearchParams(location.hash.slice(1));
  state.file = Math.min(files.length - 1, Math.max(0, +asked.get("file") || 0));
  $("file-field").hidden = files.length < 2;
  $("file").replaceChildren(...files.map(({ name }, index) => new Option(name, index, false, index === state.file)));
  $("file-name").hidden = files.length > 1;
  $("file-name").textContent = isExample ? "an example to try" : files[0].name;
  document.querySelector("#order [value=difference]").hidden = !state.project.references.length;
  if (state.project.references.length) $("order").value = "difference";
  showAgreement(state.project.agreement);
  const notices = files.map(({ notice }) => notice).filter(Boolean).join(" ");
  if (notices) show($("notice"), notices);
  welcome();
  await openFile(+asked.get("key") || null);
  poll();
}

async function openFile(key = null) {
  const file = state.project.files[state.file];
  tree.listeners.doubtful = state.project.doubtful;
  for (const column of ["upos", "xpos", "feats"]) {
    $(`${column}-values`).replaceChildren(...file[column].map((value) => new Option(value, value)));
  }
  $("export-marks").href = `api/export?file=${state.file}&marks=1`;
  $("export-plain").href = `api/export?file=${state.file}&marks=0`;
  await findSentences();
  const first = key !== null && queue.keys.includes(key) ? key : queue.keys[0];
  if (first !== undefined) await open(first);
}

/** Fill the list of sentences; return whether the query is valid. */
async function findSentences() {
  const fields = { file: state.file, order: $("order").value, show: $("show").value, search: $("search").value };
  try {
    const found = await get("queue", fields);
    state.marked = new Map(Object.entries(found.marked).map(([key, words]) => [+key, words]));
    queue.show(state.file, found.keys);
    const n = found.keys.length;
    const isAll = fields.show === "all" && !fields.search.trim();
    $("found").textContent = isAll ? "" : n ? `${n.toLocaleString("en")} sentence${n === 1 ? "" : "s"}` : noMatch(fields.search);
    $("found").classList.remove("fault");
    showProgress(found);
    return true;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    $("found").textContent = error.message;
    $("found").classList.add("fault");
    return false;
  }
}

/** Show the sentences that were asked for, and open the first. After a mistake in the query, everything stays. */
async function search() {
  const asked = $("search").value;
  if (!(await findSentences()) || !queue.keys.length) return;
  await open(queue.keys[0]);
  if ($("search").value === asked) $("tree").focus({ preventScroll: true }); // else the person types the next query
}

function noMatch(search) {
  const arc = /^\s*(\S+)\s+(-\S*->)\s+(\S+)\s*$/.exec(search);
  return arc ? `No sentence matches. The arrow goes from the head to its dependent: try ${arc[3]} ${arc[2]} ${arc[1]}` : "No sentence matches.";
}

async function open(key, { isSame = false } = {}) {
  if (!isSame) await leave();
  const sentence = await get("sentence", { file: state.file, key });
  if (!isSame) editing?.cancel();
  Object.assign(state, { sentence, advice: null });
  if (!isSame) {
    Object.assign(state, { selected: 0, last: 0, mode: "idle", followed: [] });
    Object.assign(clock, { start: Date.now() / 1000, seconds: 0, actions: 0 });
    report("");
    $("lines-form").hidden = true;
  }
  history.replaceState(null, "", `#file=${state.file}&key=${key}`);
  queue.choose(key);
  draw();
  if (!isSame && !document.activeElement.matches("input, textarea")) $("tree").focus({ preventScroll: true });
  advise();
  showContext();
}

async function leave() {
  if (!state.sentence || !clock.actions) return;
  const { file, key } = state.sentence;
  const { seconds, actions } = clock;
  clock.actions = 0;
  await post("spent", { file, key, seconds, actions });
}

async function advise() {
  const { file, key, version } = state.sentence;
  if (!state.sentence.words || !state.project.parser?.is_ready) return;
  const found = await get("advice", { file, key }).catch(() => null); // the parser or the sentence is not there any more
  const now = state.sentence;
  if (now?.file !== file || now.key !== key || now.version !== version || found?.version !== version) return;
  state.advice = found.advice;
  draw();
}

async function showContext() {
  const { file, key } = state.sentence;
  const keys = [...Array(N_CONTEXT).keys()].map((index) => queue.neighbour(index + 1)).filter((each) => each !== null);
  const sentences = await Promise.all(keys.map((each) => get("sentence", { file, key: each }).catch(() => null)));
  if (state.sentence?.key !== key) return;
  $("context").replaceChildren();
  for (const each of sentences.filter((found) => found?.words)) {
    const card = element("article", "card");
    const title = element("button", "link", `${each.number} ${each.sent_id}`);
    const host = element("div", "small");
    card.append(title, host);
    card.addEventListener("click", () => act(() => open(each.key)));
    $("context").append(card);
    new Tree(host).show(each, { cells: [] });
  }
}

// Drawing

function draw() {
  if (editing) return;
  const { sentence, selected, last, target, advice, followed } = state;
  const isValid = Boolean(sentence.words);
  $("place").textContent = [`${sentence.number}`, sentence.sent_id, statusText(sentence)].filter(Boolean).join(" · ");
  $("text").textContent = sentence.text;
  $("done").setAttribute("aria-pressed", String(sentence.status === "done"));
  $("doubtful").setAttribute("aria-pressed", String(sentence.status === "doubtful"));
  $("sentence").dataset.status = sentence.status;
  $("tree").hidden = !isValid;
  if (!isValid && document.activeElement !== $("lines")) editLines();
  showFaults(sentence.faults, (word) => { count(); select(word); });
  if (document.activeElement !== $("comments")) $("comments").value = (sentence.comments ?? []).join("\n");
  if (isValid) {
    tree.show(sentence, { selected, last, target: state.mode === "head" ? target : null, advice, marks: marksOf(sentence, followed), cells: settings.cells() });
    $("tree").classList.toggle("awaiting", state.mode !== "idle" && selected > 0);
    if (selected) $("tree").setAttribute("aria-activedescendant", `word-${selected}`);
    else $("tree").removeAttribute("aria-activedescendant");
    tree.element(selected)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  showWord(sentence, selected, advice, (word, column, value) => setCell(word, column, value, { focus: "" }));
  if (selected && isValid) labelField.show(`${sentence.file} ${sentence.key} ${selected}`, sentence.words[selected - 1].label, labelsInOrder());
  showOtherArcs();
  showSuggestions(sentence, advice, { onTake: take, onChoose: (word) => { count(); select(word); } });
  $("followed").hidden = !followed.length;
  if (followed.length) {
    $("followed").querySelector("p").textContent = followedText(sentence, selected, followed);
  }
  showOthers();
}

function followedText(sentence, selected, followed) {
  const own = followed.find(({ word }) => word === selected);
  const others = followed.filter(({ word }) => word !== selected).map(({ word }) => `${word} ${sentence.words[word - 1].form}`);
  const chosen = own ? [`The parser chose the label ${sentence.words[selected - 1].label}.`] : [];
  const changed = others.length ? [`It changed ${others.length}${own ? " more" : ""} arc${others.length > 1 ? "s" : ""}: ${others.join(", ")}.`] : [];
  return [...chosen, ...changed].join(" ").replace(/^It/, "The parser");
}

function statusText({ status, is_changed: isChanged }) {
  return { done: "✓ done", doubtful: "? doubtful", open: isChanged ? "changed" : "" }[status];
}

function labelsInOrder() {
  return state.project.files[state.file].labels.filter((label) => label !== "root");
}

function marksOf(sentence, followed) {
  const marks = new Map();
  const add = (word, name) => marks.set(word, [...(marks.get(word) ?? []), name]);
  for (const { word } of followed) add(word, "moved");
  for (const { word, is_error: isError } of sentence.faults) if (word) add(word, isError ? "wrong" : "odd");
  for (const word of state.marked.get(sentence.key) ?? []) add(word, "found");
  for (const word of disputed(sentence)) add(word, "disputed");
  return marks;
}

/** Return the words about which the other annotators differ, or the one other differs from the sentence. */
function disputed({ others = [], words }) {
  if (!others.length || others.some(({ differs }) => differs === null)) return [];
  if (others.length === 1) return differing(others[0]);
  const [a, b] = others;
  const tags = ({ tags }, number) => String(tags.filter(([word]) => word === number));
  return words.map(({ number }) => number).filter((number) => {
    const [one, two] = [a.words[number - 1], b.words[number - 1]];
    return one.head !== two.head || one.label !== two.label || tags(a, number) !== tags(b, number);
  });
}

/** Return the words whose arc or tags differ from the sentence. */
function differing({ differs, tags }) {
  return [...new Set([...differs, ...tags.map(([word]) => word)])].sort((a, b) => a - b);
}

function tagText([, column, value]) {
  return `${column === "lemma" ? column : column.toUpperCase()} ${value}`;
}

function showOthers() {
  const { sentence } = state;
  const others = sentence.others ?? [];
  $("others").replaceChildren(
    ...others.map((other, index) => {
      const card = element("article", "card other");
      const letter = "AB"[index] ?? String(index + 1);
      const head = element("p", "other-head");
      head.append(element("b", "", letter), ` ${other.name} `);
      if (other.words === null) head.append(element("span", "hint", "does not have this sentence"));
      else {
        const n = other.differs && differing(other).length;
        const note = other.differs === null ? "has other words" : n ? `${n} word${n > 1 ? "s differ" : " differs"}` : "as below";
        head.append(element("span", "hint", note));
        if (n || other.differs === null) {
          const button = element("button", "", "Take all ");
          button.append(element("kbd", "", letter));
          button.addEventListener("click", () => takeTree(index));
          head.append(" ", button);
        }
      }
      card.append(head);
      for (const tag of other.tags ?? []) {
        card.append(element("p", "other-tag", `${tag[0]} ${sentence.words[tag[0] - 1].form}: ${tagText(tag)}`));
      }
      return card;
    }),
  );
  others.forEach((other, index) => {
    const isShown = other.words && (other.differs === null || differing(other).length || disputed(sentence).length);
    if (!isShown) return;
    const host = element("div", "small");
    $("others").children[index].append(host);
    const words = other.words.map((word) => ({ ...word, not_heads: [], not_labels: [] }));
    const marks = new Map((other.differs ?? []).map((word) => [word, ["differs"]]));
    new Tree(host).show({ ...sentence, words, tokens: [], empty: [] }, { cells: [], marks });
  });
}

function showOtherArcs() {
  const { sentence, selected } = state;
  const others = (sentence.others ?? []).filter((other) => selected && other.differs && differing(other).includes(selected));
  $("other-arcs").replaceChildren(
    ...others.map((other) => {
      const index = sentence.others.indexOf(other);
      const word = other.words[selected - 1];
      const tags = other.tags.filter(([number]) => number === selected).map(tagText);
      const found = [...(other.differs.includes(selected) ? [arcText(sentence, word)] : []), ...tags];
      const button = element("button", "take", `${other.name}: ${found.join(", ")} `);
      button.append(element("kbd", "", "ab"[index] ?? ""));
      button.addEventListener("click", () => takeWord(index));
      return button;
    }),
  );
}

function welcome() {
  $("welcome").hidden = settings.get("welcomed") === "yes" && !state.project.is_example;
  const words = [["Nobody", 2, "nsubj", "PRON"], ["read", 0, "root", "VERB"], ["the", 5, "det", "DET"], ["last", 5, "amod", "ADJ"], ["page", 2, "obj", "NOUN"], [".", 2, "punct", "PUNCT"]];
  const sentence = {
    key: 0,
    tokens: [],
    empty: [],
    words: words.map(([form, head, label, upos], index) => ({ number: index + 1, form, head, label, upos, not_heads: [], not_labels: [] })),
  };
  new Tree($("welcome-tree")).show(sentence, { cells: ["upos"] });
}

function showProgress(found) {
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
  if ("can_undo" in found) {
    $("undo").disabled = !found.can_undo;
    $("redo").disabled = !found.can_redo;
  }
  state.revision = Math.max(state.revision, found.revision ?? 0);
}

// Changing

async function edit(action, version = state.sentence.version) {
  const { file, key } = state.sentence;
  const confirms = $("confirms").checked;
  const answer = await post("edit", { file, key, version, id: newId(), action, confirms });
  await accept(answer);
  if (FOLLOWED.includes(action.do) && answer.is_changed) await follow();
  else advise();
}

async function accept(answer, { isFollowUp = false } = {}) {
  report("");
  state.revision = Math.max(state.revision, answer.revision);
  $("undo").disabled = !answer.can_undo;
  $("redo").disabled = !answer.can_redo;
  queue.forget(answer.sentences.map(({ key }) => key));
  const own = answer.sentences.find(({ key }) => key === state.sentence.key) ?? answer.sentences[0];
  if (answer.is_new_order) await findSentences();
  if (!own) return;
  const isOther = own.key !== state.sentence.key;
  if (isOther) {
    await open(own.key);
    return;
  }
  state.sentence = own;
  state.followed = isFollowUp ? answer.words : [];
  state.selected = Math.min(state.selected, own.words?.length ?? 0);
  state.last = 0;
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

/** Attach a word. The person can type its label at once. */
function attach(word, head) {
  if (!word || word === head) return;
  select(word);
  const attached = async () => {
    const isSame = state.sentence.words[word - 1].head === head;
    await edit(isSame ? { do: "keep", words: [word] } : { do: "arc", word, head });
  };
  correct(attached, { focus: head ? "label" : "tree" });
}

function setLabel(label, isNew) {
  const { selected: word } = state;
  const labelled = async () => {
    try {
      await edit({ do: "label", word, label, is_new: isNew });
      const { labels } = state.project.files[state.file];
      if (!labels.includes(label)) labels.push(label);
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 422) throw error;
      if (state.selected !== word) select(word);
      labelField.refuse(label, error.message);
    }
  };
  correct(labelled);
}

function setCell(word, column, value, { focus = "tree", onRefused = () => {} } = {}) {
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

function take({ word, arcs: [[, head, label]] }) {
  select(word);
  correct(() => edit({ do: "arc", word, head, label, is_new: true }));
}

function takeWord(index) {
  const { selected: word } = state;
  const other = state.sentence.others?.[index];
  const { head, label } = other?.words?.[word - 1] ?? { head: null };
  const tags = (other?.tags ?? []).filter(([number]) => number === word);
  if (head !== null) correct(() => edit({ do: "arc", word, head, label, is_new: true, tags }));
  else if (tags.length) correct(() => edit({ do: "tree", arcs: [], tags }));
}

function takeTree(index) {
  const other = state.sentence.others?.[index];
  if (!other?.words) return;
  const arcs = other.words.map(({ number, head, label }) => [number, head, label]);
  correct(() => edit(other.differs === null ? { do: "source", lines: other.lines } : { do: "tree", arcs, tags: other.tags }));
}

async function undo({ isRedo = false, isRefusal = false } = {}) {
  const { file, revision, sentence: { key } } = state;
  const answer = await post("undo", { file, key, id: newId(), is_redo: isRedo, is_refusal: isRefusal, revision });
  if (!answer.is_changed) return;
  if (!queue.keys.includes(answer.sentences[0]?.key)) await findSentences();
  await accept(answer);
  advise();
}

/** Mark the sentence, and open the next one. */
async function setStatus(value) {
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

function select(word, { isRange = false } = {}) {
  if (isRange) state.last = word;
  else Object.assign(state, { selected: word, last: 0 });
  state.mode = "idle";
  $("tree").focus({ preventScroll: true }); // first, so that a field of the word before is saved
  draw();
}

function clickWord(word, isRange) {
  if (isRange && state.selected) {
    count();
    select(word, { isRange });
  } else if (state.mode === "awaiting" && state.selected) {
    attach(state.selected, word === state.selected ? 0 : word);
  } else {
    count();
    select(word);
    state.mode = "awaiting";
    draw();
  }
}

/** Edit a column in its place under the word; `refused` is a value that was typed before and is not valid. */
function editCell(word, column, refused = null) {
  if (state.selected !== word || state.mode !== "idle") select(word);
  let cell = tree.element(word)?.querySelector(column === "form" ? ".form" : `.cell.${column}`);
  if (!cell) {
    cell = element("span", `cell ${column}`); // its row is not shown
    tree.element(word).append(cell);
  }
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
    if (event.key === "Enter" || event.key === "Escape") {
      finish(event.key === "Enter");
      $("tree").focus({ preventScroll: true });
      event.preventDefault();
    } else if (event.key === "Tab") {
      event.preventDefault();
      const next = word + (event.shiftKey ? -1 : 1);
      finish(true);
      work.then(() => { if (!editing && state.sentence.words[next - 1]) editCell(next, column); });
    }
  });
  field.addEventListener("blur", () => finish(field.value.trim() !== refused)); // a click elsewhere gives up
  cell.append(field); // over the cell, so that no word moves
  editing = { field, cancel: () => finish(false) };
  field.focus();
  if (refused === null) field.select();
}

function editLines() {
  $("lines").dataset.version = state.sentence.version;
  $("lines").value = state.sentence.lines.join("\n");
  $("lines-form").hidden = false;
}

function splitForm() {
  if (!state.selected) return;
  $("split-form").hidden = false;
  $("split").value = state.sentence.words[state.selected - 1].form;
  $("split").focus();
}

function split(isMultiword) {
  const forms = $("split").value.split("|").map((each) => each.trim()).filter(Boolean);
  const { selected: word } = state;
  $("split-form").hidden = true;
  correct(() => edit({ do: isMultiword ? "split_into_multiword" : "split_word", word, forms }));
}

/** Return the selected words, or the selected one and the next. */
function range() {
  const { selected, last, sentence } = state;
  if (last && last !== selected) return [Math.min(selected, last), Math.max(selected, last)];
  return [selected, Math.min(selected + 1, sentence.words.length)];
}

// Keys

const COMMANDS = {
  move: (event) => {
    const isForward = (event.key === "ArrowRight") === (state.sentence.direction !== "rtl");
    const at = state.mode === "head" ? state.target : event.shiftKey && state.last ? state.last : state.selected;
    const to = Math.min(state.sentence.words.length, Math.max(state.mode === "head" ? 0 : 1, at + (isForward ? 1 : -1)));
    if (state.mode === "head") Object.assign(state, { target: to, typed: "" });
    else if (event.shiftKey && state.selected) state.last = to;
    else Object.assign(state, { selected: to, last: 0, mode: "idle" });
    draw();
    tree.root.classList.toggle("target", state.mode === "head" && state.target === 0);
  },
  up: () => { const { head } = state.sentence.words[state.selected - 1] ?? {}; if (head) select(head); },
  down: () => { const child = state.sentence.words.find(({ head }) => state.selected && head === state.selected); if (child) select(child.number); },
  edge: (event) => select(event.key === "Home" ? 1 : state.sentence.words.length),
  nextDoubt: () => {
    const isDoubtful = ({ number, keeps_head: one, keeps_label: two }) => !(one && two) && (state.advice?.confidence[number - 1] ?? 0) < state.project.doubtful;
    const words = [...state.sentence.words.slice(state.selected), ...state.sentence.words.slice(0, state.selected)];
    const found = state.advice && words.find(isDoubtful);
    if (found) select(found.number);
  },
  escape: () => select(state.mode === "head" ? state.selected : 0),
  head: () => {
    if (!state.selected) return;
    Object.assign(state, { mode: "head", typed: "", target: state.sentence.words[state.selected - 1].head ?? state.selected });
    draw();
  },
  root: () => attach(state.selected, 0),
  label: () => { if (state.selected) labelField.focus(); },
  digit: (event) => {
    const label = labelsInOrder()[(+event.key + 9) % 10];
    if (state.selected && label) setLabel(label, true);
  },
  confirm: () => {
    const word = state.sentence.words[state.selected - 1];
    if (!word) return;
    const isDecided = word.keeps_head || word.keeps_label || word.not_heads.length || word.not_labels.length;
    correct(() => edit({ do: isDecided ? "free" : "keep", words: [word.number] }));
  },
  confirmAll: () => correct(() => edit({ do: "keep", words: state.sentence.words.map(({ number }) => number) })),
  forbidHead: () => forbid("head"),
  forbidLabel: () => forbid("label"),
  refuse: () => act(async () => { if (state.followed.length) await undo({ isRefusal: true }); }),
  take: () => {
    const found = state.advice?.suggestions.find(({ word }) => word === state.selected) ?? (state.selected ? null : state.advice?.suggestions[0]);
    if (found) take(found);
  },
  parse: () => correct(async () => {
    const { file, key, version } = state.sentence;
    const answer = await post("parse", { file, key, version, id: newId() });
    await accept(answer, { isFollowUp: true });
    if (!answer.is_changed) report("The parser would change nothing.");
    advise();
  }),
  upos: () => cellCommand("upos"),
  xpos: () => cellCommand("xpos"),
  lemma: () => cellCommand("lemma"),
  feats: () => cellCommand("feats"),
  form: () => cellCommand("form"),
  split: splitForm,
  join: () => { const [word, last] = range(); if (state.selected && last > word) correct(() => edit({ do: "join_words", word, last })); },
  multiword: () => {
    const { selected } = state;
    if (!selected) return;
    const isInToken = state.sentence.tokens.some(({ first, last }) => first <= selected && selected <= last);
    const [word, last] = range();
    correct(() => edit(isInToken ? { do: "remove_multiword", word: selected } : { do: "make_multiword", word, last }));
  },
  splitSentence: () => { const { selected: word } = state; if (word > 1) correct(() => edit({ do: "split_sentence", word })); },
  joinSentence: () => correct(() => edit({ do: "join_sentences" })),
  comments: () => $("comments").focus(),
  lines: () => { editLines(); $("lines").focus(); },
  done: () => {
    if (state.mode === "head") attach(state.selected, state.target);
    else correct(() => setStatus("done"));
  },
  doubtful: () => correct(() => setStatus("doubtful")),
  open: () => correct(() => edit({ do: "status", value: "open" })),
  next: () => go(1),
  previous: () => go(-1),
  search: () => $("search").focus(),
  queue: () => $("rows").focus(),
  undo: () => act(() => undo()),
  redo: () => act(() => undo({ isRedo: true })),
  takeA: () => takeWord(0),
  takeB: () => takeWord(1),
  treeA: () => takeTree(0),
  treeB: () => takeTree(1),
  wrap: () => settings.choose("wrap", { wraps: "fits", fits: "scrolls", scrolls: "wraps" }[settings.get("wrap")]),
  zoom: (event) => settings.choose("zoom", Math.min(180, Math.max(60, +settings.get("zoom") + (event.key === ">" ? 10 : -10)))),
  help: () => $("help").showModal(),
};

function cellCommand(column) {
  if (state.selected) editCell(state.selected, column);
}

function forbid(column) {
  const { selected: word } = state;
  if (word) correct(() => edit({ do: "forbid", word, column }));
}

function go(step) {
  return act(async () => {
    const key = queue.neighbour(step);
    if (key !== null) await open(key);
  });
}

const NEEDS_WORD = ["head", "root", "label", "digit", "confirm", "forbidHead", "forbidLabel", "upos", "xpos", "lemma", "feats", "form", "split", "join", "multiword", "splitSentence"];

/** Run a command; return whether there is one. Commands that change nothing count as actions too. */
function run(name, event = null) {
  if (!name || !state.sentence) return false;
  if (!state.sentence.words && !["next", "previous", "undo", "redo", "help", "search", "queue", "lines"].includes(name)) {
    report("These lines are not a valid sentence. Correct them first.");
    return false;
  }
  if (!state.selected && NEEDS_WORD.includes(name)) {
    report("Select a word first, with a click or the arrow keys.");
    return true;
  }
  if (state.mode === "awaiting") { // a key ends the wait for a click on the head
    state.mode = "idle";
    $("tree").classList.remove("awaiting");
  }
  const actions = clock.actions;
  COMMANDS[name](event);
  if (clock.actions === actions) count();
  return true;
}

document.addEventListener("keydown", (event) => {
  const isField = event.target.matches("input:not([type=checkbox], [type=radio], [type=range]), textarea, select");
  const isUndo = event.target === $("label") && !$("label").value && (event.ctrlKey || event.metaKey);
  const isSetting = event.target.matches("[type=radio], [type=range]") && /^(Arrow|Home|End|Page)/.test(event.key);
  if ((isField && !isUndo) || isSetting || $("help").open) return;
  if (event.key === "Escape" && closeMenus()) return;
  if (["Enter", " "].includes(event.key) && event.target.matches("button, a, summary")) return;
  if (event.target === $("rows") && ["ArrowDown", "ArrowUp"].includes(event.key)) {
    event.preventDefault();
    go(event.key === "ArrowDown" ? 1 : -1).then(() => $("rows").focus());
    return;
  }
  if (event.target === $("rows") && event.key === "Enter") {
    $("tree").focus();
    return;
  }
  if (state.mode === "head" && /^[0-9]$/.test(event.key)) {
    const typed = state.typed + event.key;
    if (+typed <= state.sentence.words.length) {
      Object.assign(state, { typed, target: +typed });
      draw();
      tree.root.classList.toggle("target", state.target === 0);
    }
    return;
  }
  if (run(commandOf(event), event)) event.preventDefault();
});

// Controls

const BUTTONS = {
  confirm: "confirm", root: "root", "forbid-head": "forbidHead", "forbid-label": "forbidLabel", split: "split", join: "join",
  multiword: "multiword", "split-sentence": "splitSentence", parse: "parse", "confirm-all": "confirmAll", "join-sentence": "joinSentence", lines: "lines",
};
for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", () => run(BUTTONS[button.dataset.do]));
for (const name of ["undo", "redo", "done", "doubtful", "next", "previous", "refuse"]) $(name).addEventListener("click", () => run(name));
$("show-help").addEventListener("click", () => run("help"));
$("close-help").addEventListener("click", () => $("help").close());
$("keys").append(...helpOf());
for (const menu of ["view", "save"]) {
  $(menu).addEventListener("click", () => {
    const isOpen = $(`${menu}-menu`).hidden;
    for (const each of ["view", "save"]) {
      $(`${each}-menu`).hidden = each !== menu || !isOpen;
      $(each).setAttribute("aria-expanded", String(each === menu && isOpen));
    }
  });
}
document.addEventListener("pointerdown", (event) => { if (!event.target.closest("header nav")) closeMenus(); });

/** Close the menus; return whether one was open. */
function closeMenus() {
  const open = ["view", "save"].filter((each) => !$(`${each}-menu`).hidden);
  for (const each of open) {
    if ($(`${each}-menu`).contains(document.activeElement)) $(each).focus();
    $(`${each}-menu`).hidden = true;
    $(each).setAttribute("aria-expanded", "false");
  }
  return open.length > 0;
}
for (const name of ["problem", "notice"]) $(name).querySelector("button").addEventListener("click", () => { $(name).hidden = true; });
$("close-welcome").addEventListener("click", () => { $("welcome").hidden = true; settings.set("welcomed", "yes"); tree.layout(); });
$("file").addEventListener("change", () => act(async () => { await leave(); Object.assign(state, { sentence: null, file: +$("file").value, revision: 0, rated: 0, isSorted: false }); $("show").value = "all"; $("search").value = ""; await openFile(); }));
for (const name of ["order", "show"]) $(name).addEventListener("change", () => act(search));
$("find").addEventListener("submit", (event) => { event.preventDefault(); act(search); });
$("search").addEventListener("input", () => { $("found").textContent = $("search").value ? "Press Enter to search." : ""; });
$("search").addEventListener("search", () => { if (!$("search").value) act(findSentences); });
$("search").addEventListener("keydown", (event) => { if (event.key === "Escape") $("tree").focus(); });
$("head").addEventListener("change", () => {
  const head = $("head").value.trim();
  const isPossible = /^\d+$/.test(head) && +head <= state.sentence.words.length && +head !== state.selected;
  if (isPossible) attach(state.selected, +head);
  else report(`The head must be another word, from 1 to ${state.sentence.words.length}, or 0 for ROOT.`);
});
$("split-form").addEventListener("submit", (event) => { event.preventDefault(); split(false); });
$("split-multiword").addEventListener("click", () => split(true));
$("split").addEventListener("keydown", (event) => {
  if (event.key === "Escape") { $("split-form").hidden = true; $("tree").focus(); }
  if (event.key === "Enter" && event.shiftKey) { event.preventDefault(); split(true); }
});
$("lines-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const lines = $("lines").value.split("\n");
  const version = +$("lines").dataset.version;
  correct(async () => { await edit({ do: "source", lines }, version); $("lines-form").hidden = true; });
});
$("lines-cancel").addEventListener("click", () => { $("lines-form").hidden = true; $("tree").focus(); });
$("lines").addEventListener("keydown", (event) => { if (event.key === "Escape") $("lines-cancel").click(); });
$("comments").addEventListener("focus", () => { $("comments").dataset.version = state.sentence.version; });
$("comments").addEventListener("change", () => {
  const lines = $("comments").value.split("\n");
  const version = +$("comments").dataset.version;
  correct(() => edit({ do: "comments", lines }, version), { focus: "" });
});
$("comments").addEventListener("keydown", (event) => { if (event.key === "Escape") $("tree").focus(); });
$("adopt").addEventListener("click", () => act(async () => { state.project.parser = await post("adopt", {}); $("learning").hidden = true; }));

// View

const settings = {
  get: (name) => localStorage.getItem(`treefine-${name}`) ?? { wrap: "wraps", zoom: "100", cells: "upos xpos lemma feats", colours: "auto", confirms: "no" }[name],
  set: (name, value) => localStorage.setItem(`treefine-${name}`, value),
  cells: () => settings.get("cells").split(" ").filter(Boolean),
  choose(name, value) {
    settings.set(name, value);
    settings.load();
    if (state.sentence) draw();
  },
  load() {
    const wrap = settings.get("wrap");
    for (const each of ["wraps", "fits", "scrolls"]) $("tree").classList.toggle(each, each === wrap);
    for (const radio of document.querySelectorAll("[name=wrap]")) radio.checked = radio.value === wrap;
    for (const radio of document.querySelectorAll("[name=colours]")) radio.checked = radio.value === settings.get("colours");
    for (const box of document.querySelectorAll("#cells input")) box.checked = settings.cells().includes(box.value);
    document.documentElement.dataset.colours = settings.get("colours");
    $("zoom").value = settings.get("zoom");
    $("tree").style.fontSize = `${settings.get("zoom") / 100}rem`;
    $("confirms").checked = settings.get("confirms") === "yes";
  },
};
for (const radio of document.querySelectorAll("[name=wrap], [name=colours]")) radio.addEventListener("change", () => settings.choose(radio.name, radio.value));
$("zoom").addEventListener("input", () => settings.choose("zoom", $("zoom").value));
for (const box of document.querySelectorAll("#cells input")) {
  box.addEventListener("change", () => settings.choose("cells", [...document.querySelectorAll("#cells input:checked")].map(({ value }) => value).join(" ")));
}
$("confirms").addEventListener("change", () => settings.set("confirms", $("confirms").checked ? "yes" : "no"));

// The server

window.addEventListener("beforeunload", (event) => {
  if (!$("connection").hidden) event.preventDefault(); // a change may be waiting
});
document.addEventListener("focusin", (event) => {
  // Work elsewhere ends the wait for a click on the head.
  if (state.mode === "awaiting" && !$("tree").contains(event.target)) {
    state.mode = "idle";
    $("tree").classList.remove("awaiting");
  }
});
whenConnectionChanges((isLost) => { $("connection").hidden = !isLost; });

function show(message, text) {
  message.hidden = !text;
  (message.querySelector("span") ?? message).textContent = text;
}

async function poll() {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, POLL));
    const before = state.revision;
    const { file } = state;
    const found = await get("status", { tab: TAB, file }).catch(() => null);
    if (!found || file !== state.file) continue;
    $("tabs").hidden = !found.other_tabs;
    show($("fault"), found.fault || found.parser?.fault || "");
    const { learning } = found;
    show($("learning"), learning && learning.kind !== "idle" ? learning.message : "");
    $("adopt").hidden = learning?.kind !== "better";
    const isNowReady = found.parser?.is_ready && !state.project.parser?.is_ready;
    const isOtherModel = found.parser?.name !== state.project.parser?.name;
    state.project.parser = found.parser;
    const isElsewhere = found.revision > state.revision && state.revision === before;
    const isAllRead = found.rated > state.rated && found.rated === Object.values(found.counts).reduce((a, b) => a + b);
    state.rated = found.rated;
    showProgress(found);
    if (isElsewhere && state.sentence) queued(refresh);
    else if (isNowReady || isOtherModel) advise();
    if (isAllRead && !state.isSorted && $("order").value === "doubt") queued(findSentences);
    state.isSorted ||= isAllRead; // once, because the list must not change under a person who works
  }
}

window.addEventListener("pagehide", () => {
  const { file, key } = state.sentence ?? {};
  const { seconds, actions } = clock;
  const spent = new Blob([JSON.stringify({ file, key, seconds, actions })], { type: "application/json" });
  if (actions) navigator.sendBeacon("api/spent", spent);
  clock.actions = 0;
  navigator.sendBeacon(`api/leave?tab=${TAB}`);
});

begin();
