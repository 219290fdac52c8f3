/*
 * The batches of an epoch distributed to ranks, and what their steps cost: as
 * batchstat/planning/distribution.py and batchstat/simulation/rank_idle.py.
 */
const ranks = (() => {
  "use strict";

  const BALANCED_TURNS = 64;

  /** Return the batch of each rank, turn after turn; −1 where it has none. */
  function distribute(table, settings) {
    const { world_size, remainder } = settings;
    const n = table.rows.length;
    const rest = n % world_size;
    const size = remainder === "drop" ? n - rest : Math.ceil(n / world_size) * world_size;
    const turns = new Int32Array(size);
    for (let i = 0; i < size; i++) turns[i] = i < n ? i : remainder === "repeat" ? (i - n) % n : -1;
    if (settings.distribute === "balanced") balance(turns, table, settings);
    return turns;
  }

  /** Give the ranks of each turn batches of similar total tokens. */
  function balance(turns, table, { world_size, seed, epoch }) {
    const rng = random.distributionRng(seed, epoch);
    const cost = (batch) => (batch < 0 ? -1 : table.rows[batch] * table.widths[batch]);
    for (let first = 0; first < turns.length; first += BALANCED_TURNS * world_size) {
      const window = turns.subarray(first, first + BALANCED_TURNS * world_size);
      const sorted = Array.from(window).sort((a, b) => cost(b) - cost(a));
      const full = window.length / world_size - (window.includes(-1) ? 1 : 0);
      window.set(sorted);
      rng.permutation(full).forEach((from, to) => {
        window.set(sorted.slice(from * world_size, (from + 1) * world_size), to * world_size);
      });
    }
  }

  /** Return what the steps cost: total tokens of all ranks, of the slowest, and compute. */
  function countSteps(turns, table, settings) {
    const { world_size, operations, params } = settings;
    const perStep = world_size * settings.gradient_accumulation_steps;
    const held = new Float64Array(world_size);
    const linear = new Float64Array(world_size);
    const quadratic = new Float64Array(world_size);
    const price = (rank) =>
      operations === null
        ? linear[rank]
        : operations.perToken * linear[rank] + operations.perPair * quadratic[rank];
    let [slowest, slowLinear, slowQuadratic] = [0, 0, 0];
    for (let first = 0; first < turns.length; first += perStep) {
      linear.fill(0);
      quadratic.fill(0);
      for (let i = first; i < Math.min(first + perStep, turns.length); i++) {
        const [batch, rank] = [turns[i], i % world_size];
        if (batch < 0) continue;
        const total = table.rows[batch] * table.widths[batch];
        held[rank]++;
        linear[rank] += total;
        quadratic[rank] += params.within_samples
          ? table.squares[batch]
          : total * table.widths[batch];
      }
      let [dearest, most] = [0, 0];
      for (let rank = 0; rank < world_size; rank++) {
        most = Math.max(most, linear[rank]);
        if (price(rank) > price(dearest)) dearest = rank;
      }
      slowest += most;
      slowLinear += linear[dearest];
      slowQuadratic += quadratic[dearest];
    }
    return {
      steps: Math.ceil(held.reduce((a, b) => Math.max(a, b)) / settings.gradient_accumulation_steps),
      slowest,
      compute: operations === null ? slowest : exactly(operations, slowLinear, slowQuadratic),
    };
  }

  /** Return operations, whose products may be above 2^53. */
  function exactly({ perToken, perPair }, tokens, pairs) {
    const [linear, quadratic] = [BigInt(perToken) * BigInt(tokens), BigInt(perPair) * BigInt(pairs)];
    return Number(linear + quadratic);
  }

  return { distribute, countSteps };
})();
