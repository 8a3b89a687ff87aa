// The task page works without this file; it adds keys, drafts, the clock and zoom.
"use strict";
(() => {
  const page = document.querySelector("[data-page]")?.dataset.page;
  const $ = (id) => document.getElementById(id);
  for (const part of document.querySelectorAll("[data-needs-js]")) part.hidden = false;

  // -- arriving: the code leaves the address bar before anything else happens -----
  if (page === "arrive") {
    const enter = () => {
      const code = new URLSearchParams(location.hash.slice(1)).get("k");
      if (location.hash) history.replaceState(null, "", "/");
      if (code && code.length <= 4096) {
        $("invite").value = code;
        $("arrive").submit();
      }
    };
    addEventListener("hashchange", enter); // a link put into this very tab loads nothing
    enter();
    return;
  }
  if (page === "bring") { // what a market sent along leaves the address bar as well
    history.replaceState(null, "", "/");
    $("bring").submit();
    return;
  }
  if (page === "notice") return; // in a market's frame, which may load it again
  if (page === "wait") setTimeout(() => $("bring").submit(), 3000);
  const here = page === "me" ? "/me" : "/";
  if (location.pathname !== here || location.hash) history.replaceState(null, "", here);
  if (page !== "task") return;

  const form = $("task");
  const base = "/task/" + form.dataset.token;
  const saved = $("saved");
  let leaving = false;

  const post = (what, data, keepalive = false) =>
    fetch(base + what, {
      method: "POST", body: new URLSearchParams(data), keepalive,
      headers: { Accept: "application/json" }, credentials: "same-origin",
      cache: "no-store", redirect: "error", referrerPolicy: "no-referrer",
    });

  // -- the draft lives on the server, never in this browser ------------------------
  let timer = 0;
  let sent = new URLSearchParams(new FormData(form)).toString();
  const say = (text, off = false) => { saved.textContent = text; saved.className = off ? "off" : ""; };
  const save = async (keepalive = false) => {
    clearTimeout(timer);
    const data = new FormData(form);
    const text = new URLSearchParams(data).toString();
    if (leaving || text === sent) return;
    try {
      const reply = await post("/draft", data, keepalive);
      if (reply.status === 429) { later(5000); return; }
      if (!reply.ok) throw new Error();
      sent = text;
      say("Saved " + new Date().toLocaleTimeString());
    } catch {
      if (leaving) return;
      say("Not saved: no connection. Trying again.", true);
      later(4000);
    }
  };
  const later = (wait) => { clearTimeout(timer); timer = setTimeout(save, wait); };
  form.addEventListener("input", () => { if (saved.className !== "off") say(""); later(800); });
  document.addEventListener("visibilitychange", () => { if (document.hidden) save(true); });
  window.addEventListener("online", () => save());
  form.addEventListener("submit", (event) => {
    if (leaving) { event.preventDefault(); return; } // one press, one submission
    leaving = true;
    clearTimeout(timer);
  });
  window.addEventListener("pageshow", (event) => { if (event.persisted) location.replace("/"); });

  // -- the clock ---------------------------------------------------------------------
  const clock = $("clock"), left = $("left"), extend = $("extend");
  let lease = Number(clock.dataset.lease);
  let ends = performance.now() + 1000 * Number(clock.dataset.left);
  let warned = false;
  const tick = () => {
    const seconds = Math.max(0, Math.round((ends - performance.now()) / 1000));
    const low = seconds <= Math.max(60, lease / 5);
    left.textContent = Math.floor(seconds / 60) + ":" + String(seconds % 60).padStart(2, "0");
    clock.classList.toggle("low", low);
    extend.classList.toggle("urge", low);
    if (low && !warned) {
      warned = true;
      say(seconds > 0 ? "The time for this task is nearly over. “Need more time” gives you more." : "");
    }
    if (seconds === 0) say("The time is over. You may still submit.");
  };
  tick();
  setInterval(tick, 1000);
  extend.addEventListener("click", async (event) => {
    event.preventDefault();
    try {
      const reply = await post("/extend", new FormData(form));
      if (!reply.ok) throw new Error();
      const seconds = (await reply.json()).left;
      ends = performance.now() + 1000 * seconds;
      warned = false;
      tick();
      say("You have more time.");
    } catch { say("No more time could be given. You may still submit.", true); }
  });

  // -- zoom: the image only grows, its bytes are the cut-out and nothing else ---------
  const view = $("view"), crop = $("crop");
  let zoom = 100;
  const setZoom = (percent) => {
    zoom = Math.min(400, Math.max(100, percent));
    view.classList.toggle("zoomed", zoom > 100);
    crop.style.width = zoom > 100 ? (Math.max(view.clientWidth, 1) * zoom) / 100 + "px" : "";
    $("zoom").textContent = zoom + " %";
  };
  const zoomBy = { in: () => setZoom(zoom + 50), out: () => setZoom(zoom - 50), reset: () => setZoom(100) };
  for (const button of document.querySelectorAll("[data-zoom]"))
    button.addEventListener("click", () => zoomBy[button.dataset.zoom]());

  // -- passages: what is marked in the text becomes a line of the answer --------------
  $("add")?.addEventListener("click", () => {
    const marked = getSelection(), box = $("answer");
    const passage = $("text")?.contains(marked.anchorNode) ? marked.toString().trim() : "";
    if (!passage) { say("Mark a passage in the text first."); return; }
    box.value = [box.value.trimEnd(), passage].filter(Boolean).join("\n") + "\n";
    box.dispatchEvent(new Event("input", { bubbles: true }));
    marked.removeAllRanges();
  });

  // -- keys ----------------------------------------------------------------------------
  const keys = $("keys");
  $("keys-open").addEventListener("click", () => keys.showModal());
  const press = (selector) => form.requestSubmit(form.querySelector(selector));
  const writes = (node) => node.matches("textarea, input:not([type=radio])");
  const single = {
    i: () => press("[value=illegible]"), n: () => press("[value=not_present]"),
    "?": () => keys.showModal(),
    "+": () => crop && zoomBy.in(), "=": () => crop && zoomBy.in(),
    "-": () => crop && zoomBy.out(), 0: () => crop && zoomBy.reset(),
  };
  document.addEventListener("keydown", (event) => {
    if (keys.open || event.isComposing || event.altKey || event.metaKey) return;
    const node = event.target;
    let act = null;
    if (event.ctrlKey) {
      if (event.key === "Enter") act = () => press("#submit");
      if (event.code === "Space") act = () => press("[formaction$='/return']");
    } else if (event.key === "Enter" && !event.shiftKey && node.dataset?.enter === "submit") {
      act = () => press("#submit");
    } else if (event.key === "Enter" && node.closest?.(".grid")) {
      const cells = [...form.querySelectorAll(".grid input")];
      act = () => cells[cells.indexOf(node) + 1]?.focus(); // a table is not over yet
    } else if (event.key === "Escape" && writes(node)) {
      act = () => node.blur();
    } else if (!writes(node)) {
      const digit = /^[1-9]$/.test(event.key) && node.closest?.("#choices");
      if (digit) {
        const radio = digit.querySelectorAll("input")[Number(event.key) - 1];
        if (radio) act = () => { radio.checked = true; radio.focus(); radio.dispatchEvent(new Event("input", { bubbles: true })); };
      } else if (event.key === "Enter" && node.matches("[type=radio]")) act = () => press("#submit");
      else act = single[event.key] ?? null;
    }
    if (act && !event.repeat) { event.preventDefault(); act(); }
  });
  // "autofocus" is not heeded after every kind of navigation.
  (document.querySelector("[autofocus]:not(dialog *)") ?? $("submit")).focus({ preventScroll: true });
})();
