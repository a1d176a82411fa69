/* The search page: places of search-index.js that have every word of the question, titles before text. */
"use strict";

function found(question) {
  const words = question.toLowerCase().split(/\s+/).filter(Boolean);
  const weigh = ([title, section, , text]) => {
    const name = title.toLowerCase(), heading = section.toLowerCase(), body = text.toLowerCase();
    let weight = 0;
    for (const word of words) {
      const times = body.split(word).length - 1;
      const of_word = (heading.includes(word) ? 40 : 0) + (name.includes(word) ? 20 : 0) + Math.min(times, 10);
      if (!of_word) return 0;
      weight += of_word;
    }
    return weight;
  };
  return window.places.map((place) => [weigh(place), place]).filter(([weight]) => weight > 0)
    .sort((a, b) => b[0] - a[0]).map(([, place]) => place);
}

/* The text around the first word, which is marked. */
function excerpt(text, words) {
  const lower = text.toLowerCase();
  const first = words.map((word) => lower.indexOf(word)).filter((at) => at >= 0);
  const from = Math.max(0, (first.length ? Math.min(...first) : 0) - 60);
  const line = document.createElement("p");
  let rest = (from ? "… " : "") + text.slice(from, from + 220) + (from + 220 < text.length ? " …" : "");
  while (rest) {
    const next = words.map((word) => [rest.toLowerCase().indexOf(word), word]).filter(([at]) => at >= 0)
      .sort((a, b) => a[0] - b[0])[0];
    if (!next) break;
    line.append(rest.slice(0, next[0]));
    const mark = document.createElement("mark");
    mark.textContent = rest.slice(next[0], next[0] + next[1].length);
    line.append(mark);
    rest = rest.slice(next[0] + next[1].length);
  }
  line.append(rest);
  return line;
}

function show(question) {
  const list = document.getElementById("found"), said = document.getElementById("said");
  const words = question.toLowerCase().split(/\s+/).filter(Boolean);
  const places = words.length ? found(question) : [];
  list.replaceChildren(...places.slice(0, 30).map(([title, section, address, text]) => {
    const item = document.createElement("li"), link = document.createElement("a");
    link.href = address;
    link.textContent = section ? title + ": " + section : title;
    item.append(link, excerpt(text, words));
    return item;
  }));
  said.textContent = !words.length ? "" : places.length ? places.length + (places.length === 1 ? " place" : " places") +
    (places.length > 30 ? ", the first 30" : "") : "No page has all of these words.";
}

const field = document.getElementById("question");
field.value = new URLSearchParams(location.search).get("q") || "";
field.addEventListener("input", () => show(field.value));
show(field.value);
field.focus();
