// Decisions about arcs. A decision concerns one word: it keeps or forbids an arc, a head or a label.

const SPELLED = /^([1-9]\d{0,5}) ([1-9]\d{0,5}) (?:(arc) (\d{1,6}) (.{1,100})|(head|not-head) (\d{1,6})|(label|not-label) (.{1,100}))$/u;

/** Return a decision as one line: "1 4 arc 3 obj", "1 4 not-head 3", "1 4 label obj"; sentence and word come first. */
export function spelled({ sentence, word, kind, head, label }) {
  return [sentence, word, kind, head, label].filter((part) => part !== null).join(" ");
}

/** Return the decision of such a line, or null if the line is not valid. */
export function decisionOf(line) {
  const found = SPELLED.exec(line);
  if (found === null) return null;
  const [, sentence, word, arc, arcHead, arcLabel, headKind, head, labelKind, label] = found;
  return decision(+sentence, +word, arc ?? headKind ?? labelKind, arcHead ?? head, arcLabel ?? label);
}

/** Return a decision of this kind, with the head and the label that it needs. */
export function decision(sentence, word, kind, head, label) {
  const speaksOf = (what) => kind === "arc" || kind === what || kind === `not-${what}`;
  return { sentence, word, kind, head: speaksOf("head") ? +head : null, label: speaksOf("label") ? label : null };
}

/** Add a decision and remove those that it contradicts; an arc may lose only its head or only its label. */
export function withDecision(decisions, added) {
  const others = decisions.map((each) => (isOfWord(each, added.sentence, added.word) ? whatIsLeft(each, added) : each));
  return [...others.filter((each) => each !== null), added];
}

/** Return whether a decision concerns this word. */
export function isOfWord(each, sentence, word) {
  return each.sentence === sentence && each.word === word;
}

function whatIsLeft(old, added) {
  if (spelled(old) === spelled(added)) return null;
  const keeps = (each, what) => each.kind === "arc" || each.kind === what;
  const takesHead = keeps(added, "head") || (added.kind === "not-head" && old.head === added.head);
  const takesLabel = keeps(added, "label") || (added.kind === "not-label" && old.label === added.label);
  if (old.kind === "arc") {
    if (takesHead) return null; // its label belonged to the arc
    return takesLabel ? { ...old, kind: "head", label: null } : old;
  }
  if (old.kind === "head") return takesHead ? null : old;
  if (old.kind === "label") return takesLabel ? null : old;
  if (old.kind === "not-head") return keeps(added, "head") && old.head === added.head ? null : old;
  return keeps(added, "label") && old.label === added.label ? null : old;
}

/** Return the decisions as constraints for the server. */
export function constraintsOf(decisions) {
  const bySentence = new Map();
  for (const { sentence, word, kind, head, label } of decisions) {
    if (!bySentence.has(sentence)) {
      bySentence.set(sentence, { sentence, heads: {}, labels: {}, not_heads: {}, not_labels: {} });
    }
    const decided = bySentence.get(sentence);
    if (kind === "not-head") (decided.not_heads[word] ??= []).push(head);
    else if (kind === "not-label") (decided.not_labels[word] ??= []).push(label);
    else {
      if (head !== null) decided.heads[word] = head;
      if (label !== null) decided.labels[word] = label;
    }
  }
  return [...bySentence.values()];
}

/** Return constraints of a sentence, as the server sends them, as decisions. */
export function decisionsOf(sentence, { heads, labels, not_heads: notHeads, not_labels: notLabels }) {
  const words = [heads, labels, notHeads, notLabels].flatMap((each) => Object.keys(each).map(Number));
  return [...new Set(words)].sort((one, other) => one - other).flatMap((word) => {
    const kept = word in heads ? (word in labels ? ["arc"] : ["head"]) : word in labels ? ["label"] : [];
    return [
      ...kept.map((kind) => decision(sentence, word, kind, heads[word], labels[word])),
      ...(notHeads[word] ?? []).map((head) => decision(sentence, word, "not-head", head, null)),
      ...(notLabels[word] ?? []).map((label) => decision(sentence, word, "not-label", null, label)),
    ];
  });
}

/** Return the new number of each old sentence, or null if no new sentence has the same words. */
export function newNumbers(oldSentences, newSentences) {
  const key = ({ words }) => JSON.stringify(words.map((word) => word.form));
  const places = new Map();
  newSentences.forEach((each, index) => places.set(key(each), [...(places.get(key(each)) ?? []), index + 1]));
  return oldSentences.map((each) => places.get(key(each))?.shift() ?? null);
}

/** Return the word with this number, isolated so that its writing direction does not reorder the text around it. */
export function named(words, number) {
  const [start, end] = ["\u2068", "\u2069"]; // first strong isolate, pop directional isolate
  return number === 0 ? "ROOT" : `${start}${words[number - 1]?.form ?? `word ${number}`}${end}`;
}

/** Return a decision in words. */
export function describeDecision({ word, kind, head, label }, words) {
  const says = {
    arc: () => `${named(words, head)}, ${label}`,
    head: () => `head ${named(words, head)}`,
    label: () => `label ${label}`,
    "not-head": () => `not the head ${named(words, head)}`,
    "not-label": () => `not the label ${label}`,
  };
  return `${word} ${named(words, word)}: ${says[kind]()}`;
}
