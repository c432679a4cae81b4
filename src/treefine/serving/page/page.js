// The page: it sends the form to the server and shows the answer. The server does all parsing.

import { constraintsOf, decision, decisionsOf, describeDecision, isOfWord, named, newNumbers, withDecision } from "./decisions.js";
import { Drawing, withoutConfidence } from "./drawing.js";
import { Form } from "./form.js";
import { fill, Panel } from "./panel.js";
import { analysis, fullName, graphName, save, showDecisions, showLegend, showTable, showTimeline } from "./parts.js";
import { ask, Problem } from "./server.js";
import { fromFragment, hasHeads, isConllu, linkOf, requestOf, sourceOf } from "./state.js";

const EXAMPLE = "My debut novel is about two children stealing a crown."; // hard enough to need several steps and a correction

const find = (id) => document.getElementById(id);
const drawing = new Drawing(find("drawing"), openPanel);
const panel = new Panel({
  onDecide: decide,
  onUndo: (word) => keepOnly((each) => !isOfWord(each, shown.state.sentence, word)),
  onClose: () => drawing.choose(null, null),
});

let form = null; // set once the server has listed its models
let shown = null; // the last parsed state, the answer, and the words that changed because of a decision
let underWay = null; // aborts the current request
let tryAgain = () => {};

// Requests

/** Parse the text of the form; show pasted trees as they are before their refinement. */
function submit() {
  const state = form.read();
  const old = shown?.state;
  const isSame = old && old.model === state.model && old.language === state.language && sourceOf(old) === sourceOf(state);
  if (state.initial === "given" && !(isSame && old.initial === "given")) state.t = 0;
  if (isSame) parse({ ...state, decisions: old.decisions, keep: old.keep, sentence: old.sentence });
  else parse(state, { before: shown });
}

/** Parse again after an option has changed, if anything was parsed before. */
function submitAgain() {
  form.sayWhatIsRead();
  if (shown !== null && !form.lacksTrees) submit();
}

// Answers

/** Parse and show the answer; `before` is the page of another text, whose decisions stay where the words are the same. */
async function parse(state, { decided = null, note = "", before = null } = {}) {
  underWay?.abort();
  const mine = (underWay = new AbortController());
  showProblem(null);
  find("note").textContent = note;
  find("busy").textContent = "Parsing …";
  find("drawing").setAttribute("aria-busy", "true");
  try {
    let answer = await answerTo(state, mine.signal);
    let [parsed, nDropped] = [state, 0];
    if (before?.state.decisions.length) {
      parsed = withDecisionsOf(before, state, answer.sentences);
      nDropped = before.state.decisions.length - parsed.decisions.length;
      if (parsed.decisions.length) answer = await answerTo(parsed, mine.signal);
    }
    show(withMarks(parsed, answer.sentences), answer, decided);
    const fits = nDropped === 1 ? "1 decision no longer fits the text and was" : `${nDropped} decisions no longer fit the text and were`;
    const dropped = nDropped ? `${fits} removed.` : "";
    find("note").textContent = [note, dropped, noteOnTrees(shown.state, answer.sentences)].filter(Boolean).join(" ");
  } catch (error) {
    if (error.name === "AbortError") return;
    tryAgain = () => parse(state, { decided, note, before });
    showProblem(error);
  } finally {
    if (mine === underWay) {
      find("busy").textContent = "";
      find("drawing").removeAttribute("aria-busy");
    }
  }
}

function answerTo(state, signal) {
  const onWait = (seconds) => (find("busy").textContent = `The server is busy. Trying again in ${seconds} s …`);
  return ask("v1/steps", { body: requestOf(state, constraintsOf(state.decisions)), signal, onWait });
}

/** Add those decisions of an earlier page whose sentence has the same words now, and show the same sentence. */
function withDecisionsOf(before, state, sentences) {
  const numbers = newNumbers(before.answer.sentences, sentences);
  const isKnown = ({ label }) => before.state.model === state.model || label === null || form.model.labels.includes(label);
  const decisions = before.state.decisions.filter((each) => numbers[each.sentence - 1] !== null && isKnown(each));
  return {
    ...state,
    sentence: numbers[before.state.sentence - 1] ?? 1,
    decisions: decisions.map((each) => ({ ...each, sentence: numbers[each.sentence - 1] })),
  };
}

/** Add the marks of pasted CoNLL-U to the decisions, so that the page lists them and can remove them. */
function withMarks(state, sentences) {
  const all = sentences.flatMap((each, index) => decisionsOf(index + 1, each.constraints));
  if (state.keep === "nothing" || !all.length || !isConllu(sourceOf(state))) return state;
  const isNew = ({ sentence, word }) => !state.decisions.some((each) => isOfWord(each, sentence, word));
  return { ...state, keep: "nothing", decisions: [...all.filter(isNew), ...state.decisions] };
}

/** Say what happened to pasted trees. */
function noteOnTrees(state, sentences) {
  if (!hasHeads(sourceOf(state)) || !sentences.length) return "";
  if (state.initial !== "given") return "The pasted heads and labels were not used. To start from them, choose pasted trees.";
  let [nArcs, nChanged] = [0, 0];
  sentences.forEach(({ words, graphs: [given] }, index) => {
    for (const { number, head, label } of words) {
      const [oldHead, oldLabel] = [given.heads[number - 1], given.labels[number - 1]];
      if (oldHead === null) continue;
      nArcs += 1;
      const isSame = oldHead === head && (oldLabel === label || oldLabel === "_");
      const isDecided = state.decisions.some((each) => isOfWord(each, index + 1, number) && !each.kind.startsWith("not-"));
      if (!isSame && !isDecided) nChanged += 1;
    }
  });
  const trees = sentences.length === 1 ? "G⁰ is your tree" : `G⁰ is your tree in each of ${sentences.length} sentences`;
  return `The parser changed ${nChanged || "none"} of ${nArcs} arcs; ${trees}. To edit a treebank file, use treefine annotate.`;
}

function showProblem(error) {
  const known = error === null || error instanceof Problem;
  find("problem-text").textContent = known ? (error?.message ?? "") : `The page failed: ${error.message}`;
  find("again").hidden = !error?.canRetry;
  if (error) find("problem").scrollIntoView({ block: "nearest" });
  if (!known) throw error;
}

function show(state, answer, decided) {
  const before = shown;
  const number = Math.min(state.sentence, answer.sentences.length);
  shown = { state: { ...state, sentence: number }, answer, moved: new Set() };
  find("moved").textContent = "";
  find("result").hidden = answer.sentences.length === 0;
  if (!answer.sentences.length) return showProblem(new Problem("The text contains no words. Type a sentence.", false));
  if (decided && before) reportChanges(before.answer.sentences[number - 1], decided);
  const choices = answer.sentences.map((each, index) => [index + 1, `${index + 1}. ${each.text}`]);
  find("sentences-field").hidden = choices.length === 1;
  find("sentences-count").textContent = `(${choices.length})`;
  fill(find("sentences"), choices, number);
  showSentence();
}

function reportChanges(before, decided) {
  const { words } = shown.answer.sentences[shown.state.sentence - 1];
  const said = [];
  for (const word of words) {
    const old = before.words[word.number - 1];
    if (old.head === word.head && old.label === word.label) continue;
    if (word.number !== decided) shown.moved.add(word.number);
    const was = `was ${named(words, old.head)}, ${old.label}`;
    said.push(`${named(words, word.number)}: ${named(words, word.head)}, ${word.label} (${was})`);
  }
  const count = `${said.length} arc${said.length === 1 ? "" : "s"} changed`;
  find("moved").textContent = said.length ? `Parsed again, ${count}. ${said.join("; ")}.` : "Parsed again, no arc changed.";
}

// Display

function sentence() {
  return shown.answer.sentences[shown.state.sentence - 1];
}

function place() {
  const last = sentence().graphs.length - 1;
  return Math.min(shown.state.t ?? last, last);
}

function showSentence() {
  find("sentence-text").textContent = sentence().text;
  form.showLanguage(sentence().language);
  find("decided").hidden = !shown.state.decisions.length;
  showDecisions(find("decisions"), shown.state.decisions, shown.answer.sentences, (gone) => keepOnly((each) => each !== gone));
  showGraph({ moves: false });
}

function showGraph({ moves }) {
  const { graphs, words, confidence } = sentence();
  const t = place();
  const graph = graphs[t];
  panel.close(); // its arc may not be in this graph
  drawing.show(graph.svg, {
    marks: marksOf(graph, t === graphs.length - 1),
    describe: (word) => described(word, graph),
    forbidden: forbiddenByWord(),
    moves,
  });
  find("drawing").setAttribute("aria-label", `Drawing of ${graphName(graph)}`);
  showTimeline(find("timeline"), graphs, t, (chosen) => goTo(chosen));
  find("previous").disabled = t === 0;
  find("next").disabled = t === graphs.length - 1;
  const whole = t === graphs.length - 1 ? ` All arcs are right with probability ${confidence.toFixed(2)}.` : "";
  find("step-title").textContent = `${fullName(graph)}.${whole}`;
  explainMarks();
  showTable(find("table").tBodies[0], words, graph, (word) => openPanel(word, null));
}

function marksOf(graph, isLast) {
  const marks = new Map();
  const mark = (word, name) => marks.set(word, [...(marks.get(word) ?? []), name]);
  for (const { sentence: number, word, kind, head, label } of shown.state.decisions) {
    const holds = [head === null || graph.heads[word - 1] === head, label === null || graph.labels[word - 1] === label];
    if (number === shown.state.sentence && !kind.startsWith("not-") && holds.every(Boolean)) mark(word, "kept");
  }
  if (isLast) for (const word of shown.moved) mark(word, "moved");
  return marks;
}

function forbidden() {
  return shown.state.decisions.filter((each) => each.sentence === shown.state.sentence && each.kind.startsWith("not-"));
}

function forbiddenByWord() {
  const said = new Map();
  for (const each of forbidden()) {
    said.set(each.word, [said.get(each.word), describeDecision(each, sentence().words)].filter(Boolean).join("\n"));
  }
  return said;
}

function explainMarks() {
  showLegend(find("legend"), find("drawing"), forbidden().map((each) => describeDecision(each, sentence().words)));
}

function described(word, graph, arc = { head: graph.heads[word - 1], label: graph.labels[word - 1] }) {
  const { words } = sentence();
  return arc.head === null ? `${named(words, word)}: no head` : `${named(words, word)} ← ${named(words, arc.head)}: ${arc.label}`;
}

function goTo(t) {
  if (shown === null || t < 0 || t >= sentence().graphs.length) return;
  const isLast = t === sentence().graphs.length - 1;
  shown.state.t = isLast ? null : t;
  showGraph({ moves: true });
}

// Decisions

/** Open the panel for a word and its arc in the current graph, or for another chosen arc. */
function openPanel(word, otherArc) {
  const graph = sentence().graphs[place()];
  const own = graph.heads[word - 1] === null ? null : { head: graph.heads[word - 1], label: graph.labels[word - 1] };
  const sure = otherArc === null ? graph.confidence?.[word - 1] : undefined;
  panel.open({
    word,
    arc: otherArc ?? own,
    title: described(word, graph, otherArc ?? undefined),
    analysis: analysis(sentence().words[word - 1]),
    sure: sure === undefined ? "" : `confidence ${sure.toFixed(2)}`,
    words: sentence().words,
    labels: [...form.model.labels].sort(),
    isDecided: shown.state.decisions.some((each) => isOfWord(each, shown.state.sentence, word)),
  });
  drawing.choose(word, otherArc);
}

function decide(word, kind, head, label) {
  const { state } = shown;
  const decisions = withDecision(state.decisions, decision(state.sentence, word, kind, head, label));
  parse({ ...state, decisions, t: null }, { decided: word });
}

function keepOnly(stays) {
  parse({ ...shown.state, decisions: shown.state.decisions.filter(stays), t: null }, { decided: -1 }).then(() => {
    if (document.activeElement === document.body) find("drawing").focus(); // the button is gone
  });
}

// Export

function saveSvg() {
  const graph = sentence().graphs[place()];
  const svg = find("confidence").checked ? graph.svg : withoutConfidence(graph.svg);
  save(`sentence-${shown.state.sentence}-graph-${graph.t}.svg`, "image/svg+xml", svg);
}

/** Copy a link. The page never puts the text into its own address, because browsers keep addresses in the history. */
async function copyLink() {
  const link = linkOf(shown.state);
  find("copied").textContent = "";
  find("link").hidden = true;
  if (link === null) {
    find("copied").textContent = "The text is too long for a link. Download the CoNLL-U instead, and paste it to see it again.";
    return;
  }
  try {
    await navigator.clipboard.writeText(link);
    find("copied").textContent = "Copied.";
  } catch {
    // The browser allows no access to the clipboard, for example without https.
    find("link").hidden = false;
    find("link").value = link;
    find("link").select();
    find("copied").textContent = "Copy it from this field:";
  }
}

// Events

find("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (form === null) start();
  else submit();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !find("panel").contains(event.target)) find("ask").requestSubmit();
});
for (const each of ["text", "trees", "steps"]) find(each).addEventListener("input", () => form?.sayWhatIsRead());
find("steps").addEventListener("change", submitAgain);
for (const each of document.querySelectorAll("input[name=initial]")) each.addEventListener("change", submitAgain);
find("model").addEventListener("change", () => {
  form.fitToModel();
  submitAgain();
});
find("language").addEventListener("change", () => {
  form.showLanguage(null);
  submitAgain();
});
find("again").addEventListener("click", () => tryAgain());
find("sentences").addEventListener("change", (event) => {
  Object.assign(shown.state, { sentence: +event.target.value, t: shown.state.t === 0 ? 0 : null });
  find("moved").textContent = "";
  shown.moved.clear();
  showSentence();
});
find("previous").addEventListener("click", () => goTo(place() - 1));
find("next").addEventListener("click", () => goTo(place() + 1));
find("drawing").addEventListener("keydown", (event) => {
  if (!["ArrowLeft", "ArrowRight"].includes(event.key) || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  goTo(place() + (event.key === "ArrowLeft" ? -1 : 1));
});
find("confidence").addEventListener("change", (event) => {
  find("drawing").classList.toggle("without-confidence", !event.target.checked);
  explainMarks();
});
find("clear").addEventListener("click", () => keepOnly(() => false));
find("save-svg").addEventListener("click", saveSvg);
find("save-conllu").addEventListener("click", () => {
  save("trees.conllu", "text/plain;charset=utf-8", shown.answer.sentences.map((each) => each.conllu).join(""));
});
find("copy-link").addEventListener("click", copyLink);
addEventListener("hashchange", open);

/** Show the state of the link, or an example. */
function open() {
  const state = fromFragment(location.hash);
  const note = form.write(state ?? { ...form.read(), text: EXAMPLE });
  if (state === null) return;
  const { decisions, sentence: number, t, keep } = state;
  parse({ ...form.read(), decisions, sentence: number, t, keep }, { note });
}

async function start() {
  showProblem(null);
  try {
    form = new Form(await ask("v1/models"));
    open();
  } catch (error) {
    tryAgain = start;
    showProblem(error);
  }
}

start();
