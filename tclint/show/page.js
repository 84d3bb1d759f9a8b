
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const ROW = 21, BESIDE = 12, SNAPSHOT = 128, STEP_MS = 900, LONG = 36;
  const PANES = ["graph", "listing", "instruction", "findings", "protocol"];
  const SIDES = ["instruction", "findings", "protocol"];

  /* Everything from the data becomes text here, and never markup. */
  const fill = (node, attributes, children) => {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
    }
    node.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== ""));
    return node;
  };
  const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
  const many = (number, noun) => `${String(number).replace(/\B(?=(\d{3})+$)/g, ",")} ${noun}${number === 1 ? "" : "s"}`;
  const words = (number) => data.words[number];

  /* ---------------------------------------------------------------- the kernel */

  const text = data.text, count = text.length, blocks = data.blocks;
  const lines = [];
  data.lines.reduce((line, step, i) => (lines[i] = line + step), 0);
  const blockOf = new Int32Array(count);
  blocks.forEach((block, b) => blockOf.fill(b, block.start, block.end));
  const labelAt = (i) => data.labels[i] || "";
  const byLabel = new Map();
  for (const [i, label] of Object.entries(data.labels)) byLabel.set(label, [...(byLabel.get(label) || []), +i]);
  const loopsOf = blocks.map(() => []);
  for (const loop of data.loops) for (const b of loop.body) loopsOf[b].push(loop.head);
  const next = blocks.map(() => []), before = blocks.map(() => []);
  data.edges.forEach(([a, b], k) => { next[a].push([b, k]); before[b].push([a, k]); });

  const roleOf = new Map(data.roles.map((role, n) => [role.who, n]));
  const letter = (n) => (n < 26 ? String.fromCharCode(65 + n) : `${letter(Math.floor(n / 26) - 1)}${letter(n % 26)}`);
  const roleClass = (n) => (n === undefined ? "" : `role-${n % 8}`);
  const roleOfBlock = (b) => roleOf.get(blocks[b].who);

  const SIGNS = {
    "issue": "▸", "clc-request": "▸", "commit": "◆", "wait": "■", "mbarrier-wait": "■", "barrier-wait": "■", "pdl-wait": "■",
    "mbarrier-arrive": "▲", "mbarrier-expect": "▲", "mbarrier-complete": "▲", "barrier-arrive": "▲", "pdl-launch": "▲",
    "barrier-sync": "═", "memory-fence": "═", "proxy-fence": "═", "register-fence": "═", "tcgen05-fence-after": "═",
    "tcgen05-fence-before": "═",
  };
  const NAMES = {
    "▸": "issues an asynchronous operation", "◆": "commits", "■": "waits", "▲": "arrives", "═": "barrier or fence", "▫": "event",
  };
  const signs = new Map();
  for (const [kind, sites] of Object.entries(data.events)) {
    const sign = SIGNS[kind.split(" ")[0]] || "▫";
    for (const site of sites) signs.set(site, sign);
  }
  const places = data.locations;
  const last = (list, i, key) => {  // the index of the last element of a sorted list at or before i
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (key(list[middle]) <= i) low = middle + 1; else high = middle;
    }
    return low - 1;
  };
  const placeAt = (i) => {
    const k = last(places, i, (pair) => pair[0]);
    return k < 0 ? -1 : places[k][1];
  };
  const base = (file) => file.slice(Math.max(file.lastIndexOf("/"), file.lastIndexOf("\\")) + 1);
  const whoAt = (i) => words(data.guards[i] !== undefined ? data.guards[i] : blocks[blockOf[i]].who);
  const opcode = (i) => (/^(?:\{\s*)?(?:@!?\S+\s+)?([\w.:]+)/.exec(text[i]) || ["", text[i]])[1];

  /* ---------------------------------------------------------------- operations in flight */

  const changes = data.flight.changes, facts = data.flight.facts;
  const LETTERS = ["W", "C", "B", "B", "T", "M", ""];
  const snapshots = [], counts = [];
  {
    const now = new Set(), flying = new Map();
    changes.forEach(([, come, gone], k) => {
      if (k % SNAPSHOT === 0) snapshots.push([...now]);
      const step = (fact, by) => {
        const [channel, site] = facts[fact], sign = LETTERS[channel];
        if (!sign) return;
        const key = `${sign}${site}`, old = flying.get(key) || 0;
        if (old + by) flying.set(key, old + by); else flying.delete(key);
      };
      for (const fact of gone) { now.delete(fact); step(fact, -1); }
      for (const fact of come) { now.add(fact); step(fact, 1); }
      const totals = new Map();
      for (const key of flying.keys()) totals.set(key[0], (totals.get(key[0]) || 0) + 1);
      counts.push([...totals].map(([sign, n]) => `${sign}${n}`).join(" "));
    });
  }
  const changeAt = (i) => last(changes, i, (change) => change[0]);
  const inFlight = (i) => {
    const k = changeAt(i);
    if (k < 0) return new Set();
    const now = new Set(snapshots[Math.floor(k / SNAPSHOT)]);
    for (let at = k - (k % SNAPSHOT); at <= k; at++) {
      for (const fact of changes[at][2]) now.delete(fact);
      for (const fact of changes[at][1]) now.add(fact);
    }
    return now;
  };
  const countAt = (i) => { const k = changeAt(i); return k < 0 ? "" : counts[k]; };

  /* ---------------------------------------------------------------- findings */

  const findings = data.findings;
  for (const finding of findings) {
    finding.all = [...finding.steps, ...(finding.confirmation ? finding.confirmation.steps : [])];
    if (!finding.all.length) finding.all = [{ ...finding, role: null, object: null }];
  }
  const letterOf = { error: "E", warning: "W", info: "N" };
  const labelOf = { error: "error", warning: "warning", info: "note" };
  const foundAt = new Map();
  findings.forEach((finding) => {
    if (finding.site >= 0) foundAt.set(finding.site, [...(foundAt.get(finding.site) || []), finding]);
  });

  /* ---------------------------------------------------------------- state of the page */

  let selected = 0, active = -1, step = 0, walking = 0, faded = -1;
  let rows = [], rowOf = new Map(), folded = blocks.map(() => false);
  let query = "", matches = [], matched = new Set(), pins = new Map(), zoom = 1, onBlock = false;
  const say = (words) => { byId("said").textContent = words; };

  /* ---------------------------------------------------------------- words with links */

  const link = (i, label) => h("button", { type: "button", class: "link", onclick: () => go(i, true) }, label || `line ${lines[i]}`);
  const linkLines = (sites, most = 6) => {
    const shown = [];
    for (const site of sites) if (!shown.some((other) => lines[other] === lines[site])) shown.push(site);
    const more = shown.length - most;
    const parts = shown.slice(0, most).flatMap((site, k) => [k ? ", " : "", link(site, String(lines[site]))]);
    return [shown.length === 1 ? "line " : "lines ", parts, more > 0 ? ` and ${more} more` : ""];
  };
  const linked = (text) => text.split(/#(\d+)/).map((part, k) => (k % 2 ? link(+part) : part));
  const placeWords = (number) => {
    if (number < 0) return "";
    const [file, line, column, calls] = data.places[number];
    const first = `${base(file)}:${line}${column ? `:${column}` : ""}`;
    return [first, ...calls.map((call) => `inlined at ${base(call[0])}:${call[1]}`)].join(", ");
  };
  const labelled = (label, i) => {  // scopes may have labels of the same name: the successors of a branch resolve it
    const places = byLabel.get(label) || [];
    const near = places.filter((place) => next[blockOf[i]].some(([b]) => blocks[b].start === place));
    return near.length === 1 ? near[0] : places.length === 1 ? places[0] : -1;
  };
  const coloured = (i, short) => {
    const parts = [], line = text[i];
    let body = line, comment = "";
    const at = line.search(/\/\/|\/\*/);
    if (at > 0) [body, comment] = [line.slice(0, at), line.slice(at)];
    if (short) body = body.replace(/\{\s*([^{},]+),(?:[^{},]+,){3,}\s*([^{},]+?)\s*\}/g, (all, first, end) =>
      `{${first}, … ${all.split(",").length - 2} more …, ${end}}`);
    const head = /^((?:\{\s*)?(?:@!?\S+\s+)?)([\w.:]+)/.exec(body);
    let rest = body;
    if (head) {
      parts.push(...registers(head[1], short, i), h("span", { class: "o" }, head[2]));
      rest = body.slice(head[0].length);
    }
    parts.push(...registers(rest, short, i));
    if (comment) parts.push(h("span", { class: "c" }, comment));
    return parts;
  };
  const registers = (piece, short, i) => piece.split(/([%$]?[A-Za-z_$][\w$.]*)/).map((part, k) => {
    if (k % 2 === 0) return part;
    if (byLabel.has(part)) return short || labelled(part, i) < 0 ? part : link(labelled(part, i), part);
    if (part[0] !== "%") return short && part.length > LONG ? `${part.slice(0, 12)}…${part.slice(-14)}` : part;
    return short ? h("span", { class: "r" }, part)
      : h("button", { type: "button", class: "link", title: `Search for ${part}`, onclick: () => search(part) }, part);
  });

  /* ---------------------------------------------------------------- listing */

  const layRows = () => {
    rows = []; rowOf = new Map();
    blocks.forEach((block, b) => {
      rowOf.set(-b - 1, rows.length);
      rows.push(-b - 1);
      if (folded[b]) return;
      for (let i = block.start; i < block.end; i++) { rowOf.set(i, rows.length); rows.push(i); }
    });
    byId("space").style.height = `${rows.length * ROW}px`;
  };
  const current = () => (onBlock || folded[blockOf[selected]] ? -blockOf[selected] - 1 : selected);
  const blockWords = (b) => {
    const block = blocks[b], parts = [`B${b}`];
    if (labelAt(block.start)) parts.push(labelAt(block.start));
    parts.push(words(block.who), many(block.end - block.start, "instruction"));
    if (block.dispatches) parts.push("dispatches roles");
    if (loopsOf[b].length) parts.push(loopsOf[b].includes(b) ? "loop header" : `in the loop of B${loopsOf[b].at(-1)}`);
    if (block.exits) parts.push("exits");
    return parts;
  };
  const summary = (b) => {
    const totals = new Map();
    for (let i = blocks[b].start; i < blocks[b].end; i++) {
      const sign = signs.get(i);
      if (sign && sign !== "▫") totals.set(sign, (totals.get(sign) || 0) + 1);
    }
    return [...totals].map(([sign, n]) => `${sign}${n}`).join(" ");
  };
  const summaries = blocks.map((_, b) => summary(b));
  const gravest = blocks.map(() => "");
  for (const [site, list] of foundAt) for (const finding of list) {
    const b = blockOf[site], order = ["info", "warning", "error"];
    if (order.indexOf(finding.severity) > order.indexOf(gravest[b])) gravest[b] = finding.severity;
  }
  const pinsOf = (i) => {
    const numbers = pins.get(i);
    if (numbers) return h("b", { title: `Step ${numbers.join(", ")} of the finding` }, String(numbers[0] + 1));
    const found = foundAt.get(i);
    return found ? h("b", { class: found[0].severity, title: found.map((f) => `${f.rule}: ${f.message}`).join("\n") }, letterOf[found[0].severity]) : "";
  };
  const chip = (n, title) => (n === undefined ? "" : h("span", { class: `chip ${roleClass(n)}`, title }, letter(n)));
  const row = (key) => {
    const here = key === current();
    if (key < 0) {
      const b = -key - 1, block = blocks[b], open = !folded[b];
      const parts = blockWords(b);
      const to = next[b].map(([t, k]) => `B${t}${data.edges[k][3] ? ` if ${data.edges[k][3]}` : ""}`).join(", ");
      return h("div", {
        class: `row block${here ? " selected" : ""}`, id: `row${key}`, role: "treeitem", "aria-level": 1,
        "aria-expanded": String(open), "aria-selected": String(here), "aria-setsize": blocks.length, "aria-posinset": b + 1,
        "aria-label": `Block ${parts.join(", ")}${gravest[b] ? `, ${gravest[b]} in it` : ""}`, "data-key": key,
      }, h("span", { class: "fold" }, open ? "▾" : "▸"), h("span", { class: "tag" }, chip(roleOfBlock(b), parts[1])),
      h("span", { class: "text" }, h("b", {}, parts[0]), parts.slice(1).map((part) => h("span", { class: "dim" }, part)),
        h("span", {}, summaries[b]), to ? h("span", { class: "dim" }, `→ ${to}`) : "",
        gravest[b] && !open ? h("span", { class: "pins" }, h("b", { class: gravest[b] }, letterOf[gravest[b]])) : ""));
    }
    const b = blockOf[key], sign = signs.get(key) || "", flying = countAt(key);
    const found = foundAt.get(key), numbers = pins.get(key);
    const label = [
      `line ${lines[key]}`, text[key].replace(/;$/, ""), sign ? NAMES[sign] : "", data.guards[key] !== undefined ? `executed by ${whoAt(key)}` : "",
      flying ? `in flight: ${flying}` : "", found ? found.map((f) => `${labelOf[f.severity]} ${f.rule}`).join(", ") : "",
      numbers ? `step ${numbers.map((n) => n + 1).join(", ")} of the finding` : "",
    ].filter(Boolean).join("; ");
    return h("div", {
      class: `row${here ? " selected" : ""}${matched.has(key) ? " match" : ""}${numbers ? " step" : ""}`, id: `row${key}`,
      role: "treeitem", "aria-level": 2, "aria-selected": String(here), "aria-setsize": blocks[b].end - blocks[b].start,
      "aria-posinset": key - blocks[b].start + 1, "aria-label": label, "data-key": key,
    }, h("span", { class: "number" }, String(lines[key])),
    h("span", { class: `tag ${roleClass(roleOfBlock(b))}`, title: words(blocks[b].who) }, roleOfBlock(b) === undefined ? "" : letter(roleOfBlock(b))),
    h("span", { class: "pins" }, pinsOf(key)), h("span", { class: "count" }, flying), h("span", { class: "sign" }, sign),
    h("span", { class: "loops" }, "│".repeat(Math.min(loopsOf[b].length, 6)) + " "),
    h("span", { class: "text" }, coloured(key, true)));
  };
  let drawn = "";
  const drawRows = (force) => {
    const pane = byId("listing"), from = Math.max(0, Math.floor(pane.scrollTop / ROW) - BESIDE);
    const to = Math.min(rows.length, Math.ceil((pane.scrollTop + pane.clientHeight) / ROW) + BESIDE);
    if (!force && drawn === `${from} ${to}`) return;
    drawn = `${from} ${to}`;
    byId("rows").style.transform = `translateY(${from * ROW}px)`;
    byId("rows").replaceChildren(...rows.slice(from, to).map(row));
    const id = `row${current()}`;
    if (byId(id)) pane.setAttribute("aria-activedescendant", id); else pane.removeAttribute("aria-activedescendant");
  };
  const reveal = (middle) => {
    const pane = byId("listing"), top = rowOf.get(current()) * ROW;
    if (!pane.clientHeight) return;
    if (middle && (top < pane.scrollTop + ROW || top > pane.scrollTop + pane.clientHeight - 3 * ROW)) {
      pane.scrollTop = top - pane.clientHeight / 3;
    } else if (top < pane.scrollTop) pane.scrollTop = top;
    else if (top > pane.scrollTop + pane.clientHeight - 2 * ROW) pane.scrollTop = top - pane.clientHeight + 2 * ROW;
  };

  /* ---------------------------------------------------------------- graph */

  const svg = s("svg", { role: "group", "aria-label": `${many(blocks.length, "block")}, ${many(data.loops.length, "loop")}` });
  const boxes = new Map(), edgeLines = [];
  const curve = (points, back) => {
    const at = (k) => `${points[2 * k]},${points[2 * k + 1]}`;
    let path = `M${at(0)}`;
    for (let k = 1; k < points.length / 2; k++) {
      const [x, y, u, v] = points.slice(2 * k - 2, 2 * k + 2);
      path += back ? `L${u},${v}` : `C${x},${(y + v) / 2} ${u},${(y + v) / 2} ${u},${v}`;
    }
    return path;
  };
  const short = (words, most) => (words.length > most ? `${words.slice(0, most - 9)}…${words.slice(-8)}` : words);
  const drawGraph = () => {
    const [, , wide, high] = data.size;
    svg.append(s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" },
      s("path", { class: "arrow", d: "M0,0L8,4L0,8z" }))));
    data.edges.forEach(([a, b, back, condition, points]) => {
      const line = s("path", { class: `edge${back ? " back" : ""}`, d: curve(points, back), "marker-end": "url(#arrow)" },
        s("title", {}, `B${a} to B${b}${condition ? ` if ${condition}` : ""}${back ? ", back edge" : ""}`));
      edgeLines.push(line);
      svg.append(line);
      if (condition && next[a].length > 1 && !back) {
        const y = points.length === 4 ? points[3] - 9 : points[3] + 3;  // at the first stop, where the edges have diverged
        svg.append(s("text", { class: "condition", x: points[2] + 5, y }, short(condition, 18)));
      }
    });
    blocks.forEach((block, b) => {
      if (!block.at) return;
      const [x, y] = block.at, n = roleOfBlock(b), parts = blockWords(b);
      const range = lines[block.start] === lines[block.end - 1] ? `line ${lines[block.start]}` : `lines ${lines[block.start]}–${lines[block.end - 1]}`;
      const loop = loopsOf[b].includes(b) ? " ↻" : "";
      const box = s("g", {
        class: `box ${roleClass(n)}`, transform: `translate(${x},${y})`, id: `box${b}`, role: "img",
        "aria-label": `Block ${parts.join(", ")}`, onclick: () => { go(block.start, false); byId("graph").focus({ preventScroll: true }); },
      }, s("title", {}, parts.join("\n")), s("rect", { class: "body", width: wide, height: high, rx: 6 }));
      if (n !== undefined) {
        const size = letter(n).length * 7 + 10;
        box.append(s("rect", { class: "tag", x: wide - size - 6, y: 6, width: size, height: 16, rx: 4 }),
          s("text", { class: "letter", x: wide - size / 2 - 6, y: 18, "text-anchor": "middle" }, letter(n)));
      }
      box.append(s("text", { class: "title", x: 9, y: 18 }, short(`B${b}${loop} ${labelAt(block.start)}`, 19)),
        s("text", { class: "sub", x: 9, y: 34 }, `${range} · ${many(block.end - block.start, "instruction")}`.replace("instructions", "instr.").replace("instruction", "instr.")),
        s("text", { class: "signs", x: 9, y: 50 }, short(summaries[b], 22)));
      if (gravest[b]) box.append(s("text", { class: `flag ${gravest[b]}`, x: wide - 16, y: 50 }, letterOf[gravest[b]]));
      boxes.set(b, box);
      svg.append(box);
    });
    svg.append(s("g", { id: "paths" }));
    byId("graph").append(svg);
  };
  const setZoom = (value) => {
    if (!boxes.size) return;
    const pane = byId("graph"), [wide, high] = data.size;
    const fit = Math.min((pane.clientWidth - 26) / (wide + 20), (pane.clientHeight - 26) / (high + 20), 1);
    zoom = Math.min(2.5, Math.max(Math.min(fit, 0.1), value === "fit" ? fit : value));
    if (!(zoom > 0)) zoom = 1;
    svg.setAttribute("viewBox", `-10 -10 ${wide + 20} ${high + 20}`);
    svg.setAttribute("width", Math.round((wide + 20) * zoom));
    svg.setAttribute("height", Math.round((high + 20) * zoom));
  };
  const showBox = (b) => {
    const pane = byId("graph"), at = blocks[b].at;
    if (!at || !pane.clientHeight) return;
    const left = svg.getBoundingClientRect().left - pane.getBoundingClientRect().left + pane.scrollLeft;
    const top = svg.getBoundingClientRect().top - pane.getBoundingClientRect().top + pane.scrollTop;
    const x = (at[0] + 10) * zoom + left, y = (at[1] + 10) * zoom + top;
    const [, , wide, high] = data.size;
    if (x < pane.scrollLeft || x + wide * zoom > pane.scrollLeft + pane.clientWidth) pane.scrollLeft = x + (wide * zoom - pane.clientWidth) / 2;
    if (y < pane.scrollTop || y + high * zoom > pane.scrollTop + pane.clientHeight) pane.scrollTop = y + (high * zoom - pane.clientHeight) / 2;
  };
  let shown = -1;
  const markBox = () => {
    if (!boxes.size) return;
    const b = blockOf[selected];
    if (shown !== b) {
      if (shown >= 0) {
        if (boxes.has(shown)) boxes.get(shown).classList.remove("selected");
        for (const [, k] of [...next[shown], ...before[shown]]) edgeLines[k].classList.remove("near");
      }
      if (boxes.has(b)) boxes.get(b).classList.add("selected");
      for (const [, k] of [...next[b], ...before[b]]) edgeLines[k].classList.add("near");
      shown = b;
    }
    showBox(b);
  };
  const drawPaths = () => {
    if (!boxes.size) return;
    const group = svg.querySelector("#paths"), [, , wide, high] = data.size;
    const made = [], stops = [];
    if (active >= 0) {
      findings[active].all.forEach((one, k) => {
        if (one.site < 0 || !blocks[blockOf[one.site]].at) return;
        const [x, y] = blocks[blockOf[one.site]].at, lead = stops.filter((stop) => stop.b === blockOf[one.site]).length;
        stops.push({ b: blockOf[one.site], k, x: x + 4 + lead * 20, y: y + 2, middle: [x + wide / 2, y + high / 2] });
      });
      stops.slice(1).forEach((stop, k) => {
        const from = stops[k];
        if (from.b === stop.b) return;
        const [x, y, u, v] = [from.x, from.y, stop.x, stop.y], bend = Math.abs(u - x) < 40 ? -60 : 0;
        made.push(s("path", { class: "path", d: `M${x},${y}C${x + bend},${(y + v) / 2} ${u + bend},${(y + v) / 2} ${u},${v}` }));
      });
      stops.forEach((stop) => made.push(s("g", { class: `pin${stop.k === step ? " now" : ""}`, transform: `translate(${stop.x},${stop.y})` },
        s("circle", { r: 10 }), s("text", { y: 4 }, String(stop.k + 1)))));
    }
    group.replaceChildren(...made);
  };
  const fade = (role) => {
    faded = faded === role ? -1 : role;
    boxes.forEach((box, b) => box.classList.toggle("faded", faded >= 0 && roleOfBlock(b) !== faded));
    byId("legend").querySelectorAll("button").forEach((button, n) => button.setAttribute("aria-pressed", String(n === faded)));
    if (faded >= 0) say(`${words(data.roles[faded].who)}: ${many(data.roles[faded].blocks.length, "block")}`);
  };
  const drawLegend = () => {
    const list = data.roles.map((role, n) => h("li", {}, h("button", {
      type: "button", class: roleClass(n), "aria-pressed": "false", onclick: () => fade(n),
      title: `${many(role.blocks.length, "block")}, ${many(role.instructions, "instruction")}`,
    }, h("span", { class: `chip ${roleClass(n)}` }, letter(n)), words(role.who))));
    byId("legend").append(...list, h("li", { class: "plain" }, data.roles.length ? "no letter: all threads" : "all threads reach every block"));
  };

  /* ---------------------------------------------------------------- the instruction */

  const together = (numbers) => {  // groups facts with the same opcode and status
    const groups = new Map();
    for (const number of numbers) {
      const [channel, site, said, ring] = facts[number], key = `${channel} ${ring} ${said} ${opcode(site)}`;
      if (!groups.has(key)) groups.set(key, { channel, said, ring, name: opcode(site), sites: [] });
      groups.get(key).sites.push(site);
    }
    return [...groups.values()].map((group) => ({ ...group, sites: group.sites.sort((a, b) => a - b) }))
      .sort((a, b) => a.channel - b.channel || a.ring - b.ring || a.sites[0] - b.sites[0]);
  };
  const factRow = (group, sign, kind) => h("li", {}, sign ? h("span", { class: `sign ${kind}` }, sign) : "",
    group.sites.length > 1 ? `${group.sites.length} × ` : "", h("code", { title: group.name }, group.name.length > 26 ? `${group.name.slice(0, 25)}…` : group.name), ": ",
    sign === "−" ? "" : [linked(words(group.said)), "; "], linkLines(group.sites));
  const drawInstruction = () => {
    const i = selected, b = blockOf[i], now = inFlight(i), groups = together(now), parts = [];
    parts.push(h("h2", {}, `Line ${lines[i]}`), h("p", {}, chip(roleOfBlock(b)), " ", whoAt(i), " · ", link(blocks[b].start, `B${b}`),
      labelAt(blocks[b].start) ? ` ${labelAt(blocks[b].start)}` : "", ` · instruction ${i}`));
    parts.push(h("pre", { class: "full" }, coloured(i, false)));
    const place = placeAt(i);
    if (place >= 0) parts.push(h("h3", {}, "Source"), sourceOf(place));
    if (data.touches[i]) parts.push(h("h3", {}, "Memory"), h("ul", { class: "facts" }, data.touches[i].map((t) => h("li", {}, words(t)))));
    const found = foundAt.get(i);
    if (found) parts.push(h("h3", {}, "Findings"), h("ul", { class: "facts" }, found.map((f) => h("li", {}, h("button", {
      type: "button", class: "link", onclick: () => activate(findings.indexOf(f), true),
    }, `${f.rule}: ${f.message}`)))));
    if (i + 1 < blocks[b].end) {
      const after = inFlight(i + 1);
      const key = (n) => `${facts[n][0]} ${facts[n][1]} ${facts[n][3]}`;
      const [olds, news] = [new Set([...now].map(key)), new Set([...after].map(key))];
      const come = together([...after].filter((f) => !now.has(f))), gone = together([...now].filter((f) => !news.has(key(f))));
      if (come.length || gone.length) {
        parts.push(h("h3", {}, "Effect"), h("ul", { class: "facts" },
          gone.map((g) => factRow(g, "−", "gone")),
          come.map((g) => factRow(g, g.sites.every((site) => olds.has(`${g.channel} ${site} ${g.ring}`)) ? "~" : "+", "come"))),
        h("p", { class: "dim" }, "+ is added, ~ changes its status, − is no longer in flight, or no longer the last operation on its mbarrier"));
      }
    }
    const flying = groups.filter((g) => g.ring < 0), signals = groups.filter((g) => g.ring >= 0);
    parts.push(h("h3", {}, "May be in flight before it"));
    if (!flying.length) parts.push(h("p", { class: "dim" }, blocks[b].at ? "nothing" : "unreachable"));
    let channel = -1, list = null;
    for (const group of flying) {
      if (group.channel !== channel) {
        channel = group.channel;
        list = h("ul", { class: "facts" });
        parts.push(h("p", { class: "dim" }, data.flight.channels[channel]), list);
      }
      list.append(factRow(group));
    }
    if (signals.length) {
      parts.push(h("h3", {}, "mbarriers: last wait and signals since, of the threads here"));
      let ring = -1;
      for (const group of signals) {
        if (group.ring !== ring) {
          ring = group.ring;
          list = h("ul", { class: "facts" });
          parts.push(h("p", {}, h("b", { class: "mono" }, data.protocol.rings[ring])), list);
        }
        list.append(h("li", {}, phaseWords(group, ring)));
      }
    }
    byId("instruction").replaceChildren(...parts.flat(9));
  };
  const phaseWords = (group, ring) => {
    const section = data.protocol.sections.find((one) => one.title === `mbarrier ${data.protocol.rings[ring]}`);
    const rowsOf = section ? section.rows.filter(([cells, sites]) => cells[0] === "wait" && group.sites.some((site) => sites.includes(site))) : [];
    const parity = group.said !== undefined && words(group.said) === "last wait" ? rowsOf.map(([cells]) => cells[2]).join("; ") : "";
    return [words(group.said), parity ? ` for ${parity}` : "", ": ", linkLines(group.sites)];
  };
  const sourceOf = (place) => {
    const [file, line] = data.places[place], known = data.sources[file];
    const parts = [h("p", { class: "mono", title: file }, placeWords(place))];
    if (known && known[line] !== undefined) {
      parts.push(h("div", { class: "source mono" }, [-2, -1, 0, 1, 2].filter((k) => known[line + k] !== undefined).map((k) => h("div", {
        class: k ? "" : "here", "aria-current": k ? null : "true",
      }, h("span", { class: "number" }, String(line + k)), h("span", {}, known[line + k] || " ")))));
    }
    return parts;
  };

  /* ---------------------------------------------------------------- findings pane */

  const stepRow = (finding, one, k) => h("li", {}, h("button", {
    type: "button", "aria-current": k === step && findings[active] === finding ? "step" : null,
    onclick: () => { stop(); activate(findings.indexOf(finding), false, k); },
  }, h("span", { class: "pins" }, h("b", {}, String(k + 1))), h("span", {}, one.message,
    h("span", { class: "where" }, [`line ${one.line}`, one.role || "", one.object || "", one.site < 0 ? "outside this kernel" : "", placeWords(one.place)].filter(Boolean).join(" · ")))));
  const card = (finding, n, open) => {
    const rule = data.rules[finding.rule], details = [];
    if (open) {
      const split = finding.steps.length || 1;
      details.push(h("ol", { class: "steps" }, finding.all.slice(0, split).map((one, k) => stepRow(finding, one, k))));
      if (finding.deadlock.length) {
        details.push(h("p", { class: "advice" }, h("b", {}, "Deadlock: "), "who waits, and what would complete each wait"));
        details.push(h("ul", { class: "steps" }, finding.deadlock.map((one) => h("li", {}, one.indented ? "\u2192 " : "", one.message,
          h("span", { class: "where" }, [`line ${one.line}`, one.role || "", one.object || "", placeWords(one.place)].filter(Boolean).join(" \u00b7 "))))));
      }
      if (finding.confirmation) {
        details.push(h("p", { class: "advice" }, `Executed: ${finding.confirmation.words}`));
        if (finding.all.length > split) details.push(h("ol", { class: "steps" }, finding.all.slice(split).map((one, k) => stepRow(finding, one, split + k))));
      }
      if (finding.help) details.push(h("p", { class: "advice" }, h("b", {}, "Help: "), finding.help));
      for (const fix of finding.fixes) details.push(h("p", { class: "advice" }, h("b", {}, fix.safe ? "Fix: " : "Fix (unsafe): "), fix.message));
      if (finding.variants.length) details.push(h("p", { class: "dim" }, `The same cause is also reported at line ${finding.variants.join(", ")}.`));
      if (finding.elsewhere) details.push(h("p", { class: "dim" }, `Also at ${many(finding.elsewhere, "location")} in other kernels.`));
      if (rule.why) details.push(h("details", { open: open === "all" ? "" : null }, h("summary", {}, "Why it is wrong"), rule.why.split("\n").map((part) => h("p", {}, part))));
      details.push(h("p", { class: "dim" }, `${rule.name} · ${rule.manual} · ${finding.certainty}`));
      details.push(h("p", { class: "walk" }, h("button", { type: "button", onclick: () => { stop(); move(-1); } }, "[ Previous step"),
        h("button", { type: "button", onclick: () => { stop(); move(1); } }, "Next step ]"),
        h("button", { type: "button", onclick: () => walk() }, "Play")));
    }
    return h("article", { class: `finding ${finding.severity}${n === active ? " active" : ""}` },
      h("button", { type: "button", id: `finding${n}`, "aria-expanded": String(Boolean(open)), onclick: () => { activate(n, false); walk(); } },
        h("span", { class: "badge" }, `${labelOf[finding.severity]} ${finding.rule}`), h("span", { class: "dim" },
          ` line ${finding.line}${finding.count > 1 ? ` · ${many(finding.count, "place")}` : ""}${finding.suppressed !== null ? " · suppressed by a comment" : ""}`),
        h("span", { class: "message" }, finding.message)),
      details.length ? h("div", { class: "more" }, details) : "");
  };
  const verdictRow = (one) => h("li", {}, h("b", {}, one.class), ` ${one.status}`, one.why.map((words) => h("span", { class: "where" }, words)));
  const verdicts = () => (data.verdicts ? [h("h2", {}, "Verdicts"), h("ul", { class: "steps", id: "verdicts" }, data.verdicts.map(verdictRow))] : []);
  const drawFindings = (all) => {
    const focused = document.activeElement && document.activeElement.id;
    byId("findings").replaceChildren(h("h2", {}, findings.length ? many(findings.length, "finding") : "No findings"),
      ...findings.map((finding, n) => card(finding, n, all ? "all" : n === active)), ...verdicts());
    if (focused && focused.startsWith("finding") && byId(focused)) byId(focused).focus({ preventScroll: true });
  };
  const activate = (n, focus, at = 0) => {
    active = n; step = at; pins = new Map();
    document.body.dataset.severity = n >= 0 ? findings[n].severity : "";
    if (n >= 0) {
      findings[n].all.forEach((one, k) => { if (one.site >= 0) pins.set(one.site, [...(pins.get(one.site) || []), k]); });
      if (document.body.dataset.side !== "findings" && (focus || !narrow())) showPane("findings", false);
    }
    drawFindings();
    toStep(focus);
  };
  const toStep = () => {
    drawPaths();
    if (active < 0) return drawRows(true);
    const one = findings[active].all[step], total = findings[active].all.length;
    if (one.site >= 0) go(one.site, false, true);
    drawFindings();
    const open = byId(`finding${active}`);
    if (open) open.scrollIntoView({ block: "nearest" });
    say(`${findings[active].rule}, step ${step + 1} of ${total}, line ${one.line}: ${one.role ? `${one.role}: ` : ""}${one.message}`);
  };
  const move = (by) => {
    if (active < 0) return findings.length ? activate(0, true) : undefined;
    const total = findings[active].all.length;
    step = Math.min(total - 1, Math.max(0, step + by));
    toStep();
    return step < total - 1;
  };
  const stop = () => { clearTimeout(walking); walking = 0; };
  const walk = () => {
    stop();
    if (active < 0) { if (!findings.length) return; activate(0, true); }
    step = 0;
    toStep();
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const further = () => { if (move(1)) walking = setTimeout(further, STEP_MS); };
    if (findings[active].all.length > 1) walking = setTimeout(further, STEP_MS);
  };

  /* ---------------------------------------------------------------- protocol */

  const drawProtocol = () => {
    const { sections, names, unresolved } = data.protocol, parts = [h("h2", {}, "Synchronisation protocol")];
    if (!sections.length && !unresolved.length) parts.push(h("p", { class: "dim" }, "no barriers, and no shared memory"));
    for (const section of sections) {
      const wide = Math.max(...section.rows.map(([cells]) => cells.length));
      const linkedRows = section.rows.some(([, sites]) => sites.length);
      parts.push(h("div", { class: "section" }, h("h3", {}, section.title, section.place ? ` at ${section.place}` : ""),
        h("div", { class: "scroll" }, h("table", { "aria-label": section.title }, h("tbody", {}, section.rows.map(([cells, sites]) => h("tr", {},
          Array.from({ length: wide }, (_, k) => h("td", {}, cells[k] || "")), linkedRows ? h("td", {}, sites.length ? linkLines(sites, 4) : "") : ""))))),
        section.note ? h("p", { class: "note" }, section.note) : ""));
    }
    if (names.length) parts.push(h("div", { class: "section" }, h("h3", {}, "where"), h("ul", { class: "facts" },
      names.map(([name, meaning, site]) => h("li", {}, h("code", {}, name), ` ${meaning}, loop from `, link(site))))));
    if (unresolved.length) parts.push(h("div", { class: "section" }, h("h3", {}, "unresolved"), h("ul", { class: "facts" },
      unresolved.map(([why, sites]) => h("li", {}, why, sites.length ? [": ", linkLines(sites)] : "")))));
    byId("protocol").replaceChildren(...parts);
  };

  /* ---------------------------------------------------------------- navigation */

  let later = 0;
  const go = (i, focus, middle = true) => {
    if (!(i >= 0 && i < count)) return;
    selected = i; onBlock = false;
    if (folded[blockOf[i]]) { folded[blockOf[i]] = false; layRows(); }
    if (focus) {
      if (narrow()) showPane("listing", false);
      byId("listing").focus({ preventScroll: true });
    }
    settle(middle);
  };
  const settle = (middle) => {
    reveal(middle);
    drawRows(true);
    markBox();
    drawInstruction();
    if (document.activeElement !== byId("listing")) say(`line ${lines[selected]}, B${blockOf[selected]}, ${whoAt(selected)}: ${text[selected].slice(0, 200)}`);
    clearTimeout(later);
    later = setTimeout(() => { try { history.replaceState(null, "", `#i${selected}`); } catch { /* not permitted for this page */ } }, 250);
  };
  const narrow = () => matchMedia("(max-width: 1000px)").matches;
  const showPane = (name, focus) => {
    document.body.dataset.pane = name;
    if (SIDES.includes(name)) document.body.dataset.side = name;
    const on = narrow() ? [name] : ["graph", "listing", document.body.dataset.side];
    for (const pane of PANES) {
      const tab = byId(`tab-${pane}`), chosen = narrow() ? pane === name : pane === document.body.dataset.side;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    if (on.includes("listing")) { reveal(true); drawRows(true); }
    if (on.includes("graph")) markBox();
    if (focus) {
      const target = name === "graph" ? "graph" : name === "listing" ? "listing" : name;
      byId(target).focus({ preventScroll: true });
    }
  };
  const foldRow = (b, close) => {
    if (folded[b] === close) return;
    folded[b] = close; onBlock = close || onBlock;
    layRows(); reveal(false); drawRows(true);
  };
  const foldAll = () => {
    const close = folded.some((value) => !value);
    folded = folded.map(() => close); onBlock = close;
    layRows(); reveal(true); drawRows(true);
    say(close ? "all blocks folded" : "all blocks unfolded");
  };
  const along = (by) => {
    const at = rowOf.get(current()) + by;
    if (at < 0 || at >= rows.length) return;
    const key = rows[at];
    onBlock = key < 0;
    selected = key < 0 ? blocks[-key - 1].start : key;
    settle(false);
  };
  const toBlock = (by) => {
    const b = blockOf[selected] + by;
    if (by < 0 && selected > blocks[blockOf[selected]].start) go(blocks[blockOf[selected]].start);
    else if (b >= 0 && b < blocks.length) go(blocks[b].start);
  };
  const events = [...signs].filter(([, sign]) => sign !== "▫").map(([site]) => site).sort((a, b) => a - b);
  const toEvent = (by) => {
    const k = last(events, by > 0 ? selected : selected - 1, (site) => site);
    const site = events[by > 0 ? k + 1 : k];
    if (site !== undefined) go(site);
  };
  const toFinding = (by) => {
    if (!findings.length) return say("no findings");
    stop();
    activate(active < 0 ? (by > 0 ? 0 : findings.length - 1) : (active + by + findings.length) % findings.length, true);
  };
  const around = (key) => {  // in the graph
    const b = blockOf[selected], at = blocks[b].at;
    let to = -1;
    if (key === "ArrowDown") to = (next[b].find(([t]) => t > b) || next[b][0] || [-1])[0];
    else if (key === "ArrowUp") to = (before[b].find(([t]) => t < b) || before[b][0] || [-1])[0];
    else if (at) {
      const sign = key === "ArrowRight" ? 1 : -1;
      let best = Infinity;
      blocks.forEach((block, n) => {
        if (n === b || !block.at) return;
        const far = (block.at[0] - at[0]) * sign, off = Math.abs(block.at[1] - at[1]);
        if (far > 0 && far + 3 * off < best) { best = far + 3 * off; to = n; }
      });
    }
    if (to >= 0) { go(blocks[to].start); say(`Block ${blockWords(to).join(", ")}`); }
  };

  /* ---------------------------------------------------------------- search */

  const escaped = (words) => words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const find = (words) => {
    const all = (test) => { const found = []; for (let i = 0; i < count; i++) if (test(i)) found.push(i); return found; };
    const from = (list) => [...new Set(list)].sort((a, b) => a - b);
    let match;
    if ((match = /^:?(\d+)$/.exec(words))) {
      const line = +match[1], exact = all((i) => lines[i] === line);
      if (exact.length || words[0] === ":") return exact;
      return all((i) => text[i].includes(words));
    }
    if ((match = /^B(\d+)$/.exec(words)) && blocks[match[1]]) return [blocks[match[1]].start];
    if (/^[A-Za-z]{2,4}\d{3}$/.test(words)) {
      const mine = findings.filter((f) => f.rule === words.toUpperCase());
      if (mine.length) return from(mine.flatMap((f) => f.all.map((one) => one.site).filter((site) => site >= 0)));
    }
    if ((match = /^([^\s:]+):(\d+)$/.exec(words))) {
      const wanted = new Set();
      data.places.forEach(([file, line, , calls], n) => {
        if ([[file, line], ...calls].some((at) => at[0].endsWith(match[1]) && at[1] === +match[2])) wanted.add(n);
      });
      const found = all((i) => wanted.has(placeAt(i)));
      if (found.length) return found;
    }
    if (/^[%$][\w$.]+$/.test(words)) {
      const exact = new RegExp(`${escaped(words)}(?![\\w$])`);
      const found = all((i) => exact.test(text[i]) || labelAt(i) === words);
      if (found.length) return found;
    }
    const low = words.toLowerCase();
    return all((i) => text[i].toLowerCase().includes(low) || labelAt(i).toLowerCase().includes(low));
  };
  const showMatchCount = () => {
    const at = matches.indexOf(selected);
    byId("match-count").textContent = !query ? "" : matches.length ? `${at >= 0 ? at + 1 : "–"} of ${matches.length}` : "no match";
  };
  const look = (words, jump) => {
    query = words.trim();
    matches = query ? find(query) : [];
    matched = new Set(matches);
    if (jump && matches.length) go(matches[last(matches, selected - 1, (i) => i) + 1] ?? matches[0], false);
    else drawRows(true);
    showMatchCount();
  };
  const search = (words) => { byId("query").value = words; look(words, false); byId("query").focus(); };
  const toMatch = (by) => {
    if (!matches.length) return;
    const k = last(matches, by > 0 ? selected : selected - 1, (i) => i);
    const to = by > 0 ? (k + 1) % matches.length : (k + matches.length) % matches.length;
    if (narrow()) showPane("listing", false);
    go(matches[to], false);
    showMatchCount();
  };

  /* ---------------------------------------------------------------- theme, keys, printing */

  const THEMES = { auto: ["◐", "Auto"], light: ["○", "Light"], dark: ["●", "Dark"] };
  const keep = (value) => { try { if (value) localStorage.setItem("tclint-theme", value); return localStorage.getItem("tclint-theme"); } catch { return null; } };
  const setTheme = (name) => {
    const theme = THEMES[name] ? name : "auto";
    if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
    byId("theme").dataset.now = theme;
    byId("theme").textContent = THEMES[theme].join(" ");
    byId("theme").setAttribute("aria-label", `Theme: ${THEMES[theme][1]}`);
  };
  const nextTheme = () => {
    const names = Object.keys(THEMES), theme = names[(names.indexOf(byId("theme").dataset.now) + 1) % names.length];
    setTheme(theme); keep(theme); say(`Theme: ${THEMES[theme][1]}`);
  };
  const help = () => { if (!byId("help").open) byId("help").showModal(); };
  const escape = () => {
    stop();
    if (document.activeElement === byId("query") || query) {
      byId("query").value = ""; look("", false);
      if (document.activeElement === byId("query")) byId("listing").focus({ preventScroll: true });
    } else if (faded >= 0) fade(faded);
    else if (active >= 0) { activate(-1); say("no finding selected"); }
  };
  const KEYS = {
    "j": () => along(1), "k": () => along(-1), "J": () => toBlock(1), "K": () => toBlock(-1), "e": () => toEvent(1), "E": () => toEvent(-1),
    "n": () => toFinding(1), "p": () => toFinding(-1), "]": () => { stop(); move(1); }, "[": () => { stop(); move(-1); }, "w": walk,
    "/": () => { byId("query").focus(); byId("query").select(); }, "?": help, "Escape": escape, "c": foldAll, "t": nextTheme,
    "g": () => showPane("graph", true), "l": () => showPane("listing", true), "i": () => showPane("instruction", true),
    "f": () => showPane("findings", true), "b": () => showPane("protocol", true),
    "+": () => setZoom(zoom * 1.25), "=": () => setZoom(zoom * 1.25), "-": () => setZoom(zoom / 1.25), "0": () => setZoom("fit"),
  };
  const page = () => Math.max(1, Math.floor(byId("listing").clientHeight / ROW) - 1);
  const LISTING = {
    "ArrowDown": () => along(1), "ArrowUp": () => along(-1), "PageDown": () => jump(page()), "PageUp": () => jump(-page()),
    "Home": () => jump(-rows.length), "End": () => jump(rows.length), "Enter": () => showPane("instruction", narrow()),
    "ArrowLeft": () => (current() >= 0 ? (onBlock = true, settle(false)) : foldRow(blockOf[selected], true)),
    "ArrowRight": () => (current() >= 0 ? undefined : folded[blockOf[selected]] ? foldRow(blockOf[selected], false) : along(1)),
    " ": () => foldRow(blockOf[selected], !folded[blockOf[selected]]),
  };
  const jump = (by) => along(Math.max(-rowOf.get(current()), Math.min(rows.length - 1 - rowOf.get(current()), by)));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    const target = event.target, typing = target === byId("query");
    let action;
    if (typing) {
      if (event.key === "Enter") action = () => toMatch(event.shiftKey ? -1 : 1);
      else if (event.key === "Escape") action = escape;
    } else if (target === byId("listing") && LISTING[event.key]) action = LISTING[event.key];
    else if (target === byId("graph") && event.key.startsWith("Arrow")) action = () => around(event.key);
    else if (target === byId("graph") && event.key === "Enter") action = () => go(selected, true);
    else if (target.getAttribute("role") === "tab" && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
      const list = narrow() ? PANES : SIDES, at = list.indexOf(target.dataset.pane) + (event.key === "ArrowRight" ? 1 : -1);
      action = () => { const name = list[(at + list.length) % list.length]; showPane(name, false); byId(`tab-${name}`).focus(); };
    } else action = KEYS[event.key];
    if (!action) return;
    event.preventDefault();
    if (!["w"].includes(event.key) && walking) stop();
    action();
  });
  window.addEventListener("beforeprint", () => {
    drawFindings(true);
    const parts = [h("h2", {}, "Instructions")];
    blocks.forEach((block, b) => {
      parts.push(h("b", {}, blockWords(b).join(" · ")));
      if (folded[b]) return;
      const body = [];
      for (let i = block.start; i < block.end; i++) {
        const found = (foundAt.get(i) || []).map((f) => f.rule).join(" ");
        body.push(`${String(lines[i]).padStart(6)} ${(countAt(i) || "").padEnd(9)} ${signs.get(i) || " "} ${text[i]}${found ? `   <= ${found}` : ""}\n`);
      }
      parts.push(h("div", {}, body.join("")));
    });
    byId("paper").replaceChildren(...parts);
  });
  window.addEventListener("afterprint", () => { byId("paper").replaceChildren(); drawFindings(); });

  /* ---------------------------------------------------------------- start */

  const addressed = () => {  // the instruction in the fragment of the page's address; -1 if there is none
    const match = /^#(i|L)(\d+)$/.exec(location.hash);
    if (!match) return -1;
    return match[1] === "i" ? Math.min(count - 1, +match[2]) : Math.max(0, lines.findIndex((line) => line >= +match[2]));
  };
  const begin = () => {
    byId("name").textContent = data.name;
    byId("name").title = data.name;
    const threads = data.threads ? many(data.threads, "thread") : data.most_threads ? `at most ${many(data.most_threads, "thread")}` : "CTA size unknown";
    byId("meta").textContent = [data.input, data.target, threads, many(count, "instruction"), many(blocks.length, "block"),
      many(findings.length, "finding"), data.origin].filter(Boolean).join(" · ");
    byId("meta").title = `${byId("meta").textContent} · tclint ${data.version}`;
    if (data.problems.length) {
      byId("problems").hidden = false;
      byId("problems").textContent = data.problems.join("; ");
    }
    byId("tab-findings").textContent = findings.length ? `Findings (${findings.length})` : "Findings";
    setTheme(keep());
    drawLegend(); layRows(); drawFindings(); drawProtocol();
    document.body.dataset.side = findings.length ? "findings" : "instruction";
    if (!count) return;
    const match = addressed();
    if (match >= 0) selected = match;
    showPane(narrow() ? (findings.length ? "findings" : "listing") : document.body.dataset.side, false);
    if (match >= 0 || !findings.length) settle(true); else activate(0, false);
    byId("listing").addEventListener("scroll", () => drawRows(false), { passive: true });
    byId("listing").addEventListener("click", (event) => {
      const at = event.target.closest(".row");
      if (!at) return;
      const key = +at.dataset.key;
      byId("listing").focus({ preventScroll: true });
      if (key < 0) {
        selected = blocks[-key - 1].start; onBlock = true;
        if (event.target.closest(".fold")) foldRow(-key - 1, !folded[-key - 1]);
        settle(false);
      } else { onBlock = false; selected = key; settle(false); }
    });
    byId("query").addEventListener("input", () => look(byId("query").value, true));
    byId("search").addEventListener("submit", (event) => event.preventDefault());
    byId("next-match").addEventListener("click", () => toMatch(1));
    byId("previous-match").addEventListener("click", () => toMatch(-1));
    byId("theme").addEventListener("click", nextTheme);
    byId("show-help").addEventListener("click", help);
    byId("zoom-in").addEventListener("click", () => setZoom(zoom * 1.25));
    byId("zoom-out").addEventListener("click", () => setZoom(zoom / 1.25));
    byId("zoom-fit").addEventListener("click", () => setZoom("fit"));
    for (const pane of PANES) byId(`tab-${pane}`).addEventListener("click", () => showPane(pane, false));
    window.addEventListener("hashchange", () => go(addressed(), false));
    window.addEventListener("resize", () => showPane(narrow() ? document.body.dataset.pane : document.body.dataset.side, false));
    root.dataset.ready = String(Math.round(performance.now()));
    setTimeout(() => {  // after the first paint: a graph of a thousand blocks takes longer than everything else
      drawGraph();
      setZoom("fit");
      if (zoom < 0.78) setZoom(0.78);
      markBox(); drawPaths();
      root.dataset.drawn = String(Math.round(performance.now()));
    });
  };
  begin();
})();
