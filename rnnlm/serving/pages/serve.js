"use strict";
// The page's only script. Text from a model or a user reaches the page as text nodes, never as markup.

const HIGHEST_BITS = 12; // surprisal at which a token has the full color
const ALTERNATIVES = 5;
const UNKNOWN = 1; // id of <unk> in every tokenizer

const find = (selector, within = document) => within.querySelector(selector);
const panels = { generate: find("#generate"), score: find("#score") };
const details = find(".details");
const nothingChosen = [...details.childNodes];
const problem = find("#problem");
let running = null; // AbortController of the running request

// ---- requests

async function ask(path, body, signal) {
  const token = sessionStorage.getItem("token");
  const response = await fetch(path, {
    method: body ? "POST" : "GET",
    headers: {
      ...(body && { "Content-Type": "application/json" }),
      ...(token && { Authorization: `Bearer ${token}` }),
    },
    body: body && JSON.stringify(body),
    signal,
  });
  if (response.ok) return response;
  if (response.status === 401) find("#login").hidden = false;
  const answer = await response.json().catch(() => ({ detail: response.statusText }));
  throw new Error(typeof answer.detail === "string" ? answer.detail : answer.detail.map(describeProblem).join("; "));
}

const describeProblem = (wrong) => `${wrong.loc.slice(1).join(".")}: ${wrong.msg}`;

// Server-sent events of a POST, which EventSource cannot send: one JSON value each.
async function* eventsOf(response) {
  let waiting = "";
  for await (const text of chunksOf(response.body.pipeThrough(new TextDecoderStream()))) {
    const events = (waiting + text).split("\n\n");
    waiting = events.pop();
    for (const event of events) yield JSON.parse(event.slice("data: ".length));
  }
}

async function* chunksOf(stream) {
  const reader = stream.getReader();
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
  } finally {
    reader.cancel().catch(() => {});
  }
}

function showMessage(text, isNote = false) {
  problem.textContent = text;
  problem.classList.toggle("note", isNote); // a note, not an error
  problem.hidden = false;
}

async function attempt(work) {
  running?.abort();
  const mine = (running = new AbortController());
  problem.hidden = true;
  try {
    await work(mine.signal);
  } catch (error) {
    if (error.name === "AbortError") return;
    showMessage(error.message);
  } finally {
    if (running === mine) running = null;
  }
}

// ---- tokens

function element(name, text, className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = className;
  return made;
}

function tokenElement(token) {
  // Tokens without text are shown as a sign: the end of a line or of the text, a part of a character.
  const sign = token.text === "" ? (token.ends ? "∎" : "·") : token.text === "\n" ? "↵" : "";
  const span = element("span", sign || token.text, sign ? "token mark" : "token");
  if (token.token_id === UNKNOWN) span.classList.add("unknown");
  span.style.setProperty("--surprise", Math.min(1, bits(token) / HIGHEST_BITS));
  span.tabIndex = -1;
  span.token = token;
  return span;
}

const bits = (token) => token.surprisal_nats / Math.LN2;
const percent = (share) => (share >= 0.001 ? `${(100 * share).toFixed(1)} %` : `${(100 * share).toExponential(1)} %`);
const shown = (text) => (text.trim() === "" ? JSON.stringify(text) : text);

function addToken(text, token) {
  const span = tokenElement(token);
  if (!find(".token", text)) span.tabIndex = 0; // one Tab stop; arrow keys move on from there
  text.append(span);
  if (token.text === "\n") text.append("\n");
}

function choose(span) {
  find(".chosen")?.classList.remove("chosen");
  span.classList.add("chosen");
  const { token } = span;
  const line = element("p", "");
  line.append(element("b", shown(token.text || span.textContent)));
  line.append(` ${bits(token).toFixed(2)} bits: probability ${percent(Math.exp(-token.surprisal_nats))}`);
  const itself = token.token_id === UNKNOWN ? ["<unk>"] : [token.text, token.text.trim()]; // a space may be the join
  if (token.token_id === UNKNOWN && token.text.trim() !== "<unk>") line.append(" as <unk>: the word is not in the vocabulary");
  const table = document.createElement("table");
  for (const { text, probability } of token.alternatives) {
    const row = table.insertRow();
    row.classList.toggle("itself", itself.includes(text));
    row.insertCell().textContent = shown(text);
    row.insertCell().textContent = percent(probability);
    const bar = element("div", "", "bar");
    bar.style.width = `${100 * probability}%`;
    row.insertCell().append(bar);
  }
  details.replaceChildren(line, table);
}

for (const text of document.querySelectorAll(".text")) {
  for (const happening of ["mouseover", "focusin", "click"]) {
    text.addEventListener(happening, (event) => event.target.token && choose(event.target));
  }
  text.addEventListener("keydown", (event) => {
    const tokens = [...text.querySelectorAll(".token")];
    const from = tokens.indexOf(event.target);
    const to = { ArrowRight: from + 1, ArrowLeft: from - 1, Home: 0, End: tokens.length - 1 }[event.key];
    if (from < 0 || tokens[to] === undefined) return;
    event.preventDefault();
    tokens[from].tabIndex = -1;
    tokens[to].tabIndex = 0;
    tokens[to].focus();
  });
}

// ---- the two panels

async function generate(signal) {
  const form = find("form", panels.generate);
  const text = find(".text", panels.generate);
  const body = { prompt: find("#prompt").value, alternatives: ALTERNATIVES, stream: true };
  for (const name of ["temperature", "top_p", "maximum_tokens", "top_k", "seed"]) body[name] = form[name].valueAsNumber;
  text.replaceChildren(element("span", body.prompt, "prompt"));
  text.setAttribute("aria-busy", "true");
  find(".stop").disabled = false;
  try {
    for await (const event of eventsOf(await ask("generate", body, signal))) {
      if (event.detail) throw new Error(event.detail);
      if ("finish" in event) finish(text, event);
      else addToken(text, event);
    }
  } finally {
    if (running?.signal === signal) find(".stop").disabled = true;
    text.setAttribute("aria-busy", "false");
  }
}

function finish(text, generated) {
  find("#model").textContent = generated.model;
  const last = [...text.querySelectorAll(".token")].pop();
  if (last && generated.finish === "end") {
    const end = tokenElement({ ...last.token, ends: true });
    end.tabIndex = last.tabIndex;
    last.replaceWith(end);
  }
  if (generated.finish === "time") text.append(element("span", " … (out of time)", "mark"));
  if (generated.unknown_words.length) {
    showMessage(`Not in the vocabulary, read as <unk>: ${generated.unknown_words.join(", ")}`, true);
  }
}

async function score(signal) {
  const source = find("#scored").value;
  const characters = [...source]; // positions count code points
  const response = await ask("score", { text: source, alternatives: ALTERNATIVES }, signal);
  const scored = await response.json();
  const text = find(".text", panels.score);
  text.replaceChildren();
  let written = 0;
  for (const token of scored.tokens) {
    text.append(characters.slice(written, token.start).join(""));
    addToken(text, { ...token, ends: token.text === "" });
    written = token.end;
  }
  find("#model").textContent = scored.model;
  const figures = {
    perplexity: scored.perplexity?.toFixed(2) ?? "none",
    "bits per byte": scored.bits_per_byte?.toFixed(3) ?? "none",
    "log-probability, nats": scored.log_probability_nats.toFixed(2),
    tokens: scored.tokens.length,
    "unknown words": scored.unknown_tokens,
  };
  find(".figures").replaceChildren(...Object.entries(figures).map(([name, value]) => {
    const figure = element("span", `${name} `);
    figure.append(element("b", String(value)));
    return figure;
  }));
}

// ---- controls

for (const [name, work] of [["generate", generate], ["score", score]]) {
  const form = find("form", panels[name]);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(work);
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
}

const stop = () => {
  running?.abort();
  find(".stop").disabled = true;
};
find(".stop").addEventListener("click", stop);
document.addEventListener("keydown", (event) => event.key === "Escape" && stop());

for (const slider of document.querySelectorAll("input[type=range]")) {
  const show = () => (find("output", slider.parentElement).textContent = slider.value);
  slider.addEventListener("input", show);
  show();
}

function select(tab) {
  // The message and selection belong to the other panel's text.
  problem.hidden = true;
  find(".chosen")?.classList.remove("chosen");
  details.replaceChildren(...nothingChosen);
  for (const other of document.querySelectorAll("[role=tab]")) {
    const chosen = other === tab;
    other.setAttribute("aria-selected", chosen);
    other.tabIndex = chosen ? 0 : -1;
    find(`#${other.getAttribute("aria-controls")}`).hidden = !chosen;
  }
}
for (const tab of document.querySelectorAll("[role=tab]")) {
  tab.addEventListener("click", () => select(tab));
  tab.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const other = find("[role=tab][aria-selected=false]");
    select(other);
    other.focus();
  });
}

find("#login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", find("#token").value);
  find("#login").hidden = true;
  problem.hidden = true;
});

ask("ready").then((response) => response.json()).then((ready) => {
  find("#model").textContent = ready.model;
}).catch((error) => showMessage(error.message));
