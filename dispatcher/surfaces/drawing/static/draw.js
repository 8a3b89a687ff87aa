"use strict";
// Boxes on a scan: drawn by pointer or keys, snapped to what is printed, checked by the
// policy's own rules on the server. Nothing is kept in the browser.
const $ = (id) => document.getElementById(id);

function enter() {
  const code = location.hash.startsWith("#k=") ? location.hash.slice(3) : "";
  history.replaceState(null, "", "/");
  if (code && !document.querySelector("[role=alert]")) {
    $("code").value = code;
    $("login").submit();
  }
}

function draw(main) {
  const data = JSON.parse(main.dataset.drawing);
  delete main.dataset.drawing;
  const boxes = data.boxes;
  let selected = -1, scan = 0, page = 1, zoom = 1, changed = false, ink = {}, asked = 0;
  const sheet = $("sheet");
  const clamp = (n) => Math.min(1, Math.max(0, n));
  const round = (n) => Math.round(n * 1e4) / 1e4;
  const word = (box) => box.field || box.name;

  async function post(path, more = {}) {
    const response = await fetch(path, {
      method: "POST",
      headers: { "content-type": "application/json", "x-form-token": data.token },
      body: JSON.stringify({ boxes: boxes.filter((b) => b.name), ...more }),
    });
    if (!response.ok && response.status !== 409) throw new Error(String(response.status));
    return response.json();
  }
  const say = (text) => { $("said").textContent = text; };

  // -- what is on the screen

  const meets = (one, other) => {
    const [a, b, c, d] = one.edges, [x, y, z, w] = other.edges;
    return one !== other && one.page === other.page && !one.redact && !other.redact
      && Math.max(a, x) < Math.min(c, z) && Math.max(b, y) < Math.min(d, w);
  };
  const over = (box) => boxes.filter((other) => meets(box, other));

  function place(node, [left, top, right, bottom]) {
    node.style.left = `${left * 100}%`;
    node.style.top = `${top * 100}%`;
    node.style.width = `${(right - left) * 100}%`;
    node.style.height = `${(bottom - top) * 100}%`;
  }

  function paint() {
    $("boxes").replaceChildren(...boxes.flatMap((box, n) => {
      if (box.page !== page) return [];
      const node = document.createElement("div");
      node.className = "box";
      node.classList.toggle("on", n === selected);
      node.classList.toggle("over", over(box).length > 0);
      node.classList.toggle("redact", box.redact);
      node.classList.toggle("low", box.edges[1] < 0.03);
      place(node, box.edges);
      const label = document.createElement("span");
      label.textContent = box.redact ? `painted over: ${word(box)}` : word(box) || "no name yet";
      node.append(label, ...["nw", "ne", "sw", "se"].map((corner) => {
        const handle = document.createElement("i");
        handle.className = corner;
        return handle;
      }));
      return [node];
    }));
    for (const [n, row] of [...$("list").children].entries()) note(row, boxes[n], n);
  }

  function note(row, box, n) {
    const overlapped = over(box).map(word);
    row.classList.toggle("on", n === selected);
    row.classList.toggle("over", overlapped.length > 0);
    const told = row.querySelector(".note");
    const share = ink[box.name];
    const text = overlapped.length ? `Overlaps ${overlapped.join(", ")}: either shows the other`
      : share >= 0.02 ? `Cuts through ink: ${Math.round(share * 100)} % of a side is dark on this scan` : "";
    told.className = `note ${overlapped.length ? "bad" : "warn"}`;
    if (told.textContent !== text) told.textContent = text;
  }

  function list() {
    $("none").hidden = boxes.length > 0;
    $("list").replaceChildren(...boxes.map((box, n) => {
      const row = document.createElement("li");
      const label = document.createElement("label");
      label.textContent = box.redact ? "Name of the painted box" : "Field";
      const input = document.createElement("input");
      input.value = word(box);
      input.id = `name-${n}`;
      label.htmlFor = input.id;
      input.setAttribute("list", "fields");
      input.autocomplete = "off";
      input.spellcheck = false;
      input.readOnly = box.kept;
      input.addEventListener("input", () => {
        const name = input.value.trim();
        const taken = boxes.some((other) => other !== box && other.name === name);
        input.setCustomValidity(taken ? "There is a box of this name" : "");
        box.name = taken ? "" : name;
        box.field = box.redact ? "" : box.name;
        touch();
      });
      input.addEventListener("focus", () => { select(n, false); });
      input.addEventListener("keydown", (event) => {
        if (event.key === "Enter") { event.preventDefault(); sheet.focus(); }
      });
      const bar = document.createElement("div");
      bar.className = "row";
      const check = document.createElement("label");
      check.className = "check";
      const tick = document.createElement("input");
      tick.type = "checkbox";
      tick.checked = box.redact;
      tick.disabled = box.kept;
      tick.addEventListener("change", () => {
        box.redact = tick.checked;
        box.field = box.redact ? "" : box.name;
        touch();
        list();
      });
      check.append(tick, " Paint over");
      const remove = document.createElement("button");
      remove.type = "button";
      remove.textContent = "Remove";
      remove.setAttribute("aria-label", `Remove ${word(box) || "the box without a name"}`);
      remove.addEventListener("click", () => drop(n));
      const told = document.createElement("p");
      bar.append(check, remove);
      row.append(label, input, bar, told);
      told.className = "note";
      return row;
    }));
    paint();
  }

  function select(n, tell = true) {
    selected = n;
    const box = boxes[n];
    if (box && box.page !== page) turn(box.page);
    paint();
    if (tell && box) describe(box);
  }

  function describe(box) {
    const at = box.edges.map((e) => (e * 100).toFixed(1));
    const hits = over(box).map(word);
    say(`${word(box) || "New box"}: left ${at[0]}, top ${at[1]}, right ${at[2]}, bottom ${at[3]} %`
      + (hits.length ? `; overlaps ${hits.join(", ")}` : ""));
  }

  // -- changes

  let timer = 0;
  function touch() {
    changed = true;
    paint();
    clearTimeout(timer);
    timer = setTimeout(review, 400);
  }

  async function review() {
    const turnNumber = ++asked;
    try {
      const [checked, fits] = await Promise.all([post("/check"), post("/fit", { scan })]);
      if (turnNumber !== asked) return;
      findings(checked);
      fitted(fits);
    } catch {
      if (turnNumber === asked) say("Not checked: the program does not answer. Is it still running?");
    }
  }

  function findings(checked) {
    const told = checked.refused ? [{ severity: "error", code: "", message: checked.refused, why: "", fix: "" }] : checked.findings;
    const items = told.map((one) => {
      const item = document.createElement("li");
      item.className = one.severity;
      const head = document.createElement("b");
      head.textContent = `${one.severity} ${one.code}`;
      item.append(head, ` ${one.message}${one.why ? `: ${one.why}.` : ""} ${one.fix ? `To mend: ${one.fix}.` : ""}`);
      return item;
    });
    if (!items.length) {
      const item = document.createElement("li");
      item.textContent = "No errors, no warnings.";
      items.push(item);
    }
    $("findings").replaceChildren(...items);
  }

  function fitted(fits) {
    ink = fits.ink ?? {};
    $("aside").hidden = !fits.aside;
    $("aside").textContent = fits.aside ? `Set aside: ${fits.aside}` : "";
    paint();
  }

  function drop(n) {
    boxes.splice(n, 1);
    selected = Math.min(selected, boxes.length - 1);
    list();
    touch();
    sheet.focus();
    say("Box removed");
  }

  function add(edges) {
    boxes.push({ name: "", field: "", page, edges, redact: false, kept: false });
    list();
    select(boxes.length - 1, false);
    touch();
  }

  const nameIt = () => { const input = $(`name-${selected}`); if (input) { input.focus(); input.select(); } };

  // -- snapping

  function nearest(value, across, reach) {
    const marks = data.marks[page - 1];
    if (!marks) return value;
    let best = value, least = reach;
    const consider = (at) => { const off = Math.abs(at - value); if (off < least) { least = off; best = at; } };
    for (const line of across ? marks.down : marks.across) consider(line[0]);
    for (const [x, y, w, h] of marks.blocks) {
      if (across) { consider(x - 0.004); consider(x + w + 0.004); } else { consider(y - 0.003); consider(y + h + 0.003); }
    }
    return clamp(best);
  }
  const snapping = () => $("snap").checked && scan === 0;
  const reach = () => { const r = sheet.getBoundingClientRect(); return [8 / r.width, 8 / r.height]; };
  const snapped = (edges, by) => edges.map((e, n) => nearest(e, n % 2 === 0, by[n % 2]));

  // -- pointer: mouse, pen and touch

  let drag = null;
  function at(event) {
    const r = sheet.getBoundingClientRect();
    return [clamp((event.clientX - r.left) / r.width), clamp((event.clientY - r.top) / r.height), r];
  }

  function grip(x, y, r, coarse) {
    const near = coarse ? 18 : 9;
    const box = boxes[selected];
    if (!box || box.page !== page) return null;
    const [a, b, c, d] = box.edges;
    for (const [n, m] of [[0, 1], [2, 1], [0, 3], [2, 3]]) {
      const ex = (n === 0 ? a : c) - x, ey = (m === 1 ? b : d) - y;
      if (Math.abs(ex) * r.width < near && Math.abs(ey) * r.height < near) return [n, m];
    }
    return null;
  }

  sheet.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !event.isPrimary) return;
    event.preventDefault();
    sheet.focus({ preventScroll: true });
    const [x, y, r] = at(event);
    const corner = grip(x, y, r, event.pointerType !== "mouse");
    const hit = boxes.findLastIndex((b) => b.page === page && b.edges[0] <= x && x <= b.edges[2] && b.edges[1] <= y && y <= b.edges[3]);
    sheet.setPointerCapture(event.pointerId);
    if (corner) drag = { kind: "size", corner, from: [x, y], start: [...boxes[selected].edges] };
    else if (hit >= 0) { select(hit); drag = { kind: "move", from: [x, y], start: [...boxes[hit].edges] }; }
    else drag = { kind: "new", from: [x, y], start: [x, y, x, y], made: false };
  });

  sheet.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [x, y, r] = at(event);
    const dx = x - drag.from[0], dy = y - drag.from[1];
    if (drag.kind === "new" && !drag.made) {
      if (Math.abs(dx) * r.width < 5 || Math.abs(dy) * r.height < 5) return;
      drag.made = true;
      add([...drag.start]);
    }
    const box = boxes[selected];
    if (drag.kind === "move") {
      const [a, b, c, d] = drag.start;
      const mx = Math.min(1 - c, Math.max(-a, dx)), my = Math.min(1 - d, Math.max(-b, dy));
      box.edges = [a + mx, b + my, c + mx, d + my];
    } else {
      const edges = [...drag.start];
      if (drag.kind === "new") { edges[2] = x; edges[3] = y; } else { edges[drag.corner[0]] += dx; edges[drag.corner[1]] += dy; }
      box.edges = [Math.min(edges[0], edges[2]), Math.min(edges[1], edges[3]), Math.max(edges[0], edges[2]), Math.max(edges[1], edges[3])].map(clamp);
    }
    paint();
  });

  function dropped() {
    if (!drag) return;
    const { kind, made, start } = drag;
    drag = null;
    if (kind === "new" && !made) { select(-1); return; }
    const box = boxes[selected];
    if (kind === "move" && box.edges.every((e, n) => e === start[n])) return;
    settle(box, kind !== "move" && snapping() ? snapped(box.edges, reach()) : box.edges);
    if (kind === "new") nameIt(); else describe(box);
  }
  sheet.addEventListener("pointerup", dropped);
  sheet.addEventListener("pointercancel", dropped);

  function settle(box, edges) {
    const [a, b, c, d] = edges.map((e) => round(clamp(e)));
    if (c - a >= 0.001 && d - b >= 0.001) box.edges = [a, b, c, d];
    touch();
  }

  // -- keys

  const STEP = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  sheet.addEventListener("keydown", (event) => {
    const box = boxes[selected];
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const done = () => event.preventDefault();
    if (STEP[key] && box && !event.altKey && !event.metaKey) {
      done();
      const size = event.ctrlKey ? 0.0005 : 0.005;
      const [dx, dy] = STEP[key].map((n) => n * size);
      const [a, b, c, d] = box.edges;
      if (event.shiftKey) settle(box, [a, b, Math.max(c + dx, a + 0.001), Math.max(d + dy, b + 0.001)]);
      else {
        const mx = Math.min(1 - c, Math.max(-a, dx)), my = Math.min(1 - d, Math.max(-b, dy));
        settle(box, [a + mx, b + my, c + mx, d + my]);
      }
      describe(box);
      return;
    }
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (key === "n") { done(); fresh(); }
    else if ((key === "." || key === ",") && boxes.length) {
      done();
      select((selected + (key === "." ? 1 : boxes.length - 1) + boxes.length) % boxes.length);
    } else if (!box) return;
    else if (key === "Enter") { done(); nameIt(); }
    else if (key === "s") { done(); settle(box, snapped(box.edges, [0.02, 0.02])); describe(box); }
    else if (key === "Delete" || key === "Backspace") { done(); drop(selected); }
    else if (key === "Escape") { done(); select(-1); }
  });

  function fresh() {
    const last = boxes.findLast((b) => b.page === page);
    const top = last ? Math.min(last.edges[3] + 0.01, 0.95) : 0.1;
    const left = last ? last.edges[0] : 0.1, right = last ? last.edges[2] : 0.5;
    add([round(left), round(top), round(right), round(Math.min(1, top + 0.04))]);
    sheet.focus();
    describe(boxes[selected]);
  }

  // -- scans and pages

  function shown() {
    $("scan").removeAttribute("src"); // else the scan before stays until this one is there
    $("scan").src = `/scans/${scan}/${page}.png`;
    $("which").textContent = scan === 0 ? "Template" : `${scan} of ${data.names.length - 1}: ${data.names[scan]}`;
    $("page-which").textContent = `Page ${page} of ${data.pages}`;
    $("before").disabled = scan === 0;
    $("after").disabled = scan === data.names.length - 1;
    $("page-before").disabled = page === 1;
    $("page-after").disabled = page === data.pages;
    sheet.setAttribute("aria-label", `Page ${page} of ${scan === 0 ? "the template" : data.names[scan]}`);
    $("marks").replaceChildren();
    const marks = scan === 0 ? data.marks[page - 1] : null;
    const mark = (edges, kind) => {
      const node = document.createElement("div");
      node.className = `mark ${kind}`;
      place(node, edges);
      $("marks").append(node);
    };
    for (const [y, a, b] of marks?.across ?? []) mark([a, y - 0.0008, b, y + 0.0008], "line");
    for (const [x, a, b] of marks?.down ?? []) mark([x - 0.001, a, x + 0.001, b], "line");
    for (const [x, y, w, h] of marks?.blocks ?? []) mark([x, y, x + w, y + h], "");
  }
  function turn(to) { page = to; shown(); paint(); }
  async function step(to) { scan = to; ink = {}; shown(); paint(); await review(); }
  $("scan").addEventListener("error", () => { $("scan").removeAttribute("src"); });

  $("before").addEventListener("click", () => step(scan - 1));
  $("after").addEventListener("click", () => step(scan + 1));
  $("page-before").addEventListener("click", () => turn(page - 1));
  $("page-after").addEventListener("click", () => turn(page + 1));
  const zoomed = (by) => { zoom = Math.min(4, Math.max(1, zoom * by)); sheet.style.width = `${zoom * 100}%`; paint(); };
  $("larger").addEventListener("click", () => zoomed(1.4));
  $("smaller").addEventListener("click", () => zoomed(1 / 1.4));
  $("show-marks").addEventListener("change", () => { $("marks").hidden = !$("show-marks").checked; });
  $("new").addEventListener("click", fresh);

  $("all").addEventListener("click", async () => {
    const body = $("fits").tBodies[0];
    body.replaceChildren();
    $("fits").hidden = false;
    let aside = 0, inked = 0;
    $("all").disabled = true;
    try {
      for (let n = 0; n < data.names.length; n += 1) {
        say(`Checking ${n + 1} of ${data.names.length}`);
        const fits = await post("/fit", { scan: n });
        const cut = Object.entries(fits.ink).filter(([, share]) => share >= 0.02);
        const row = body.insertRow();
        const head = document.createElement("th");
        head.scope = "row";
        head.textContent = data.names[n];
        row.append(head);
        row.insertCell().textContent = fits.aside ? `set aside: ${fits.aside}`
          : cut.length ? cut.map(([name, share]) => `${name} ${Math.round(share * 100)} %`).join(", ") : "none";
        aside += fits.aside ? 1 : 0;
        inked += cut.length ? 1 : 0;
      }
      say(`${data.names.length} scans: ${aside} set aside, ${inked} with ink at the border of a box`);
    } catch { say("Not checked: the program does not answer."); }
    $("all").disabled = false;
  });

  $("save").addEventListener("click", async () => {
    if (boxes.some((box) => !box.name)) {
      say("Not saved: a box has no name, or one that is taken.");
      selected = boxes.findIndex((box) => !box.name);
      paint();
      nameIt();
      return;
    }
    try {
      const done = await post("/save");
      if (done.refused) { say(`Not saved. ${done.refused}`); return; }
      changed = false;
      for (const box of boxes) box.kept = true;
      list();
      say(`Saved: ${done.saved} ${done.saved === 1 ? "box" : "boxes"} in ${done.file}`);
    } catch { say("Not saved: the program does not answer. Is it still running?"); }
  });

  $("finish").addEventListener("click", async () => {
    if (changed && $("finish").dataset.sure === undefined) {
      $("finish").dataset.sure = "";
      $("finish").textContent = "Finish without saving";
      say("There are boxes that are not saved.");
      return;
    }
    changed = false;
    clearTimeout(timer);
    asked += 1; // what is under way has nowhere to be shown
    try { await post("/finish"); } catch { /* it has ended already */ }
    main.replaceChildren(Object.assign(document.createElement("p"), { textContent: "Finished. This window can be closed." }));
    document.querySelector(".tools").hidden = true;
  });
  addEventListener("beforeunload", (event) => { if (changed) event.preventDefault(); });

  shown();
  list();
  review();
  document.documentElement.dataset.ready = "";
}

const main = document.querySelector("main");
if (main.dataset.page === "enter") enter();
if (main.dataset.page === "draw") draw(main);
