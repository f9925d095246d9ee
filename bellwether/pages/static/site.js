"use strict";
// Charts, sorting, paging, filters and search. Untrusted text is only ever set as text.
const bellwether = (() => {
  const root = document.body.dataset.root;
  const loaded = new Map(), waiting = new Map();

  /** The value of a data script, by its path from the root without `.js`; a script is loaded once. */
  function load(path) {
    if (!loaded.has(path)) {
      loaded.set(path, new Promise((resolve, reject) => {
        waiting.set(path, resolve);
        const script = document.createElement("script");
        script.src = root + path.split("/").map(encodeURIComponent).join("/") + ".js";
        script.onerror = () => reject(new Error("cannot load " + path));
        document.head.append(script);
      }));
    }
    return loaded.get(path);
  }

  function put(path, value) { waiting.get(path)?.(value); }

  function element(tag, text, attributes = {}) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  }

  const json = (holder) => JSON.parse(holder.querySelector("script").textContent);

  // --- sorting --------------------------------------------------------------------------------------------------------

  /** Missing values are last in either order. */
  function compare(one, other, sign) {
    const lacks = [one, other].map((value) => value === null || value === undefined);
    if (lacks[0] || lacks[1]) return lacks[0] - lacks[1];
    if (typeof one === "number" && typeof other === "number") return sign * (one - other);
    one = String(one); other = String(other);
    return sign * (one < other ? -1 : one > other ? 1 : 0);
  }

  function sortable(table, sort) {
    table.querySelectorAll("thead th").forEach((head, column) => {
      const button = element("button", head.textContent, { type: "button" });
      if (head.title) button.title = head.title;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const order = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
        table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        sort(column, order === "ascending" ? 1 : -1);
      });
    });
  }

  function sortRows(table) {
    const numbers = [...table.querySelectorAll("thead th")].map((head) => head.classList.contains("n"));
    sortable(table, (column, sign) => {
      const key = (row) => {
        const value = row.cells[column]?.dataset.key;
        return value === undefined ? null : numbers[column] ? Number(value) : value;
      };
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort((one, other) => compare(key(one), key(other), sign)));
    });
  }

  // --- grids ----------------------------------------------------------------------------------------------------------

  function grid(holder) {
    const about = json(holder), table = holder.querySelector("table"), pages = holder.querySelector(".pages");
    const isNarrow = about.leading && matchMedia("(max-width: 40rem)").matches;
    const hidden = new Set(isNarrow ? about.heads.keys().filter((number) => number >= about.leading) : about.hidden);
    const state = { page: 0, sort: null, sign: 1, words: "", chosen: { ...about.chosen }, order: null, turn: 0 };
    const isSmall = about.rows <= about.chunk;
    const column = (number) => isSmall ? load(about.path).then((all) => all.columns[number]) : load(`${about.path}.c${number}`);
    const chunk = (number) => isSmall ? load(about.path).then((all) => all.rows) : load(`${about.path}.r${number}`);

    /** Numbers of the rows that match, in order; only the columns that are asked about are loaded. */
    async function ordered() {
      let rows = Array.from({ length: about.rows }, (_, number) => number);
      for (const [number, value] of Object.entries(state.chosen)) {
        const values = await column(number);
        rows = rows.filter((row) => String(values[row]) === value);
      }
      if (state.words) {
        const texts = await Promise.all(about.search.map(column)), words = state.words.toLowerCase();
        rows = rows.filter((row) => texts.some((values) => String(values[row] ?? "").toLowerCase().includes(words)));
      }
      if (state.sort !== null) {
        const values = await column(state.sort);
        rows.sort((one, other) => compare(values[one], values[other], state.sign) || one - other);
      }
      return rows;
    }

    async function show(again) {
      const turn = ++state.turn;
      if (again || !state.order) state.order = await ordered();
      const first = state.page * about.shown, rows = state.order.slice(first, first + about.shown);
      const chunks = new Map();
      for (const number of new Set(rows.map((row) => Math.floor(row / about.chunk)))) chunks.set(number, await chunk(number));
      if (turn !== state.turn) return;
      table.tBodies[0].replaceChildren(...rows.map((row) => line(chunks.get(Math.floor(row / about.chunk))[row % about.chunk])));
      if (!rows.length) table.tBodies[0].append(element("tr"));
      if (!rows.length) table.tBodies[0].rows[0].append(element("td", "nothing matches", { colspan: about.heads.length }));
      const last = Math.max(0, Math.ceil(state.order.length / about.shown) - 1);
      status.textContent = `${state.order.length ? first + 1 : 0}–${first + rows.length} of ${state.order.length.toLocaleString("en")}`;
      back.disabled = state.page === 0; next.disabled = state.page >= last;
    }

    function line(values) {
      const row = element("tr");
      values.forEach((value, number) => {
        const [text, href, title, note, bar] = Array.isArray(value) ? value : [value];
        const cell = element("td");
        if (about.numbers[number]) cell.className = "n"; else if (text.length > 20) cell.className = text.length > 40 ? "t" : "m";
        if (title) cell.title = title;
        if (href) cell.append(element("a", text, { href: root + href })); else cell.textContent = text;
        if (note) cell.append(" ", element("small", note));
        if (bar) cell.append(drawBar(...bar));
        cell.hidden = hidden.has(number);
        row.append(cell);
      });
      return row;
    }

    const change = (again) => { if (again) state.page = 0; show(again).catch((error) => { status.textContent = error.message; }); };
    const controls = holder.querySelector(".controls");
    if (about.search.length) {
      const label = element("label", "Search "), input = element("input", undefined, { type: "search", autocomplete: "off" });
      input.addEventListener("input", () => { state.words = input.value; change(true); });
      label.append(input); controls.append(label);
    }
    for (const [number, values] of Object.entries(about.choices)) {
      const label = element("label", about.heads[number] + " "), select = element("select");
      select.append(new Option("all", ""));
      values.forEach((value, place) => select.append(new Option(value, String(place + 1), false, value === about.chosen[number])));
      select.addEventListener("change", () => {
        if (select.value) state.chosen[number] = values[Number(select.value) - 1]; else delete state.chosen[number];
        change(true);
      });
      label.append(select); controls.append(label);
    }
    if (about.leading) controls.append(columns(about.heads, hidden, () => {
      for (const row of table.rows) for (const cell of row.cells) cell.hidden = hidden.has(cell.cellIndex);
    }));
    const status = element("span", "", { role: "status" });
    const back = element("button", "Previous", { type: "button" }), next = element("button", "Next", { type: "button" });
    back.addEventListener("click", () => { state.page -= 1; change(false); });
    next.addEventListener("click", () => { state.page += 1; change(false); });
    pages.append(back, status, next);
    sortable(table, (number, sign) => { state.sort = number; state.sign = sign; change(true); });
    status.textContent = `1–${Math.min(about.shown, about.matching)} of ${about.matching.toLocaleString("en")}`;
    back.disabled = true; next.disabled = about.matching <= about.shown;
  }

  /** An interval as SVG, like `_bar` of the renderer. */
  function drawBar(lower, value, upper, reference) {
    const make = (tag, attributes) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, own] of Object.entries(attributes)) made.setAttribute(name, own);
      return made;
    };
    const bar = make("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" });
    if (reference !== null) bar.append(make("line", { class: "r", x1: reference, x2: reference, y1: 0, y2: 8 }));
    bar.append(make("line", { class: "i", x1: Math.max(0, lower), x2: Math.min(100, upper), y1: 4, y2: 4 }));
    bar.append(make("line", { class: "v", x1: value, x2: value, y1: 0, y2: 8 }));
    return bar;
  }

  /** The picker of visible columns. hidden: numbers of the hidden columns, which it changes. */
  function columns(heads, hidden, change) {
    const holder = element("details", undefined, { class: "columns" }), list = element("div");
    holder.append(element("summary", "Columns"), list);
    heads.forEach((head, number) => {
      const label = element("label"), box = element("input", undefined, { type: "checkbox" });
      box.checked = !hidden.has(number);
      box.addEventListener("change", () => { if (box.checked) hidden.delete(number); else hidden.add(number); change(); });
      label.append(box, document.createTextNode(head)); list.append(label);
    });
    change();
    return holder;
  }

  // --- charts ---------------------------------------------------------------------------------------------------------

  let library = null;
  function vega() {
    library ??= window.vegaEmbed ? Promise.resolve() : new Promise((resolve, reject) => {
      const script = element("script", undefined, { src: root + "static/vega.js" });
      script.onload = resolve; script.onerror = () => reject(new Error("cannot load the chart library"));
      document.head.append(script);
    });
    return library;
  }

  function config(width) {
    const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
    const axis = { labelColor: colour("--soft"), titleColor: colour("--soft"), gridColor: colour("--rule"), domainColor: colour("--rule"), tickColor: colour("--rule"), labelLimit: Math.min(220, width * .33), titleFontWeight: "normal", labelFlush: false, labelOverlap: true, labelSeparation: 6 };
    return {
      background: "transparent", font: "system-ui, sans-serif", view: { stroke: null }, axis,
      axisTemporal: { tickCount: Math.max(3, Math.min(10, Math.round(width / 90))) },
      axisQuantitative: { tickCount: Math.max(3, Math.min(8, Math.round(width / 90))) },
      legend: { labelColor: colour("--soft"), titleColor: colour("--soft"), labelLimit: 160, orient: "bottom", columns: width < 500 ? 2 : 4 },
      header: { labelColor: colour("--soft"), titleColor: colour("--soft") },
      text: { color: colour("--ink") }, rule: { color: colour("--soft") },
      range: { heatmap: { scheme: "blueorange" } },
      style: { ink: { fill: colour("--ink"), stroke: colour("--paper"), strokeWidth: .6 } },
    };
  }

  const RANGES = [["10M", 1 / 144], ["1H", 1 / 24], ["1D", 1], ["1W", 7], ["1M", 30], ["3M", 91]];

  /** Buttons for the last minutes to months of a chart over time: those that show a part of it, and more than two instants. */
  function ranges(canvas, times, change) {
    const end = times.reduce((one, other) => Math.max(one, other), -Infinity), begin = times.reduce((one, other) => Math.min(one, other), Infinity);
    const shown = RANGES.map(([name, days]) => [name, end - days * 864e5]).filter(([, start]) => start > begin + (end - begin) * .1 && new Set(times.filter((at) => at >= start)).size > 2);
    if (!shown.length) return;
    const holder = element("div", undefined, { class: "controls ranges" });
    for (const [name, start] of [...shown, ["ALL", -Infinity]]) {
      const button = element("button", name, { type: "button", "aria-pressed": String(name === "ALL") });
      button.addEventListener("click", () => {
        for (const other of holder.children) other.setAttribute("aria-pressed", String(other === button));
        change(start);
      });
      holder.append(button);
    }
    canvas.before(holder);
  }

  const LABELS = { n: "count", low: "from", high: "to", until: "until", way: "direction", what: "fill, in words", fill: "fill price", other: "compared with" };

  /** The title of an axis for its field, and words for other fields of a chart. */
  function label(spec, field) {
    for (const layer of spec.layer ?? [spec]) {
      for (const channel of ["x", "y"]) {
        const encoding = layer.encoding?.[channel];
        if (encoding?.field === field && encoding.title && (field === "x" || field === "y")) return encoding.title;
      }
    }
    return LABELS[field] ?? field.replaceAll("_", " ");
  }

  async function chart(holder) {
    const canvas = holder.querySelector(".canvas"), picks = holder.querySelector(".picks"), data = holder.querySelector(".data");
    let about = json(holder), view = null, width = 0;
    if (about.path) about = (await load(about.path))[about.place];
    const by = about.by;
    const values = about.rows.map((row) => Object.fromEntries(about.fields.map((field, place) => [field, row[place]])));
    const names = by ? [...new Set(values.map((row) => row[by]).filter((name) => name !== undefined))] : [];
    const chosen = new Set(about.first.length ? about.first : names);
    let from = -Infinity;
    if (about.spec.layer?.some((layer) => layer.encoding?.x?.type === "temporal")) {
      ranges(canvas, values.map((row) => Date.parse(row.x)), (start) => { from = start; draw(); });
    }

    async function draw() {
      await vega();
      width = canvas.clientWidth;
      const spec = structuredClone(about.spec);
      const kept = from === -Infinity ? values : values.filter((row) => Date.parse(row.x) >= from);
      spec.data = { values: !by ? kept : kept.filter((row) => row[by] === undefined || chosen.has(row[by])) };
      view?.finalize();
      view = await window.vegaEmbed(canvas, { ...spec, width: "container" }, { mode: "vega-lite", ast: true, renderer: "svg", actions: false, defaultStyle: false, tooltip: { disableDefaultStyle: true }, config: config(width) });
      canvas.querySelector("svg")?.setAttribute("aria-hidden", "true");
    }

    const colours = about.colours;
    for (const name of names.length > 1 ? names : []) {
      const label = element("label"), box = element("input", undefined, { type: "checkbox" }), swatch = element("span", undefined, { class: "swatch" });
      box.checked = chosen.has(name);
      swatch.style.backgroundColor = colours[name] ?? "";
      if (about.dashes?.[name]) swatch.classList.add("d" + about.dashes[name]);
      box.addEventListener("change", () => { if (box.checked) chosen.add(name); else chosen.delete(name); draw(); });
      label.append(box, ...(colours[name] ? [swatch] : []), document.createTextNode(name)); picks.append(label);
    }
    const fill = () => {
      const wide = data.querySelector(".wide");
      if (!data.open || wide.firstChild) return;
      const heads = [...new Set(values.flatMap((row) => Object.keys(row)))], table = element("table"), head = element("tr");
      table.append(element("caption", holder.querySelector("figcaption").textContent));
      heads.forEach((name) => head.append(element("th", label(about.spec, name), { scope: "col" })));
      table.createTHead().append(head);
      const body = table.createTBody();
      for (const row of values) {
        const made = element("tr");
        heads.forEach((name) => made.append(element("td", row[name] === null || row[name] === undefined ? "–" : String(row[name]))));
        body.append(made);
      }
      wide.append(table);
    };
    data.addEventListener("toggle", fill);
    fill();
    await draw();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    let timer = 0;
    new ResizeObserver(() => { if (Math.abs(canvas.clientWidth - width) > 40) { clearTimeout(timer); timer = setTimeout(draw, 150); } }).observe(canvas);
  }

  // --- long texts -----------------------------------------------------------------------------------------------------

  function more(holder) {
    holder.querySelector("button").addEventListener("click", async () => {
      holder.previousElementSibling.textContent = await load(json(holder).path);
      holder.remove();
    });
  }

  /** Texts that are loaded when one of them is opened, by a click or by its address. */
  function texts(holder) {
    const path = json(holder).path, all = [...holder.querySelectorAll("details")];
    all.forEach((details, number) => details.addEventListener("toggle", async () => {
      if (!details.open || details.dataset.shown) return;
      details.dataset.shown = "yes";
      const shown = await load(path);
      for (const [label, place, rest] of shown.entries[number]) {
        const end = rest ? await load(rest) : "";
        details.append(element("h3", label), element("pre", shown.texts[place] + end, { tabindex: "0" }));
      }
    }));
    const open = () => {
      const found = all.find((details) => details.id === decodeURIComponent(location.hash.slice(1)));
      if (!found) return;
      found.open = true;
      found.scrollIntoView();
      // Charts above it get their height later: the text stays in view until the reader moves.
      const keep = new ResizeObserver(() => found.scrollIntoView());
      keep.observe(document.body);
      for (const name of ["wheel", "touchstart", "keydown", "pointerdown"]) window.addEventListener(name, () => keep.disconnect(), { once: true, passive: true });
    };
    window.addEventListener("hashchange", open);
    open();
  }

  // --- age of the publication -----------------------------------------------------------------------------------------

  function warnOfAge() {
    const style = getComputedStyle(document.documentElement), hours = Number(style.getPropertyValue("--max-age-hours"));
    const published = style.getPropertyValue("--published").trim().slice(1, -1);
    if (!(Date.now() - Date.parse(published) > hours * 3600e3)) return;
    const at = published.slice(0, 16).replace("T", " ");
    document.body.prepend(element("p", `Out of date: published ${at} UTC, more than ${hours} hours ago.`, { class: "banner", role: "alert" }));
  }

  warnOfAge();
  document.querySelectorAll(".sortable table").forEach(sortRows);
  document.querySelectorAll(".texts").forEach(texts);
  document.querySelectorAll(".grid").forEach(grid);
  document.querySelectorAll(".more").forEach(more);
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) show(entry.target);
    }
  }, { rootMargin: "400px" });
  const unseen = new Set(document.querySelectorAll(".chart"));
  function show(holder) {
    if (!unseen.delete(holder)) return;
    seen.unobserve(holder);
    chart(holder).catch((error) => { holder.querySelector(".canvas").textContent = "The chart cannot be drawn: " + error.message; });
  }
  unseen.forEach((holder) => seen.observe(holder));
  // Drawing takes longer than a browser waits before it prints: charts out of view are drawn when it has nothing else to do.
  const idle = window.requestIdleCallback ?? ((draw) => setTimeout(draw, 200));
  const drawNext = () => { if (unseen.size) { show(unseen.values().next().value); idle(drawNext); } };
  window.addEventListener("load", () => idle(drawNext));
  return { put };
})();
