/*
 * Plans an epoch as batchstat does: windows, sort, cut, shuffle, distribute, count. The strategies
 * are those of batchstat/planning/strategies.
 *
 *   planner.load(whatIf)           -> Promise of a corpus
 *   planner.plan(corpus, settings) -> counts, named as in compare.json, in camel case
 *
 * `settings`: {strategy, params (as in compare.json), tokens_per_batch, max_length, overflow,
 * world_size, distribute, remainder, gradient_accumulation_steps, seed, epoch,
 * operations: {perToken, perPair} or null}.
 *
 * Lengths in their order are planned exactly. The samples of a histogram come in a random order, so
 * that the result is an estimate; but rows of `packed` depend on the lengths alone.
 */
const planner = (() => {
  "use strict";

  const NO_BATCH =
    "no batches left: every batch was incomplete, or uneven over the ranks, and dropped";
  const FIRST_BATCHES = 32;
  const COLUMNS = ["rows", "widths", "entries", "samples", "tokens", "squares", "firstRows"];

  const thousands = (number) => number.toLocaleString("en-US");
  const roundUp = (number, multiple) => Math.ceil(number / multiple) * multiple;

  // Strategies

  /** Return the sequence of the batches of all windows; `edges` are the batches before each. */
  function sequenceOf(edges, params, { seed, epoch }) {
    const sequence = new Int32Array(edges.at(-1));
    for (let window = 0; window + 1 < edges.length; window++) {
      const [first, end] = [edges[window], edges[window + 1]];
      const places = params.shuffle_batches
        ? random.windowRng(seed, epoch, window).permutation(end - first)
        : null;
      for (let i = first; i < end; i++) sequence[i] = first + (places ? places[i - first] : i - first);
    }
    return sequence;
  }

  /** Return columns of batches: one number each, in the sequence of the plan. */
  const emptyTable = (n) =>
    Object.fromEntries(COLUMNS.map((name) => [name, new Float64Array(n)]));

  /** Return the batches of a strategy with one sample per row. */
  function singleRows(corpus, settings) {
    const { strategy, params, max_length, overflow } = settings;
    const whole = epochs.orderedLengths(corpus, settings);
    const { lengths, sampleOf } = epochs.listed(whole, max_length, overflow);
    const n = lengths.length;
    const size = strategy === "static" ? Math.max(n, 1) : params.read_ahead;
    const order = new Int32Array(n);
    const widthAt = (row) => roundUp(lengths[order[row]], params.pad_to_multiple_of);
    const ends = [];
    const edges = [0];
    for (let first = 0; first < n; first += size) {
      const end = Math.min(first + size, n);
      const keepShort = !(params.drop_last && end === n);
      if (strategy === "static") for (let i = first; i < end; i++) order[i] = i;
      else cutting.sortWindow(lengths, first, end, order);
      if (strategy === "token-budget") cutting.cutByBudget(first, end, params, widthAt, keepShort, ends);
      else cutting.cutEvery(first, end, params.batch_size, keepShort, ends);
      edges.push(ends.length);
    }
    const table = emptyTable(ends.length);
    sequenceOf(edges, params, settings).forEach((batch, i) => {
      const first = batch === 0 ? 0 : ends[batch - 1];
      let [longest, tokens, squares, begun] = [0, 0, 0, 0];
      for (let row = first; row < ends[batch]; row++) {
        const place = order[row];
        const length = lengths[place];
        if (length > longest) longest = length;
        tokens += length;
        squares += length * length;
        if (sampleOf === null || place === 0 || sampleOf[place] !== sampleOf[place - 1]) begun++;
      }
      table.firstRows[i] = first;
      table.rows[i] = table.entries[i] = ends[batch] - first;
      table.widths[i] = roundUp(longest, params.pad_to_multiple_of);
      table.tokens[i] = tokens;
      table.squares[i] = squares;
      table.samples[i] = begun;
    });
    const contents = () => ({ lengths, sampleOf, entries: order, rowOffsets: null });
    return {
      table,
      contents,
      isSplit: sampleOf !== null,
      samples: sampleOf === null ? n : whole.length,
      tokens: epochs.sum(lengths),
      scale: epochs.sum(corpus.histogram.counts) / whole.length,
    };
  }

  /** Return the batches of `packed`, from the histogram of lengths after max_length. */
  function packedRows(corpus, settings, { histogram, lost }) {
    const { params, max_length, overflow } = settings;
    const placements = packing.bestFit(
      histogram,
      params.max_length,
      params.max_samples_per_row ?? Infinity,
    );
    const runs = packing.rowRuns(placements);
    const samples = epochs.sum(corpus.histogram.counts) - lost.droppedSamples;
    const parts = epochs.sum(histogram.counts);
    const isSplit = parts > samples;
    const contents = () => {
      const { lengths, sampleOf } = epochs.listed(
        epochs.orderedLengths(corpus, settings),
        max_length,
        overflow,
      );
      const order = new Int32Array(lengths.length);
      cutting.sortWindow(lengths, 0, lengths.length, order);
      return { lengths, sampleOf, ...packing.rowContents(placements, runs, order) };
    };
    const table = cutRuns(runs, settings, samples / parts);
    if (isSplit && corpus.lengths !== null) countBegun(table, contents());
    const tokens = epochs.tokensOf(histogram);
    return { table, contents, isSplit, samples, tokens, scale: 1 };
  }

  /** Cut runs of rows into batches within the budget; `begun` is the share of parts that begin. */
  function cutRuns(runs, settings, begun) {
    const { params } = settings;
    const offsets = [0];
    for (const run of runs) offsets.push(offsets.at(-1) + run.rows);
    let at = 0;
    const widthAt = (row) => {
      while (offsets[at + 1] <= row) at++;
      return roundUp(runs[at].tokens, params.pad_to_multiple_of);
    };
    const ends = [];
    cutting.cutByBudget(0, offsets.at(-1), params, widthAt, !params.drop_last, ends);
    const planned = emptyTable(ends.length);
    let run = 0;
    ends.forEach((end, i) => {
      const first = i === 0 ? 0 : ends[i - 1];
      while (offsets[run + 1] <= first) run++;
      planned.firstRows[i] = first;
      planned.rows[i] = end - first;
      planned.widths[i] = roundUp(runs[run].tokens, params.pad_to_multiple_of);
      for (let k = run; k < runs.length && offsets[k] < end; k++) {
        const rows = Math.min(end, offsets[k + 1]) - Math.max(first, offsets[k]);
        planned.entries[i] += rows * runs[k].entries;
        planned.tokens[i] += rows * runs[k].tokens;
        planned.squares[i] += rows * runs[k].squares;
      }
      planned.samples[i] = planned.entries[i] * begun;
    });
    const sequence = sequenceOf([0, ends.length], params, settings);
    const table = emptyTable(ends.length);
    for (const name of COLUMNS) {
      const [from, into] = [planned[name], table[name]];
      for (let i = 0; i < into.length; i++) into[i] = from[sequence[i]];
    }
    return table;
  }

  /** Call `visit` with each entry's place in the epoch, for a batch of a plan. */
  function eachEntry(table, contents, batch, visit) {
    const { entries, rowOffsets } = contents;
    const first = table.firstRows[batch];
    const end = first + table.rows[batch];
    const [begin, stop] = rowOffsets === null ? [first, end] : [rowOffsets[first], rowOffsets[end]];
    for (let i = begin; i < stop; i++) visit(entries[i]);
  }

  const begins = (sampleOf, place) => place === 0 || sampleOf[place] !== sampleOf[place - 1];

  /** Count the samples that begin in each batch. */
  function countBegun(table, contents) {
    table.samples.forEach((_, batch) => {
      table.samples[batch] = 0;
      eachEntry(table, contents, batch, (place) => {
        if (begins(contents.sampleOf, place)) table.samples[batch]++;
      });
    });
  }

  // Counts

  /** Return the samples that are computed, each once, and those of them without their first part. */
  function distinctSamples(plan, used) {
    const { table } = plan;
    if (plan.traced === null) {
      return { distinct: epochs.sum(table.samples.filter((_, batch) => used[batch])), headless: 0 };
    }
    const { sampleOf } = plan.traced;
    const found = new Uint8Array(sampleOf.at(-1) + 1); // 1: computed, 2: from its beginning
    used.forEach((isUsed, batch) => {
      if (!isUsed) return;
      eachEntry(table, plan.traced, batch, (place) => {
        found[sampleOf[place]] |= begins(sampleOf, place) ? 2 : 1;
      });
    });
    const distinct = found.reduce((n, seen) => n + (seen > 0), 0);
    return { distinct, headless: found.reduce((n, seen) => n + (seen === 1), 0) };
  }

  /** Return the counts of a plan, for as many samples as it has. */
  function measure(plan, settings) {
    const { table } = plan;
    const turns = ranks.distribute(table, settings);
    const budget = settings.params.tokens_per_batch ?? settings.tokens_per_batch;
    const used = new Uint8Array(table.rows.length);
    const counts = { samples: 0, rows: 0, batches: 0, realTokens: 0, totalTokens: 0 };
    Object.assign(counts, { maxBatchTokens: 0, overBudgetBatches: 0 });
    const perBatch = { min: Infinity, mean: 0, max: 0 };
    let [uniqueTokens, entries] = [0, 0];
    for (const batch of turns) {
      if (batch < 0) continue;
      const total = table.rows[batch] * table.widths[batch];
      if (!used[batch]) uniqueTokens += table.tokens[batch];
      used[batch] = 1;
      counts.samples += table.samples[batch];
      counts.rows += table.rows[batch];
      counts.batches++;
      counts.realTokens += table.tokens[batch];
      counts.totalTokens += total;
      counts.maxBatchTokens = Math.max(counts.maxBatchTokens, total);
      if (total > budget) counts.overBudgetBatches++;
      entries += table.entries[batch];
      perBatch.min = Math.min(perBatch.min, table.entries[batch]);
      perBatch.max = Math.max(perBatch.max, table.entries[batch]);
    }
    if (counts.batches === 0) throw new Error(NO_BATCH);
    if (counts.realTokens === 0) {
      throw new Error(`no tokens in ${thousands(counts.samples)} samples: nothing to batch`);
    }
    perBatch.mean = entries / counts.batches;
    const { steps, slowest, compute } = ranks.countSteps(turns, table, settings);
    const { distinct, headless } = distinctSamples(plan, used);
    const samples = counts.samples + headless;
    return {
      ...counts,
      samples,
      steps,
      compute,
      samplesPerBatch: perBatch,
      rankIdle: 1 - counts.totalTokens / (settings.world_size * slowest),
      droppedSamples: plan.samples - distinct,
      droppedTokens: plan.tokens - uniqueTokens,
      duplicatedSamples: samples - distinct,
      duplicatedTokens: counts.realTokens - uniqueTokens,
    };
  }

  const RATES = ["maxBatchTokens", "rankIdle", "samplesPerBatch"];

  /** Return the first batches of a plan, to be drawn. */
  const firstBatches = ({ rows, widths, tokens }) =>
    Array.from(rows.slice(0, FIRST_BATCHES), (of, i) => (
      { rows: of, width: widths[i], tokens: tokens[i] }
    ));

  function batches(corpus, settings) {
    const { max_length, overflow, strategy } = settings;
    const cut = epochs.limited(corpus.histogram, max_length, overflow);
    if (cut.histogram.counts.length === 0) {
      throw new Error(
        `overflow=drop leaves no sample: all are longer than max_length=${max_length}`,
      );
    }
    const made =
      strategy === "packed" ? packedRows(corpus, settings, cut) : singleRows(corpus, settings);
    const isTraced = made.isSplit && (strategy !== "packed" || corpus.lengths !== null);
    return { ...made, lost: cut.lost, traced: isTraced ? made.contents() : null };
  }

  /** Plan an epoch, and return its counts; `estimate` is whether they are of a random order. */
  function plan(corpus, settings) {
    const planned = batches(corpus, settings);
    const counts = measure(planned, settings);
    for (const [name, count] of Object.entries(counts)) {
      if (!RATES.includes(name)) counts[name] = Math.round(count * planned.scale);
    }
    const { lost } = planned;
    return {
      ...counts,
      paddingTokens: counts.totalTokens - counts.realTokens,
      paddingRatio: (counts.totalTokens - counts.realTokens) / counts.totalTokens,
      ...lost,
      droppedSamples: lost.droppedSamples + counts.droppedSamples,
      droppedTokens: lost.droppedTokens + counts.droppedTokens,
      firstBatches: firstBatches(planned.table),
      estimate: corpus.lengths === null && (settings.strategy !== "packed" || planned.isSplit),
    };
  }

  return { load: epochs.load, batches, plan };
})();
