// The panel beside the drawing: the selected word, suggestions of the parser, problems, and agreement.

const COLUMNS = ["form", "lemma", "upos", "xpos", "feats", "deps", "misc"];
const MOST_OPTIONS = 10;

export const $ = (id) => document.getElementById(id);

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
    this.list.replaceChildren(
      ...options.map((label, index) => {
        const option = element("li", index === this.marked ? "marked" : "", label);
        option.id = `label-${index}`;
        option.dataset.label = label;
        option.setAttribute("role", "option");
        option.setAttribute("aria-selected", String(index === this.marked));
        const place = this.labels.indexOf(label);
        if (place < 10 && !this.field.value) option.append(" ", element("kbd", "", String((place + 1) % 10)));
        return option;
      }),
    );
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
  $("word-title").textContent = `${word.number} ${word.form}`;
  const sure = advice?.confidence[number - 1];
  const decided = { true: { true: "You decided this arc.", false: "You decided the head." }, false: { true: "You decided the label.", false: "" } };
  const parts = [
    decided[word.keeps_head][word.keeps_label],
    sure === undefined || sure === null ? "" : `This arc is right with probability ${Math.round(100 * sure)}%.`,
    ...word.not_heads.map((head) => `Not the head ${head}.`),
    ...word.not_labels.map((label) => `Not the label ${label}.`),
  ];
  $("word-sure").textContent = parts.filter(Boolean).join(" ");
  if (document.activeElement !== $("head")) $("head").value = word.head ?? "";
  $("head-form").textContent = word.head === null ? "" : word.head ? sentence.words[word.head - 1].form : "ROOT";
  document.querySelector("[data-do=confirm]").textContent = word.keeps_head || word.keeps_label || word.not_heads.length || word.not_labels.length ? "Free" : "Confirm";
  const isInToken = sentence.tokens.some(({ first, last }) => first <= number && number <= last);
  document.querySelector("[data-do=multiword]").textContent = isInToken ? "Remove multiword token" : "Multiword token";
  document.querySelector("[data-do=split-sentence]").disabled = number === 1;
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
  const found = advice?.suggestions ?? [];
  $("suggestions-part").hidden = !found.length;
  $("suggestions").replaceChildren(
    ...found.map((each) => {
      const word = sentence.words[each.word - 1];
      const item = element("li");
      const place = element("button", "link", `${word.number} ${word.form}`);
      place.addEventListener("click", () => onChoose(each.word));
      const sure = advice.confidence[each.word - 1];
      const now = `${arcText(sentence, word)}${sure === null ? "" : `, ${Math.round(100 * sure)}%`}`;
      const other = `${arcText(sentence, each)}${each.arcs.length > 1 ? `, and ${each.arcs.length - 1} more` : ""}`;
      const take = element("button", "take", "");
      take.append(`→ ${other} `, element("kbd", "", "t"));
      take.addEventListener("click", () => onTake(each));
      item.append(place, element("span", "hint", ` ${now}`), take);
      return item;
    }),
  );
}

/** List what `treefine validate` and udtools found. */
export function showFaults(faults, onChoose) {
  $("faults-part").hidden = !faults.length;
  $("faults").replaceChildren(
    ...faults.map((fault) => {
      const item = element("li", fault.is_error ? "fault" : "warning");
      if (fault.word) {
        const place = element("button", "link", `Word ${fault.word}`);
        place.addEventListener("click", () => onChoose(fault.word));
        item.append(place, " ");
      }
      item.append([fault.message, fault.hint].filter(Boolean).join(" "));
      return item;
    }),
  );
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

/** Return a new element. */
export function element(name, classes = "", text = "") {
  const found = document.createElement(name);
  if (classes) found.className = classes;
  if (text) found.textContent = text;
  if (name === "button") found.type = "button";
  return found;
}
