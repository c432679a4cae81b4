// The panel beside the drawing: the selected word, suggestions of the parser, problems, and agreement.

import { $, button, element } from "./dom.js";

const COLUMNS = ["form", "lemma", "upos", "xpos", "feats", "deps", "misc"];
const MOST_OPTIONS = 10;

/** The field for a label, with completion from the labels of the treebank, the most frequent first. */
export class LabelField {
  constructor({ onLabel, onEnter, onEscape, onMove }) {
    this.field = $("label");
    this.list = $("labels");
    this.problem = $("label-problem");
    this.labels = [];
    this.listeners = { onLabel, onEnter, onEscape, onMove };
    this.field.addEventListener("input", () => this.#filter());
    this.field.addEventListener("keydown", (event) => this.#key(event));
    // The list stays when the field loses the focus, so that nothing moves under the pointer.
    this.field.addEventListener("blur", () => this.#open(this.options));
    this.field.addEventListener("focus", () => this.#filter());
    this.list.addEventListener("pointerdown", (event) => {
      const option = event.target.closest("li");
      event.preventDefault();
      if (option) this.#take(option.dataset.label);
    });
  }

  /** Show the label of a word; `labels` are those of the treebank. Text that a person is typing for it stays. */
  show(place, label, labels) {
    const isTyping = this.place === place && document.activeElement === this.field;
    this.place = place;
    this.labels = labels;
    this.field.placeholder = label;
    if (isTyping) return;
    this.field.value = "";
    this.problem.textContent = "";
    this.refused = null;
    this.#filter();
  }

  focus() {
    this.field.focus();
  }

  /** Say why a label was not taken; a second Enter takes it all the same. */
  refuse(label, message) {
    this.refused = label;
    this.problem.textContent = `${message} Press Enter again to use it.`;
    this.field.value = label;
    this.field.focus();
    this.#open([]);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isEmpty = !this.field.value;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      this.#mark(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      if (isEmpty && this.marked < 0) this.listeners.onEnter();
      else if (this.field.value.trim() === this.refused) this.listeners.onLabel(this.refused, true);
      else this.#take(this.options[Math.max(0, this.marked)] ?? this.field.value.trim());
    } else if (event.key === "Tab" && !event.shiftKey && !isEmpty) this.#take(this.options[Math.max(0, this.marked)] ?? this.field.value.trim());
    else if (event.key === "Escape") this.listeners.onEscape();
    else if (isEmpty && /^[0-9]$/.test(event.key)) this.#take(this.labels[(+event.key + 9) % 10]);
    else if (isEmpty && ["ArrowLeft", "ArrowRight", "Backspace", "Delete", "PageUp", "PageDown"].includes(event.key)) this.listeners.onMove(event);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #take(label) {
    if (label) this.listeners.onLabel(label, false);
  }

  #filter() {
    const own = this.field.value.trim();
    const typed = own.toLowerCase();
    const isExact = this.labels.includes(own);
    const starts = this.labels.filter((each) => each.toLowerCase().startsWith(typed));
    const contains = this.labels.filter((each) => !starts.includes(each) && each.toLowerCase().includes(typed));
    const likeness = (each) => (each === own ? 2 : each.toLowerCase() === typed ? 1 : 0);
    const found = [...starts, ...contains].sort((a, b) => likeness(b) - likeness(a)).slice(0, MOST_OPTIONS);
    this.#open(own && !isExact ? [...found, own] : found, isExact || typed ? 0 : -1);
  }

  #open(options, marked = -1) {
    this.options = options;
    this.marked = options.length ? marked : -1;
    this.field.setAttribute("aria-expanded", String(options.length > 0));
    this.list.replaceChildren(...options.map((label, index) => {
      const option = element("li", index === this.marked ? "marked" : "", label);
      Object.assign(option, { id: `label-${index}`, role: "option", ariaSelected: String(index === this.marked) });
      option.dataset.label = label;
      const place = this.labels.indexOf(label);
      if (place < 10 && !this.field.value) option.append(" ", element("kbd", "", String((place + 1) % 10)));
      return option;
    }));
    if (this.marked >= 0) this.field.setAttribute("aria-activedescendant", `label-${this.marked}`);
    else this.field.removeAttribute("aria-activedescendant");
  }

  #mark(step) {
    if (!this.options.length) return;
    const from = this.marked < 0 && step < 0 ? 0 : this.marked; // up from none is the last one
    const marked = (from + step + this.options.length) % this.options.length;
    this.#open(this.options, marked);
  }
}

/** Show the selected word. */
export function showWord(sentence, number, advice, onCell) {
  const word = sentence.words?.[number - 1];
  $("word-part").hidden = !word;
  if (!word) return;
  const { keeps_head: keepsHead, keeps_label: keepsLabel, not_heads: notHeads, not_labels: notLabels, head } = word;
  const isDecided = keepsHead || keepsLabel;
  const confidence = advice?.confidence[number - 1] ?? null;
  const parts = [
    isDecided ? `You decided ${!keepsLabel ? "the head" : keepsHead ? "this arc" : "the label"}.` : "",
    confidence === null ? "" : `This arc is right with probability ${Math.round(100 * confidence)}%.`,
    ...notHeads.map((other) => `Not the head ${other}.`),
    ...notLabels.map((other) => `Not the label ${other}.`),
  ];
  const labelOf = (command, text) => { document.querySelector(`[data-do=${command}]`).textContent = text; };
  const isInToken = sentence.tokens.some(({ first, last }) => first <= number && number <= last);
  $("word-title").textContent = `${word.number} ${word.form}`;
  $("word-confidence").textContent = parts.filter(Boolean).join(" ");
  if (document.activeElement !== $("head")) $("head").value = head ?? "";
  $("head-form").textContent = head === null ? "" : head ? sentence.words[head - 1].form : "ROOT";
  labelOf("confirm", isDecided || notHeads.length || notLabels.length ? "Free" : "Confirm");
  labelOf("multiword", isInToken ? "Remove multiword token" : "Multiword token");
  document.querySelector("[data-do=splitSentence]").disabled = number === 1;
  document.querySelector("[data-do=join]").disabled = number === sentence.words.length;
  showColumns(word, `${sentence.file} ${sentence.key} ${number}`, onCell);
}

/** Show the columns of a word as fields. A field in which a person types stays as it is. */
function showColumns(word, place, onCell) {
  const host = $("column-fields");
  if (host.dataset.place !== place) {
    host.dataset.place = place;
    host.replaceChildren(
      ...COLUMNS.map((column) => {
        const label = element("label", "", column === "deps" || column === "misc" ? column.toUpperCase() : column);
        const field = element("input");
        field.spellcheck = false;
        field.dataset.column = column;
        if (["upos", "xpos", "feats"].includes(column)) field.setAttribute("list", `${column}-values`);
        field.addEventListener("change", () => onCell(word.number, column, field.value));
        label.append(field);
        return label;
      }),
    );
  }
  for (const field of host.querySelectorAll("input")) {
    const value = word[field.dataset.column];
    if (field !== document.activeElement) field.value = value === "_" && field.dataset.column !== "form" ? "" : value;
  }
}

/** List the places that the parser doubts, with the arc that it would choose instead. */
export function showSuggestions(sentence, advice, { onTake, onChoose }) {
  const suggestions = advice?.suggestions ?? [];
  $("suggestions-part").hidden = !suggestions.length;
  $("suggestions").replaceChildren(...suggestions.map((each) => {
    const word = sentence.words[each.word - 1];
    const confidence = advice.confidence[each.word - 1];
    const now = `${arcText(sentence, word)}${confidence === null ? "" : `, ${Math.round(100 * confidence)}%`}`;
    const item = element("li");
    item.append(button("link", `${word.number} ${word.form}`, () => onChoose(each.word)), element("span", "hint", ` ${now}`));
    item.append(button("take", `→ ${arcText(sentence, each)}`, () => onTake(each), "t"));
    return item;
  }));
}

/** List what `treefine validate` and udtools found. */
export function showFaults(faults, onChoose) {
  $("faults-part").hidden = !faults.length;
  $("faults").replaceChildren(...faults.map((fault) => {
    const item = element("li", fault.is_error ? "fault" : "warning");
    if (fault.word) item.append(button("link", `Word ${fault.word}`, () => onChoose(fault.word)), " ");
    item.append([fault.message, fault.hint].filter(Boolean).join(" "));
    return item;
  }));
}

const AGREEMENT = {
  uas: "heads (UAS)",
  las: "heads and labels (LAS)",
  label: "labels",
  label_kappa: "kappa of labels",
  same_head_label_kappa: "kappa of labels, same head",
  upos: "UPOS",
  upos_kappa: "kappa of UPOS",
  xpos: "XPOS",
  feats: "features",
  lemma: "lemmas",
  identical_trees: "whole trees",
};

/** Show how much two annotators agree. */
export function showAgreement(found) {
  $("agreement-part").hidden = !found;
  if (!found) return;
  const shown = Object.entries(AGREEMENT).filter(([name]) => typeof found[name] === "number");
  const rows = shown.map(([name, title]) => [title, name.endsWith("kappa") ? found[name].toFixed(3) : `${(100 * found[name]).toFixed(1)}%`]);
  if (found.other_words) rows.push(["sentences with other words", String(found.other_words)]);
  $("agreement").replaceChildren(...rows.flatMap(([title, value]) => [element("dt", "", title), element("dd", "", value)]));
}

/** Return an arc in words. The form is isolated, so that its writing direction does not reorder the text around it. */
export function arcText(sentence, { head, label }) {
  if (head === null) return "no head";
  if (head === 0) return label;
  return `${label} of ${head} \u2068${sentence.words[head - 1]?.form ?? ""}\u2069`;
}
