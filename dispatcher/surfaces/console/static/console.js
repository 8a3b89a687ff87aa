// The console can be read without this file; it signs in from the link, asks for the
// page again every ten seconds, and switches the theme.
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

  // -- live: the same page again; what is spoken is one sentence, when it changed ---
  const every = 10000;
  let on = true;
  let timer = 0;
  let spoken = document.querySelector("[data-summary]")?.dataset.summary ?? "";
  live.hidden = false;
  const word = (text) => { $("live-word").textContent = text; };
  const later = () => {
    clearTimeout(timer);
    if (on && !document.hidden) timer = setTimeout(refresh, every);
  };
  const refresh = async () => {
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
    } catch {
      if (on) word("Not updated");
    }
    later();
  };
  // Only what differs changes: a focus, a selection, what is typed and scrolled to stay.
  const turn = (old, next) => {
    if (old.nodeName !== next.nodeName) { old.replaceWith(next); return; }
    if (old.nodeType === Node.TEXT_NODE) { if (old.data !== next.data) old.data = next.data; return; }
    for (const { name } of [...old.attributes]) if (!next.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const parts = [...next.childNodes];
    [...old.childNodes].forEach((part, i) => { if (i < parts.length) turn(part, parts[i]); else part.remove(); });
    old.append(...parts.slice(old.childNodes.length));
  };
  const show = (next) => {
    turn($("main"), next);
    const told = document.querySelector("[data-summary]")?.dataset.summary ?? "";
    if (told !== spoken) { spoken = told; $("told").textContent = told; }
  };
  live.addEventListener("click", () => {
    on = !on;
    live.setAttribute("aria-pressed", String(on));
    word(on ? "Live" : "Paused");
    if (on) refresh(); else clearTimeout(timer);
  });
  document.addEventListener("visibilitychange", () => { if (document.hidden) clearTimeout(timer); else later(); });
  later();
})();
