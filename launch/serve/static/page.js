// The form of a model's page: sends its texts to one model or two, and draws the answers.

import {element, draw} from "./views.js";

const form = document.getElementById("form");
const results = document.getElementById("results");
const status = document.getElementById("status");
const explain = document.getElementById("explain");
const compare = document.getElementById("compare");
const button = form.querySelector("button[type=submit]");

let models = null;

/** The server's models by name: asked for once, and again after a failure. */
function allModels() {
  models ??= fetch("/v1/models").then((response) => response.json())
    .then((list) => new Map(list.models.map((model) => [model.name, model])));
  models.catch(() => { models = null; });
  return models;
}

/** The texts of the form, by name. */
function texts(model) {
  return Object.fromEntries(model.texts.map(({name}) => [name, form.elements[name].value]));
}

/** The inputs of a request: one, or one for each line of a text that is several. */
function inputsOf(model, values) {
  const several = model.texts.find((text) => text.several);
  if (!several) return [values];
  const lines = values[several.name].split("\n").map((line) => line.trim()).filter(Boolean);
  return lines.map((line) => ({...values, [several.name]: line}));
}

/** The outputs of a model, or an Error with the server's message. */
async function predict(model, inputs) {
  const response = await fetch(`/v1/models/${model.name}:predict`, {
    method: "POST",
    headers: {"content-type": "application/json"},
    body: JSON.stringify({inputs, explain: Boolean(model.explains && explain?.checked)}),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error.message);
  return answer.outputs;
}

/** A column with the answers of one model. */
async function column(model, inputs) {
  const title = element("h2", {}, model.name);
  const section = element("section", {"aria-label": `Answer of ${model.name}`}, title);
  try {
    const outputs = await predict(model, inputs);
    section.append(...draw(model, inputs, outputs));
    const explained = model.details.some((field) => outputs.some((output) => field in output));
    if (model.explains && explain?.checked && !explained) {
      section.append(element("p", {class: "faint"}, "Too long for an explanation."));
    }
  } catch (error) {
    section.append(element("p", {class: "error", role: "alert"}, error.message));
  }
  return section;
}

/** Says so if the answer waits for a compilation. */
async function watch() {
  const response = await fetch("/v1/models");
  const {models} = await response.json();
  const names = [form.dataset.model, compare?.value];
  const compiling = models.some(({name, compiling}) => compiling && names.includes(name));
  if (button.disabled && compiling) {
    status.textContent = "Compiling, as this is the first text of such a length; later ones are fast…";
  }
}

async function submit() {
  button.disabled = true;
  status.textContent = "Computing…";
  const watching = setInterval(() => watch().catch(() => {}), 1000);
  try {
    const all = await allModels();
    const model = all.get(form.dataset.model), other = compare && all.get(compare.value);
    const inputs = inputsOf(model, texts(model));
    const columns = await Promise.all([model, other].filter(Boolean).map((m) => column(m, inputs)));
    results.replaceChildren(...columns);
    status.textContent = "";
    if (status.getBoundingClientRect().top > 0.7 * innerHeight) status.scrollIntoView();
  } catch {
    status.textContent = "The server does not answer.";
  }
  clearInterval(watching);
  button.disabled = false;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
for (const example of document.querySelectorAll("[data-example]")) {
  example.addEventListener("click", async () => {
    const model = (await allModels()).get(form.dataset.model);
    model.texts.forEach(({name}, number) => {
      form.elements[name].value = model.examples[example.dataset.example][number];
    });
    form.requestSubmit();
  });
}
