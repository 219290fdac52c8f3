/*
 * Makes a page live: charts, sortable tables, buttons that copy and save, and the comparison with
 * another report. The text and the tables are in the page without it.
 */
(() => {
  "use strict";

  const read = (name) => {
    const element = document.getElementById(`data-${name}`);
    return element === null ? null : JSON.parse(element.textContent);
  };
  const report = read("document");
  const profile = read("profile") ?? (report.lengths ? report : null);
  const thousands = (number) => number.toLocaleString("en-US");

  function make(name, text = "", attributes = {}) {
    const element = document.createElement(name);
    element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  }

  // ---- Charts -----------------------------------------------------------------------------------

  const DRAWN = {
    padding: (into) => charts.padding(into, report.strategies, report),
    tradeoff: (into) => charts.tradeoff(into, report),
    readAhead: (into) => charts.readAhead(into, report.sweep),
    ranks: (into) => charts.ranks(into, shown(), report),
    batches: drawBatches,
    lengths: drawLengths,
    classes: (into) => charts.classes(into, profile.classes),
    samplers: (into) => charts.samplers(into, report.samplers),
    coverage: (into) => charts.coverage(into, report.samplers),
    buckets: (into) => charts.buckets(into, report, profile),
    rules: (into) => charts.rules(into, report.rules),
  };

  /** Return the rows of the current setup and of the best one. */
  function shown() {
    const { current, best } = report.choice;
    return [...new Set([current, best ?? current])].map((label) =>
      report.strategies.find((row) => row.label === label),
    );
  }

  function drawBatches(into) {
    const rows = shown().filter((row) => row.first_batches?.length);
    const options = charts.batchScale(rows.map((row) => row.first_batches));
    for (const row of rows) {
      const container = into.appendChild(make("div"));
      charts.batches(container, row.first_batches, { label: row.label, ...options });
    }
  }

  /** Draw the lengths, and say what the max_length under the handle truncates. */
  async function drawLengths(into) {
    const chart = into.appendChild(make("div"));
    const words = into.appendChild(make("p", "", { "aria-live": "polite" }));
    const exact = await histogramOf(read("lengths"));
    const start = report.basis?.max_length ?? profile.suggested_max_length ?? profile.lengths.max;
    const onMove = (value) => {
      words.textContent = truncated(value, exact);
    };
    charts.lengths(chart, profile.lengths.histogram, { maxLength: start, max: profile.lengths.max, onMove });
    onMove(start);
  }

  /**
   * Return {values, counts}, the distinct lengths and how many samples have each, as `histogram` of
   * page.py packs them; null where the page has none or the browser cannot unpack them.
   */
  async function histogramOf(packed) {
    if (packed === null || !("DecompressionStream" in globalThis)) return null;
    const { values: width, counts: countWidth, data } = packed;
    const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
    const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const planes = new Uint8Array(await new Response(unpacked).arrayBuffer());
    const n = planes.length / (width + countWidth);
    const values = numbersOf(planes, n, width);
    for (let i = 1; i < n; i++) values[i] += values[i - 1];
    return { values, counts: numbersOf(planes.subarray(n * width), n, countWidth) };
  }

  /** Return n numbers of `width` bytes, of which all first bytes come first, then all second. */
  function numbersOf(planes, n, width) {
    const numbers = new Float64Array(n);
    for (let plane = 0; plane < width; plane++) {
      for (let i = 0; i < n; i++) numbers[i] += planes[plane * n + i] * 256 ** plane;
    }
    return numbers;
  }

  function truncated(most, exact) {
    let [samples, tokens] = [0, 0];
    if (exact !== null) {
      exact.values.forEach((length, i) => {
        if (length <= most) return;
        samples += exact.counts[i];
        tokens += exact.counts[i] * (length - most);
      });
    } else {
      const known = profile.truncation.find((each) => each.max_length >= most);
      if (known === undefined) return `max_length ${thousands(most)}`;
      [most, samples, tokens] = [known.max_length, known.samples, known.tokens];
    }
    const { count, sum } = profile.lengths;
    return (
      `max_length ${thousands(most)} truncates ${thousands(samples)} of ${thousands(count)} ` +
      `samples (${plot.percent(samples / count)}) and loses ${thousands(tokens)} tokens ` +
      `(${plot.percent(tokens / Math.max(sum, 1))}).`
    );
  }

  for (const figure of document.querySelectorAll("[data-chart]")) {
    figure.hidden = false;
    DRAWN[figure.dataset.chart](figure.appendChild(make("div")));
  }

  // ---- Tables -----------------------------------------------------------------------------------

  const SIGNS = /^[★●!+†\s]+/u;

  /** Return what a cell sorts by: its first number, else its text. */
  function keyOf(cell) {
    const text = cell.textContent.replace(SIGNS, "").trim();
    const number = /^[<>≤≥+-]?\s*(-?[\d,]*\.?\d+)/u.exec(text);
    return number === null ? text : Number(number[1].replaceAll(",", ""));
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a === typeof b) return a.localeCompare(b);
    return typeof a === "number" ? -1 : 1;
  }

  function makeSortable(table) {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      if (heading.tagName !== "TH") return;
      const button = make("button", heading.textContent, { type: "button" });
      heading.replaceChildren(button);
      heading.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const rises = heading.getAttribute("aria-sort") !== "ascending";
        const rows = [...table.tBodies[0].rows].map((row) => [keyOf(row.cells[column]), row]);
        rows.sort(([a], [b]) => (rises ? compare(a, b) : compare(b, a)));
        table.tBodies[0].append(...rows.map(([, row]) => row));
        for (const each of headings) if (each.ariaSort) each.ariaSort = "none";
        heading.setAttribute("aria-sort", rises ? "ascending" : "descending");
      });
    });
  }

  for (const table of document.querySelectorAll("main > section > .scroll > table")) {
    if (table.tBodies[0].rows.length > 1) makeSortable(table);
  }

  // ---- Buttons ----------------------------------------------------------------------------------

  for (const block of document.querySelectorAll(".code:not(:has(button))")) {
    block.append(make("button", "Copy", { type: "button", class: "copy" }));
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (button === null) return;
    const isDone = await isCopied(button.parentElement.querySelector("code"));
    const said = isDone ? "Copied" : "Press Ctrl+C";
    const label = (button.dataset.label ??= button.textContent);
    button.textContent = said;
    setTimeout(() => {
      button.textContent = label;
    }, 2000);
  });

  /** Copy an element's text; where a browser forbids that, as for some local files, select it. */
  async function isCopied(source) {
    try {
      await navigator.clipboard.writeText(source.textContent);
      return true;
    } catch {
      getSelection().selectAllChildren(source);
      return document.execCommand("copy");
    }
  }

  const save = document.getElementById("save");
  save.addEventListener("click", () => {
    const text = `${JSON.stringify(report, null, 2)}\n`;
    const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    make("a", "", { href: address, download: save.dataset.file }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  });

  for (const element of document.querySelectorAll(".with-script")) element.hidden = false;

  // What a reader has folded is printed too.
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });

  other.start(report, make);
})();
