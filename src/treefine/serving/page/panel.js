// The panel of one arc, with the possible decisions.

const find = (id) => document.getElementById(id);

/** The panel. It calls `onDecide(word, kind, head, label)` for a decision, `onUndo(word)` to undo those of a word, and `onClose()`. */
export class Panel {
  constructor({ onDecide, onUndo, onClose }) {
    this.dialog = find("panel");
    this.onClose = onClose;
    for (const button of this.dialog.querySelectorAll("[data-decide]")) {
      button.addEventListener("click", () => this.#decide(onDecide, button.dataset.decide, this.arc.head, this.arc.label));
    }
    find("panel-head").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#decide(onDecide, "head", +find("other-head").value, null);
    });
    find("panel-label").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#decide(onDecide, "label", null, find("other-label").value);
    });
    find("panel-undo").addEventListener("click", () => {
      this.close();
      onUndo(this.word);
    });
    find("panel-close").addEventListener("click", () => this.close());
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
  }

  /** Open the panel for a word; `arc` is its head and label, or null if it has no head. */
  open({ word, arc, title, analysis, sure, words, labels, isDecided }) {
    this.word = word;
    this.arc = arc;
    find("panel-title").textContent = title;
    find("panel-word").textContent = analysis;
    find("panel-sure").textContent = sure;
    find("panel-arc").hidden = arc === null;
    find("panel-undo").hidden = !isDecided;
    const heads = [["0", "0 ROOT"], ...words.map((each) => [each.number, `${each.number} ${each.form}`])];
    fill(find("other-head"), heads.filter(([number]) => +number !== word), arc?.head);
    const own = arc && !labels.includes(arc.label) ? [arc.label] : []; // of a pasted tree
    fill(find("other-label"), [...own, ...labels].map((label) => [label, label]), arc?.label);
    this.close();
    this.dialog.show(); // not modal: the drawing stays usable, and the panel never covers it
    this.dialog.scrollIntoView({ block: "nearest" });
  }

  /** Close the panel. The focus goes back to where it was before, if it is in the panel. */
  close() {
    if (!this.dialog.open) return;
    const focused = document.activeElement;
    const isInside = this.dialog.contains(focused);
    this.dialog.close();
    if (!isInside) focused?.focus({ preventScroll: true });
    this.onClose();
  }

  #decide(onDecide, kind, head, label) {
    this.close();
    onDecide(this.word, kind, head, label);
  }
}

/** Fill a list with choices and select one. */
export function fill(select, choices, chosen) {
  const options = choices.map(([value, text]) => {
    const option = new Option(text, value);
    option.dir = "auto";
    return option;
  });
  select.replaceChildren(...options);
  if (chosen !== undefined && chosen !== null) select.value = String(chosen);
}
