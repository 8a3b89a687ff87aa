// The task page works without this file; it adds keys, drafts, the clock and the tools for
// images, and it sends answers without a load that may fail: until one has arrived, its
// page stays. What it says comes with the page, in the page's language.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const read = (text) => new DOMParser().parseFromString(text, "text/html");
  const kindOf = (page) => page.querySelector("[data-page]")?.dataset.page;
  const at = () => new Date().toLocaleTimeString(document.documentElement.lang); // as the page speaks
  const words = () => JSON.parse($("words").textContent);

  // -- keys: with the modifier they work everywhere, also in a box -------------------
  // macOS types signs with Option, so it is Control there.
  const mac = /Mac|iPhone|iPad/.test(navigator.userAgent);
  const WITH = mac ? "Ctrl" : "Alt";
  const modified = (event) => !event.getModifierState("AltGraph") && !event.metaKey
    && (mac ? event.ctrlKey && !event.altKey : event.altKey && !event.ctrlKey);
  // Other alphabets have no Latin letters on their keys: then the place of the key counts.
  const keyOf = (event) => {
    if (event.key === "=") return "+";
    if (/^[ -~]$/.test(event.key)) return event.key.toLowerCase();
    const place = /^(?:Key|Digit)(.)$/.exec(event.code);
    return place && event.key.length === 1 ? place[1].toLowerCase() : event.key;
  };
  const kbd = (key) => {
    const made = document.createElement("kbd");
    made.textContent = key;
    made.setAttribute("aria-hidden", "true"); // the name of a button is what it does
    return made;
  };
  const written = (key) => key.length > 1 ? key.replace("Control+", "Ctrl ") : `${WITH} ${key.toUpperCase()}`;
  let last = null; // what was submitted last, if it is taken back; nowhere but in this page
  const looks = new Set(); // of images, from task to task: contrast, invert

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
    const undo = $("undo");
    if (undo) {
      $("undo-button").append(kbd(written("z")));
      $("undo-button").setAttribute("aria-keyshortcuts", WITH.replace("Ctrl", "Control") + "+Z");
      setTimeout(() => { // not while it has the focus: that would be lost
        if (undo.contains(document.activeElement)) $("answer")?.focus();
        undo.remove();
      }, 1000 * Number(undo.dataset.left));
    }
    if (page === "task") task();
    // "autofocus" is not heeded after every kind of navigation.
    document.querySelector("[autofocus]:not(dialog *)")?.focus({ preventScroll: true });
  };

  addEventListener("keydown", (event) => {
    if (modified(event) && keyOf(event) === "z" && $("undo-button")) {
      event.preventDefault();
      if (!event.repeat) $("undo-button").click();
    }
  });

  const task = () => {
    const form = $("task"), said = words();
    const base = "/task/" + form.dataset.token;
    const life = new AbortController(); // ends what this task listens to, and its clocks
    const on = (target, type, act, more) =>
      target.addEventListener(type, act, { signal: life.signal, ...more });
    const offline = (off) => {
      const region = $("offline");
      if (region.hidden !== off) return;
      region.textContent = off ? said.offline : "";
      region.hidden = !off;
    };
    const post = async (path, data, { headers = {}, ...more } = {}) => {
      const reply = await fetch(path, {
        method: "POST", body: new URLSearchParams(data), headers, credentials: "same-origin",
        cache: "no-store", redirect: "error", referrerPolicy: "no-referrer", ...more,
      });
      offline(false);
      return reply;
    };
    on(window, "offline", () => offline(true));
    on(window, "online", () => offline(false));
    const speak = (region, text) => { if (region.textContent !== text) region.textContent = text; }; // once
    const say = (text, off = false) => { speak($("saved"), text); $("saved").className = off ? "off" : ""; };
    const tell = (text) => speak($("told"), text);
    const unsaved = () => $("saved").className === "off";

    // What a refusal means; the page that came with it says the rest.
    const reasonOf = (status, text) => said[status]
      ?? read(text).querySelector("[data-page=message] [role=alert]")?.textContent
      ?? said.unable;

    if (last?.token === form.dataset.token)
      for (const [name, value] of last.typed)
        for (const box of form.querySelectorAll(`.answer [name="${CSS.escape(name)}"]`))
          if (box.type === "radio") box.checked = box.value === value; else box.value = value;

    // -- the draft lives on the server, never in this browser ------------------------
    let timer = 0;
    let sending = null; // an answer on its way
    let sent = String(new URLSearchParams(new FormData(form)));
    let mark = form.dataset.draft; // what the server has: another window may know better
    let turn = 0, inLine = 0;
    let line = Promise.resolve();
    const later = (wait) => { clearTimeout(timer); timer = setTimeout(queue, wait); };
    const queue = () => { inLine += 1; line = line.then(() => save()).finally(() => { inLine -= 1; }); };
    const drafts = form.dataset.draft !== undefined; // practice keeps none
    const save = async (leaving = false) => {
      clearTimeout(timer);
      if (!drafts) return;
      const data = new FormData(form), text = String(new URLSearchParams(data));
      if (life.signal.aborted || text === sent || (sending && !leaving)) return;
      const mine = (turn += 1);
      let told = said.retrying, again = true;
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
          say(said.saved.replace("{time}", at()));
          return;
        }
        told = reasonOf(reply.status, body);
        again = ![409, 412, 413].includes(reply.status);
      } catch { if (mine !== turn || life.signal.aborted) return; }
      if (!navigator.onLine) offline(true);
      say(said.unsaved.replace("{reason}", told), true);
      if (again) later(4000);
    };
    on(form, "input", () => { if (!unsaved()) say(""); later(800); });
    on(document, "visibilitychange", () => { if (document.hidden) save(true); });
    on(window, "online", queue);
    on(window, "beforeunload", (event) => { if (unsaved()) event.preventDefault(); });

    // -- an answer: nothing changes until it has arrived, then the next page is there ---
    const send = async (button) => {
      const from = button.form, data = new FormData(from, button);
      const path = button.getAttribute("formaction") ?? from.getAttribute("action");
      const stop = sending = new AbortController();
      clearTimeout(timer);
      tell("");
      form.setAttribute("aria-busy", "true");
      const sign = setTimeout(() => tell(said.sending), 300);
      const limit = setTimeout(() => stop.abort(), 60000);
      let told = said.unconnected;
      try {
        const reply = await post(path, data, { signal: stop.signal });
        const text = await reply.text(), fresh = read(text), page = kindOf(fresh);
        if (from === form) last = { token: form.dataset.token, typed: [...data] };
        if (["task", "ready", "nothing"].includes(page)) return leave(fresh);
        told = reasonOf(reply.ok ? 401 : reply.status, text); // else it asks who comes
      } catch { if (stop.signal.aborted) told = said.stopped; else if (!navigator.onLine) offline(true); } finally {
        clearTimeout(sign);
        clearTimeout(limit);
        form.removeAttribute("aria-busy");
        sending = null;
      }
      tell(said.unsent.replace("{reason}", told));
      queue(); // the draft has all of it, if there is a way
    };
    const leave = (fresh) => {
      life.abort();
      clearTimeout(timer);
      clearInterval(clockwork);
      document.title = fresh.title;
      for (const name of ["lang", "dir"]) document.documentElement[name] = fresh.documentElement[name];
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
      tell((typed() ? said.lost + " " : "") + said.ask.replace("{button}", name));
    };
    on(document, "pointerdown", (event) => { if (!asked?.contains(event.target)) unask(); });
    on(form, "submit", (event) => {
      event.preventDefault();
      if (sending) return; // one press, one submission
      const button = event.submitter ?? $("submit");
      if (button === $("submit") || button === asked || !typed()) send(button); else ask(button);
    });
    if ($("undo")) on($("undo"), "submit", async (event) => {
      event.preventDefault();
      if (sending) return;
      queue(); // what was typed here is saved before the other task comes
      await line;
      send($("undo-button"));
    });

    // -- the clock ---------------------------------------------------------------------
    const clock = $("clock"), extend = $("extend"); // practice has neither
    const lease = Number(clock?.dataset.lease);
    let ends = performance.now() + 1000 * Number(clock?.dataset.left);
    let warned = 0; // of what was told: 1, that it is nearly over; 2, that it is
    const tick = () => {
      const seconds = Math.max(0, Math.round((ends - performance.now()) / 1000));
      const low = seconds <= Math.max(60, lease / 5);
      $("left").textContent = Math.floor(seconds / 60) + ":" + String(seconds % 60).padStart(2, "0");
      clock.classList.toggle("low", low);
      extend.classList.toggle("urge", low);
      const now = seconds === 0 ? 2 : low ? 1 : 0;
      if (now > warned) tell(now === 2 ? said.over : said.low);
      warned = Math.max(warned, now);
    };
    if (clock) tick();
    const clockwork = clock && setInterval(tick, 1000);
    if (extend) on(extend, "click", async (event) => {
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
        tell(said.more);
      } catch { tell(said.none); }
    });

    // -- the image: its bytes are the cut-out and nothing else; what is written fills the view
    const view = $("view"), crop = $("crop");
    let zoom = 100, turned = 0, ink = null; // per cent of the fit, quarters, [x, y, width, height]
    const show = () => {
      if (!view || !crop.naturalWidth) return;
      const wide = crop.naturalWidth, high = crop.naturalHeight;
      ink ??= inkOf(crop);
      const [x, y, w, h] = [ // as it is turned
        [ink[0], ink[1], ink[2], ink[3]],
        [high - ink[1] - ink[3], ink[0], ink[3], ink[2]],
        [wide - ink[0] - ink[2], high - ink[1] - ink[3], ink[2], ink[3]],
        [ink[1], wide - ink[0] - ink[2], ink[3], ink[2]],
      ][turned];
      const room = Math.max(innerHeight * 0.4, 120), width = Math.max(view.clientWidth, 1);
      // All the width; of what is square or tall, no more than fits, but never below its size.
      const fit = Math.min(4, width / w, Math.max(room / h, Math.min(1, width / w)));
      const scale = (fit * zoom) / 100, flat = turned % 2 === 0;
      const [across, down] = (flat ? [wide, high] : [high, wide]).map((side) => side * scale);
      Object.assign(crop.style, {
        width: wide * scale + "px", height: high * scale + "px",
        transform: ["", `translateX(${across}px)`, `translate(${across}px, ${down}px)`, `translateY(${down}px)`][turned]
          + (turned ? ` rotate(${90 * turned}deg)` : ""),
      });
      Object.assign($("sheet").style, { width: across + "px", height: down + "px" });
      view.style.height = Math.min(room, Math.max(h * fit, 44), down) + 2 + "px";
      view.scrollLeft = x * scale - Math.max(0, (view.clientWidth - w * scale) / 2);
      view.scrollTop = y * scale - Math.max(0, (view.clientHeight - h * scale) / 2);
      crop.className = [...looks].join(" ");
      $("zoom").textContent = zoom + " %";
      for (const name of ["contrast", "invert"])
        document.querySelector(`[data-tool=${name}]`).setAttribute("aria-pressed", looks.has(name));
    };
    const inkOf = (image) => { // where something is written: what differs from the paper
      const wide = image.naturalWidth, high = image.naturalHeight, whole = [0, 0, wide, high];
      const step = Math.max(1, Math.max(wide, high) / 600);
      const [w, h] = [wide, high].map((side) => Math.max(1, Math.round(side / step)));
      const canvas = Object.assign(document.createElement("canvas"), { width: w, height: h });
      const pen = canvas.getContext("2d", { willReadFrequently: true });
      pen.fillStyle = "#fff";
      pen.fillRect(0, 0, w, h);
      pen.drawImage(image, 0, 0, w, h);
      const pixels = pen.getImageData(0, 0, w, h).data, counts = new Uint32Array(16);
      const light = (at) => (pixels[at] * 299 + pixels[at + 1] * 587 + pixels[at + 2] * 114) / 1000;
      for (let at = 0; at < pixels.length; at += 4) counts[light(at) >> 4] += 1;
      const paper = 16 * counts.indexOf(Math.max(...counts)) + 8;
      const rows = new Uint32Array(h), columns = new Uint32Array(w);
      for (let y = 0; y < h; y += 1)
        for (let x = 0; x < w; x += 1)
          if (Math.abs(light(4 * (y * w + x)) - paper) > 48) { rows[y] += 1; columns[x] += 1; }
      const ends = (marks) => { // a speck or two is dust
        const first = marks.findIndex((n) => n > 1), last = marks.findLastIndex((n) => n > 1);
        return [first, last];
      };
      const [[left, right], [top, bottom]] = [ends(columns), ends(rows)];
      if (left < 0 || top < 0) return whole;
      const edge = 0.012 * w + 3; // some paper around it
      const from = [Math.max(0, left - edge), Math.max(0, top - edge)];
      const to = [Math.min(w, right + 1 + edge), Math.min(h, bottom + 1 + edge)];
      return [from[0], from[1], to[0] - from[0], to[1] - from[1]].map((side) => side * step);
    };
    const setZoom = (percent) => { zoom = Math.min(400, Math.max(50, percent)); show(); };
    const toggle = (name) => { if (!looks.delete(name)) looks.add(name); show(); };
    const tools = {
      in: () => setZoom(zoom + 50), out: () => setZoom(zoom - 50), fit: () => setZoom(100),
      rotate: () => { turned = (turned + 1) % 4; show(); },
      contrast: () => toggle("contrast"), invert: () => toggle("invert"),
    };
    const PANS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const pan = ([x, y]) => view.scrollBy((x * view.clientWidth) / 4, (y * view.clientHeight) / 4);
    if (view) {
      view.classList.add("fitted");
      for (const button of document.querySelectorAll("[data-tool]"))
        on(button, "click", tools[button.dataset.tool]);
      on(crop, "load", show);
      on(window, "resize", show);
      show();
    }

    // -- passages: what is marked in the text becomes a line of the answer --------------
    if ($("add")) on($("add"), "click", () => {
      const marked = getSelection(), box = $("answer");
      const passage = $("text")?.contains(marked.anchorNode) ? marked.toString().trim() : "";
      if (!passage) { tell(said.mark); return; }
      box.value = [box.value.trimEnd(), passage].filter(Boolean).join("\n") + "\n";
      box.dispatchEvent(new Event("input", { bubbles: true }));
      marked.removeAllRanges();
    });

    // -- keys: each is shown where it works, and single ones can be switched off --------
    const keys = $("keys"), singles = $("single-keys");
    try { singles.checked = localStorage.getItem("single-keys") !== "off"; } catch { /* storage may be off */ }
    for (const [i, choice] of [...form.querySelectorAll(".choice")].entries()) choice.append(kbd(i + 1));
    for (const shown of keys.querySelectorAll("[data-with]")) shown.textContent = `${WITH} ${shown.textContent}`;
    for (const button of form.querySelectorAll("[data-key]")) {
      const tool = button.dataset.tool, key = written(button.dataset.key);
      if (tool) button.title = `${button.ariaLabel ?? button.title} (${key})`; else button.append(kbd(key));
    }
    for (const told of document.querySelectorAll("[data-keys]"))
      told.textContent = told.textContent.replaceAll("{alt}", WITH);
    const hint = () => {
      for (const button of form.querySelectorAll("[data-key]")) {
        const key = button.dataset.key, both = [`${mac ? "Control" : "Alt"}+${key.toUpperCase()}`];
        if (singles.checked) both.push(key);
        button.setAttribute("aria-keyshortcuts", key.length > 1 ? key : both.join(" "));
      }
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
      const ends = button?.type === "submit" && button !== extend;
      return button && (() => ends ? ask(button) : button.click());
    };
    const digits = { text: "", at: 0 }; // of a choice past the ninth: 1, then 0
    const numbered = (radios, event) => {
      const whole = event.timeStamp - digits.at < 1000 ? digits.text + event.key : event.key;
      const text = radios[Number(whole) - 1] ? whole : event.key;
      Object.assign(digits, { text, at: event.timeStamp });
      return radios[Number(text) - 1];
    };
    const meant = (event) => { // by a key; null: the browser knows
      const node = event.target, key = event.key;
      if (modified(event) && !["Enter", " "].includes(key)) {
        if (PANS[key]) return view && (() => pan(PANS[key]));
        return keyOf(event) === "z" ? null : press(keyOf(event));
      }
      if (event.altKey) return null;
      if (event.ctrlKey && key === "Enter") return () => form.requestSubmit($("submit"));
      if (event.ctrlKey) return event.code === "Space" ? press("Control+Space") : null;
      if (key === "Escape") return sending ? () => sending.abort() : writes(node) ? () => node.blur() : null;
      if (key === "Enter" && !event.shiftKey) {
        if (node.dataset?.enter === "submit" || node.matches("[type=radio]")) return () => form.requestSubmit($("submit"));
        const cells = [...form.querySelectorAll(".grid input")];
        if (cells.includes(node)) return () => cells[cells.indexOf(node) + 1]?.focus(); // a table is not over yet
      }
      if (writes(node)) return null;
      const choices = /^[0-9]$/.test(key) && node.closest?.("#choices");
      const radio = choices && numbered([...choices.querySelectorAll("input")], event);
      if (!radio) return singles.checked && key.length === 1 ? press(keyOf(event)) : null;
      return () => { radio.checked = true; radio.focus(); radio.dispatchEvent(new Event("input", { bubbles: true })); };
    };
    on(document, "keydown", (event) => {
      if (keys.open || event.isComposing || event.metaKey) return;
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
