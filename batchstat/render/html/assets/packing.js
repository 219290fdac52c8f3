/*
 * Best fit decreasing on the histogram of lengths, as batchstat/planning/strategies/packing.py:
 * samples of equal length are placed together, in runs of rows with the same room.
 */
const packing = (() => {
  "use strict";

  /** Return the first index of rising `numbers` with a number of at least `least`. */
  function searchSorted(numbers, least) {
    let [low, high] = [0, numbers.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (numbers[middle] < least) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Runs of consecutive rows with the same room left: {row, rows, room, held}. */
  class OpenRows {
    #rooms = []; // that open rows have, rising
    #runs = new Map();

    constructor(most) {
      this.most = most;
    }

    put(run, first = false) {
      if (run.rows === 0 || run.held === this.most || run.room === 0) return;
      if (!this.#runs.has(run.room)) {
        this.#runs.set(run.room, []);
        this.#rooms.splice(searchSorted(this.#rooms, run.room), 0, run.room);
      }
      const runs = this.#runs.get(run.room);
      if (first) runs.unshift(run);
      else runs.push(run);
    }

    /** Take the run with the least room for `size`; undefined if none has room. */
    take(size) {
      const at = searchSorted(this.#rooms, size);
      if (at === this.#rooms.length) return undefined;
      const room = this.#rooms[at];
      const runs = this.#runs.get(room);
      const run = runs.shift();
      if (runs.length === 0) {
        this.#runs.delete(room);
        this.#rooms.splice(at, 1);
      }
      return run;
    }
  }

  /**
   * Pack the samples of a histogram, longest first, each into the fullest row that has room.
   *
   * Return placements in order, {row, rows, each, length}: `each` samples in each of `rows` rows. An
   * empty sample takes one token of room.
   */
  function bestFit({ values, counts }, capacity, most) {
    if (values.at(-1) > capacity) {
      throw new Error(`packed: a sample of ${values.at(-1)} tokens is longer than ${capacity}`);
    }
    const open = new OpenRows(most);
    const placements = [];
    let rows = 0;
    for (let kind = values.length - 1; kind >= 0; kind--) {
      const length = values[kind];
      const size = Math.max(1, length);
      let left = counts[kind];
      while (left > 0) {
        let run = open.take(size);
        if (run === undefined) {
          const each = Math.min(Math.floor(capacity / size), most);
          run = { row: rows, rows: Math.ceil(left / each), room: capacity, held: 0 };
          rows += run.rows;
        }
        left = fill(run, length, left, open, placements);
      }
    }
    return placements;
  }

  /** Put samples of one length into the rows of a run in turn, and return how many are left. */
  function fill(run, length, count, open, placements) {
    const size = Math.max(1, length);
    const each = Math.min(Math.floor(run.room / size), open.most - run.held);
    const full = Math.min(run.rows, Math.floor(count / each));
    const some = full < run.rows ? count - full * each : 0;
    let row = run.row;
    for (const [rows, taken] of [[full, each], [some > 0 ? 1 : 0, some]]) {
      if (rows === 0) continue;
      placements.push({ row, rows, each: taken, length });
      open.put({ row, rows, room: run.room - taken * size, held: run.held + taken });
      row += rows;
    }
    open.put({ ...run, row, rows: run.row + run.rows - row }, true);
    return count - full * each - some;
  }

  /**
   * Return runs of equal rows, widest first: {first (row), rows, tokens, entries, squares}; equally
   * wide rows keep their order.
   */
  function rowRuns(placements) {
    const changes = new Map();
    const change = (row, by, { each, length }) => {
      const found = changes.get(row) ?? { tokens: 0, entries: 0, squares: 0 };
      found.entries += by * each;
      found.tokens += by * each * length;
      found.squares += by * each * length * length;
      changes.set(row, found);
    };
    for (const placement of placements) {
      change(placement.row, 1, placement);
      change(placement.row + placement.rows, -1, placement);
    }
    const edges = [...changes.keys()].sort((a, b) => a - b);
    const held = { tokens: 0, entries: 0, squares: 0 };
    const runs = edges.slice(0, -1).map((first, i) => {
      for (const name of Object.keys(held)) held[name] += changes.get(first)[name];
      return { first, rows: edges[i + 1] - first, ...held };
    });
    return runs.sort((a, b) => b.tokens - a.tokens);
  }

  /**
   * Return the samples of each row, rows in the sequence of `runs`.
   *
   * @param order places of the samples, longest first, as they were placed
   */
  function rowContents(placements, runs, order) {
    const n = runs.reduce((rows, run) => rows + run.rows, 0);
    const rowOffsets = new Int32Array(n + 1);
    const positions = new Int32Array(n); // of each row in the sequence of runs
    let at = 0;
    for (const run of runs) {
      for (let i = 0; i < run.rows; i++, at++) {
        positions[run.first + i] = at;
        rowOffsets[at + 1] = rowOffsets[at] + run.entries;
      }
    }
    const filled = rowOffsets.slice();
    const entries = new Int32Array(order.length);
    let next = 0;
    for (const { row, rows, each } of placements) {
      for (let i = 0; i < rows * each; i++) {
        entries[filled[positions[row + Math.floor(i / each)]]++] = order[next++];
      }
    }
    return { entries, rowOffsets };
  }

  return { bestFit, rowRuns, rowContents };
})();
