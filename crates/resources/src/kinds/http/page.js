"use strict";

const state = document.getElementById("state");
const form = document.getElementById("inputs");

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function get(path) {
  const answer = await fetch(path, { cache: "no-store" });
  const document = await answer.json();
  if (!answer.ok) throw new Error(document.error || answer.statusText);
  return document;
}

async function save(id, input) {
  const answer = await fetch("save/", { method: "POST", body: new URLSearchParams({ id, value: input.value }) });
  const document = answer.ok ? null : await answer.json();
  input.classList.toggle("wrong", !answer.ok);
  state.textContent = answer.ok ? "" : document.error;
}

// Whatever has changed meanwhile is asked for again after each trouble, so nothing is missed for long.
async function follow(id, show) {
  for (;;) {
    try {
      show((await get("watch/" + encodeURIComponent(id))).value);
    } catch {
      await pause(2000);
      try {
        show((await get("list/" + encodeURIComponent(id))).value);
      } catch {
        // It is tried again.
      }
    }
  }
}

async function add(element) {
  const label = document.createElement("label");
  const input = document.createElement("input");
  const output = document.createElement("output");
  label.textContent = element.id;
  label.htmlFor = input.id = "input-" + element.id;
  for (const [name, value] of Object.entries(element.type)) input.setAttribute(name, value);
  if (element.type.type === "range") label.append(output);
  form.append(label, input);
  const show = (value) => {
    if (input.value !== value) input.value = value;
    output.textContent = value;
  };
  input.addEventListener("input", () => (output.textContent = input.value));
  input.addEventListener("change", () => save(element.id, input).catch((error) => (state.textContent = error)));
  show((await get("list/" + encodeURIComponent(element.id))).value);
  follow(element.id, show);
}

form.addEventListener("submit", (event) => event.preventDefault());

(async () => {
  try {
    for (const element of (await get("list/")).elements) await add(element);
  } catch (error) {
    state.textContent = error;
  }
})();
