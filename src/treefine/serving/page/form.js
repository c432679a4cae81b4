// The form: text and options.

import { fill } from "./panel.js";
import { hasHeads, isConllu, MOST_STEPS } from "./state.js";

const find = (id) => document.getElementById(id);
const initials = [...document.querySelectorAll("input[name=initial]")];

function choose(initial) {
  for (const each of initials) each.checked = each.value === initial;
}

/** The form, for the models of the server. */
export class Form {
  constructor(models) {
    this.models = models;
    this.usual = models.find((each) => each.is_default).name;
    this.hadHeads = false; // whether the text was CoNLL-U with heads
    this.otherStart = null; // what was chosen before it was
    fill(find("model"), models.map((each) => [each.name, each.name]), this.usual);
    find("model-field").hidden = models.length === 1;
    if (this.model.has_initial_parser) initials.find((each) => each.value === "own").checked = true;
    this.fitToModel();
  }

  /** The chosen model. */
  get model() {
    return this.models.find((each) => each.name === find("model").value);
  }

  /** The English name of a language of the chosen model. */
  languageName(code) {
    return this.model.languages.find((each) => each.code === code)?.name ?? code;
  }

  /** Return the values of the form as the state of a new page. */
  read() {
    return {
      text: find("text").value,
      trees: find("trees").value,
      model: this.models.length > 1 ? find("model").value : "",
      language: find("language").value, // empty: detect it
      initial: initials.find((each) => each.checked).value,
      steps: +find("steps").value,
      sentence: 1,
      t: null,
      decisions: [],
      keep: "marked", // marks in CoNLL-U apply; "nothing": they are already among the decisions
    };
  }

  /** Fill the form; return a note about values that this server does not support. */
  write(state) {
    const isServed = this.models.some((each) => each.name === state.model);
    find("text").value = state.text;
    find("trees").value = state.trees;
    find("model").value = isServed ? state.model : this.usual;
    this.hadHeads = hasHeads(state.text);
    this.otherStart = null;
    choose(state.initial ?? (this.hadHeads ? "given" : "empty"));
    this.fitToModel();
    const isKnown = !state.language || [...find("language").options].some((each) => each.value === state.language);
    find("language").value = isKnown ? state.language : "";
    find("steps").value = state.steps ?? find("steps").value;
    this.sayWhatIsRead();

    const { name, has_initial_parser: hasOwn } = this.model;
    const notes = [];
    if (state.model && !isServed) notes.push(`The link asks for the model ${state.model}, which this server does not have. Using ${name}.`);
    if (!isKnown) notes.push(`${name} has no choice of the language ${state.language}, which the link asks for.`);
    if (state.initial === "own" && !hasOwn) notes.push(`${name} has no initial parser. Starting from an empty graph.`);
    if (state.steps > find("steps").max) notes.push(`The link asks for ${state.steps} steps, but the maximum is ${find("steps").max}.`);
    return notes.join(" ");
  }

  /** Offer the options of the chosen model. */
  fitToModel() {
    this.offerLanguages();
    find("own-field").hidden = !this.model.has_initial_parser;
    if (find("own-field").hidden && this.read().initial === "own") initials[0].checked = true;
    find("steps").max = this.model.reads_graph ? MOST_STEPS : 1;
    find("steps").value = Math.min(this.model.max_steps, MOST_STEPS);
    this.sayWhatIsRead();
  }

  /** Offer the languages of a model of several, and keep the choice if the model has it. */
  offerLanguages() {
    const { languages } = this.model;
    const names = languages.map((each) => [each.code, each.name]).sort(([, a], [, b]) => a.localeCompare(b, "en"));
    const chosen = names.some(([code]) => code === find("language").value) ? find("language").value : "";
    const offered = languages.length > 1 ? names : [];
    fill(find("language"), [["", "detect"], ...offered], offered.length ? chosen : "");
    find("language-field").hidden = !offered.length;
    find("language-found").textContent = "";
  }

  /** Show the language that the server detected. */
  showLanguage(code) {
    find("language-found").textContent = code && !find("language").value ? `Detected: ${this.languageName(code)}` : "";
  }

  /** Choose pasted trees when the text becomes CoNLL-U with heads, and the earlier choice when it no longer is. */
  chooseStart() {
    const has = hasHeads(find("text").value);
    if (has === this.hadHeads) return; // the user may have chosen another start since then
    this.hadHeads = has;
    if (has) {
      this.otherStart = this.read().initial;
      choose("given");
    } else if (this.read().initial === "given") {
      const usual = this.model.has_initial_parser ? "own" : "empty";
      choose(this.otherStart === "own" ? usual : (this.otherStart ?? usual));
    }
  }

  /** Show how the text is read, and the fields that it needs. */
  sayWhatIsRead() {
    this.chooseStart();
    const text = find("text").value;
    const sentences = text.split(/\n\s*\n/).filter(isConllu).length;
    const asConllu = `Read as CoNLL-U: ${sentences} sentence${sentences === 1 ? "" : "s"}.`;
    find("read-as").textContent = !text.trim() ? "Type or paste something." : isConllu(text) ? asConllu : "Read as plain text.";
    find("text").dir = isConllu(text) ? "ltr" : "auto"; // keeps the order of columns with right-to-left words
    find("text").classList.toggle("conllu", isConllu(text));
    find("trees-field").hidden = this.read().initial !== "given" || isConllu(text);
    find("steps-value").textContent = find("steps").value;
  }

  /** Whether trees are needed but not pasted yet. */
  get lacksTrees() {
    return !find("trees-field").hidden && !find("trees").value.trim();
  }
}
