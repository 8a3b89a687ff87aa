// The task page works without this file; it adds keys, drafts, the clock and zoom, and it
// sends answers without a load that may fail: until one has arrived, its page stays.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const read = (text) => new DOMParser().parseFromString(text, "text/html");
  const kindOf = (page) => page.querySelector("[data-page]")?.dataset.page;
  const at = () => new Date().toLocaleTimeString("en-GB"); // as the page speaks

  window.addEventListener("pageshow", (event) => { if (event.persisted) location.replace("/"); });

  // -- arriving: the code leaves the address bar before anything else happens --------
  // Also where somebody is signed in: the server asks who goes on.
  const enter = () => {
    const code = new URLSearchParams(location.hash.slice(1)).get("k");
    if (location.hash) history.replaceState(null, "", location.pathname);
    if (!code || code.length > 4096) return false;
    const form = document.createElement("form");
    Object.assign(form, { method: "post", action: "/arrive", hidden: true });
    const token = document.querySelector("[name=form_token]")?.value ?? "";
    for (const [name, value] of [["form_token", token], ["invite", code]])
      form.append(Object.assign(document.createElement("input"), { name, value }));
    document.body.append(form);
    form.submit();
    return true;
  };
  addEventListener("hashchange", enter); // a link put into this very tab loads nothing

  const begin = () => {
    const page = kindOf(document);
    for (const part of document.querySelectorAll("[data-needs-js]")) part.hidden = false;

    if (page === "notice") return; // in a market's frame, which may load it again
    if (enter() || page === "arrive") return;
    if (page === "bring") { // what a market sent along leaves the address bar as well
      history.replaceState(null, "", "/");
      $("bring").submit();
      return;
    }
    if (page === "wait") setTimeout(() => $("bring").submit(), 3000);
    const here = { me: "/me", whose: "/whose" }[page] ?? "/";
    if (location.pathname !== here || location.hash) history.replaceState(null, "", here);
    if (page === "task") task();
    // "autofocus" is not heeded after every kind of navigation.
    document.querySelector("[autofocus]:not(dialog *)")?.focus({ preventScroll: true });
  };

  const task = () => {
    const form = $("task");
    const base = "/task/" + form.dataset.token;
    const life = new AbortController(); // ends what this task listens to, and its clocks
    const on = (target, type, act, more) =>
      target.addEventListener(type, act, { signal: life.signal, ...more });
    const post = (path, data, { headers = {}, ...more } = {}) =>
      fetch(path, {
        method: "POST", body: new URLSearchParams(data), headers, credentials: "same-origin",
        cache: "no-store", redirect: "error", referrerPolicy: "no-referrer", ...more,
      });
    const speak = (region, text) => { if (region.textContent !== text) region.textContent = text; }; // once
    const say = (text, off = false) => { speak($("saved"), text); $("saved").className = off ? "off" : ""; };
    const tell = (text) => speak($("told"), text);
    const unsaved = () => $("saved").className === "off";

    // What a refusal means; the page that came with it says the rest.
    const REASONS = {
      401: "you are signed out. Open your link in another tab of this browser, then go on here.",
      409: "its time is over (you may still submit), or it was finished in another window.",
      412: "another window saved something else for this task. Submit here to use what stands here.",
    };
    const reasonOf = (status, text) => REASONS[status]
      ?? read(text).querySelector("[data-page=message] [role=alert]")?.textContent
      ?? "the page cannot take it right now.";

    // -- the draft lives on the server, never in this browser ------------------------
    let timer = 0;
    let sending = null; // an answer on its way
    let sent = String(new URLSearchParams(new FormData(form)));
    let mark = form.dataset.draft; // what the server has: another window may know better
    let turn = 0, inLine = 0;
    let line = Promise.resolve();
    const later = (wait) => { clearTimeout(timer); timer = setTimeout(queue, wait); };
    const queue = () => { inLine += 1; line = line.then(() => save()).finally(() => { inLine -= 1; }); };
    const save = async (leaving = false) => {
      clearTimeout(timer);
      const data = new FormData(form), text = String(new URLSearchParams(data));
      if (life.signal.aborted || text === sent || (sending && !leaving)) return;
      const mine = (turn += 1);
      let told = "no connection. Trying again.", again = true;
      try {
        const reply = await post(base + "/draft", data, {
          // Who leaves while a draft is on its way cannot wait for its mark.
          headers: leaving && inLine ? {} : { "If-Match": mark },
          keepalive: leaving && text.length < 60000, // browsers allow no more
          signal: AbortSignal.timeout(20000),
        });
        const body = await reply.text();
        if (mine !== turn || life.signal.aborted) return;
        if (reply.ok) {
          sent = text;
          mark = reply.headers.get("ETag");
          say("Saved " + at());
          return;
        }
        told = reasonOf(reply.status, body);
        again = ![409, 412, 413].includes(reply.status);
      } catch { if (mine !== turn || life.signal.aborted) return; }
      say("Not saved: " + told, true);
      if (again) later(4000);
    };
    on(form, "input", () => { if (!unsaved()) say(""); later(800); });
    on(document, "visibilitychange", () => { if (document.hidden) save(true); });
    on(window, "online", queue);
    on(window, "beforeunload", (event) => { if (unsaved()) event.preventDefault(); });

    // -- an answer: nothing changes until it has arrived, then the next page is there ---
    const send = async (button) => {
      const data = new FormData(form, button);
      const path = button.getAttribute("formaction") ?? form.getAttribute("action");
      const stop = sending = new AbortController();
      clearTimeout(timer);
      tell("");
      form.setAttribute("aria-busy", "true");
      const sign = setTimeout(() => tell("Sending… Esc stops it."), 300);
      const limit = setTimeout(() => stop.abort(), 60000);
      let told = "no connection. ";
      try {
        const reply = await post(path, data, { signal: stop.signal });
        const text = await reply.text(), fresh = read(text), page = kindOf(fresh);
        if (["task", "ready", "nothing"].includes(page)) return leave(fresh);
        told = reasonOf(reply.ok ? 401 : reply.status, text) + " "; // else it asks who comes
      } catch { if (stop.signal.aborted) told = "stopped; it may have arrived. "; } finally {
        clearTimeout(sign);
        clearTimeout(limit);
        form.removeAttribute("aria-busy");
        sending = null;
      }
      tell("Not sent: " + told + "What stands here is kept: submit again.");
      queue(); // the draft has all of it, if there is a way
    };
    const leave = (fresh) => {
      life.abort();
      clearTimeout(timer);
      clearInterval(clockwork);
      document.title = fresh.title;
      document.body.replaceWith(fresh.body);
      scrollTo(0, 0);
      begin();
    };
    for (const kind of ["beforeinput", "click", "keydown"]) // what is on its way does not change
      on(form, kind, (event) => { if (sending && event.key !== "Escape" && event.key !== "Tab") event.preventDefault(); }, { capture: true });

    // -- what ends a task by a key, or throws away what was typed, is asked about once --
    let asked = null;
    const fields = [...form.querySelectorAll(".answer input, .answer textarea")];
    const typed = () => fields.some((field) => field.type === "radio" ? field.checked : field.value.trim());
    const unask = () => { if (asked) { asked.classList.remove("asked"); asked = null; tell(""); } };
    const ask = (button) => {
      unask();
      asked = button;
      button.classList.add("asked");
      const name = button.firstChild.textContent.trim();
      tell((typed() ? "What you typed would be lost. " : "") + `“${name}” again, or Enter, does it; any other key goes on.`);
    };
    on(document, "pointerdown", (event) => { if (!asked?.contains(event.target)) unask(); });
    on(form, "submit", (event) => {
      event.preventDefault();
      if (sending) return; // one press, one submission
      const button = event.submitter ?? $("submit");
      if (button === $("submit") || button === asked || !typed()) send(button); else ask(button);
    });

    // -- the clock ---------------------------------------------------------------------
    const clock = $("clock"), extend = $("extend");
    const lease = Number(clock.dataset.lease);
    let ends = performance.now() + 1000 * Number(clock.dataset.left);
    let warned = 0; // of what was told: 1, that it is nearly over; 2, that it is
    const tick = () => {
      const seconds = Math.max(0, Math.round((ends - performance.now()) / 1000));
      const low = seconds <= Math.max(60, lease / 5);
      $("left").textContent = Math.floor(seconds / 60) + ":" + String(seconds % 60).padStart(2, "0");
      clock.classList.toggle("low", low);
      extend.classList.toggle("urge", low);
      const now = seconds === 0 ? 2 : low ? 1 : 0;
      if (now > warned) tell(now === 2 ? "The time is over. You may still submit."
        : "The time for this task is nearly over. “Need more time” gives you more.");
      warned = Math.max(warned, now);
    };
    tick();
    const clockwork = setInterval(tick, 1000);
    on(extend, "click", async (event) => {
      event.preventDefault();
      await line; // its draft is not to overtake another
      try {
        const reply = await post(base + "/extend", new FormData(form),
          { headers: { Accept: "application/json", "If-Match": mark } });
        if (!reply.ok) throw new Error();
        mark = reply.headers.get("ETag") ?? mark;
        ends = performance.now() + 1000 * (await reply.json()).left;
        warned = 0;
        tick();
        tell("You have more time.");
      } catch { tell("No more time could be given. You may still submit."); }
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
      on(button, "click", () => zoomBy[button.dataset.zoom]());

    // -- passages: what is marked in the text becomes a line of the answer --------------
    if ($("add")) on($("add"), "click", () => {
      const marked = getSelection(), box = $("answer");
      const passage = $("text")?.contains(marked.anchorNode) ? marked.toString().trim() : "";
      if (!passage) { tell("Mark a passage in the text first."); return; }
      box.value = [box.value.trimEnd(), passage].filter(Boolean).join("\n") + "\n";
      box.dispatchEvent(new Event("input", { bubbles: true }));
      marked.removeAllRanges();
    });

    // -- keys: each is shown where it works, and single ones can be switched off --------
    const keys = $("keys"), singles = $("single-keys");
    try { singles.checked = localStorage.getItem("single-keys") !== "off"; } catch { /* storage may be off */ }
    const hint = () => {
      for (const old of form.querySelectorAll("kbd")) old.remove();
      for (const [i, choice] of [...form.querySelectorAll(".choice")].slice(0, 9).entries()) choice.append(kbd(i + 1));
      for (const button of form.querySelectorAll("[data-key]")) {
        const works = button.dataset.key.length > 1 || singles.checked;
        if (works) button.setAttribute("aria-keyshortcuts", button.dataset.key);
        else button.removeAttribute("aria-keyshortcuts");
        if (works && !button.dataset.zoom) button.append(kbd(button.dataset.key.replace("Control+", "Ctrl ")));
      }
    };
    const kbd = (key) => {
      const made = document.createElement("kbd");
      made.textContent = key;
      made.setAttribute("aria-hidden", "true"); // the name of a button is what it does
      return made;
    };
    hint();
    on(singles, "change", () => {
      try { localStorage.setItem("single-keys", singles.checked ? "on" : "off"); } catch { /* as above */ }
      hint();
    });
    on($("keys-open"), "click", () => keys.showModal());
    const writes = (node) => node.matches("textarea, input:not([type=radio])");
    const press = (key) => { // the button that shows the key; what ends a task asks first
      const button = form.querySelector(`[data-key="${CSS.escape(key)}"]`);
      return button && (() => button.type === "submit" ? ask(button) : button.click());
    };
    const meant = (event) => { // by a key; null: the browser knows
      const node = event.target, key = event.key;
      if (event.ctrlKey && key === "Enter") return () => form.requestSubmit($("submit"));
      if (event.ctrlKey) return event.code === "Space" ? press("Control+Space") : null;
      if (key === "Escape") return sending ? () => sending.abort() : writes(node) ? () => node.blur() : null;
      if (key === "Enter" && !event.shiftKey) {
        if (node.dataset?.enter === "submit" || node.matches("[type=radio]")) return () => form.requestSubmit($("submit"));
        const cells = [...form.querySelectorAll(".grid input")];
        if (cells.includes(node)) return () => cells[cells.indexOf(node) + 1]?.focus(); // a table is not over yet
      }
      if (writes(node)) return null;
      const choices = /^[1-9]$/.test(key) && node.closest?.("#choices");
      if (!choices) return singles.checked && key.length === 1 ? press(key === "=" ? "+" : key) : null;
      const radio = choices.querySelectorAll("input")[Number(key) - 1];
      return radio ? () => { radio.checked = true; radio.focus(); radio.dispatchEvent(new Event("input", { bubbles: true })); } : null;
    };
    on(document, "keydown", (event) => {
      if (keys.open || event.isComposing || event.altKey || event.metaKey) return;
      if (sending && event.key !== "Escape") return;
      const waiting = asked;
      unask();
      let act = meant(event);
      if (waiting && event.key === "Enter" && !event.ctrlKey) act = () => send(waiting);
      if (!act && !(event.repeat && event.key === "Enter" && !writes(event.target))) return;
      event.preventDefault();
      if (act && !event.repeat) act();
    });
  };

  begin();
})();
