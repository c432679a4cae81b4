// The page: it sends the form to the server and shows the answer. The server does all parsing.
// Text from the server is never used as markup.

import { showDrawing, withoutConfidence } from "./drawing.js";
import { ask, Problem } from "./server.js";

const EXAMPLE = "My debut novel is about two children stealing a crown."; // hard enough to need several steps and a correction
const MOST_STEPS = 8;
const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const MARKS = [
  ["changed", "changed in this step"],
  ["old", "as it was before"],
  ["unsure", "0.50? – the parser is not sure"],
];

const find = (id) => document.getElementById(id);

let models = []; // of the server
let shown = null; // the answer, the number of the shown sentence (from 0), and that of its graph
let underWay = null; // aborts the current request
let tryAgain = start;

// The form

function model() {
  return models.find((each) => each.name === find("model").value);
}

/** Fill a list with choices. */
function fill(select, choices) {
  const options = choices.map(([value, text]) => Object.assign(new Option(text, value), { dir: "auto" }));
  select.replaceChildren(...options);
}

/** Offer the options of the chosen model; keep the language if the model has it. */
function fitToModel() {
  const { languages, has_initial_parser: hasInitial, reads_graph: readsGraph, max_steps: steps } = model();
  const before = find("language").value;
  const names = languages.map((each) => [each.code, each.name]).sort(([, a], [, b]) => a.localeCompare(b, "en"));
  fill(find("language"), [["", "detect"], ...(names.length > 1 ? names : [])]);
  find("language").value = before;
  if (find("language").selectedIndex < 0) find("language").value = "";
  find("language-field").hidden = names.length < 2;
  find("language-found").textContent = "";
  find("initial-field").hidden = !hasInitial;
  find("steps").max = readsGraph ? MOST_STEPS : 1;
  find("steps").value = Math.min(steps, MOST_STEPS);
  describeForm();
}

/** Return whether a text is CoNLL-U: a line starts with a word number and a tab. */
function isConllu(text) {
  return /^\d+([-.]\d+)?\t/m.test(text);
}

/** Show how the text is read, and the number of steps. */
function describeForm() {
  const text = find("text").value;
  const how = isConllu(text) ? "Its words are read as CoNLL-U." : "Read as plain text.";
  find("read-as").textContent = text.trim() ? how : "Type or paste something.";
  find("text").dir = isConllu(text) ? "ltr" : "auto"; // keeps the order of columns with right-to-left words
  find("text").classList.toggle("conllu", isConllu(text));
  find("steps-value").textContent = find("steps").value;
}

/** Return the request for the server, without empty fields. */
function request() {
  const text = find("text").value;
  const body = { steps: +find("steps").value, stop_above: 1 }; // 1: until nothing changes, so the page shows all steps
  body[isConllu(text) ? "conllu" : "text"] = text;
  body.model = find("model").value;
  if (!model().has_initial_parser || find("initial").value === "empty") body.initial = "empty";
  if (find("language").value) body.language = find("language").value;
  return body;
}

// Requests

async function parse() {
  underWay?.abort();
  const mine = (underWay = new AbortController());
  tryAgain = parse;
  showProblem(null);
  find("busy").textContent = "Parsing …";
  find("drawing").setAttribute("aria-busy", "true");
  const onWait = (seconds) => (find("busy").textContent = `The server is busy. Trying again in ${seconds} s …`);
  try {
    const { sentences } = await ask("v1/steps", { body: request(), signal: mine.signal, onWait });
    find("result").hidden = !sentences.length;
    if (!sentences.length) throw new Problem("The text contains no words. Type a sentence.", false);
    fill(find("sentences"), sentences.map((each, index) => [index, `${index + 1}. ${each.text}`]));
    find("sentences-field").hidden = sentences.length === 1;
    find("sentences-count").textContent = `(${sentences.length})`;
    shown = { sentences, number: 0, t: 0 };
    showSentence(0);
  } catch (error) {
    if (error.name !== "AbortError") showProblem(error);
  } finally {
    if (mine === underWay) {
      find("busy").textContent = "";
      find("drawing").removeAttribute("aria-busy");
    }
  }
}

function parseAgain() {
  describeForm();
  if (shown !== null) parse();
}

function showProblem(error) {
  const isKnown = error === null || error instanceof Problem;
  find("problem").textContent = isKnown ? (error?.message ?? "") : `The page failed: ${error.message}`;
  find("again").hidden = !error?.canRetry;
  if (error) find("problem").scrollIntoView({ block: "nearest" });
  if (!isKnown) throw error;
}

// Display

function sentence() {
  return shown.sentences[shown.number];
}

function showSentence(number) {
  shown.number = number;
  const { text, language, graphs } = sentence();
  find("sentence-text").textContent = text;
  const name = model().languages.find((each) => each.code === language)?.name ?? language;
  find("language-found").textContent = language && !find("language").value ? `Detected: ${name}` : "";
  showGraph(graphs.length - 1, { moves: false });
}

/** Return the name of a graph: G⁰, G¹ …, or tree if the tree differs from the last step. */
function nameOf({ t, title }) {
  return title.startsWith("best tree") ? "tree" : "G" + [...String(t)].map((digit) => RAISED[digit]).join("");
}

function fullName(graph) {
  return nameOf(graph) === "tree" ? graph.title : `${nameOf(graph)}, ${graph.title}`;
}

function showGraph(t, { moves }) {
  const { graphs, confidence } = sentence();
  if (t < 0 || t >= graphs.length) return;
  shown.t = t;
  showDrawing(find("drawing"), graphs[t].svg, { moves });
  find("drawing").setAttribute("aria-label", `Drawing of ${nameOf(graphs[t])}`);
  find("previous").disabled = t === 0;
  find("next").disabled = t === graphs.length - 1;
  const whole = t === graphs.length - 1 ? ` All arcs are right with probability ${confidence.toFixed(2)}.` : "";
  find("step-title").textContent = `${fullName(graphs[t])}.${whole}`;
  showTimeline();
  showLegend();
  showTable();
}

/** Create an element with a text and other properties. */
function element(name, text, properties = {}) {
  return Object.assign(document.createElement(name), { textContent: text }, properties);
}

/** Show one button per graph. */
function showTimeline() {
  const hadFocus = find("timeline").contains(document.activeElement);
  const items = sentence().graphs.map((graph, t) => {
    const button = element("button", nameOf(graph), { type: "button", ariaLabel: fullName(graph) });
    button.classList.toggle("changes", graph.changed.length > 0);
    if (t === shown.t) button.setAttribute("aria-current", "step");
    button.addEventListener("click", () => showGraph(t, { moves: true }));
    const item = element("li", "");
    item.append(button);
    return item;
  });
  find("timeline").replaceChildren(...items);
  if (hadFocus) items[shown.t].firstChild.focus();
}

/** Explain the marks that the drawing contains. */
function showLegend() {
  const isVisible = ([mark]) => [...find("drawing").querySelectorAll(`.${mark}`)].some((each) => each.checkVisibility());
  find("legend").replaceChildren(...MARKS.filter(isVisible).map(([mark, text]) => element("li", text, { className: mark })));
}

/** Show the words and their arcs as a table, for readers who do not see the drawing. */
function showTable() {
  const { words, graphs } = sentence();
  const { heads, labels, confidence } = graphs[shown.t];
  const rows = words.map(({ number, form, lemma, upos, xpos, feats }) => {
    const head = heads[number - 1];
    const headText = head === null ? "none" : head === 0 ? "0 ROOT" : `${head} ${words[head - 1].form}`;
    const tags = [upos, xpos].filter((tag) => tag !== "_").join(" ");
    const row = element("tr", "");
    row.append(
      element("td", number, { className: "number" }),
      element("th", form, { scope: "row", dir: "auto" }),
      ...[lemma, tags, feats, headText, head === null ? "" : labels[number - 1]].map((text) => element("td", text, { dir: "auto" })),
      element("td", confidence?.[number - 1].toFixed(2) ?? "", { className: "number" }),
    );
    return row;
  });
  find("table").tBodies[0].replaceChildren(...rows);
}

/** Download a file. */
function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  element("a", "", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

// Events

find("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (models.length) parse();
  else start();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) find("ask").requestSubmit();
});
for (const id of ["text", "steps"]) find(id).addEventListener("input", describeForm);
for (const id of ["steps", "initial", "language"]) find(id).addEventListener("change", parseAgain);
find("model").addEventListener("change", () => {
  fitToModel();
  parseAgain();
});
find("again").addEventListener("click", () => tryAgain());
find("sentences").addEventListener("change", (event) => showSentence(+event.target.value));
find("previous").addEventListener("click", () => showGraph(shown.t - 1, { moves: true }));
find("next").addEventListener("click", () => showGraph(shown.t + 1, { moves: true }));
find("drawing").addEventListener("keydown", (event) => {
  if (!["ArrowLeft", "ArrowRight"].includes(event.key) || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  showGraph(shown.t + (event.key === "ArrowLeft" ? -1 : 1), { moves: true });
});
find("confidence").addEventListener("change", (event) => {
  find("drawing").classList.toggle("without-confidence", !event.target.checked);
  showLegend();
});
find("save-svg").addEventListener("click", () => {
  const { svg, t } = sentence().graphs[shown.t];
  save(`sentence-${shown.number + 1}-graph-${t}.svg`, "image/svg+xml", find("confidence").checked ? svg : withoutConfidence(svg));
});
find("save-conllu").addEventListener("click", () => {
  save("trees.conllu", "text/plain;charset=utf-8", shown.sentences.map((each) => each.conllu).join(""));
});

async function start() {
  showProblem(null);
  try {
    models = await ask("v1/models");
    fill(find("model"), models.map((each) => [each.name, each.name]));
    find("model").value = models.find((each) => each.is_default).name;
    find("model-field").hidden = models.length === 1;
    find("text").value ||= EXAMPLE;
    fitToModel();
  } catch (error) {
    showProblem(error);
  }
}

start();
