// The console can be read, and acts, without this file; it signs in from the link, keeps
// pages live, writes times in the reader's zone, and listens to keys.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const page = document.querySelector("[data-page]")?.dataset.page;

  // -- the theme is this browser's own; it holds nothing about the work -----------
  const root = document.documentElement;
  const dark = () => root.dataset.theme
    ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const button = $("theme");
  const name = () => { if (button) button.textContent = dark() ? "Light" : "Dark"; };
  try {
    const kept = localStorage.getItem("theme");
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  } catch { /* storage may be off */ }
  if (button) {
    button.hidden = false;
    name();
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      try { localStorage.setItem("theme", root.dataset.theme); } catch { /* as above */ }
      name();
    });
  }

  // -- signing in: the secret leaves the address bar before anything else ----------
  if (page === "login" || page === "enrol") {
    const enter = () => {
      const code = new URLSearchParams(location.hash.slice(1)).get("k");
      if (location.hash) history.replaceState(null, "", location.pathname);
      if (code && code.length <= 512) {
        $("code").value = code;
        $("login").submit();
      }
    };
    addEventListener("hashchange", enter); // a link put into this very tab loads nothing
    enter();
    return;
  }
  if (location.hash.startsWith("#k=")) history.replaceState(null, "", location.pathname);
  const live = $("live");
  if (!live) return;
  const kept = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
  const keep = (name, text) => { try { localStorage.setItem(name, text); } catch { /* off */ } };

  // -- times in the reader's zone, and how long ago; what is copied ------------------
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const times = () => {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.valueOf())) continue;
      time.title = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
      const seconds = Math.floor((Date.now() - at) / 1000);
      const [size, unit] = units.find(([one]) => Math.abs(seconds) >= one) ?? units[3];
      const count = Math.floor(Math.abs(seconds) / size).toLocaleString("en");
      time.textContent = !seconds ? "now" : seconds < 0 ? `in ${count} ${unit}` : `${count} ${unit} ago`;
    }
    for (const copy of document.querySelectorAll("[data-copy][hidden]")) copy.hidden = false;
  };
  document.addEventListener("click", async (event) => {
    const copy = event.target.closest("[data-copy]");
    if (!copy) return;
    await navigator.clipboard.writeText(copy.dataset.copy);
    $("told").textContent = "Copied";
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  });
  times();

  // -- keys: g and a letter goes there; / filters; j, k, x, Enter are for the rows -----
  const help = $("help"), letters = $("letters");
  letters.checked = kept("letters") !== "off";
  letters.addEventListener("change", () => keep("letters", letters.checked ? "on" : "off"));
  $("keys").hidden = false;
  $("keys").addEventListener("click", () => help.showModal());
  let going = 0;
  const step = (by) => {
    const rows = [...document.querySelectorAll(".listing tbody tr")];
    const here = rows.findIndex((row) => row.classList.contains("here"));
    const next = rows[Math.max(0, Math.min(rows.length - 1, here + by))];
    if (!next) return;
    rows[here]?.classList.remove("here");
    next.classList.add("here");
    next.scrollIntoView({ block: "nearest" });
    const first = next.querySelector("a, button, input");
    if (first) first.focus({ preventScroll: true });
  };
  document.addEventListener("keydown", (event) => {
    if (!letters.checked || event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select")) return;
    const goes = Date.now() - going < 1500 && document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    going = 0;
    if (goes) { goes.click(); return; }
    const press = document.querySelector(`[data-press="${CSS.escape(event.key)}"]`);
    if (press) {
      event.preventDefault();
      if (press.matches("button")) press.click(); else press.focus();
      return;
    }
    const acts = {
      g: () => { going = Date.now(); },
      "/": () => document.querySelector("[data-filter]")?.focus(),
      j: () => step(1),
      k: () => step(-1),
      x: () => document.querySelector("tr.here input[type=checkbox]")?.click(),
      "?": () => help.showModal(),
    };
    if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
  });

  // -- values that were revealed go again -----------------------------------------------
  for (const shown of document.querySelectorAll("[data-fades]")) {
    setTimeout(() => { shown.textContent = "Hidden again."; }, 1000 * shown.dataset.fades);
  }

  if ($("main").dataset.live === "off") return; // a form, or what came of one

  // -- live: told by a stream that there is something new, it fetches the page again --
  // What is spoken is one sentence, when it changed. Where no stream can be kept, the
  // page is fetched every ten seconds; so it is either way now and then.
  const every = 10000, soon = 2500, seldom = 20000;
  let on = true, timer = 0, stream = null, pending = false;
  let spoken = document.querySelector("[data-summary]")?.dataset.summary ?? "";
  let spokenAt = 0;
  live.hidden = false;
  const word = (text) => { $("live-word").textContent = text; };
  const streaming = () => stream?.readyState === EventSource.OPEN;
  const later = (wait = streaming() ? seldom : every) => {
    clearTimeout(timer);
    if (on && !document.hidden) timer = setTimeout(refresh, wait);
  };
  const follow = () => {
    stream?.close();
    if (!on || document.hidden || !window.EventSource) { stream = null; return; }
    stream = new EventSource("/live");
    stream.addEventListener("moved", () => { if (!pending) { pending = true; later(soon); } });
    stream.addEventListener("error", () => { if (!pending) later(every); });
  };
  const refresh = async () => {
    pending = false;
    try {
      const reply = await fetch(location.pathname + location.search, {
        headers: { "X-Refresh": "1" }, credentials: "same-origin", cache: "no-store",
        redirect: "error", referrerPolicy: "no-referrer", signal: AbortSignal.timeout(20000),
      });
      if (reply.status === 401) { location.reload(); return; }
      if (!reply.ok) throw new Error();
      const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
      if (on && !document.hidden) show(fresh.getElementById("main"));
      word(on ? "Live" : "Paused");
      if (stream?.readyState === EventSource.CLOSED) follow();
      later();
    } catch {
      if (on) word("Not updated");
      later(every);
    }
  };
  // Only what differs changes: a focus, a selection, what is typed and scrolled to stay.
  const turn = (old, next) => {
    if (old.nodeName !== next.nodeName) { old.replaceWith(next); return; }
    if (old.nodeType === Node.TEXT_NODE) { if (old.data !== next.data) old.data = next.data; return; }
    if (old.nodeName === "TIME" && old.dateTime === next.dateTime) return; // is in the reader's zone
    for (const { name } of [...old.attributes]) if (!next.hasAttribute(name) && name !== "class" && name !== "open") old.removeAttribute(name);
    for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const parts = [...next.childNodes];
    [...old.childNodes].forEach((part, i) => { if (i < parts.length) turn(part, parts[i]); else part.remove(); });
    old.append(...parts.slice(old.childNodes.length));
  };
  const show = (next) => {
    turn($("main"), next);
    times();
    const told = document.querySelector("[data-summary]")?.dataset.summary ?? "";
    if (told !== spoken && Date.now() - spokenAt >= every) {
      spoken = told;
      spokenAt = Date.now();
      $("told").textContent = told;
    }
  };
  live.addEventListener("click", () => {
    on = !on;
    live.setAttribute("aria-pressed", String(on));
    word(on ? "Live" : "Paused");
    follow();
    if (on) refresh(); else clearTimeout(timer);
  });
  document.addEventListener("visibilitychange", () => {
    follow();
    if (document.hidden) clearTimeout(timer); else later(soon);
  });
  follow();
  later();
})();
