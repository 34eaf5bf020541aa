"use strict";
// The page's only script. Text from a model or a user reaches the page as text nodes, never as markup.

const HIGHEST_BITS = 12; // surprisal at which a token has the full color
const ALTERNATIVES = 5;
const GUESSES = 3; // alternatives shown for each step of an explanation
const SEEDS = 1_000_000; // seeds that are drawn lie below
const UNKNOWN = 1; // id of <unk> in every tokenizer
const COSTLY = "An unknown word is costly: 8 bits for each of its bytes, on top of its <unk>.";

const find = (selector, within = document) => within.querySelector(selector);
const panels = { generate: find("#generate"), score: find("#score"), explain: find("#explain") };
const details = find(".details");
const nothingChosen = [...details.childNodes];
const problem = find("#problem");
let running = null; // AbortController of the running request
let described = ""; // the model that the page describes

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
  // A late refusal of a request from before the login asks for nothing.
  if (response.status === 401 && token === sessionStorage.getItem("token")) find("#login").hidden = false;
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
const percent = (share) => `${share >= 0.001 ? (100 * share).toFixed(1) : (100 * share).toPrecision(2)} %`;
const shown = (text) => (text.trim() === "" ? JSON.stringify(text) : text);

function addToken(text, token) {
  const span = tokenElement(token);
  if (!find(".token", text)) span.tabIndex = 0; // one Tab stop; arrow keys move on from there
  text.append(span);
  if (token.text === "\n") text.append("\n");
}

function choose(span) {
  find(".token.chosen")?.classList.remove("chosen");
  span.classList.add("chosen");
  const { token } = span;
  const line = element("p", "");
  line.append(element("b", shown(token.text || span.textContent)));
  line.append(` ${bits(token).toFixed(2)} bits: probability ${percent(Math.exp(-token.surprisal_nats))}`);
  const itself = token.token_id === UNKNOWN ? ["<unk>"] : [token.text, token.text.trim()]; // a space may be the join
  if (token.token_id === UNKNOWN && token.text.trim() !== "<unk>") line.append(" as <unk>: the word is not in the vocabulary, and costs 8 bits per byte on top");
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

// ---- what the model is

async function describeModel() {
  const facts = await (await ask("model")).json();
  described = facts.model;
  find("#model").textContent = facts.model;
  const count = (number) => number.toLocaleString("en");
  const size = facts.corpus_bytes >= 1e5 ? `${(facts.corpus_bytes / 1e6).toFixed(1)} MB` : `${count(facts.corpus_bytes ?? 0)} bytes`;
  const pieces = { word: "words", char: "characters" }[facts.tokenizer] ?? "pieces of words";
  const parts = [
    facts.corpus && `Trained on ${facts.corpus}${facts.corpus_bytes ? ` (${size})` : ""}`,
    `${count(facts.weights)} weights: ${facts.layers} ${facts.layers === 1 ? "layer" : "layers"} of ${count(facts.hidden_size)} units`,
    `${count(facts.vocabulary_size)} ${pieces}`,
    facts.perplexity && `test perplexity ${facts.perplexity.toFixed(1)}, ${facts.bits_per_byte?.toFixed(2)} bits per byte`,
  ];
  find("#about").textContent = parts.filter(Boolean).join(" · ");
  find("#example button").textContent = facts.example_prompt;
  find("#example").hidden = !facts.example_prompt;
}

function answeredBy(model) {
  find("#model").textContent = model;
  if (model !== described) describeModel().catch(() => {}); // a new champion
}

// ---- generate

async function generate(signal) {
  const form = find("form", panels.generate);
  const text = find(".text", panels.generate);
  const drawn = find("#drawn");
  if (!form.lock.checked) form.seed.value = crypto.getRandomValues(new Uint32Array(1))[0] % SEEDS;
  const body = { prompt: find("#prompt").value, alternatives: ALTERNATIVES, stream: true };
  for (const name of ["temperature", "top_p", "maximum_tokens", "top_k", "seed"]) body[name] = form[name].valueAsNumber;
  text.replaceChildren(element("span", body.prompt, "prompt"));
  text.setAttribute("aria-busy", "true");
  drawn.hidden = true;
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
    const tokens = text.querySelectorAll(".token").length;
    find("span", drawn).textContent = `seed ${body.seed} · ${tokens} tokens`;
    drawn.hidden = tokens === 0;
  }
}

function finish(text, generated) {
  answeredBy(generated.model);
  const last = [...text.querySelectorAll(".token")].pop();
  if (last && generated.finish === "end") {
    const end = tokenElement({ ...last.token, ends: true });
    end.tabIndex = last.tabIndex;
    last.replaceWith(end);
  }
  if (generated.finish === "time") text.append(element("span", " … (out of time)", "mark"));
  if (generated.unknown_words.length) {
    markUnknown(find(".prompt", text), generated.unknown_spans);
    showMessage(`Not in the vocabulary, read as <unk>: ${generated.unknown_words.join(", ")}. ${COSTLY}`, true);
  }
}

function markUnknown(prompt, spans) {
  const characters = [...prompt.textContent]; // positions count code points
  prompt.replaceChildren();
  let written = 0;
  for (const { start, end } of spans) {
    const word = element("span", characters.slice(start, end).join(""), "unknown");
    word.title = "not in the vocabulary, read as <unk>; costs 8 bits per byte";
    prompt.append(characters.slice(written, start).join(""), word);
    written = end;
  }
  prompt.append(characters.slice(written).join(""));
}

// ---- score

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
  answeredBy(scored.model);
  showFigures(panels.score, scored, scored.tokens.length);
}

function showFigures(panel, sums, tokens) {
  const figures = {
    perplexity: sums.perplexity?.toFixed(2) ?? "none",
    "bits per byte": sums.bits_per_byte?.toFixed(3) ?? "none",
    "log-probability, nats": sums.log_probability_nats.toFixed(2),
    tokens,
    "unknown words": sums.unknown_tokens,
  };
  find(".figures", panel).replaceChildren(...Object.entries(figures).map(([name, value]) => {
    const figure = element("span", `${name} `);
    figure.append(element("b", String(value)));
    return figure;
  }));
  if (sums.unknown_tokens) showMessage(COSTLY, true);
}

// ---- explain

const course = { steps: [], chosen: -1, column: 0, labels: 0 }; // what the canvas shows; width of a column, height of labels
const canvas = find("canvas");
// In pixels: left margin, columns, heights of the parts, and gaps.
const GUTTER = 58, NARROWEST = 20, WIDEST = 80, TALLEST_LABEL = 90, STATES = 224, LOSSES = 72, GAP = 8;

async function explain(signal) {
  const response = await ask("explain", { text: find("#explained").value, alternatives: GUESSES }, signal);
  const explained = await response.json();
  answeredBy(explained.model);
  showFigures(panels.explain, explained, explained.steps.length);
  find("tbody", panels.explain).replaceChildren(...explained.steps.map(stepRow));
  find(".steps").hidden = find(".course").hidden = explained.steps.length === 0;
  Object.assign(course, { steps: explained.steps, chosen: -1 });
  drawCourse();
  find("#legend").textContent = explained.steps.length ? legend(explained) : "Nothing to predict in this text.";
}

function legend({ units, hidden_size: size, steps }) {
  const shownUnits = units.length === size ? size : `${units.length} of the ${size}`;
  const layers = steps[0].state.length;
  const each = layers > 1 ? ` of each of the ${layers} layers, the first at the bottom` : "";
  return `State: ${shownUnits} units${each}; orange is above zero, blue below.`;
}

function stepRow(step, index) {
  const row = element("tr", "", step.starts_row && index ? "first" : "");
  const cell = (text, className) => row.appendChild(element("td", text, className));
  for (const [text, id] of [[step.input_text, step.input_id], [step.text, step.token_id]]) {
    const place = cell("", "");
    const token = element("span", shown(text), id === UNKNOWN ? "unknown" : "");
    place.append(token, " ", element("span", String(id), "id"));
  }
  if (step.unknown) row.cells[1].title = `not in the vocabulary, read as <unk>; to spell it costs ${step.spelling_bits} bits`;
  cell(percent(Math.exp(-step.surprisal_nats)), "number");
  cell(step.surprisal_nats.toFixed(2), "number");
  cell(step.rank.toLocaleString("en"), "number");
  cell(step.alternatives.map(({ text, probability }) => `${shown(text)} ${percent(probability)}`).join(", "), "guesses");
  row.addEventListener("mouseenter", () => chooseStep(index));
  return row;
}

function chooseStep(index) {
  if (index === course.chosen) return;
  course.chosen = index;
  [...find("tbody", panels.explain).rows].forEach((row, at) => row.classList.toggle("chosen", at === index));
  drawCourse();
}

canvas.addEventListener("mousemove", (event) => {
  const index = Math.floor((event.offsetX - GUTTER) / course.column);
  if (index >= 0 && index < course.steps.length) chooseStep(index);
});

function colour(variable) {
  const probe = element("span", "");
  probe.style.color = `var(${variable})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

// From top to bottom: the tokens read, the state as a heat map, the losses, the tokens to predict.
function drawCourse() {
  const { steps } = course;
  if (!steps.length || panels.explain.hidden) return;
  const room = canvas.parentElement.clientWidth - GUTTER;
  course.column = Math.floor(Math.min(WIDEST, Math.max(NARROWEST, room / steps.length)));
  const pen = canvas.getContext("2d");
  const font = (pen.font = "13px system-ui, sans-serif");
  const widths = steps.flatMap((step) => [step.input_text, step.text]).map((text) => pen.measureText(shown(text)).width);
  course.labels = Math.min(TALLEST_LABEL, Math.max(...widths)) + GAP;
  const width = GUTTER + course.column * steps.length;
  const parts = STATES + LOSSES + 2 * GAP; // between the labels
  const height = course.labels + parts + course.labels;
  const scale = window.devicePixelRatio || 1;
  Object.assign(canvas, { width: width * scale, height: height * scale }); // resets the pen
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  pen.scale(scale, scale);
  pen.font = font;
  pen.textBaseline = "middle";
  const colours = Object.fromEntries(["--text", "--soft", "--warm", "--cool", "--line"].map((name) => [name, colour(name)]));
  const highest = drawStates(pen, steps, colours);
  drawLosses(pen, steps, colours);
  steps.forEach((step, index) => {
    const centre = GUTTER + (index + 0.5) * course.column;
    const inputUnknown = step.input_id === UNKNOWN;
    drawLabel(pen, step.input_text, centre, course.labels - GAP, "start", colours[inputUnknown ? "--warm" : "--text"]);
    drawLabel(pen, step.text, centre, height - course.labels + GAP, "end", colours[step.unknown ? "--warm" : "--text"]);
    pen.fillStyle = colours["--soft"];
    if (step.starts_row && index) pen.fillRect(GUTTER + index * course.column, course.labels, 1.5, parts);
  });
  pen.fillStyle = colours["--soft"];
  for (const [text, y] of [["reads", course.labels - 14], ["state", course.labels + STATES / 2], ["loss", course.labels + STATES + GAP + LOSSES / 2], ["predicts", height - course.labels + 14]]) {
    pen.fillText(text, 0, y);
  }
  if (course.chosen >= 0) {
    pen.strokeStyle = colours["--text"];
    pen.strokeRect(GUTTER + course.chosen * course.column + 0.5, course.labels + 0.5, course.column - 1, parts - 1);
  }
  canvas.setAttribute("aria-label", `State after each of ${steps.length} tokens, units from -${highest} (blue) to ${highest} (orange), and the loss of the next token; the table has the losses`);
}

function drawStates(pen, steps, colours) {
  const columns = steps.map((step) => step.state.flat());
  const highest = Math.max(1e-9, ...columns.map((units) => Math.max(...units.map(Math.abs))));
  const unitHeight = STATES / columns[0].length;
  columns.forEach((units, index) => units.forEach((value, unit) => {
    pen.globalAlpha = Math.abs(value) / highest;
    pen.fillStyle = value > 0 ? colours["--warm"] : colours["--cool"];
    // The first layer at the bottom.
    pen.fillRect(GUTTER + index * course.column, course.labels + STATES - (unit + 1) * unitHeight, course.column, unitHeight);
  }));
  pen.globalAlpha = 1;
  pen.strokeStyle = colours["--line"];
  const layers = steps[0].state.length;
  for (let layer = 0; layer <= layers; layer++) {
    const y = course.labels + (layer * STATES) / layers;
    pen.strokeRect(GUTTER, y, course.column * steps.length, 0);
  }
  return highest.toFixed(2);
}

function drawLosses(pen, steps, colours) {
  const highest = Math.max(...steps.map((step) => step.surprisal_nats), 1e-9);
  const ground = course.labels + STATES + GAP + LOSSES;
  steps.forEach((step, index) => {
    const tall = (LOSSES * step.surprisal_nats) / highest;
    pen.fillStyle = step.unknown ? colours["--warm"] : colours["--cool"];
    pen.fillRect(GUTTER + index * course.column + 2, ground - tall, course.column - 4, tall);
  });
}

function drawLabel(pen, text, x, y, align, style) {
  let label = shown(text);
  while (label.length > 1 && pen.measureText(label).width > TALLEST_LABEL) label = `${[...label].slice(0, -2).join("")}…`;
  pen.save();
  pen.translate(x, y);
  pen.rotate(-Math.PI / 2);
  pen.textAlign = align;
  pen.fillStyle = style;
  pen.fillText(label, 0, 0);
  pen.restore();
}

window.addEventListener("resize", drawCourse);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCourse);

// ---- controls

for (const [name, work] of Object.entries({ generate, score, explain })) {
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

find("#generate form").seed.addEventListener("input", () => (find("#generate form").lock.checked = true)); // it was chosen

find("#example button").addEventListener("click", () => {
  find("#prompt").value = find("#example button").textContent;
  find("#generate form").requestSubmit();
});

find("#drawn button").addEventListener("click", () => {
  const tokens = [...panels.generate.querySelectorAll(".token")].map((span) => span.token.text);
  find("#explained").value = [...(find(".prompt").textContent + tokens.join("")).trim()].slice(0, find("#explained").maxLength).join("");
  select(find("#tab-explain"));
  find("#explain form").requestSubmit();
});

for (const slider of document.querySelectorAll("input[type=range]")) {
  const show = () => (find("output", slider.parentElement).textContent = slider.value);
  slider.addEventListener("input", show);
  show();
}

function select(tab) {
  // The message and selection belong to the other panel's text.
  problem.hidden = true;
  find(".token.chosen")?.classList.remove("chosen");
  details.replaceChildren(...nothingChosen);
  for (const part of document.querySelectorAll(".of-tokens")) part.hidden = tab.id === "tab-explain";
  for (const other of document.querySelectorAll("[role=tab]")) {
    const chosen = other === tab;
    other.setAttribute("aria-selected", chosen);
    other.tabIndex = chosen ? 0 : -1;
    find(`#${other.getAttribute("aria-controls")}`).hidden = !chosen;
  }
  drawCourse(); // the window may have been resized meanwhile
}
for (const tab of document.querySelectorAll("[role=tab]")) {
  tab.addEventListener("click", () => select(tab));
  tab.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const tabs = [...document.querySelectorAll("[role=tab]")];
    const step = event.key === "ArrowRight" ? 1 : tabs.length - 1;
    const other = tabs[(tabs.indexOf(tab) + step) % tabs.length];
    select(other);
    other.focus();
  });
}

find("#login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", find("#token").value);
  find("#login").hidden = true;
  problem.hidden = true;
  describeModel().catch((error) => showMessage(error.message));
});

ask("ready").then((response) => response.json()).then((ready) => {
  find("#model").textContent = ready.model;
  return describeModel();
}).catch((error) => find("#login").hidden && showMessage(error.message)); // asking for the token says enough
