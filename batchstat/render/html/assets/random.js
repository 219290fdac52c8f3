/*
 * The random numbers of NumPy's `default_rng`, to the digit: the page plans the same epochs as
 * batchstat. The streams are those of batchstat/planning/rng.py.
 *
 * Sources: Melissa O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good
 * Algorithms for Random Number Generation" (2014), PCG XSL RR 128/64; Melissa O'Neill, "Developing
 * a seed_seq Alternative" (2015); Richard Durstenfeld, "Algorithm 235: Random permutation" (1964).
 */
const random = (() => {
  "use strict";

  const [ORDER, DISTRIBUTION] = [0, 1];
  const POOL_WORDS = 4;
  // 0x2360ed051fc65da44385df649fccf645, the lowest 32 bits first.
  const [M0, M1, M2, M3] = [0x9fccf645, 0x4385df64, 0x1fc65da4, 0x2360ed05];

  /** Return the upper 32 bits of the product of two unsigned 32-bit numbers. */
  function upperProduct(a, b) {
    const aLow = a & 0xffff;
    const aHigh = a >>> 16;
    const bLow = b & 0xffff;
    const bHigh = b >>> 16;
    const middle = (Math.imul(aHigh, bLow) >>> 0) + ((Math.imul(aLow, bLow) >>> 0) >>> 16);
    const other = (Math.imul(aLow, bHigh) >>> 0) + (middle & 0xffff);
    return (Math.imul(aHigh, bHigh) + (middle >>> 16) + (other >>> 16)) >>> 0;
  }

  /** Return the 32-bit words of a whole number, the lowest first; 0 has one. */
  function words(number) {
    const found = [number >>> 0];
    for (let rest = Math.floor(number / 2 ** 32); rest > 0; rest = Math.floor(rest / 2 ** 32)) {
      found.push(rest >>> 0);
    }
    return found;
  }

  /** Return a function that hashes one word after another, each with the next constant. */
  function hasher(constant, multiplier) {
    return (word) => {
      const mixed = word ^ constant;
      constant = Math.imul(constant, multiplier);
      const product = Math.imul(mixed, constant);
      return (product ^ (product >>> 16)) >>> 0;
    };
  }

  function mix(a, b) {
    const mixed = Math.imul(0xca01f9dd, a) - Math.imul(0x4973f715, b);
    return (mixed ^ (mixed >>> 16)) >>> 0;
  }

  /** Return 8 words of seed for whole numbers, as `SeedSequence(numbers, spawn_key=spawnKey)`. */
  function seedWords(numbers, spawnKey) {
    const entropy = numbers.flatMap(words);
    if (spawnKey.length > 0) {
      while (entropy.length < POOL_WORDS) entropy.push(0);
      entropy.push(...spawnKey);
    }
    const absorb = hasher(0x43b0d7e5, 0x931e8875);
    const pool = Array.from({ length: POOL_WORDS }, (_, i) => absorb(entropy[i] ?? 0));
    for (let from = 0; from < POOL_WORDS; from++) {
      for (let to = 0; to < POOL_WORDS; to++) {
        if (from !== to) pool[to] = mix(pool[to], absorb(pool[from]));
      }
    }
    for (const word of entropy.slice(POOL_WORDS)) {
      for (let to = 0; to < POOL_WORDS; to++) pool[to] = mix(pool[to], absorb(word));
    }
    const emit = hasher(0x8b51f9dd, 0x58f38ded);
    return Array.from({ length: 8 }, (_, i) => emit(pool[i % POOL_WORDS]));
  }

  /** A PCG64 generator. Its 128-bit numbers are four words each, the lowest first. */
  class Generator {
    #state = new Uint32Array(4);
    #increment = new Uint32Array(4);
    #buffered = -1; // the upper half of the last 64 bits, until it is used

    constructor(seed) {
      // Each 64-bit number has its lower word first, each 128-bit number its upper half.
      const sequence = [seed[6], seed[7], seed[4], seed[5]];
      for (let i = 0; i < 4; i++) {
        this.#increment[i] = (sequence[i] << 1) | (i === 0 ? 1 : sequence[i - 1] >>> 31);
      }
      this.#step();
      let carry = 0;
      [seed[2], seed[3], seed[0], seed[1]].forEach((word, i) => {
        const sum = this.#state[i] + word + carry;
        this.#state[i] = sum;
        carry = sum >= 2 ** 32 ? 1 : 0;
      });
      this.#step();
    }

    /** Multiply the state by the constant and add the increment, modulo 2^128. */
    #step() {
      const state = this.#state;
      const increment = this.#increment;
      const [s0, s1, s2, s3] = [state[0], state[1], state[2], state[3]];
      const w0 = (Math.imul(s0, M0) >>> 0) + increment[0];
      const w1 =
        upperProduct(s0, M0) +
        (Math.imul(s0, M1) >>> 0) +
        (Math.imul(s1, M0) >>> 0) +
        increment[1] +
        (w0 >= 2 ** 32 ? 1 : 0);
      const w2 =
        upperProduct(s0, M1) +
        upperProduct(s1, M0) +
        (Math.imul(s0, M2) >>> 0) +
        (Math.imul(s1, M1) >>> 0) +
        (Math.imul(s2, M0) >>> 0) +
        increment[2] +
        Math.floor(w1 / 2 ** 32);
      const w3 =
        upperProduct(s0, M2) +
        upperProduct(s1, M1) +
        upperProduct(s2, M0) +
        (Math.imul(s0, M3) >>> 0) +
        (Math.imul(s1, M2) >>> 0) +
        (Math.imul(s2, M1) >>> 0) +
        (Math.imul(s3, M0) >>> 0) +
        increment[3] +
        Math.floor(w2 / 2 ** 32);
      state[0] = w0;
      state[1] = w1;
      state[2] = w2;
      state[3] = w3;
    }

    /** Return the next 32 random bits: the lower half of 64, then the upper half. */
    #next() {
      if (this.#buffered >= 0) {
        const half = this.#buffered;
        this.#buffered = -1;
        return half;
      }
      this.#step();
      const state = this.#state;
      const low = state[0] ^ state[2];
      const high = state[1] ^ state[3];
      const rotation = state[3] >>> 26;
      const [from, into] = rotation & 32 ? [high, low] : [low, high];
      const by = rotation & 31;
      if (by === 0) {
        this.#buffered = into >>> 0;
        return from >>> 0;
      }
      this.#buffered = ((into >>> by) | (from << (32 - by))) >>> 0;
      return ((from >>> by) | (into << (32 - by))) >>> 0;
    }

    /** Return a random whole number from 0 to `most`, at least 1 and below 2^32: as many of the
     * lowest bits as it has, drawn again while they are above it. */
    #upTo(most) {
      const mask = 0xffffffff >>> Math.clz32(most);
      let drawn = this.#next() & mask;
      while (drawn >>> 0 > most) drawn = this.#next() & mask;
      return drawn >>> 0;
    }

    /** Return 0 … n − 1, an Int32Array, in random order. */
    permutation(n) {
      const numbers = new Int32Array(n);
      for (let i = 1; i < n; i++) numbers[i] = i;
      for (let i = n - 1; i > 0; i--) {
        const j = this.#upTo(i);
        const kept = numbers[i];
        numbers[i] = numbers[j];
        numbers[j] = kept;
      }
      return numbers;
    }
  }

  return {
    /** Return the generator of a window of samples. */
    windowRng: (seed, epoch, window) => new Generator(seedWords([seed, epoch, window], [])),
    /** Return the generator of the order of an epoch. */
    orderRng: (seed, epoch) => new Generator(seedWords([seed, epoch], [ORDER])),
    /** Return the generator that distributes batches of similar cost to ranks. */
    distributionRng: (seed, epoch) => new Generator(seedWords([seed, epoch], [DISTRIBUTION])),
  };
})();
