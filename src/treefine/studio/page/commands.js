// Keys, buttons and fields: what each of them does.

import { post } from "./api.js";
import { takeTree, takeWord } from "./annotators.js";
import { attach, chooseHead, edit, editCell, editLines, parse, range, setLabel, setStatus, showSplit, split, take, undo } from "./changes.js";
import { $ } from "./dom.js";
import { commandOf, helpOf } from "./keys.js";
import { draw, findSentences, labelField, labelsInOrder, leave, open, openFile, queue, search, select } from "./sentence.js";
import { act, clock, correct, count, report, state } from "./state.js";
import { settings } from "./view.js";

const chosen = () => state.sentence.words[state.selected - 1];
const cell = (column) => () => editCell(state.selected, column);
const forbid = (column) => () => {
  const { selected: word } = state;
  correct(() => edit({ do: "forbid", word, column }));
};

const COMMANDS = {
  move: (event) => {
    const step = (event.key === "ArrowRight") === (state.sentence.direction !== "rtl") ? 1 : -1;
    const isChoosing = state.target !== null;
    const from = isChoosing ? state.target : event.shiftKey && state.last ? state.last : state.selected;
    const to = Math.min(state.sentence.words.length, Math.max(isChoosing ? 0 : 1, from + step));
    if (isChoosing) Object.assign(state, { target: to, typed: "" });
    else if (event.shiftKey && state.selected) state.last = to;
    else Object.assign(state, { selected: to, last: 0 });
    draw();
  },
  up: () => { if (chosen()?.head) select(chosen().head); },
  down: () => { const child = state.sentence.words.find(({ head }) => state.selected && head === state.selected); if (child) select(child.number); },
  edge: (event) => select(event.key === "Home" ? 1 : state.sentence.words.length),
  nextDoubt: () => {
    const isDoubtful = ({ number, keeps_head: one, keeps_label: two }) => !(one && two) && (state.advice?.confidence[number - 1] ?? 0) < state.project.doubtful;
    const words = [...state.sentence.words.slice(state.selected), ...state.sentence.words.slice(0, state.selected)];
    const doubtful = state.advice && words.find(isDoubtful);
    if (doubtful) select(doubtful.number);
  },
  escape: () => select(state.target === null ? 0 : state.selected),
  head: chooseHead,
  root: () => attach(state.selected, 0),
  label: () => labelField.focus(),
  digit: (event) => {
    const label = labelsInOrder()[(+event.key + 9) % 10];
    if (label) setLabel(label, true);
  },
  confirm: () => {
    const word = chosen();
    const isDecided = word.keeps_head || word.keeps_label || word.not_heads.length || word.not_labels.length;
    correct(() => edit({ do: isDecided ? "free" : "keep", words: [word.number] }));
  },
  confirmAll: () => correct(() => edit({ do: "keep", words: state.sentence.words.map(({ number }) => number) })),
  forbidHead: forbid("head"),
  forbidLabel: forbid("label"),
  refuse: () => act(async () => { if (state.followed.length) await undo({ isRefusal: true }); }),
  take: () => {
    const suggestion = state.advice?.suggestions.find(({ word }) => !state.selected || word === state.selected);
    if (suggestion) take(suggestion);
  },
  parse: () => correct(parse),
  upos: cell("upos"),
  xpos: cell("xpos"),
  lemma: cell("lemma"),
  feats: cell("feats"),
  form: cell("form"),
  split: showSplit,
  join: () => { const [word, last] = range(); if (last > word) correct(() => edit({ do: "join_words", word, last })); },
  multiword: () => {
    const { selected } = state;
    const isInToken = state.sentence.tokens.some(({ first, last }) => first <= selected && selected <= last);
    const [word, last] = range();
    correct(() => edit(isInToken ? { do: "remove_multiword", word: selected } : { do: "make_multiword", word, last }));
  },
  splitSentence: () => { const { selected: word } = state; if (word > 1) correct(() => edit({ do: "split_sentence", word })); },
  joinSentence: () => correct(() => edit({ do: "join_sentences" })),
  comments: () => $("comments").focus(),
  lines: () => { editLines(); $("lines").focus(); },
  done: () => {
    if (state.target === null) correct(() => setStatus("done"));
    else attach(state.selected, state.target);
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
const NEEDS_WORD = ["head", "root", "label", "digit", "confirm", "forbidHead", "forbidLabel", "upos", "xpos", "lemma", "feats", "form", "split", "join", "multiword", "splitSentence"];
const NEEDS_NO_TREE = ["next", "previous", "undo", "redo", "help", "search", "queue", "lines"];

function go(step) {
  return act(async () => {
    const key = queue.neighbour(step);
    if (key !== null) await open(key);
  });
}

/** Run a command; return whether there is one. Commands that change nothing count as actions too. */
export function run(name, event = null) {
  if (!name || !state.sentence) return false;
  if (!state.sentence.words && !NEEDS_NO_TREE.includes(name)) {
    report("These lines are not a valid sentence. Correct them first.");
    return false;
  }
  if (!state.selected && NEEDS_WORD.includes(name)) {
    report("Select a word first, with a click or the arrow keys.");
    return true;
  }
  const { actions } = clock;
  COMMANDS[name](event);
  if (clock.actions === actions) count();
  return true;
}

document.addEventListener("keydown", (event) => {
  const isField = event.target.matches("input:not([type=checkbox], [type=radio], [type=range]), textarea, select");
  const isUndo = event.target === $("label") && !$("label").value && (event.ctrlKey || event.metaKey);
  if ((isField && !isUndo) || $("help").open || document.querySelector(":popover-open")) return;
  if (["Enter", " "].includes(event.key) && event.target.matches("button, a, summary")) return;
  if (event.target === $("rows") && ["ArrowDown", "ArrowUp"].includes(event.key)) {
    event.preventDefault();
    go(event.key === "ArrowDown" ? 1 : -1).then(() => $("rows").focus());
  } else if (event.target === $("rows") && event.key === "Enter") $("tree").focus();
  else if (state.target !== null && /^[0-9]$/.test(event.key)) {
    const typed = state.typed + event.key;
    if (+typed > state.sentence.words.length) return;
    Object.assign(state, { typed, target: +typed });
    draw();
  } else if (run(commandOf(event), event)) event.preventDefault();
});

for (const each of document.querySelectorAll("[data-do]")) each.addEventListener("click", () => run(each.dataset.do));
for (const name of ["problem", "notice"]) $(name).querySelector("button").addEventListener("click", () => { $(name).hidden = true; });
for (const name of ["focusin", "pointerdown"]) {
  document.addEventListener(name, (event) => {
    if (state.target === null || $("tree").contains(event.target)) return;
    state.target = null; // work elsewhere ends the choice of a head
    draw();
  });
}
$("close-help").addEventListener("click", () => $("help").close());
$("keys").append(...helpOf());

// The list of sentences

$("file").addEventListener("change", () => act(async () => {
  await leave();
  $("show").value = "all";
  $("search").value = "";
  await openFile(+$("file").value);
}));
for (const name of ["order", "show"]) $(name).addEventListener("change", () => act(search));
$("find").addEventListener("submit", (event) => { event.preventDefault(); act(search); });
$("search").addEventListener("input", () => { $("found").textContent = $("search").value ? "Press Enter to search." : ""; });
$("search").addEventListener("search", () => { if (!$("search").value) act(findSentences); });

// Fields

/** Call `leave` when a person presses Escape in a field; the drawing then has the focus. */
function onEscape(id, leave = () => {}) {
  $(id).addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    leave();
    $("tree").focus();
  });
}

const closeLines = () => { $("lines-form").hidden = true; };
onEscape("search");
onEscape("comments");
onEscape("lines", closeLines);
onEscape("split", () => { $("split-form").hidden = true; });
$("head").addEventListener("change", () => {
  const head = $("head").value.trim();
  const isPossible = /^\d+$/.test(head) && +head <= state.sentence.words.length && +head !== state.selected;
  if (isPossible) attach(state.selected, +head);
  else report(`The head must be another word, from 1 to ${state.sentence.words.length}, or 0 for ROOT.`);
});
$("split-form").addEventListener("submit", (event) => { event.preventDefault(); split(false); });
$("split-multiword").addEventListener("click", () => split(true));
$("split").addEventListener("keydown", (event) => { if (event.key === "Enter" && event.shiftKey) { event.preventDefault(); split(true); } });
$("lines-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const lines = $("lines").value.split("\n");
  const version = +$("lines").dataset.version;
  correct(async () => { await edit({ do: "source", lines }, version); closeLines(); });
});
$("lines-cancel").addEventListener("click", () => { closeLines(); $("tree").focus(); });
$("comments").addEventListener("focus", () => { $("comments").dataset.version = state.sentence.version; });
$("comments").addEventListener("change", () => {
  const lines = $("comments").value.split("\n");
  const version = +$("comments").dataset.version;
  correct(() => edit({ do: "comments", lines }, version), { focus: "" });
});
$("adopt").addEventListener("click", () => act(async () => { state.project.parser = await post("adopt", {}); $("learning").hidden = true; }));
