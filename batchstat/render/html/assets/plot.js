/* What all charts share: words, frames, axes, lines, rows of bars, marks with a tooltip. */
const plot = (() => {
  "use strict";

  const SMALL = 560; // Below this width, in pixels, charts are laid out for a phone.
  const MOST_STOPS = 60; // Of more marks, one focusable element moves over them.
  const MOST_LETTERS = 300;

  // Numbers and names

  const format = (value) => Math.round(value).toLocaleString("en-US");

  function percent(ratio, digits = 1) {
    const text = (100 * ratio).toFixed(digits);
    const least = (10 ** -digits).toFixed(digits);
    if (ratio > 0 && Number(text) === 0) return `<${least}%`;
    if (ratio < 1 && Number(text) === 100) return `>${(100 - 10 ** -digits).toFixed(digits)}%`;
    return ratio === 0 ? "0%" : `${text}%`;
  }

  function short(value) {
    for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (value >= size) return `${Number((value / size).toPrecision(3))}${unit}`;
    }
    return `${Number(value.toPrecision(3))}`;
  }

  function times(value) {
    if (value > 0 && value < 1) return `${Number(value.toPrecision(2))}x`;
    return `${value < 10 ? Number(value.toFixed(1)) : format(value)}x`;
  }

  function counted(number, noun, plural = `${noun}s`) {
    return `${format(number)} ${number === 1 ? noun : plural}`;
  }

  const sum = (list, number = Number) => list.reduce((all, each) => all + number(each), 0);

  /* Return a name on one line, without marks that turn around what follows: it may hold any
     characters. */
  function oneLine(name, most = MOST_LETTERS) {
    // Twice as many code units hold as many letters, whatever follows.
    const letters = Array.from(String(name).slice(0, 2 * most + 2));
    const text = letters.slice(0, most).join("").replace(/[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu, " ");
    return letters.length > most ? `${text}…` : text;
  }

  /* Write as much of a name into a text element as fits. */
  function fit(node, name, room) {
    const letters = Array.from(oneLine(name));
    node.textContent = letters.join("");
    if (node.getComputedTextLength() <= room) return;
    let [low, high] = [0, letters.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      node.textContent = `${letters.slice(0, middle).join("")}…`;
      if (node.getComputedTextLength() <= room) low = middle;
      else high = middle - 1;
    }
    node.textContent = `${letters.slice(0, low).join("").trimEnd()}…`;
  }

  /* Return the values, of those that come earlier the most, whose places are `gap` apart. */
  function apart(values, place, gap) {
    const kept = [];
    for (const value of values) {
      const at = place(value);
      if (kept.every((other) => Math.abs(place(other) - at) >= gap)) kept.push(value);
    }
    return kept;
  }

  // Frames

  const drawings = new WeakMap();

  // Drawing changes heights, which an observer must not do while it reports.
  const watcher = new ResizeObserver((entries) =>
    requestAnimationFrame(() => entries.forEach((entry) => redraw(entry.target))));

  /* Call `draw(width)` on the emptied container now and whenever its width changes. */
  function show(container, draw) {
    drawings.set(container, { draw, width: 0 });
    watcher.observe(container);
    redraw(container);
  }

  function redraw(container) {
    const drawing = drawings.get(container);
    const width = container.clientWidth;
    if (!drawing || !width || drawing.width === width) return;
    drawing.width = width;
    const stops = () => [...container.querySelectorAll("[tabindex]")];
    const focused = stops().indexOf(document.activeElement);
    clear(container);
    drawing.draw(width);
    if (focused >= 0) stops()[focused]?.focus({ preventScroll: true });
  }

  function clear(container) {
    hideTooltip();
    container.replaceChildren();
  }

  /* Empty a container and return one part of it per item, side by side where there is room. */
  function panels(container, items) {
    watcher.unobserve(container);
    drawings.delete(container);
    clear(container);
    const grid = d3.select(container).append("div").attr("class", "chart-panels").node();
    return items.map(() => d3.select(grid).append("div").node());
  }

  function nothing(container, words) {
    show(container, () => note(container, words));
  }

  function note(container, words) {
    d3.select(container).append("p").attr("class", "chart-note").text(words);
  }

  /* Write what the colours mean: [class, words] each. */
  function key(container, entries) {
    const line = d3.select(container).append("p").attr("class", "chart-key");
    for (const [look, words] of entries) {
      const entry = line.append("span");
      entry.append("span").attr("class", `swatch ${look}`);
      entry.append("bdi").text(words);
    }
  }

  function title(container, words) {
    const line = d3.select(container).append("p").attr("class", "chart-title");
    line.append("bdi").text(oneLine(words, 120));
  }

  function canvas(container, width, height, words) {
    return d3.select(container).append("svg").attr("class", "chart")
      .attr("viewBox", `0 0 ${width} ${height}`)
      .attr("role", "group").attr("aria-label", oneLine(words));
  }

  function rect(parent, look, left, top, width, height) {
    return parent.append("rect").attr("class", look).attr("x", left).attr("y", top)
      .attr("width", Math.max(0, width)).attr("height", Math.max(0, height));
  }

  function text(parent, look, x, y, words, anchor = "start") {
    return parent.append("text").attr("class", look).attr("x", x).attr("y", y)
      .attr("text-anchor", anchor).text(words);
  }

  // Scales and axes

  /* Return a scale from a domain, bent by a function, to places in pixels. */
  function bent(domain, [from, to], bend, unbend) {
    const [low, high] = domain.map(bend);
    const scale = (value) => Math.round(100 * (from + ((bend(value) - low) / (high - low)) * (to - from))) / 100;
    return Object.assign(scale, {
      invert: (place) => unbend(low + ((place - from) / (to - from)) * (high - low)),
      ticks: (count) => d3.ticks(...domain, count),
    });
  }

  const linear = (domain, range) => bent(domain, range, Number, Number);
  const log = (domain, range) => bent(domain, range, Math.log, Math.exp);

  /* Draw axes with grid lines around a box {left, right, top, bottom}; `across` and `up` are
     {scale, ticks, format, label}, or null. */
  function axes(svg, box, across, up) {
    const group = svg.append("g").attr("class", "axes").attr("aria-hidden", "true");
    const { left, right, top, bottom } = box;
    for (const tick of up?.ticks ?? []) {
      const y = up.scale(tick);
      line(group, "grid", [[left, y], [right, y]]);
      text(group, "", left - 6, y + 4, up.format(tick), "end");
    }
    if (up?.label) text(group, "label", 0, up.labelTop ?? top - 12, up.label);
    line(group, "base", [[left, bottom], [right, bottom]]);
    for (const tick of across?.ticks ?? []) {
      const x = across.scale(tick);
      line(group, "base", [[x, bottom], [x, bottom + 5]]);
      text(group, "", x, bottom + 18, across.format(tick), "middle");
    }
    if (across?.label) fit(text(group, "label", right, bottom + 36, "", "end").node(), across.label, right);
  }

  /* Return an axis from 0 to a largest value, which may be 0. */
  function upTo(highest, range, words, count = 4) {
    let top = highest || 1;
    // A higher end may have wider steps, and then a higher end again.
    for (const _ of "123") {
      const step = d3.ticks(0, top, count)[1];
      top = step * Math.ceil(top / step - 1e-9);
    }
    const scale = linear([0, top], range);
    return { scale, ticks: scale.ticks(count), format: words };
  }

  /* Return ticks of whole numbers for a linear scale. */
  function wholeTicks(scale, count) {
    return scale.ticks(count).filter(Number.isInteger);
  }

  /* Return an axis with ticks in percent, with as many digits as they need. */
  function ratioTicks(axis) {
    const digits = Math.max(0, Math.ceil(-2 - Math.log10(axis.ticks[1] - axis.ticks[0]) - 1e-9));
    return { ...axis, format: (value) => `${(100 * value).toFixed(digits)}%` };
  }

  // Marks

  const told = new WeakMap();

  /* Make marks tell what they stand for, by pointer and by keyboard: {node, title, lines} each. */
  function tell(svg, marks, what) {
    for (const mark of marks) {
      told.set(mark.node, mark);
      mark.node.classList.add("mark");
      if (marks.length > MOST_STOPS) continue;
      d3.select(mark.node).attr("tabindex", "0").attr("role", "img").attr("aria-label", inWords(mark));
    }
    if (marks.length > MOST_STOPS) walk(svg, marks, what);
  }

  function inWords({ title: name, lines }) {
    return [name, ...lines].map((words) => oneLine(words)).join(", ");
  }

  /* Let the arrow keys move over marks from one focusable element. */
  function walk(svg, marks, what) {
    const [, , width, height] = svg.attr("viewBox").split(" ");
    const walker = rect(svg, "walker", 1, 1, width - 2, height - 2)
      .attr("tabindex", "0").attr("role", "slider").attr("aria-label", what)
      .attr("aria-valuemin", 1).attr("aria-valuemax", marks.length);
    let at = 0;
    const go = (to) => {
      marks[at].node.classList.remove("at");
      at = Math.min(Math.max(to, 0), marks.length - 1);
      walker.attr("aria-valuenow", at + 1).attr("aria-valuetext", inWords(marks[at]));
      return marks[at].node;
    };
    const show = (node) => {
      node.classList.add("at");
      showTooltip(node);
    };
    go(0);
    walker.on("focus", () => show(go(at)));
    walker.on("blur", () => {
      marks[at].node.classList.remove("at");
      hideTooltip();
    });
    walker.on("keydown", (event) => {
      const to = keyStep(event.key, at, 0, marks.length - 1, { down: 1, page: 10 });
      if (to === null) return;
      event.preventDefault();
      show(go(to));
    });
  }

  /* Return where a key moves to from a value, or null; `down` is what the down arrow adds. */
  function keyStep(pressed, value, low, high, { down, page }) {
    const steps = {
      ArrowRight: 1, ArrowLeft: -1, ArrowDown: down, ArrowUp: -down,
      PageDown: down * page, PageUp: -down * page,
    };
    if (pressed === "Home") return low;
    if (pressed === "End") return high;
    return pressed in steps ? Math.min(Math.max(value + steps[pressed], low), high) : null;
  }

  /* Add a full-height column around each place of a chart, which tells {title, lines}. */
  function columns(svg, box, places, tips, what) {
    const middles = places.slice(1).map((place, i) => (place + places[i]) / 2);
    const ends = [box.left, ...middles, box.right];
    const marks = tips.map((tip, i) => {
      const column = rect(svg, "column", ends[i], box.top, ends[i + 1] - ends[i], box.bottom - box.top);
      return { node: column.node(), ...tip };
    });
    tell(svg, marks, what);
  }

  let tooltip = null;

  /* Show what a mark tells beside the pointer, or else beside the mark. */
  function showTooltip(node, pointer) {
    const mark = told.get(node);
    tooltip ??= d3.select(document.body).append("div").attr("class", "chart-tooltip")
      .attr("aria-hidden", "true").node();
    tooltip.replaceChildren();
    for (const words of [mark.title, ...mark.lines]) d3.select(tooltip).append("bdi").text(oneLine(words));
    tooltip.hidden = false;
    const edges = node.getBoundingClientRect();
    const [x, y] = pointer ?? [edges.left + edges.width / 2, edges.top];
    const { offsetWidth: width, offsetHeight: height } = tooltip;
    const room = document.documentElement.clientWidth;
    const left = Math.max(4, Math.min(pointer ? x + 14 : x - width / 2, room - width - 4));
    const above = y - height - 10;
    tooltip.style.left = `${left + window.scrollX}px`;
    tooltip.style.top = `${(above > 4 ? above : pointer ? y + 18 : edges.bottom + 8) + window.scrollY}px`;
  }

  function hideTooltip() {
    if (tooltip) tooltip.hidden = true;
  }

  const markAt = (event) => event.target.closest?.(".mark");
  for (const kind of ["pointerover", "pointermove"]) {
    document.addEventListener(kind, (event) => {
      const mark = markAt(event);
      if (mark) showTooltip(mark, [event.clientX, event.clientY]);
    });
  }
  document.addEventListener("pointerout", (event) => markAt(event) && hideTooltip());
  document.documentElement.addEventListener("pointerleave", hideTooltip);
  document.addEventListener("focusin", (event) => markAt(event) && showTooltip(markAt(event)));
  document.addEventListener("focusout", (event) => markAt(event) && hideTooltip());
  document.addEventListener("keydown", (event) => event.key === "Escape" && hideTooltip());

  // Lines

  const SERIES = 7; // Colours of lines of equal rank.

  function line(parent, className, points) {
    return path(parent, className, `M${points.join("L")}`);
  }

  function path(parent, className, d) {
    return parent.append("path").attr("class", className).attr("d", d);
  }

  /* Return the look of the i-th of several lines. */
  const series = (i) => `series-${i % SERIES}${i >= SERIES ? " dashed" : ""}`;

  /* Draw lines of ratios [{name, look, points: [[x, ratio], …]}] over whole numbers `xs`; `tips` tell
     of each. Their names stand at the right, on a phone above. Return {svg, box, place}. */
  function lineChart(container, width, { words, xs, isLog, labels, highest, lines, tips, what }) {
    const isNamed = lines.length > 1 || lines[0].name;
    const room = isNamed && width >= SMALL ? Math.round(0.26 * width) : 0;
    if (isNamed && !room) key(container, lines.map(({ look, name: words }) => [look, words]));
    const bottom = 36 + Math.max(210, 15 * lines.length);
    const box = { left: 50, right: width - (room || 24), top: 36, bottom };
    const svg = canvas(container, width, bottom + 44, words);
    const [first, last] = [xs[0], xs.at(-1)];
    const domain = first === last ? [first / 2, (isLog ? 2 : 1.5) * first] : [first, last];
    const scale = (isLog ? log : linear)(domain, [box.left + 12, box.right]);
    const most = Math.max(highest, ...lines.flatMap(({ points }) => points.map(([, ratio]) => ratio)));
    const up = ratioTicks(upTo(most, [bottom, box.top]));
    const gap = 8 * format(last).length + 10;
    axes(svg, box, { scale, ticks: apart([...xs].reverse(), scale, gap), format, label: labels[0] }, { ...up, label: labels[1] });
    const place = ([x, ratio]) => [scale(x), up.scale(ratio)];
    lines.forEach(({ look, points }) => {
      line(svg, `line ${look}`, points.map(place));
      for (const point of points.length < 40 ? points : []) dot(svg, look, ...place(point), 3);
    });
    if (room) nameLines(svg, box, lines.map((each) => ({ ...each, at: place(each.points.at(-1))[1] })), room);
    columns(svg, box, xs.map(scale), tips, what);
    return { svg, box, place };
  }

  function dot(parent, look, x, y, radius) {
    parent.append("circle").attr("class", `point ${look}`).attr("cx", x).attr("cy", y).attr("r", radius);
  }

  /* Write the names of lines beside their ends, as far down as those above need. */
  function nameLines(svg, box, lines, room) {
    const sorted = [...lines].sort((a, b) => a.at - b.at);
    let last = box.top - 14;
    const middles = sorted.map(({ at }) => (last = Math.max(at, last + 14)));
    sorted.forEach(({ name: words, look }, i) => {
      const y = middles[i] - Math.max(0, last - box.bottom);
      dot(svg, look, box.right + 14, y, 4);
      const node = text(svg, "line-name", box.right + 22, y + 4, "").attr("aria-hidden", "true").node();
      fit(node, words, room - 24);
    });
  }

  // Rows of bars

  /* Draw one bar per row, with its name to the left, or above where there is little room.

     A row is {title, notes, parts: [[class, value], …], right: [words, …], lines, look, tick}: `look`
     is "best", "current" or nothing; `tick` is a value to mark on the bar. `end` is the longest
     value that is drawn in full. */
  function bars(container, width, rows, { words, end, label, what }) {
    const isSmall = width < SMALL;
    const size = isSmall ? 48 : rows.some((row) => row.notes.length) ? 42 : 28;
    const height = rows.length * size + (label ? 46 : 4);
    const svg = canvas(container, width, height, words);
    const groups = rows.map((row, i) => {
      const group = svg.append("g").attr("class", `row ${row.look ?? ""}`)
        .attr("transform", `translate(0,${i * size})`);
      rect(group, "back", 0, 1, width, size - 2);
      return group;
    });
    const rightSide = rightWords(groups, rows, width, size, isSmall);
    const room = isSmall ? width - rightSide - 24 : Math.round(0.32 * width);
    const names = rows.map((row, i) => name(groups[i], row, isSmall ? 17 : size / 2, room, isSmall));
    const left = isSmall ? 8 : Math.max(60, ...names.map((node) => node.getComputedTextLength())) + 20;
    const right = isSmall ? width - 8 : width - rightSide - 14;
    const scale = linear([0, end || 1], [left, right]);
    const [top, thick] = isSmall ? [24, 16] : [size / 2 - 9, 18];
    rows.forEach((row, i) => {
      if (!isSmall) groups[i].selectAll(".name, .note").attr("x", left - 10);
      let start = 0;
      for (const [look, value] of row.parts) {
        const from = scale(Math.min(start, end));
        rect(groups[i], look, from, top, scale(Math.min(start + value, end)) - from, thick);
        start += value;
      }
      if (start > end) cutBar(groups[i], scale(end), top, thick, short(start));
      if (row.tick !== undefined) {
        rect(groups[i], "tick-mark", scale(Math.min(row.tick, end)) - 1, top - 3, 2, thick + 6);
      }
    });
    if (label) {
      const box = { left, right, bottom: rows.length * size + 2 };
      axes(svg, box, { scale, ticks: apart(scale.ticks(isSmall ? 4 : 6), scale, 48), format: short, label });
    }
    tell(svg, rows.map((row, i) => ({ node: groups[i].node(), ...row })), what);
  }

  /* Write the words at the right of rows; return how much room they take. */
  function rightWords(groups, rows, width, size, isSmall) {
    const shown = isSmall ? 1 : Math.max(0, ...rows.map((row) => row.right.length));
    let used = 8;
    for (let i = shown - 1; i >= 0; i -= 1) {
      const nodes = rows.map((row, k) =>
        text(groups[k], "value", width - used, isSmall ? 17 : size / 2 + 4, row.right[i] ?? "", "end").node());
      used += Math.max(0, ...nodes.map((node) => node.getComputedTextLength())) + 14;
    }
    return used;
  }

  /* Write the name of a row, and its notes below; on a phone its notes behind it. Return the wider. */
  function name(group, row, y, room, isSmall) {
    const notes = row.notes.join(", ");
    const side = isSmall ? "start" : "end";
    const note = text(group, "note", 8, isSmall ? y : y + 12, notes, side).node();
    const node = text(group, "name", 8, isSmall ? y : y + (notes ? -2 : 4), "", side).node();
    const space = isSmall && notes ? note.getComputedTextLength() + 8 : 0;
    fit(node, row.title, Math.max(room - space, room / 2));
    const used = isSmall ? node.getComputedTextLength() + 8 : 0;
    if (isSmall) note.setAttribute("x", 8 + used);
    if (notes) fit(note, notes, room - used);
    return node.getComputedTextLength() > note.getComputedTextLength() ? node : note;
  }

  function cutBar(group, right, top, thick, words) {
    for (const back of [12, 18]) path(group, "cut", `M${right - back},${top + thick + 2}l4,${-thick - 4}`);
    text(group, "inside", right - 24, top + thick - 4, words, "end");
  }

  /* Return the end of the axis: what is far above all others, `least` included, is cut there. */
  function reach(values, least) {
    let end = least;
    for (const value of [...values].sort((a, b) => a - b)) {
      if (value > 2 * end && end > 0) break;
      end = Math.max(end, value);
    }
    return end;
  }

  return {
    SMALL, linear, log, sum, format, percent, short, times, counted, oneLine, fit, apart, show, panels, nothing, note, key,
    title, canvas, rect, text, axes, upTo, wholeTicks, ratioTicks, tell, columns, keyStep, bars, reach,
    line, path, series, lineChart,
  };
})();
