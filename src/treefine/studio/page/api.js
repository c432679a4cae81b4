// The server: every change has an id, so that one that was sent twice is made once. A lost connection is tried again.

const PAUSE = 400; // milliseconds between two attempts

/** An answer that says why something was not done. */
export class Refused extends Error {
  constructor(status, { message, hint, line }) {
    super([line ? `Line ${line}:` : "", message, hint].filter(Boolean).join(" "));
    this.status = status;
  }
}

let onConnection = () => {};

/** Call `listen(isLost)` when the connection is lost or is back. */
export function whenConnectionChanges(listen) {
  onConnection = listen;
}

/** Return a new id for a change. */
export function newId() {
  return `${Date.now().toString(36)}-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
}

/** Ask the server for something. */
export function get(path, fields = {}) {
  return send(`api/${path}?${new URLSearchParams(fields)}`, {});
}

/** Tell the server to do something. */
export function post(path, body) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return send(`api/${path}`, options);
}

async function send(path, options) {
  for (;;) {
    let answer;
    let found;
    try {
      answer = await fetch(path, options);
      found = await answer.json(); // fails if the server was killed while it answered
    } catch {
      onConnection(true);
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
      continue;
    }
    onConnection(false);
    if (!answer.ok) throw new Refused(answer.status, found.error ?? { message: `Error ${answer.status}.` });
    return found;
  }
}
