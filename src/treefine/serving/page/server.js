// Requests to the server. A busy server is asked again; every failure becomes one line that says what to do.

const ATTEMPTS = 4;
const MOST_SECONDS = 30; // maximum wait for a busy server

/** An error, in one line for the user. */
export class Problem extends Error {
  constructor(message, canRetry) {
    super(message);
    this.canRetry = canRetry;
  }
}

/** Return the JSON answer of a route; call `onWait(seconds)` before each retry. */
export async function ask(route, { body = null, signal = null, onWait = () => {} } = {}) {
  const post = { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  for (let attempt = 1; ; attempt++) {
    let answer, json;
    try {
      answer = await fetch(route, { ...(body === null ? {} : post), signal });
      json = await answer.json();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      const status = answer && !answer.ok ? ` It sent status ${answer.status}.` : "";
      throw new Problem(`The server does not answer.${status} Check that it is running, then try again.`, true);
    }
    if (answer.ok) return json;
    if (answer.status !== 503 || attempt === ATTEMPTS) throw problemOf(json.error ?? {}, answer.status);
    const seconds = Math.min(Math.max(Number(answer.headers.get("Retry-After")) || 1, 1), MOST_SECONDS);
    onWait(seconds);
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    signal?.throwIfAborted();
  }
}

function problemOf(error, status) {
  const places = [["line", error.line], ["sentence", error.sent_id ?? error.sentence], ["word", error.word]];
  const place = places.filter(([, value]) => value !== undefined).map(([name, value]) => `${name} ${value}`).join(", ");
  const message = [error.message ?? `The server answered with status ${status}.`, error.hint].filter(Boolean).join(" ");
  return new Problem(place ? `${place[0].toUpperCase()}${place.slice(1)}: ${message}` : message, status >= 500);
}
