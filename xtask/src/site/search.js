// Finds pages that have all words, those with the words in their title or a heading first.
"use strict";
const up = document.body.dataset.up;
const field = document.getElementById("search");
const found = document.getElementById("found");
const list = document.getElementById("list");

function look(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const results = [];
  for (const [page, title, headings, body] of words.length ? PAGES : []) {
    const all = (title + " " + body).toLowerCase();
    if (!words.every(word => all.includes(word))) continue;
    const heading = headings.find(([, heading]) => words.every(word => heading.toLowerCase().includes(word)));
    const inTitle = words.every(word => title.toLowerCase().includes(word));
    const exact = title.toLowerCase() === words.join(" ");
    const at = body.toLowerCase().indexOf(words[0]);
    const around = body.slice(Math.max(0, at - 40), at + 80);
    const place = page + (heading && !inTitle ? "#" + heading[0] : "");
    results.push({ rank: exact ? 0 : inTitle ? 1 : heading ? 2 : 3, place, title, around: heading && !inTitle ? heading[1] : around });
  }
  return results.sort((a, b) => a.rank - b.rank || a.title.localeCompare(b.title)).slice(0, 30);
}

function show() {
  const text = field.value.trim();
  found.replaceChildren(...look(text).map(result => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = up + result.place;
    link.textContent = result.title;
    const around = document.createElement("small");
    around.textContent = result.around;
    item.append(link, around);
    return item;
  }));
  if (text && !found.children.length) {
    const nothing = document.createElement("li");
    nothing.textContent = "Nothing has these words.";
    found.append(nothing);
  }
  found.hidden = !text;
  list.hidden = !!text;
}

field.addEventListener("input", show);
field.form.addEventListener("submit", event => {
  event.preventDefault();
  found.querySelector("a")?.click();
});
document.addEventListener("keydown", event => {
  if (event.key === "/" && document.activeElement !== field) {
    event.preventDefault();
    field.focus();
  }
});
// A search can be linked to.
const asked = new URLSearchParams(location.search).get("q");
if (asked) {
  field.value = asked;
  show();
}
