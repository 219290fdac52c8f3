/*
 * The what-if panel: reads the form, and shows the counts with these settings beside the report's.
 */
const panel = (() => {
  "use strict";

  const { NUMBERS } = scenarios;
  const MOST = 2 ** 31 - 1;
  const MOST_RANKS = 1_000_000;
  const STEPS = 1_000; // of a slider

  const SOURCES = {
    report: "The report's own numbers.",
    exact: "Planned in this page, exactly as batchstat plans.",
    estimate: "An estimate from the histogram of lengths, in a random order.",
    stale: "The numbers below are of the last settings that could be planned.",
  };

  // Numbers as text

  const whole = (number) => Math.round(number).toLocaleString("en-US");

  /** Return a ratio in percent; 0 and 100 only for exactly these. */
  function percent(ratio) {
    const text = (100 * ratio).toFixed(2);
    if (ratio > 0 && Number(text) === 0) return "<0.01%";
    if (ratio < 1 && Number(text) === 100) return ">99.99%";
    return ratio === 0 ? "0%" : `${text}%`;
  }

  const decimal = (number, digits) =>
    number.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const factor = (number) => `${decimal(number, 2)}x`;

  /** Return the difference of two numbers as they are shown, with its sign. */
  function difference(mine, other, { digits, times = 1, unit = "" }) {
    const shown = (number) => Number((times * number).toFixed(digits));
    const change = shown(mine) - shown(other);
    if (change === 0) return "0";
    return `${change > 0 ? "+" : "−"}${decimal(Math.abs(change), digits)}${unit}`;
  }

  const COUNT = { text: whole, digits: 0 };
  const MEAN = { text: (number) => decimal(number, 1), digits: 1 };
  const FACTOR = { text: factor, digits: 2, unit: "x" };
  const RATIO = { text: percent, digits: 2, times: 100, unit: " points" };

  /** Rows of the table: what it is called, how to get it, and how it is shown. */
  const ROWS = [
    ["padding", (of) => of.paddingRatio, RATIO],
    ["speed-up", (of) => of.speedUp, FACTOR],
    ["steps", (of) => of.steps, COUNT],
    ["batches", (of) => of.batches, COUNT],
    ["samples per batch, mean", (of) => of.samplesPerBatch.mean, MEAN],
    ["total tokens", (of) => of.totalTokens, COUNT],
    ["padding tokens", (of) => of.paddingTokens, COUNT],
    ["truncated samples", (of) => of.truncatedSamples, COUNT],
    ["truncated tokens", (of) => of.truncatedTokens, COUNT],
    ["dropped samples", (of) => of.droppedSamples, COUNT],
    ["dropped tokens", (of) => of.droppedTokens, COUNT],
    ["largest batch, total tokens", (of) => of.maxBatchTokens, COUNT],
    ["batches over budget", (of) => of.overBudgetBatches, COUNT],
    ["rank idle", (of) => of.rankIdle, RATIO],
  ];

  // Sliders

  /** Return the number at a place of a slider on a logarithmic scale, rounded to two digits. */
  function numberAt(place, [low, high]) {
    if (place === 0 || place === STEPS) return place === 0 ? low : high;
    const number = low * (high / low) ** (place / STEPS);
    return number < 100 ? Math.round(number) : Number(number.toPrecision(2));
  }

  function placeOf(number, [low, high]) {
    const within = Math.min(Math.max(number, low), high);
    return Math.round((STEPS * Math.log(within / low)) / Math.log(high / low));
  }

  /** Return the ends of each slider. */
  function rangesOf(report, corpus) {
    const { basis } = report;
    const { values, counts } = corpus.histogram;
    const samples = counts.reduce((sum, count) => sum + count, 0);
    const range = (low, high, most = MOST) => [low, Math.min(Math.max(low + 1, high), most)];
    return {
      tokens_per_batch: range(Math.min(256, basis.tokens_per_batch), 8 * basis.tokens_per_batch),
      batch_size: range(1, Math.max(256, 8 * basis.batch_size)),
      max_length: range(Math.min(16, basis.max_length), Math.max(values.at(-1), basis.max_length)),
      read_ahead: range(Math.min(100, basis.read_ahead), Math.max(samples, basis.read_ahead)),
      world_size: range(1, Math.max(64, 2 * basis.world_size), MOST_RANKS),
    };
  }

  // The page

  const element = (name) => document.getElementById(`what-if-${name}`);
  const data = (name) => JSON.parse(document.querySelector(`#data-${name}`).textContent);

  const mostOf = (name) => (name === "world_size" ? MOST_RANKS : MOST);

  function isNumber(name) {
    const number = Number(element(name).value);
    return Number.isInteger(number) && number >= 1 && number <= mostOf(name);
  }

  /** Show or remove the message at a field, and return whether its number is valid. */
  function check(name) {
    const input = element(name);
    const isValid = isNumber(name);
    const problem = element(`${name}-problem`);
    const message = isValid ? "" : `Must be a whole number from 1 to ${whole(mostOf(name))}.`;
    if (problem.textContent !== message) problem.textContent = message;
    problem.hidden = isValid;
    if (isValid) input.removeAttribute("aria-invalid");
    else input.setAttribute("aria-invalid", "true");
    return isValid;
  }

  function showTable(counts, row) {
    element("beside").textContent = `report: ${row.label}`;
    const other = scenarios.countsOf(row);
    const rows = ROWS.map(([name, get, form]) => {
      const [mine, its] = [get(counts), get(other)];
      const known = mine != null && its != null;
      const cells = [mine, its].map((number) => (number == null ? "-" : form.text(number)));
      return [name, ...cells, known ? difference(mine, its, form) : "-"];
    });
    element("numbers").tBodies[0].replaceChildren(
      ...rows.map(([name, ...cells]) => {
        const line = document.createElement("tr");
        const head = document.createElement("th");
        head.scope = "row";
        head.textContent = name;
        line.append(head);
        for (const cell of cells) line.insertCell().textContent = cell;
        return line;
      }),
    );
  }

  function show(planning, chosen) {
    const { counts, source } = planning.plan(chosen);
    const speedUp =
      counts.speedUp === null ? "" : `, speed-up ${factor(counts.speedUp)} over the current setup`;
    element("summary").textContent =
      `${chosen.strategy}: ${percent(counts.paddingRatio)} padding${speedUp}.`;
    element("source").textContent = SOURCES[source];
    showTable(counts, planning.beside(chosen.strategy));
    charts.batches(element("batches"), counts.firstBatches, {
      label: `First batches of ${chosen.strategy}`,
    });
    const { command, toml } = planning.whatIf;
    element("command").textContent = scenarios.commandOf(command, chosen, planning.current);
    element("toml").textContent = scenarios.tomlOf(toml, chosen);
  }

  /** Enable the fields that a strategy uses; a number that cannot be edited has to be valid. */
  function enable(planning, strategy) {
    const used = planning.used(strategy);
    for (const name of ["batch_size", "tokens_per_batch", "read_ahead"]) {
      const isUsed = used.includes(name);
      element(name).disabled = !isUsed;
      element(`${name}-slider`).disabled = !isUsed;
      if (!isUsed && !isNumber(name)) element(name).value = planning.report.basis[name];
    }
  }

  /** Plan with what the form says, unless a number is invalid; then the last result stays. */
  function update(planning) {
    const strategy = element("strategy").value;
    enable(planning, strategy);
    if (!NUMBERS.map(check).every(Boolean)) {
      element("source").textContent = SOURCES.stale;
      return;
    }
    const numbers = NUMBERS.map((name) => [name, Number(element(name).value)]);
    const overflow = element("overflow").value;
    try {
      show(planning, { strategy, overflow, ...Object.fromEntries(numbers) });
    } catch (error) {
      // Settings that leave nothing to batch; any other kind is a mistake of these scripts.
      if (error.constructor !== Error) throw error;
      element("summary").textContent = error.message;
      element("source").textContent = SOURCES.stale;
    }
  }

  /** Set a slider to the number beside it. */
  function moveSlider(name, ranges) {
    const slider = element(`${name}-slider`);
    const number = Number(element(name).value);
    if (number >= 1) slider.value = placeOf(number, ranges[name]);
    slider.setAttribute("aria-valuetext", element(name).value);
  }

  /** Connect the controls; several changes before the next frame are planned once. */
  function connect(planning, ranges) {
    let waiting = false;
    const later = () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        update(planning);
      });
    };
    for (const name of NUMBERS) {
      const slider = element(`${name}-slider`);
      element(name).addEventListener("input", () => moveSlider(name, ranges));
      slider.addEventListener("input", () => {
        element(name).value = numberAt(Number(slider.value), ranges[name]);
        slider.setAttribute("aria-valuetext", element(name).value);
      });
    }
    const reset = () => {
      for (const [name, value] of Object.entries(planning.initial())) element(name).value = value;
      for (const name of NUMBERS) moveSlider(name, ranges);
      later();
    };
    const form = element("form");
    form.addEventListener("input", later);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", (event) => {
      event.preventDefault();
      reset();
    });
    reset();
  }

  /** Show the panel where the page has one, and the browser can unpack its lengths. */
  async function start() {
    if (element("panel") === null) return;
    if (!("DecompressionStream" in globalThis)) {
      element("refusal").hidden = false;
      return;
    }
    const whatIf = data("what-if");
    const corpus = await planner.load(whatIf);
    const planning = new scenarios.Scenarios(data("document"), whatIf, corpus);
    element("panel").hidden = false;
    connect(planning, rangesOf(planning.report, corpus));
  }

  return { start };
})();

panel.start();
