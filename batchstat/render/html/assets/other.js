/* Compares the report of the page with another one of its kind, dropped on the page as JSON. */
const other = (() => {
  "use strict";

  const count = (number) => number.toLocaleString("en-US", { maximumFractionDigits: 2 });
  const factor = (number) => `${number.toFixed(2)}x`;
  const ratio = (number) => plot.percent(number, 2);

  /*
   * What is compared: how a number is read and shown, and whether less of it is better (1), worse
   * (-1) or neither (0).
   */
  const STRATEGY = {
    padding: [(row) => row.padding_ratio, ratio, 1],
    "speed-up": [(row) => row.speed_up, factor, -1],
    steps: [(row) => row.steps, count, 0],
    batches: [(row) => row.batches, count, 0],
    "total tokens": [(row) => row.total_tokens, count, 0],
    "tokens lost": [(row) => row.truncated_tokens + row.dropped_tokens, count, 1],
  };
  const PROFILE = {
    samples: [(each) => each.lengths.count, count, 0],
    tokens: [(each) => each.lengths.sum, count, 0],
    "mean length": [(each) => each.lengths.mean, count, 0],
    p50: [(each) => each.lengths.p50, count, 0],
    p90: [(each) => each.lengths.p90, count, 0],
    p99: [(each) => each.lengths.p99, count, 0],
    longest: [(each) => each.lengths.max, count, 0],
    "suggested max_length": [(each) => each.suggested_max_length, count, 0],
    classes: [(each) => each.classes.length, count, 0],
  };
  const SAMPLER = {
    "epoch size": [(row) => row.samples, count, 0],
    compute: [(row) => row.relative_compute, factor, 1],
    coverage: [(row) => row.coverage, ratio, -1],
    "coverage after": [(row) => row.coverage_after, ratio, -1],
    "class ratio": [(row) => row.class_ratio, count, 1],
    "most repeats": [(row) => row.max_repeats, count, 1],
  };
  const LIMIT = { value: [(limit) => limit.value, count, 0] };

  const byLabel = (report) => report.strategies.map((row) => [row.label, row]);

  /** By the kind of a report: the named rows of one, and the numbers of a row. */
  const KINDS = {
    "batchstat.compare": [byLabel, STRATEGY],
    "batchstat.profile": [(report) => [["corpus", report]], PROFILE],
    "batchstat.buckets": [byLabel, STRATEGY],
    "batchstat.balance": [(report) => report.samplers.map((row) => [named(row), row]), SAMPLER],
    "batchstat.check": [
      (report) =>
        report.checks.flatMap((check) =>
          check.limits.map((limit) => [`${check.name}: ${limit.name}`, limit]),
        ),
      LIMIT,
    ],
  };

  function named({ name, params }) {
    const given = Object.entries(params).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
    return given.length ? `${name}:${given.join(",")}` : name;
  }

  const kindOf = (report) => String(report?.schema).split("/")[0];

  /** Return the settings in which two reports differ, in words. */
  function differences(ours, theirs) {
    const shown = (value) => (typeof value === "number" ? count(value) : JSON.stringify(value));
    const keys = Object.keys(ours.basis ?? {});
    return keys
      .filter((key) => JSON.stringify(ours.basis[key]) !== JSON.stringify(theirs.basis?.[key]))
      .map((key) => `${key} ${shown(ours.basis[key])} here, ${shown(theirs.basis?.[key])} there`);
  }

  const corpusOf = (report) =>
    (report.corpus?.sources ?? []).map((source) => source.path).join(", ");

  /** Show both reports side by side. Throws an Error that says why the text is none to compare. */
  function show(ours, text, file, into, make) {
    let theirs;
    try {
      theirs = JSON.parse(text);
    } catch (error) {
      throw new Error(`${file} is not JSON (${error.message}): drop a report's JSON`);
    }
    if (Array.isArray(theirs) && theirs.length === 1) [theirs] = theirs;
    if (kindOf(theirs) !== kindOf(ours)) {
      const found = theirs?.schema === undefined ? "has no schema" : `is ${theirs.schema}`;
      throw new Error(`${file} ${found}, this page is ${ours.schema}: drop one of the same kind`);
    }
    const parts = [make("h3", `This report and ${file}`)];
    const [here, there] = [corpusOf(ours), corpusOf(theirs)];
    if (here !== there) parts.push(make("p", `corpus: ${here || "-"} here, ${there || "-"} there`));
    const settings = differences(ours, theirs);
    if (settings.length) parts.push(make("p", `settings that differ: ${settings.join("; ")}`));
    try {
      parts.push(tableOf(ours, theirs, make));
    } catch {
      throw new Error(`${file} lacks parts of ${ours.schema}: drop a file that batchstat wrote`);
    }
    into.replaceChildren(...parts);
  }

  function tableOf(ours, theirs, make) {
    const [rowsOf, numbers] = KINDS[kindOf(ours)];
    const [mine, others] = [new Map(rowsOf(ours)), new Map(rowsOf(theirs))];
    const table = make("table");
    const head = table.createTHead().insertRow();
    for (const name of ["row", "number", "this report", "the other", "difference"]) {
      head.append(make("th", name, { scope: "col" }));
    }
    const body = table.createTBody();
    for (const name of new Set([...mine.keys(), ...others.keys()])) {
      for (const [number, [read, shown, better]] of Object.entries(numbers)) {
        const [a, b] = [valueOf(mine.get(name), read), valueOf(others.get(name), read)];
        if (a === null && b === null) continue;
        const row = body.insertRow();
        row.append(make("th", name, { scope: "row" }), make("td", number));
        row.append(make("td", a === null ? "-" : shown(a)), make("td", b === null ? "-" : shown(b)));
        row.append(difference(a, b, shown, better, make));
      }
    }
    const region = { class: "scroll", role: "region", tabindex: "0", "aria-label": "Both reports" };
    const scroll = make("div", "", region);
    scroll.append(table);
    return scroll;
  }

  const valueOf = (row, read) => (row === undefined ? null : (read(row) ?? null));

  function difference(a, b, shown, better, make) {
    if (a === null || b === null || a === b) return make("td", a === b ? "same" : "-");
    const change = b - a;
    const text = shown === ratio ? `${(100 * change).toFixed(2)} points` : shown(change);
    const how = better === 0 ? "" : change * better < 0 ? "better" : "worse";
    const cell = make("td", change > 0 ? `+${text}` : text);
    if (how) {
      cell.className = how;
      cell.append(` ${how}`);
    }
    return cell;
  }

  /** Take files that are chosen or dropped anywhere on the page. */
  function start(report, make) {
    const error = document.getElementById("other-error");
    const result = document.getElementById("other-result");
    const target = document.getElementById("drop");

    async function take(file) {
      error.textContent = "";
      result.replaceChildren();
      try {
        show(report, await file.text(), file.name, result, make);
      } catch (reason) {
        error.textContent = reason.message;
      }
      target.scrollIntoView({ block: "start" });
    }

    const input = document.getElementById("other-file");
    input.addEventListener("change", () => input.files.length && take(input.files[0]));
    addEventListener("dragover", (event) => {
      event.preventDefault();
      target.classList.add("over");
    });
    addEventListener("dragleave", () => target.classList.remove("over"));
    addEventListener("drop", (event) => {
      event.preventDefault();
      target.classList.remove("over");
      if (event.dataTransfer.files.length) take(event.dataTransfer.files[0]);
    });
  }

  return { start };
})();
