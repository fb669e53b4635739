// Finds pages that have all words, those with most of the words in their title or a heading first.
"use strict";
const up = document.body.dataset.up;
const field = document.getElementById("search");
const found = document.getElementById("found");
const list = document.getElementById("list");

// What stands around a word, in whole words.
function excerpt(body, at) {
  const from = at <= 40 ? 0 : body.indexOf(" ", at - 40) + 1;
  const to = body.lastIndexOf(" ", at + 90);
  const cut = to > at ? to : body.length;
  return (from ? "… " : "") + body.slice(from, cut) + (cut < body.length ? " …" : "");
}

function look(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const results = [];
  for (const [page, title, headings, body] of words.length ? PAGES : []) {
    const lower = body.toLowerCase();
    const has = text => words.filter(word => text.toLowerCase().includes(word)).length;
    if (has(title + " " + body) < words.length) continue;
    const inTitle = has(title);
    const best = headings.reduce((best, heading) => has(heading[1]) > has(best[1]) ? heading : best, ["", ""]);
    const inHeading = has(best[1]);
    const useHeading = inHeading > inTitle;
    const together = lower.indexOf(words.join(" "));
    const around = excerpt(body, together >= 0 ? together : lower.indexOf(words[0]));
    results.push({
      rank: title.toLowerCase() === words.join(" ") ? 1e6 : 100 * inTitle + 60 * inHeading + (together >= 0 ? 30 : 0),
      place: page + (useHeading ? "#" + best[0] : ""),
      title,
      around: useHeading ? best[1] : around,
    });
  }
  return results.sort((a, b) => b.rank - a.rank || a.title.localeCompare(b.title)).slice(0, 30);
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
  // Where there is room for one thing only, the answers are it.
  document.getElementById("menu").checked = true;
  show();
}
