/*
 * What a report would say with other settings, and the lines that give the same with batchstat.
 * Where the settings are those of a row of the report, its own numbers are returned.
 */
const scenarios = (() => {
  "use strict";

  const NUMBERS = ["tokens_per_batch", "batch_size", "max_length", "read_ahead", "world_size"];
  const SHARED = ["tokens_per_batch", "max_length", "overflow", "world_size"];
  const FIXED = ["distribute", "remainder", "gradient_accumulation_steps", "seed", "epoch"];

  const pick = (record, keys) => Object.fromEntries(keys.map((key) => [key, record[key]]));

  const isSame = (one, other) =>
    Object.keys({ ...one, ...other }).every((key) => one[key] === other[key]);

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
      ...[...NUMBERS, "overflow"].map((key) => [`--${key.replaceAll("_", "-")}`, chosen[key]]),
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

  /** Return a row of the report with the names of a plan's counts. */
  function countsOf(row) {
    const camel = (key) => key.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
    const named = Object.entries(row).map(([key, value]) => [camel(key), value]);
    return Object.fromEntries(named);
  }

  /** Return whether the planner has these parameters: of `packed`, one way of packing only. */
  const canPlan = (name, params) =>
    name !== "packed" ||
    (params.method === "bfd" && params.read_ahead === null && params.document_multiple === 1);

  /** A report, and what it would say with other settings. */
  class Scenarios {
    #current = { key: null, counts: null };

    constructor(report, whatIf, corpus) {
      Object.assign(this, { report, whatIf, corpus });
      const { choice, strategies } = report;
      const rowOf = (label) => strategies.find((row) => row.label === label);
      this.current = rowOf(choice.current) ?? strategies[0];
      this.best = rowOf(choice.best) ?? this.current;
    }

    /** Return the settings of the best row, or of the first strategy if it is none of them. */
    initial() {
      const { basis } = this.report;
      const [first] = Object.keys(this.whatIf.strategies);
      const { name, params } = this.best;
      const shared = { strategy: first, overflow: basis.overflow, ...pick(basis, NUMBERS) };
      if (!(name in this.whatIf.strategies)) return shared;
      return { ...shared, strategy: name, ...pick(params, this.used(name)) };
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
      // The budget of a strategy that has none is what its batches are held against.
      const keys = SHARED.filter((key) => key !== "tokens_per_batch" || !(key in params));
      if (keys.some((key) => shared[key] !== basis[key])) return undefined;
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

    /** Return the counts of the current setup; null if this page cannot plan it. */
    #currentCounts(shared) {
      const { name, params, compute } = this.current;
      const { basis } = this.report;
      if (["max_length", "overflow", "world_size"].every((key) => shared[key] === basis[key])) {
        return { compute, estimate: false };
      }
      if (!(name in this.whatIf.strategies) || !canPlan(name, params)) return null;
      const key = JSON.stringify(shared);
      if (this.#current.key !== key) {
        const own = "max_length" in params ? { max_length: shared.max_length } : {};
        this.#current = { key, counts: this.#plan(name, { ...params, ...own }, shared) };
      }
      return this.#current.counts;
    }

    /** Return {counts, source} with the settings of the panel. Throws where nothing is left. */
    plan(chosen) {
      const { strategy } = chosen;
      const params = this.#params(chosen);
      const shared = pick(chosen, SHARED);
      const row = this.#rowOf(strategy, params, shared);
      if (row !== undefined) return { counts: countsOf(row), source: "report" };
      const counts = this.#plan(strategy, params, shared);
      const current = this.#currentCounts(shared);
      const speedUp = current && current.compute / counts.compute;
      const isEstimate = counts.estimate || (current?.estimate ?? false);
      return { counts: { ...counts, speedUp }, source: isEstimate ? "estimate" : "exact" };
    }

    /** Return the row of the report to compare with: of the same strategy, else the best. */
    beside(strategy) {
      return this.report.strategies.find((row) => row.name === strategy) ?? this.best;
    }
  }

  return { NUMBERS, Scenarios, commandOf, countsOf, tomlOf };
})();
