/*
 * The what-if panel: reads the form, plans with `planner`, and shows the counts beside the report's.
 * Where the settings are those of a row of the report, that row's own numbers are shown.
 */
const panel = (() => {
  "use strict";

  const NUMBERS = ["tokens_per_batch", "batch_size", "max_length", "read_ahead", "world_size"];
  const SHARED = ["tokens_per_batch", "max_length", "overflow", "world_size"];
  const FIXED = ["distribute", "remainder", "gradient_accumulation_steps", "seed", "epoch"];
  const MOST = 2 ** 31 - 1;
  const MOST_RANKS = 1_000_000;
  const STEPS = 1_000; // of a slider

  const SOURCES = {
    report: "The report's own numbers.",
    exact: "Planned in this page, exactly as batchstat plans.",
    estimate: "An estimate from the histogram of lengths, in a random order.",
  };

  // ---- Numbers as text ------------------------------------------------------------------------

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
  const mean = (number) => decimal(number, 1);

  /** Return a difference with its sign, or a plain 0 where the text of both numbers is the same. */
  function difference(mine, other, text, unit = "") {
    if (text(mine) === text(other)) return "0";
    const sign = mine > other ? "+" : "−";
    return `${sign}${text(Math.abs(mine - other))}${unit}`;
  }

  const points = (ratio) => decimal(100 * ratio, 2);

  /** Rows of the table: what it is called, how to get it, its text, and that of a difference. */
  const ROWS = [
    ["padding", (of) => of.paddingRatio, percent, [points, " points"]],
    ["speed-up over the current setup", (of) => of.speedUp, factor],
    ["steps", (of) => of.steps, whole],
    ["batches", (of) => of.batches, whole],
    ["samples per batch, mean", (of) => of.samplesPerBatch.mean, mean],
    ["total tokens", (of) => of.totalTokens, whole],
    ["padding tokens", (of) => of.paddingTokens, whole],
    ["truncated samples", (of) => of.truncatedSamples, whole],
    ["truncated tokens", (of) => of.truncatedTokens, whole],
    ["dropped samples", (of) => of.droppedSamples, whole],
    ["dropped tokens", (of) => of.droppedTokens, whole],
    ["largest batch, total tokens", (of) => of.maxBatchTokens, whole],
    ["batches over budget", (of) => of.overBudgetBatches, whole],
    ["rank idle", (of) => of.rankIdle, percent, [points, " points"]],
  ];

  /** Return a row of the report with the names of a plan's counts. */
  function countsOf(row) {
    const camel = (key) => key.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
    const named = Object.entries(row).map(([key, value]) => [camel(key), value]);
    return Object.fromEntries(named);
  }

  // ---- Lines to copy --------------------------------------------------------------------------

  const quoted = (word) =>
    /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;

  /** Return the current setup as `--current` takes it, without what the panel's flags would change. */
  function currentSpec({ label, params }) {
    const own = ["batch_size", "tokens_per_batch", "read_ahead"].filter(
      (key) => params[key] != null && !label.includes(`${key}=`),
    );
    const pairs = own.map((key) => `${key}=${params[key]}`).join(",");
    return pairs === "" ? label : `${label}${label.includes(":") ? "," : ":"}${pairs}`;
  }

  /** Return the command that gives the panel's numbers. */
  function commandOf(command, chosen, current) {
    const flags = [
      ["--strategy", chosen.strategy],
      ["--current", quoted(currentSpec(current))],
      ...["tokens_per_batch", "batch_size", "max_length", "overflow", "read_ahead", "world_size"].map(
        (key) => [`--${key.replaceAll("_", "-")}`, chosen[key]],
      ),
    ];
    return [command, ...flags.map((flag) => flag.join(" "))].join(" ");
  }

  /** Return the same settings as lines of TOML. */
  function tomlOf(toml, chosen) {
    const lines = [`strategy = "${chosen.strategy}"`];
    for (const key of NUMBERS) lines.push(`${key.replaceAll("_", "-")} = ${chosen[key]}`);
    lines.push(`overflow = "${chosen.overflow}"`);
    return `${lines.join("\n")}\n${toml}`;
  }

  // ---- Sliders --------------------------------------------------------------------------------

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
    const range = (low, high) => [low, Math.max(low + 1, high)];
    return {
      tokens_per_batch: range(Math.min(256, basis.tokens_per_batch), 8 * basis.tokens_per_batch),
      batch_size: range(1, Math.max(256, 8 * basis.batch_size)),
      max_length: range(Math.min(16, basis.max_length), Math.max(values.at(-1), basis.max_length)),
      read_ahead: range(Math.min(100, basis.read_ahead), Math.max(samples, basis.read_ahead)),
      world_size: range(1, Math.max(64, 2 * basis.world_size)),
    };
  }

  // ---- Planning -------------------------------------------------------------------------------

  /** Plans with the panel's settings, and compares with the rows of the report. */
  class Planning {
    #current = { key: null, compute: null };

    constructor(report, whatIf, corpus) {
      Object.assign(this, { report, whatIf, corpus });
      const { choice, strategies } = report;
      const rowOf = (label) => strategies.find((row) => row.label === label);
      this.current = rowOf(choice.current) ?? strategies[0];
      this.best = rowOf(choice.best) ?? this.current;
    }

    /** Return the settings of the report, with the strategy of the panel's first plan. */
    initial() {
      const { basis } = this.report;
      const names = Object.keys(this.whatIf.strategies);
      const strategy = names.includes(this.best.name) ? this.best.name : names[0];
      return { strategy, overflow: basis.overflow, ...pick(basis, NUMBERS) };
    }

    /** Return all parameters of a strategy, with those that the panel changes. */
    #params(chosen) {
      const params = { ...this.whatIf.strategies[chosen.strategy] };
      for (const key of this.used(chosen.strategy)) params[key] = chosen[key];
      return params;
    }

    /** Return which numbers of the panel are parameters of a strategy. */
    used(strategy) {
      return NUMBERS.filter((key) => this.whatIf.strategies[strategy][key] != null);
    }

    /** Return the row of the report with these settings; undefined if there is none. */
    #rowOf(strategy, params, shared) {
      const { basis, strategies } = this.report;
      if (SHARED.some((key) => shared[key] !== basis[key])) return undefined;
      return strategies.find((row) => row.name === strategy && isSame(row.params, params));
    }

    #plan(strategy, params, shared) {
      const { model, basis } = this.report;
      const operations = model && {
        perToken: model.operations_per_token,
        perPair: model.operations_per_pair,
      };
      const settings = { strategy, params, operations, ...pick(basis, FIXED), ...shared };
      return planner.plan(this.corpus, settings);
    }

    /** Return the compute of the current setup; null if this page cannot plan it. */
    #currentCompute(shared) {
      const { name, params, compute } = this.current;
      const { basis } = this.report;
      if (["max_length", "overflow", "world_size"].every((key) => shared[key] === basis[key])) {
        return compute;
      }
      if (!(name in this.whatIf.strategies) || !canPlan(name, params)) return null;
      const key = JSON.stringify(shared);
      if (this.#current.key !== key) {
        const own = "max_length" in params ? { max_length: shared.max_length } : {};
        const counts = this.#plan(name, { ...params, ...own }, shared);
        this.#current = { key, compute: counts.compute };
      }
      return this.#current.compute;
    }

    /** Return {counts, source} with the settings of the panel. Throws where nothing is left. */
    plan(chosen) {
      const { strategy } = chosen;
      const params = this.#params(chosen);
      const shared = pick(chosen, SHARED);
      const row = this.#rowOf(strategy, params, shared);
      if (row !== undefined) return { counts: countsOf(row), source: "report" };
      const counts = this.#plan(strategy, params, shared);
      const current = this.#currentCompute(shared);
      const speedUp = current === null ? null : current / counts.compute;
      return { counts: { ...counts, speedUp }, source: counts.estimate ? "estimate" : "exact" };
    }

    /** Return the row of the report to compare with: of the same strategy, else the best. */
    beside(strategy) {
      return this.report.strategies.find((row) => row.name === strategy) ?? this.best;
    }
  }

  const pick = (record, keys) => Object.fromEntries(keys.map((key) => [key, record[key]]));

  const isSame = (one, other) =>
    Object.keys({ ...one, ...other }).every((key) => one[key] === other[key]);

  /** Return whether the planner has these parameters: of `packed`, one way of packing only. */
  const canPlan = (name, params) =>
    name !== "packed" || (params.method === "bfd" && params.read_ahead === null);

  // ---- The page -------------------------------------------------------------------------------

  const element = (name) => document.getElementById(`what-if-${name}`);
  const data = (name) => JSON.parse(document.querySelector(`#data-${name}`).textContent);

  /** Show or remove the message at a field, and return whether its number is valid. */
  function check(name) {
    const input = element(name);
    const most = name === "world_size" ? MOST_RANKS : MOST;
    const number = input.value.trim() === "" ? NaN : Number(input.value);
    const isValid = Number.isInteger(number) && number >= 1 && number <= most;
    const problem = element(`${name}-problem`);
    const message = isValid ? "" : `Must be a whole number from 1 to ${whole(most)}.`;
    if (problem.textContent !== message) problem.textContent = message;
    problem.hidden = isValid;
    if (isValid) input.removeAttribute("aria-invalid");
    else input.setAttribute("aria-invalid", "true");
    return isValid;
  }

  function showTable(counts, row) {
    element("beside").textContent = `report: ${row.label}`;
    const other = countsOf(row);
    const rows = ROWS.map(([name, get, text, [change, unit] = [text, ""]]) => {
      const [mine, its] = [get(counts), get(other)];
      const known = mine != null && its != null;
      const cells = [mine, its].map((number) => (number == null ? "-" : text(number)));
      return [name, ...cells, known ? difference(mine, its, change, unit) : "-"];
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
    const speedUp = counts.speedUp == null ? "" : `, ${factor(counts.speedUp)} the current setup's speed`;
    element("summary").textContent =
      `${chosen.strategy}: ${percent(counts.paddingRatio)} padding${speedUp}.`;
    element("source").textContent = SOURCES[source];
    showTable(counts, planning.beside(chosen.strategy));
    charts.batches(element("batches"), counts.firstBatches, {
      label: `First batches of ${chosen.strategy}`,
    });
    const { command, toml } = planning.whatIf;
    element("command").textContent = commandOf(command, chosen, planning.current);
    element("toml").textContent = tomlOf(toml, chosen);
  }

  /** Plan with what the form says, unless a number is invalid; then the last result stays. */
  function update(planning) {
    const strategy = element("strategy").value;
    const used = planning.used(strategy);
    for (const name of ["batch_size", "tokens_per_batch", "read_ahead"]) {
      for (const input of [element(name), element(`${name}-slider`)]) {
        input.disabled = !used.includes(name);
      }
    }
    const isValid = NUMBERS.map(check).every(Boolean);
    element("panel").classList.toggle("stale", !isValid);
    if (!isValid) return;
    const numbers = NUMBERS.map((name) => [name, Number(element(name).value)]);
    const overflow = element("overflow").value;
    try {
      show(planning, { strategy, overflow, ...Object.fromEntries(numbers) });
    } catch (error) {
      element("panel").classList.add("stale");
      element("summary").textContent = error.message;
      element("source").textContent = "";
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

  /** Show the panel where the page has one. */
  async function start() {
    if (element("panel") === null) return;
    const whatIf = data("what-if");
    const corpus = await planner.load(whatIf);
    const planning = new Planning(data("document"), whatIf, corpus);
    element("panel").hidden = false;
    connect(planning, rangesOf(planning.report, corpus));
  }

  return { start };
})();

panel.start();
