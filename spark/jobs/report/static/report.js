"use strict";
// Draws every chart from the data embedded in the page. No library: a few kinds of SVG, one tooltip, one theme switch.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { windows, queues, windowMs } = data;
  const NS = "http://www.w3.org/2000/svg";
  const COLOURS = 8;
  const colour = (at) => `var(--c${at % COLOURS})`;
  const byId = (id) => document.getElementById(id);
  const hidden = new Set(queues.map((_, at) => at).filter((at) => at >= COLOURS));
  const PER_DOUBLING = 4;

  // Number formats
  const trim = (value, digits = 3) => String(Number(value.toPrecision(digits)));
  function number(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size >= 1e9) return trim(value / 1e9) + " G";
    if (size >= 1e6) return trim(value / 1e6) + " M";
    if (size >= 1e4) return trim(value / 1e3) + " k";
    return size >= 1000 ? Math.round(value).toLocaleString("en") : trim(value);
  }
  function time(us) {
    if (us === null || us === undefined) return "–";
    if (us < 1) return "< 1 ms"; // the broker's clock has milliseconds
    if (us < 1e3) return trim(us) + " µs";
    if (us < 1e6) return trim(us / 1e3) + " ms";
    return us < 12e7 ? trim(us / 1e6) + " s" : trim(us / 6e7) + " min";
  }
  const percent = (value) => trim(value * 100) + " %";
  const bytes = (value) => number(value) + "B";
  function clock(ms, long = false) {
    const iso = new Date(ms).toISOString();
    const seconds = windowMs % 60000 ? iso.slice(11, 19) : iso.slice(11, 16);
    return long || windows.at(-1) - windows[0] > 864e5 ? iso.slice(5, 10) + " " + seconds : seconds;
  }
  const span = (at) => `${clock(windows[at])} – ${clock(windows[at] + windowMs)} UTC`;
  const SIGNALS = {
    backlog_growth: ["backlog growth", number], wait_p95: ["p95 of waits", time], redelivery_rate: ["redeliveries", percent],
    dead_letter_rate: ["dead letters", percent], throughput_drop: ["throughput", (value) => number(value) + "/s"],
  };

  // SVG
  function el(name, attributes, ...children) {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes || {})) if (value !== undefined) made.setAttribute(key, value);
    for (const child of children.flat()) if (child !== null) made.append(child);
    return made;
  }
  const label = (x, y, text, more) => el("text", { x, y, ...more }, text);
  function canvas(id, height, said) {
    const figure = byId(id);
    const width = Math.max(280, figure.clientWidth);
    const svg = el("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said, tabindex: 0 });
    figure.replaceChildren(svg);
    return { figure, svg, width };
  }
  function empty(id, text) {
    const note = document.createElement("p");
    note.className = "empty";
    note.textContent = text;
    byId(id).replaceChildren(note);
  }

  // Scales
  function ticks(top, count) {
    const rough = top / count;
    const size = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((each) => each * size).find((each) => each >= rough);
    const found = [];
    for (let value = 0; value < top + step * 0.999; value += step) found.push(value);
    return found;
  }
  function linear(top, low, high) {
    const marks = ticks(top > 0 ? top : 1, 4);
    const last = marks.at(-1);
    return { marks, y: (value) => low + (high - low) * (value / last) };
  }
  function logarithmic(least, most, low, high) {
    const first = Math.floor(Math.log10(Math.max(least, 0.1)));
    const last = Math.max(first + 1, Math.ceil(Math.log10(Math.max(most, 0.1) * 1.0001)));
    const marks = Array.from({ length: last - first + 1 }, (_, at) => 10 ** (first + at));
    const y = (value) => low + ((high - low) * (Math.log10(Math.max(value, 10 ** first)) - first)) / (last - first);
    return { marks, y };
  }
  function timeMarks(width) {
    const most = Math.max(2, Math.floor(width / 95));
    const step = Math.max(1, Math.ceil(windows.length / most));
    return windows.map((_, at) => at).filter((at) => at % step === 0);
  }

  // The tooltip
  const tip = byId("tip");
  function showTip(event, title, rows) {
    const head = document.createElement("b");
    head.textContent = title;
    const lines = rows.map(([name, value, key, kind]) => {
      const line = document.createElement("div");
      if (kind) line.className = kind;
      if (key) {
        const swatch = document.createElement("i");
        swatch.style.setProperty("--k", key);
        line.append(swatch);
      }
      const what = document.createElement("span");
      what.textContent = name;
      const much = document.createElement("strong");
      much.textContent = value;
      line.append(what, much);
      return line;
    });
    tip.replaceChildren(head, ...lines);
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = event.clientX + 16 + width > innerWidth ? event.clientX - width - 16 : event.clientX + 16;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, Math.min(event.clientY - height / 2, innerHeight - height - 4)) + "px";
  }
  const hideTip = () => { tip.hidden = true; };
  function onPoint(target, title, rows) {
    target.addEventListener("pointermove", (event) => showTip(event, title, rows));
    target.addEventListener("pointerleave", hideTip);
  }

  // Lines over time
  const LEFT = 58, RIGHT = 14, TOP = 16, BOTTOM = 26;
  function lines(id, { height = 250, said, series, format, log = false, extra = () => [], marks = [], area = false, named = false }) {
    const values = series.flatMap((each) => each.values.filter((value) => value !== null));
    if (!values.length) return empty(id, "Nothing to show.");
    const { svg, width } = canvas(id, height, said);
    const wide = width - LEFT - RIGHT;
    const x = (at) => LEFT + (windows.length > 1 ? (wide * at) / (windows.length - 1) : wide / 2);
    const positive = values.filter((value) => value > 0);
    const scale = log
      ? logarithmic(Math.min(...(positive.length ? positive : [1])), Math.max(...values), height - BOTTOM, TOP)
      : linear(Math.max(...values), height - BOTTOM, TOP);
    for (const mark of scale.marks) {
      const y = scale.y(mark);
      svg.append(el("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }));
      svg.append(label(LEFT - 8, y + 4, format(mark), { "text-anchor": "end" }));
    }
    for (const at of timeMarks(wide)) svg.append(label(x(at), height - 7, clock(windows[at]), { "text-anchor": at === windows.length - 1 ? "end" : "middle" }));
    if (named) series.forEach((each, at) => {
      const left = width - RIGHT - (series.length - at) * 52;
      svg.append(el("line", { x1: left, x2: left + 16, y1: 4, y2: 4, stroke: each.colour, "stroke-width": each.width, "stroke-dasharray": each.dash }));
      svg.append(label(left + 21, 8, each.name));
    });
    for (const each of series) {
      for (const run of runs(each.values)) {
        const points = run.map(([at, value]) => `${x(at).toFixed(1)},${scale.y(value).toFixed(1)}`);
        if (run.length === 1) svg.append(el("circle", { cx: x(run[0][0]), cy: scale.y(run[0][1]), r: 2.5, fill: each.colour }));
        if (area && each.area) {
          const ground = scale.y(scale.marks[0]);
          const closed = `${x(run[0][0])},${ground} ${points.join(" ")} ${x(run.at(-1)[0])},${ground}`;
          svg.append(el("polygon", { points: closed, fill: each.colour, opacity: 0.12 }));
        }
        svg.append(el("polyline", { points: points.join(" "), fill: "none", stroke: each.colour, "stroke-width": each.width || 2,
          "stroke-linejoin": "round", "stroke-dasharray": each.dash }));
      }
    }
    for (const mark of marks) {
      const value = mark.values[mark.at];
      const [px, py] = [x(mark.at), scale.y(value === null ? scale.marks[0] : value)];
      svg.append(el("path", { class: "mark " + mark.severity, d: `M${px},${py - 7}l6,7l-6,7l-6,-7z` }));
    }
    const cross = el("line", { class: "cross", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
    svg.append(cross, el("rect", { x: LEFT, y: 0, width: wide, height, fill: "transparent" }));
    follow(svg, wide, (event, at) => {
      cross.setAttribute("x1", x(at));
      cross.setAttribute("x2", x(at));
      cross.setAttribute("visibility", "visible");
      const rows = series.map((each) => [each.name, format(each.values[at]), each.colour, "", each.values[at]]);
      if (!log) rows.sort((one, other) => (other[4] || 0) - (one[4] || 0));
      showTip(event, span(at), [...rows.slice(0, 12), ...extra(at)]);
    }, () => cross.setAttribute("visibility", "hidden"));
  }
  function runs(values) {
    const found = [];
    let run = [];
    values.forEach((value, at) => {
      if (value !== null) run.push([at, value]);
      else if (run.length) { found.push(run); run = []; }
    });
    if (run.length) found.push(run);
    return found;
  }
  // The window below the pointer; on the keyboard, the arrow keys move it.
  function follow(svg, wide, show, hide) {
    let here = 0;
    const last = windows.length - 1;
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const inside = ((event.clientX - box.left) / box.width) * (wide + LEFT + RIGHT) - LEFT;
      here = Math.max(0, Math.min(last, Math.round((inside / wide) * last)));
      show(event, here);
    });
    const leave = () => { hide(); hideTip(); };
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.preventDefault();
      here = Math.max(0, Math.min(last, here + (event.key === "ArrowRight" ? 1 : -1)));
      const box = svg.getBoundingClientRect();
      const clientX = box.left + ((LEFT + (wide * here) / Math.max(1, last)) / (wide + LEFT + RIGHT)) * box.width;
      show({ clientX, clientY: box.top + box.height / 2 }, here);
    });
  }

  // Throughput
  const FLOWS = [
    ["Delivered", "delivered_per_s", (value) => number(value) + "/s", ["throughput_drop"]],
    ["Enqueued", "enqueued_per_s", (value) => number(value) + "/s", []],
    ["Bytes out", "bytes_out_per_s", (value) => bytes(value) + "/s", []],
    ["Backlog", "depth", number, ["backlog_growth"]],
    ["Redelivered", "redelivered", number, ["redelivery_rate"]],
    ["Dead letters", "dead_lettered", number, ["dead_letter_rate"]],
  ];
  let flow = 0;
  let isLog = false;
  const oddAt = (name, at, signals) =>
    data.anomalies.filter((each) => each.at === at && (!name || each.name === name) && (!signals || signals.includes(each.signal)));
  const sayOdd = (each) => {
    const [what, format] = SIGNALS[each.signal];
    return [`◆ ${each.name}: ${what}`, `${format(each.value)}, usually ${format(each.median)}`, "", "odd"];
  };
  function drawFlow() {
    const [title, column, format, signals] = FLOWS[flow];
    const shown = queues.map((queue, at) => ({ queue, at })).filter(({ at }) => !hidden.has(at));
    lines("flow", {
      height: 290, format, log: isLog, said: `${title} of each queue over time`, area: shown.length === 1,
      series: shown.map(({ queue, at }) => ({ name: queue.name, values: queue.series[column], colour: colour(at), area: true })),
      marks: shown.flatMap(({ queue }) => data.anomalies.filter((each) => each.name === queue.name && signals.includes(each.signal))
        .map((each) => ({ ...each, values: queue.series[column] }))),
      extra: (at) => oddAt(null, at, null).filter((each) => shown.some(({ queue }) => queue.name === each.name)).slice(0, 4).map(sayOdd),
    });
  }
  function drawTabs() {
    const log = document.createElement("button");
    log.type = "button";
    log.textContent = "log";
    log.title = "Logarithmic scale";
    log.className = "apart";
    log.setAttribute("aria-pressed", isLog);
    log.addEventListener("click", () => { isLog = !isLog; drawTabs(); drawFlow(); });
    byId("flow-tabs").replaceChildren(...FLOWS.map(([name], at) => {
      const tab = document.createElement("button");
      tab.type = "button";
      tab.textContent = name;
      tab.setAttribute("aria-pressed", at === flow);
      tab.addEventListener("click", () => { flow = at; drawTabs(); drawFlow(); });
      return tab;
    }), log);
  }
  function drawLegend() {
    byId("legend").replaceChildren(...queues.slice(0, 40).map((queue, at) => {
      const chip = document.createElement("button");
      chip.type = "button";
      const swatch = document.createElement("i");
      swatch.style.setProperty("--k", colour(at));
      chip.append(swatch, queue.name);
      chip.setAttribute("aria-pressed", !hidden.has(at));
      chip.addEventListener("click", () => { hidden.has(at) ? hidden.delete(at) : hidden.add(at); drawLegend(); drawFlow(); });
      chip.addEventListener("dblclick", () => {
        const alone = queues.every((_, other) => other === at || hidden.has(other));
        queues.forEach((_, other) => (alone || other === at ? hidden.delete(other) : hidden.add(other)));
        drawLegend();
        drawFlow();
      });
      return chip;
    }));
  }

  // Times of one queue
  const PARTS = [["p99", "var(--c6)", 1.5, "5 3"], ["p95", "var(--c1)", 2], ["p50", "var(--c0)", 2.5]];
  function drawTimes() {
    const queue = queues[Number(byId("queue").value) || 0];
    if (!queue) return;
    for (const kind of ["wait", "proc"]) {
      lines(kind, {
        height: 220, log: true, named: true, format: time, said: `Percentiles of ${kind === "wait" ? "waits" : "processing times"} of ${queue.name} over time`,
        series: PARTS.map(([part, key, width, dash]) => ({ name: part, values: queue.series[`${kind}_${part}_us`], colour: key, width, dash })),
        marks: kind === "wait" ? data.anomalies.filter((each) => each.name === queue.name && each.signal === "wait_p95")
          .map((each) => ({ ...each, values: queue.series.wait_p95_us })) : [],
        extra: (at) => [["longest", time(queue.series[`${kind}_max_us`][at]), ""], ...oddAt(queue.name, at, kind === "wait" ? ["wait_p95"] : []).map(sayOdd)],
      });
      spread(`${kind}-spread`, queue, kind);
    }
  }
  const edge = (bucket) => 2 ** (bucket / PER_DOUBLING) - 1;
  function spread(id, queue, kind) {
    const counts = queue.histograms[kind];
    const buckets = Object.keys(counts).map(Number);
    if (!buckets.length) return empty(id, "No times were measured.");
    const height = 170;
    const { svg, width } = canvas(id, height, `How ${kind === "wait" ? "waits" : "processing times"} of ${queue.name} are spread`);
    const first = Math.min(...buckets), last = Math.max(...buckets);
    const total = buckets.reduce((sum, bucket) => sum + counts[bucket], 0);
    const wide = (width - LEFT - RIGHT) / (last - first + 1);
    const scale = linear(Math.max(...buckets.map((bucket) => counts[bucket])), height - BOTTOM, TOP);
    for (const mark of scale.marks) {
      svg.append(el("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: scale.y(mark), y2: scale.y(mark) }));
      svg.append(label(LEFT - 8, scale.y(mark) + 4, number(mark), { "text-anchor": "end" }));
    }
    let seen = 0;
    for (let bucket = first; bucket <= last; bucket++) {
      const count = counts[bucket] || 0;
      seen += count;
      const x = LEFT + (bucket - first) * wide;
      if (count) {
        const bar = el("rect", { x: x + 0.5, y: scale.y(count), width: Math.max(1, wide - 1), height: scale.y(0) - scale.y(count), rx: 1.5, fill: kind === "wait" ? "var(--c0)" : "var(--c2)" });
        onPoint(bar, `${time(edge(bucket))} – ${time(edge(bucket + 1))}`, [["messages", number(count), ""], ["this long at most", percent(seen / total), ""]]);
        svg.append(bar);
      }
    }
    const step = Math.ceil(((last - first + 1) * 70) / (width - LEFT - RIGHT));
    for (let bucket = first; bucket <= last; bucket += step)
      svg.append(label(LEFT + (bucket - first) * wide, height - 7, time(edge(bucket)), { "text-anchor": "middle" }));
  }

  // Waits by priority
  const HEATS = 6;
  function drawHeat() {
    const rows = queues.slice(0, 12).flatMap((queue) => queue.priorities.map((lane) => ({ queue, lane, several: queue.priorities.length > 1 })));
    const known = rows.flatMap(({ lane }) => lane.wait_p95_us.filter((value) => value !== null));
    if (!known.length) return empty("heat", "No waits were measured.");
    const LINE = 22, GAP = 8, HEAD = 30;
    let y = HEAD;
    const places = rows.map(({ queue }, at) => {
      if (at && rows[at - 1].queue !== queue) y += GAP;
      y += LINE;
      return y - LINE;
    });
    const height = y + BOTTOM;
    const { svg, width } = canvas("heat", height, "p95 of waits of each priority over time");
    svg.append(el("defs", {}, el("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      el("rect", { width: 6, height: 6, fill: "var(--bad-bg)" }), el("line", { x1: 0, x2: 0, y1: 0, y2: 6, stroke: "var(--bad)", "stroke-width": 1.6, opacity: 0.55 }))));
    const names = Math.min(170, width * 0.3);
    const cell = (width - names - RIGHT) / windows.length;
    const low = Math.log(Math.max(1e3, Math.min(...known))), high = Math.log(Math.max(...known, 1e4));
    const heat = (value) => `var(--h${Math.min(HEATS - 1, Math.floor(((Math.log(Math.max(value, 1e3)) - low) / Math.max(high - low, 0.1)) * HEATS))})`;
    rows.forEach(({ queue, lane, several }, row) => {
      const top = places[row];
      const text = label(names - 10, top + 15, several ? `${cut(queue.name, 16)} · ${lane.priority}` : cut(queue.name, 20), { "text-anchor": "end", class: "name" });
      text.append(el("title", {}, `${queue.name}, priority ${lane.priority}`));
      svg.append(text);
      svg.append(el("rect", { x: names, y: top, width: cell * windows.length, height: LINE - 2, fill: "var(--grid)", opacity: 0.5 }));
      lane.wait_p95_us.forEach((value, at) => {
        const starves = data.starving.some((each) => each.at === at && each.name === queue.name && each.priority === lane.priority);
        if (value === null && !starves) return;
        const box = el("rect", { x: names + at * cell, y: top, width: cell + 0.4, height: LINE - 2, fill: value === null ? "url(#hatch)" : heat(value) });
        onPoint(box, `${queue.name}, priority ${lane.priority}`, [[span(at), "", ""], ["p95 of waits", time(value), value === null ? "" : heat(value)],
          ["enqueued", number(lane.enqueued[at]), ""], ["delivered", number(lane.delivered[at]), ""], ...(starves ? [["starving", "", "", "odd"]] : [])]);
        svg.append(box);
      });
      for (const [from, to] of stretches(data.starving.filter((each) => each.name === queue.name && each.priority === lane.priority).map((each) => each.at)))
        svg.append(el("rect", { class: "hungry", x: names + from * cell, y: top + 1, width: (to - from + 1) * cell, height: LINE - 4, rx: 2, "pointer-events": "none" }));
    });
    for (const at of timeMarks(width - names - RIGHT))
      if (names + at * cell + 60 < width) svg.append(label(names + at * cell, height - 7, clock(windows[at])));
    Array.from({ length: HEATS }, (_, at) => at).forEach((at) => {
      const x = width - RIGHT - (HEATS - at) * 34;
      svg.append(el("rect", { x, y: 2, width: 34, height: 9, fill: `var(--h${at})` }));
      if (at % 2 === 0) svg.append(label(x, 23, time(Math.exp(low + ((high - low) * at) / HEATS))));
    });
  }
  const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
  function stretches(numbers) {
    const found = [];
    for (const each of [...numbers].sort((one, other) => one - other)) {
      if (found.length && each <= found.at(-1)[1] + 1) found.at(-1)[1] = each;
      else found.push([each, each]);
    }
    return found;
  }

  // Bars per queue
  const REASONS = { rejected: "var(--c1)", expired: "var(--c4)", delivery_limit: "var(--c6)", maxlen: "var(--c5)", retry_timeout: "var(--c3)", other: "var(--c7)" };
  function bars(id, rows, format, said) {
    if (!rows.length) return empty(id, "None.");
    const LINE = 30, HEAD = id === "dead" ? 26 : 4;
    const height = HEAD + rows.length * LINE + 6;
    const { svg, width } = canvas(id, height, said);
    const names = Math.min(160, width * 0.32), wide = width - names - 70;
    const most = Math.max(...rows.map((row) => row.total)) || 1;
    if (id === "dead") {
      let x = names;
      for (const reason of Object.keys(REASONS).filter((each) => rows.some((row) => row.parts.some((part) => part.name === each)))) {
        svg.append(el("rect", { x, y: 3, width: 10, height: 10, rx: 3, fill: REASONS[reason] }), label(x + 15, 12, reason));
        x += 34 + reason.length * 6.4;
      }
    }
    rows.forEach((row, at) => {
      const top = HEAD + at * LINE;
      svg.append(label(names - 10, top + 18, cut(row.name, 20), { "text-anchor": "end", class: "name" }));
      let x = names;
      for (const part of row.parts) {
        const length = (wide * part.value) / most;
        const bar = el("rect", { x, y: top + 5, width: Math.max(1, length), height: LINE - 11, rx: 2, fill: part.colour });
        onPoint(bar, row.name, [[part.name, format(part.value), part.colour], ...(part.more || [])]);
        svg.append(bar);
        x += length;
      }
      svg.append(label(x + 7, top + 18, format(row.total)));
    });
  }
  function drawFailures() {
    const dead = queues.filter((queue) => queue.totals.dead_lettered).slice(0, 15).map((queue) => ({
      name: queue.name, total: queue.totals.dead_lettered,
      parts: Object.entries(queue.dead).map(([name, value]) => ({ name, value, colour: REASONS[name] || REASONS.other, more: [["of enqueued", percent(value / Math.max(1, queue.totals.enqueued)), ""]] })),
    }));
    bars("dead", dead, number, "Dead letters of each queue, by reason");
    const again = queues.filter((queue) => queue.totals.redelivered).slice(0, 15).map((queue) => ({
      name: queue.name, total: queue.totals.redelivery_rate,
      parts: [{ name: "redeliveries", value: queue.totals.redelivery_rate, colour: "var(--c3)", more: [["in numbers", `${number(queue.totals.redelivered)} of ${number(queue.totals.delivered)}`, ""]] }],
    }));
    bars("again", again, percent, "Share of redeliveries of each queue");
  }

  // The whole page
  function drawAll() {
    drawFlow();
    drawTimes();
    drawHeat();
    drawFailures();
  }
  const chosen = byId("queue");
  queues.forEach((queue, at) => chosen.append(new Option(queue.name, at)));
  // Show the queue with the most findings first.
  const told = queues.map((queue) => data.anomalies.filter((each) => each.name === queue.name).length + data.starving.filter((each) => each.name === queue.name).length);
  chosen.value = Math.max(0, told.indexOf(Math.max(...told)));
  chosen.addEventListener("change", drawTimes);
  const root = document.documentElement;
  root.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  byId("theme").addEventListener("click", () => { root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark"; });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => { root.dataset.theme = event.matches ? "dark" : "light"; });
  let wait = 0;
  addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(drawAll, 120); });
  drawTabs();
  drawLegend();
  drawAll();
})();
