/*
 * The lengths in the page, and the epoch made of them: their order, and what max_length leaves. The
 * orders are those of batchstat/planning/order.py, the limits those of batchstat/planning/epoch.py.
 */
const epochs = (() => {
  "use strict";

  const MOST_DRAWN = 1_000_000; // samples that are expanded from a histogram
  const MOST_PARTS = 4_000_000; // of split samples
  const BLOCK_SIZE = 1_000;

  // The corpus

  /** Return the corpus that the page embeds; see `what-if` in the page's template. */
  async function load(whatIf) {
    const { kind, values: width, counts: countWidth, data } = whatIf.lengths;
    const packed = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
    const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    const bytes = new Uint8Array(await new Response(unpacked).arrayBuffer());
    const corpus = { order: whatIf.order, lengths: null, ordered: null };
    if (kind === "order") {
      corpus.lengths = Int32Array.from(numbersOf(bytes, bytes.length / width, width));
      return { ...corpus, histogram: histogramOf(corpus.lengths) };
    }
    const n = bytes.length / (width + countWidth);
    const values = Int32Array.from(numbersOf(bytes, n, width));
    for (let i = 1; i < n; i++) values[i] += values[i - 1];
    const counts = numbersOf(bytes.subarray(n * width), n, countWidth);
    return { ...corpus, histogram: { values, counts } };
  }

  /** Return n numbers of `width` bytes, of which all first bytes come first, then all second. */
  function numbersOf(bytes, n, width) {
    const numbers = new Float64Array(n);
    for (let plane = 0; plane < width; plane++) {
      for (let i = 0; i < n; i++) numbers[i] += bytes[plane * n + i] * 256 ** plane;
    }
    return numbers;
  }

  /** Return the distinct lengths, rising, and how many samples have each. */
  function histogramOf(lengths) {
    const values = [];
    const counts = [];
    for (const length of lengths.slice().sort()) {
      if (values.at(-1) !== length) {
        values.push(length);
        counts.push(0);
      }
      counts[counts.length - 1]++;
    }
    return { values: Int32Array.from(values), counts: Float64Array.from(counts) };
  }

  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
  const tokensOf = ({ values, counts }) => sum(counts.map((count, i) => count * values[i]));

  // The epoch: whole lengths in the epoch's order, then limited to max_length

  /** Return whole lengths in the order of the epoch; of more than 10^6, a sample of 10^6. */
  function orderedLengths(corpus, { seed, epoch }) {
    const key = `${seed} ${epoch}`;
    if (corpus.ordered?.key !== key) {
      const lengths = corpus.lengths ?? drawn(corpus.histogram);
      corpus.ordered = { key, lengths: inOrder(lengths, corpus.order, seed, epoch) };
    }
    return corpus.ordered.lengths;
  }

  function inOrder(lengths, order, seed, epoch) {
    if (order === "file") return lengths;
    const places = (order === "blocks" ? blocks : shuffled)(lengths.length, seed, epoch);
    return places.map((place) => lengths[place]);
  }

  /** Return the lengths of a histogram, rising: all, or 10^6 at even distances. */
  function drawn({ values, counts }) {
    const n = sum(counts);
    const size = Math.min(n, MOST_DRAWN);
    const lengths = new Int32Array(size);
    let [kind, end] = [0, counts[0]];
    for (let i = 0; i < size; i++) {
      const place = Math.floor(((i + 0.5) * n) / size);
      while (place >= end) end += counts[++kind];
      lengths[i] = values[kind];
    }
    return lengths;
  }

  const shuffled = (n, seed, epoch) => random.orderRng(seed, epoch).permutation(n);

  /** Return blocks of consecutive places in random order, and shuffled inside. */
  function blocks(n, seed, epoch) {
    const rng = random.orderRng(seed, epoch);
    const places = new Int32Array(n);
    let filled = 0;
    for (const block of rng.permutation(Math.ceil(n / BLOCK_SIZE))) {
      const first = block * BLOCK_SIZE;
      for (const within of rng.permutation(Math.min(BLOCK_SIZE, n - first))) {
        places[filled++] = first + within;
      }
    }
    return places;
  }

  /** Return a histogram after max_length, and what is lost of it. */
  function limited({ values, counts }, limit, overflow) {
    const rest = new Map();
    const lost = { truncatedSamples: 0, truncatedTokens: 0, droppedSamples: 0, droppedTokens: 0 };
    const add = (length, count) => rest.set(length, (rest.get(length) ?? 0) + count);
    values.forEach((length, i) => {
      const count = counts[i];
      if (length <= limit) add(length, count);
      else if (overflow === "truncate") {
        add(limit, count);
        lost.truncatedSamples += count;
        lost.truncatedTokens += count * (length - limit);
      } else if (overflow === "drop") {
        lost.droppedSamples += count;
        lost.droppedTokens += count * length;
      } else {
        add(limit, count * Math.floor(length / limit));
        if (length % limit) add(length % limit, count);
      }
    });
    const kept = [...rest.keys()].sort((a, b) => a - b);
    const histogram = {
      values: Int32Array.from(kept),
      counts: Float64Array.from(kept, (length) => rest.get(length)),
    };
    return { histogram, lost };
  }

  /**
   * Return the epoch as lists: lengths, and where samples are split also the sample of each part.
   */
  function listed(lengths, limit, overflow) {
    if (overflow === "truncate") {
      return { lengths: lengths.map((length) => Math.min(length, limit)), sampleOf: null };
    }
    if (overflow === "drop") {
      return { lengths: lengths.filter((length) => length <= limit), sampleOf: null };
    }
    const partsOf = (length) => Math.max(1, Math.ceil(length / limit));
    const n = lengths.reduce((parts, length) => parts + partsOf(length), 0);
    if (n === lengths.length) return { lengths, sampleOf: null };
    if (n > MOST_PARTS) {
      throw new Error(
        `overflow=split with max_length=${limit} makes ${n.toLocaleString("en-US")} parts, too ` +
          "many to plan in the browser: raise max_length",
      );
    }
    const parts = new Int32Array(n);
    const sampleOf = new Int32Array(n);
    let filled = 0;
    lengths.forEach((length, sample) => {
      for (let start = 0, left = partsOf(length); left > 0; left--, start += limit) {
        sampleOf[filled] = sample;
        parts[filled++] = Math.min(limit, length - start);
      }
    });
    return { lengths: parts, sampleOf };
  }

  return { load, limited, listed, orderedLengths, sum, tokensOf };
})();
