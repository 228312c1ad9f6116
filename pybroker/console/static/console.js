// What makes pages pleasant; every page works without it, except the live tail and the charts.
"use strict";

// --- theme: system, light, dark ---------------------------------------------------------------------------------
(() => {
  const button = document.getElementById("theme");
  if (!button) return;
  const order = ["system", "light", "dark"];
  const show = (theme) => {
    button.textContent = `Theme: ${theme}`;
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };
  let theme = localStorage.getItem("theme") || "system";
  show(order.includes(theme) ? theme : "system");
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = order[(order.indexOf(theme) + 1) % order.length];
    if (theme === "system") localStorage.removeItem("theme");
    else localStorage.setItem("theme", theme);
    show(theme);
  });
})();

// --- ids that are copied ----------------------------------------------------------------------------------------
for (const button of document.querySelectorAll("button.copy")) button.hidden = false;
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const text = button.dataset.copy;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without https from another machine there is no clipboard: the old way.
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
    button.focus();
  }
  button.classList.add("done");
  setTimeout(() => button.classList.remove("done"), 1200);
});

// --- tables that are sorted by a click on a head -----------------------------------------------------------------
for (const table of document.querySelectorAll("table.sortable")) {
  for (const head of table.querySelectorAll("th[data-sort]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => sort(table, head));
  }
}
function sort(table, head) {
  const column = [...head.parentNode.children].indexOf(head);
  const numeric = head.dataset.sort === "number";
  const ascending = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") === "descending" : !numeric;
  for (const each of head.parentNode.children) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const value = (row) => {
    const cell = row.children[column];
    if (!numeric) return cell.textContent.trim();
    return cell.dataset.value === "" ? -1 : Number(cell.dataset.value);  // unknown: below every number
  };
  const compare = numeric ? (a, b) => value(a) - value(b) : (a, b) => value(a).localeCompare(value(b));
  const body = table.tBodies[0];
  body.append(...[...body.rows].sort((a, b) => (ascending ? 1 : -1) * compare(a, b)));
}

// --- keyboard: / finds a topic ----------------------------------------------------------------------------------
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select")) return;
  const field = document.getElementById("find");
  if (field) { event.preventDefault(); field.focus(); field.select(); }
});

// --- countdowns -------------------------------------------------------------------------------------------------
const counting = [...document.querySelectorAll("[data-until-ms]")];
if (counting.length) {
  const begun = performance.now();
  const show = () => {
    for (const each of counting) {
      const left = Math.max(0, Math.floor((Number(each.dataset.untilMs) - (performance.now() - begun)) / 1000));
      const parts = [Math.floor(left / 3600), Math.floor(left / 60) % 60, left % 60].map((n) => String(n).padStart(2, "0"));
      each.textContent = left ? parts.join(":") : "any moment";
    }
  };
  show();
  setInterval(show, 1000);
}

// --- a file into the text field beside it ------------------------------------------------------------------------
for (const input of document.querySelectorAll("input[type=file][data-into]")) {
  input.addEventListener("change", async () => {
    if (input.files[0]) document.getElementById(input.dataset.into).value = await input.files[0].text();
  });
}

// --- live tail: rows that the server has made and escaped ----------------------------------------------------------
const tail = document.querySelector("[data-tail]");
if (tail) {
  const ROWS_MAX = 500;
  const state = document.getElementById("tail-state");
  const body = tail.querySelector("tbody");
  const say = (text) => { if (state.textContent !== text) state.textContent = text; };
  const source = new EventSource(tail.dataset.tail);
  source.addEventListener("ready", () => say("Live: new records appear on top."));
  source.addEventListener("records", (event) => {
    body.insertAdjacentHTML("afterbegin", JSON.parse(event.data));
    while (body.rows.length > ROWS_MAX) body.lastElementChild.remove();
    for (const button of body.querySelectorAll("button.copy[hidden]")) button.hidden = false;
  });
  source.addEventListener("away", (event) => say(JSON.parse(event.data)));
  source.addEventListener("problem", (event) => { say(JSON.parse(event.data)); source.close(); });
  source.addEventListener("end", () => { say("The live tail has ended. Reload the page to continue."); source.close(); });
  source.onerror = () => say("Connection lost; reconnecting…");
  document.getElementById("tail-stop").addEventListener("click", () => { source.close(); say("Stopped."); });
}

function say(place, text) {
  const note = place.querySelector("[role=alert]") || document.createElement("p");
  note.className = "note bad";
  note.setAttribute("role", "alert");
  note.textContent = text;
  place.prepend(note);
}

// --- parts of a page that are fetched again ------------------------------------------------------------------------
for (const place of document.querySelectorAll("[data-again]")) {
  const seconds = Number(place.dataset.seconds || 3);
  setInterval(async () => {
    if (document.hidden || place.contains(document.activeElement)) return;
    try {
      const answer = await fetch(place.dataset.again, { headers: { Accept: "text/html" } });
      if (answer.ok && !answer.redirected) place.innerHTML = await answer.text();
      else say(place, answer.redirected ? "The session has ended. Reload the page." : "The cluster does not respond.");
    } catch { say(place, "The console does not respond: it was stopped, or the network failed. The page shows old data."); }
  }, seconds * 1000);
}
