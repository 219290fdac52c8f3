/*
 * Windows of samples sorted and cut into batches: as batchstat/planning/strategies/cutting.py.
 */
const cutting = (() => {
  "use strict";

  const MOST_BATCHES = 4_000_000;

  /** Write the places first … end − 1 to `into`, longest first; equal lengths keep their order. */
  function sortWindow(lengths, first, end, into) {
    const n = end - first;
    let [low, high] = [lengths[first], lengths[first]];
    for (let i = first; i < end; i++) {
      if (lengths[i] < low) low = lengths[i];
      else if (lengths[i] > high) high = lengths[i];
    }
    if (high - low > 4 * n + 256) {
      const keys = new Float64Array(n);
      for (let i = 0; i < n; i++) keys[i] = (high - lengths[first + i]) * n + i;
      keys.sort().forEach((key, i) => {
        into[first + i] = first + (key % n);
      });
      return;
    }
    const places = new Int32Array(high - low + 2);
    for (let i = first; i < end; i++) places[high - lengths[i] + 1]++;
    for (let key = 1; key < places.length; key++) places[key] += places[key - 1];
    for (let i = first; i < end; i++) into[first + places[high - lengths[i]]++] = i;
  }

  /** Add the ends of batches of `size` rows to `ends`. */
  function cutEvery(first, end, size, keepShort, ends) {
    let at = first;
    for (; at + size <= end; at += size) ends.push(at + size);
    if (at < end && keepShort) ends.push(end);
  }

  /** Do the same for batches within a budget; `widthAt` returns the width of a row, falling. */
  function cutByBudget(first, end, params, widthAt, keepShort, ends) {
    const most = params.max_samples ?? Infinity;
    for (let at = first; at < end; ) {
      const fitting = Math.floor(params.tokens_per_batch / Math.max(1, widthAt(at)));
      at += Math.min(Math.max(1, fitting), most);
      if (at > end && !keepShort) return;
      ends.push(Math.min(at, end));
      if (ends.length > MOST_BATCHES) {
        throw new Error(
          `tokens_per_batch=${params.tokens_per_batch} makes more than ${MOST_BATCHES.toLocaleString("en-US")} ` +
            "batches, too many to plan in the browser: raise tokens_per_batch",
        );
      }
    }
  }

  return { sortWindow, cutEvery, cutByBudget };
})();
