// Completion and live verification. Every view also works without this script.
"use strict";

document.documentElement.classList.add("script");

function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  element.textContent = text; // never markup
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function amount(count) {
  if (!count) return "";
  const whole = (value) => Math.round(value).toLocaleString("en");
  if (count.low === null) return whole(count.value);
  const ends = count.high === null ? `at least ${whole(count.low)}` : `${whole(count.low)} to ${whole(count.high)}`;
  return `${ends}${count.reliable ? "" : " *"}`;
}

async function ask(address, signal) {
  const response = await fetch(address, { signal, headers: { accept: "application/json" } });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error || String(response.status));
  return answer;
}

// --- completion: a combobox as the ARIA practices describe it ----------------------------------

function complete(combo) {
  const input = combo.querySelector("input");
  const list = combo.querySelector("ul");
  const status = combo.closest("form").querySelector("[data-combo-status]");
  let active = -1;
  let typed = input.value;
  let waiting = null;
  let asking = null;

  function close() {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function choose(place) {
    const options = [...list.children];
    options.forEach((option, n) => option.setAttribute("aria-selected", String(n === place)));
    active = place;
    if (place < 0) {
      input.removeAttribute("aria-activedescendant");
      input.value = typed;
    } else {
      input.setAttribute("aria-activedescendant", options[place].id);
      input.value = options[place].dataset.query;
      options[place].scrollIntoView({ block: "nearest" });
    }
  }

  function show(completions) {
    list.replaceChildren(
      ...completions.map(({ query, count }, n) => {
        const option = make("li", "", { role: "option", id: `completion-${n}`, "aria-selected": "false" });
        if (count && !count.reliable) option.className = "unsure";
        option.dataset.query = query;
        option.append(make("bdi", query.length > 160 ? query.slice(0, 159) + "…" : query));
        option.append(make("span", amount(count)));
        return option;
      }),
    );
    active = -1;
    list.hidden = completions.length === 0;
    input.setAttribute("aria-expanded", String(!list.hidden));
    input.removeAttribute("aria-activedescendant");
    status.textContent = completions.length
      ? `${completions.length} published queries begin with this text`
      : "No published query begins with this text";
  }

  async function look() {
    typed = input.value;
    if (asking) asking.abort();
    if (!typed.trim()) {
      close();
      return;
    }
    asking = new AbortController();
    const wanted = new URLSearchParams({ b: combo.dataset.bundle, q: typed });
    try {
      const found = await ask(`/complete?${wanted}`, asking.signal);
      if (document.activeElement === input) show(found.completions);
    } catch (error) {
      if (error.name !== "AbortError") close();
    }
  }

  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(look, 80);
  });
  input.addEventListener("keydown", (event) => {
    const size = list.children.length;
    if (event.key === "Escape") {
      if (!list.hidden) {
        event.preventDefault();
        input.value = typed;
        close();
      }
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && size) {
      event.preventDefault();
      if (list.hidden) {
        list.hidden = false;
        input.setAttribute("aria-expanded", "true");
      }
      const step = event.key === "ArrowDown" ? 1 : -1;
      choose(((active + 1 + step + size + 1) % (size + 1)) - 1);
    } else if (event.key === "ArrowDown") {
      look();
    }
  });
  list.addEventListener("pointerdown", (event) => event.preventDefault()); // keeps the focus
  list.addEventListener("click", (event) => {
    const option = event.target.closest("li");
    if (!option) return;
    input.value = option.dataset.query;
    close();
    input.form.requestSubmit();
  });
  input.addEventListener("blur", close);
}

// --- verify, live --------------------------------------------------------------------------------

async function verify(box) {
  const status = box.querySelector("[data-verify-status]");
  const list = box.querySelector("[data-verify-list]");
  const button = box.querySelector("button");
  status.textContent = "Checking …";
  button.disabled = true;
  try {
    const report = await ask(`/verify?${new URLSearchParams({ b: box.dataset.verify })}`);
    list.replaceChildren(
      ...report.checks.map((check) => {
        const line = make("li", "", { class: check.ok ? "ok" : "bad" });
        line.append(make("b", check.ok ? "ok" : "FAILED"), ` ${check.name}: ${check.message}`);
        return line;
      }),
    );
    status.textContent = report.ok ? "All claims hold." : "A check failed.";
  } catch (error) {
    status.textContent = `The verification could not run: ${error.message}`;
  }
  button.disabled = false;
}

// --- start ---------------------------------------------------------------------------------------

document.querySelectorAll("[data-combo]").forEach(complete);
document.querySelectorAll("[data-verify]").forEach((box) => {
  if (!box.querySelector("[data-verify-list]").children.length) verify(box);
  box.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    verify(box);
  });
});
document.querySelectorAll("form[data-auto] select").forEach((select) =>
  select.addEventListener("change", () => select.form.requestSubmit()),
);
document.addEventListener("keydown", (event) => {
  const writing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
  const box = document.querySelector("#q, #match");
  if (event.key === "/" && !writing && !event.ctrlKey && !event.metaKey && !event.altKey && box) {
    event.preventDefault();
    box.focus();
    box.select();
  }
});
