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
  for (let attempt = 1; ; attempt++) {
    const answer = await answered(route, body, signal);
    if (answer.ok) return await read(answer);
    const problem = await problemOf(answer);
    if (answer.status !== 503 || attempt === ATTEMPTS) throw problem;
    const seconds = Math.min(Math.max(Number(answer.headers.get("Retry-After")) || 1, 1), MOST_SECONDS);
    onWait(seconds);
    await sleep(seconds, signal);
  }
}

async function answered(route, body, signal) {
  const post = { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  try {
    return await fetch(route, { ...(body === null ? {} : post), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not answer. Check that it is running, then try again.", true);
  }
}

async function read(answer) {
  try {
    return await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The connection broke before the answer was complete. Try again.", true);
  }
}

async function problemOf(answer) {
  let error = {};
  try {
    error = (await answer.json()).error ?? {};
  } catch {
    // A proxy may answer with its own page.
  }
  const places = [
    ["line", error.line],
    ["sentence", error.sent_id ?? error.sentence],
    ["word", error.word],
  ];
  const place = places.filter(([, value]) => value !== undefined).map(([name, value]) => `${name} ${value}`).join(", ");
  const said = [error.message ?? `The server answered with status ${answer.status}.`, error.hint].filter(Boolean).join(" ");
  return new Problem(place ? `${place[0].toUpperCase()}${place.slice(1)}: ${said}` : said, answer.status >= 500);
}

function sleep(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("no longer wanted", "AbortError"));
    });
  });
}
