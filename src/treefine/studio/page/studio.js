// The studio. The server keeps the sentences; this page sends it one action at a time, and asks how it is.

import { get, newId, whenConnectionChanges } from "./api.js";
import { prepareAnnotators } from "./annotators.js";
import { $ } from "./dom.js";
import { advise, findSentences, openFile, refresh, showProgress } from "./sentence.js";
import { clock, queued, show, state, whenStale } from "./state.js";
import { settings, welcome } from "./view.js";

const POLL = 1500; // milliseconds between two looks at the state of the server
const TAB = newId();

async function begin() {
  state.project = await get("project");
  const { files, is_example: isExample } = state.project;
  const asked = new URLSearchParams(location.hash.slice(1));
  const file = Math.min(files.length - 1, Math.max(0, +asked.get("file") || 0));
  $("file-field").hidden = files.length < 2;
  $("file").replaceChildren(...files.map(({ name }, index) => new Option(name, index, false, index === file)));
  $("file-name").hidden = files.length > 1;
  $("file-name").textContent = isExample ? "an example to try" : files[0].name;
  show($("notice"), files.map(({ notice }) => notice).filter(Boolean).join(" "));
  prepareAnnotators(state.project);
  welcome();
  await openFile(file, +asked.get("key"));
  poll();
}

async function poll() {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, POLL));
    const { file, revision } = state;
    const found = await get("status", { tab: TAB, file }).catch(() => null);
    if (!found || file !== state.file) continue;
    const { learning, parser } = found;
    $("tabs").hidden = !found.other_tabs;
    show($("fault"), found.fault || parser?.fault || "");
    show($("learning"), learning && learning.kind !== "idle" ? learning.message : "");
    $("adopt").hidden = learning?.kind !== "better";
    const isNewParser = parser?.is_ready && (!state.project.parser?.is_ready || parser.name !== state.project.parser.name);
    const isElsewhere = found.revision > state.revision && state.revision === revision;
    const isAllRead = found.rated > state.rated && found.rated === Object.values(found.counts).reduce((a, b) => a + b);
    state.project.parser = parser;
    state.rated = found.rated;
    showProgress(found);
    if (isElsewhere) queued(refresh);
    else if (isNewParser) advise();
    if (isAllRead && !state.isSorted && $("order").value === "doubt") queued(findSentences);
    state.isSorted ||= isAllRead; // once, because the list must not change under a person who works
  }
}

window.addEventListener("beforeunload", (event) => {
  if (!$("connection").hidden) event.preventDefault(); // a change may be waiting
});
window.addEventListener("pagehide", () => {
  const { file, key } = state.sentence ?? {};
  const { seconds, actions } = clock;
  const spent = new Blob([JSON.stringify({ file, key, seconds, actions })], { type: "application/json" });
  if (actions) navigator.sendBeacon("api/spent", spent);
  clock.actions = 0;
  navigator.sendBeacon(`api/leave?tab=${TAB}`);
});
whenConnectionChanges((isLost) => { $("connection").hidden = !isLost; });
whenStale(refresh);
settings.load();
queued(begin);
