/* The charts of lengths, buckets, classes and samplers, from profile.json, buckets.json and
   balance.json. */
Object.assign(charts, (() => {
  "use strict";

  const { format, sum, percent, times, counted, rect, text, line, path, linear, series } = plot;

  const SAME_LINE = 0.005; // Lines that differ by less are drawn as one.

  // Lengths

  const place = (length) => Math.max(length, 0.5); // A log scale has no 0.

  /* Return the bins that hold samples, two per octave where many lengths are too short for four. */
  function bins({ edges, counts }) {
    const total = sum(counts);
    const few = sum(counts.filter((_, i) => edges[i] < 16));
    const wide = new Set([0, ...Array.from({ length: 80 }, (_, k) => Math.round(2 ** (k / 2)))]);
    const made = [];
    counts.forEach((count, i) => {
      const starts = !made.length || few < 0.1 * total || wide.has(edges[i]);
      if (starts) made.push({ low: edges[i], high: edges[i + 1], count });
      else Object.assign(made.at(-1), { high: edges[i + 1], count: made.at(-1).count + count });
    });
    const held = made.filter((bin) => bin.count);
    return made.slice(made.indexOf(held[0]), made.lastIndexOf(held.at(-1)) + 1);
  }

  /* Return an axis of lengths that holds the bins and `also`. */
  function lengthAxis(held, places, also = []) {
    let [low, high] = [place(held[0]?.low ?? 1), place(held.at(-1)?.high ?? 2)];
    if (held.length < 2) [low, high] = [low / 2, 1.5 * high];
    high = Math.max(high, ...also);
    low = Math.min(low, ...also.map(place));
    const scale = plot.log([low, high], places);
    const powers = Array.from({ length: 60 }, (_, k) => 2 ** k).filter((power) => power >= low && power <= high);
    const every = powers.length < 3 ? plot.wholeTicks(linear([low, high], places), 6).filter((tick) => tick > 0) : powers;
    if (low <= 0.5) every.unshift(0.5);
    return {
      scale, ticks: plot.apart(every, scale, 9 * format(high).length + 6), format: (value) => format(value === 0.5 ? 0 : value),
      label: "tokens per sample (log scale)", at: (length) => scale(Math.min(Math.max(place(length), low), high)),
    };
  }

  const range = (low, high) => `${low < high ? `${format(low)} to ` : ""}${counted(high, "token")}`;

  function drawBins(svg, box, held, across, up, className) {
    const total = sum(held, (bin) => bin.count) || 1;
    return held.map((bin) => {
      const [left, right] = [across.at(bin.low), across.at(bin.high)];
      const gap = Math.min(1, 0.1 * (right - left));
      const node = rect(svg, className, left, up.scale(bin.count), right - left - gap, box.bottom - up.scale(bin.count));
      return { node: node.node(), title: range(bin.low, bin.high - 1), lines: [`${counted(bin.count, "sample")} (${percent(bin.count / total)})`] };
    });
  }

  /* Draw a histogram of lengths. With `onMove`, its max_length can be moved, from 1 to `max`, and
     what it truncates is coloured. Returns {update(maxLength)}. */
  function lengths(container, histogram, { maxLength, max, onMove } = {}) {
    const held = bins(histogram);
    if (!held.length) {
      plot.nothing(container, "No samples to show.");
      return { update() {} };
    }
    const longest = Math.max(1, max ?? held.at(-1).high - 1, maxLength ?? 0);
    let value = maxLength;
    let move = () => {};
    plot.show(container, (width) => {
      const box = { left: 54, right: width - 14, top: 60, bottom: 260 };
      const total = sum(held, (bin) => bin.count);
      const svg = plot.canvas(container, width, box.bottom + 44,
        `${counted(total, "sample")} of ${range(held[0].low, held.at(-1).high - 1)}`);
      const across = lengthAxis(held, [box.left, box.right], value === undefined ? [] : [longest]);
      const up = plot.upTo(Math.max(...held.map((bin) => bin.count)), [box.bottom, box.top], plot.short);
      plot.axes(svg, box, across, { ...up, ticks: up.ticks.filter(Number.isInteger), label: "samples per bin", labelTop: 12 });
      const marks = drawBins(svg, box, held, across, up, "bin");
      const above = held.map((bin) => rect(svg, "truncated", 0, up.scale(bin.count), 0, box.bottom - up.scale(bin.count)));
      plot.tell(svg, marks, "lengths");
      const handle = value === undefined ? null : drawHandle(svg, box, Boolean(onMove), longest);
      move = () => {
        if (!handle) return;
        const at = across.at(Math.min(Math.max(value, 0), longest));
        held.forEach((bin, i) => {
          const [from, to] = [Math.max(at, across.at(bin.low)), across.at(bin.high)];
          const isCut = bin.high - 1 > value;
          above[i].attr("x", isCut ? from : 0).attr("width", isCut ? Math.max(0, to - from - 1) : 0);
        });
        handle.set(at, value);
      };
      move();
      if (onMove) listen(svg, handle, box, across, longest, () => value, (to) => {
        if (to === value) return;
        value = to;
        move();
        onMove(value);
      });
    });
    return {
      update(to) {
        value = to;
        move();
      },
    };
  }

  function drawHandle(svg, box, moves, longest) {
    const group = svg.append("g").attr("class", moves ? "handle" : "limit");
    line(group, "limit-line", [[0, box.top - 8], [0, box.bottom]]);
    if (moves) {
      rect(group, "grab", -16, box.top - 12, 32, box.bottom - box.top + 16);
      rect(group, "grip", -12, box.top - 20, 24, 24).attr("rx", 6);
      path(group, "grip-arrows", `M-3,${box.top - 12}l-4,4l4,4M3,${box.top - 12}l4,4l-4,4`);
      group.attr("tabindex", "0").attr("role", "slider").attr("aria-label", "max_length")
        .attr("aria-valuemin", 1).attr("aria-valuemax", longest);
    }
    const label = text(group, "limit-name", 0, box.top - 8, "");
    return {
      group,
      set(at, value) {
        const words = `max_length ${format(value)}`;
        const isRight = at > (box.left + box.right) / 2;
        group.attr("transform", `translate(${at},0)`);
        label.text(words).attr("x", isRight ? -18 : 18).attr("text-anchor", isRight ? "end" : "start");
        if (moves) group.attr("aria-valuenow", value).attr("aria-valuetext", counted(value, "token"));
      },
    };
  }

  /* Move the handle by dragging it, by a press on the chart, and by keys. */
  function listen(svg, { group }, box, across, longest, get, set) {
    const to = (event) => {
      const x = event.clientX - svg.node().getBoundingClientRect().left;
      const length = across.scale.invert(Math.min(Math.max(x, box.left), box.right));
      set(Math.min(Math.max(1, Math.round(length)), longest));
    };
    svg.classed("moves", true).on("pointerdown", (event) => {
      if (event.button) return;
      svg.node().setPointerCapture(event.pointerId);
      if (event.target.closest(".handle") || event.pointerType === "mouse") to(event);
      group.node().focus({ preventScroll: true });
      event.preventDefault();
    }).on("pointermove", (event) => {
      if (svg.node().hasPointerCapture(event.pointerId)) to(event);
    });
    group.on("keydown", (event) => {
      const next = plot.keyStep(event.key, get(), 1, longest, { down: -1, page: Math.max(2, Math.round(0.1 * get())) });
      if (next === null) return;
      event.preventDefault();
      set(next);
    });
  }

  // Buckets

  /* Draw the optimal edges of buckets.json over the lengths of profile.json. */
  function buckets(container, { buckets: list }, profile) {
    const held = bins(profile.lengths.histogram);
    const ratio = (bucket) => (bucket.total_tokens ? bucket.padding_tokens / bucket.total_tokens : 0);
    const all = (key) => sum(list, (bucket) => bucket[key]);
    const words = `${counted(list.length, "bucket")}: ${percent(all("padding_tokens") / (all("total_tokens") || 1))} padding`;
    const darkest = Math.max(0.5, ...list.map(ratio));
    plot.show(container, (width) => {
      plot.key(container, [["bin-dark", "samples per bin"], ["padding", "padding of a bucket: the stronger the colour, the more"]]);
      const box = { left: 60, right: width - 14, top: 56, bottom: 270 };
      const svg = plot.canvas(container, width, box.bottom + 44, words);
      const across = lengthAxis(held, [box.left, box.right], [list.at(-1).edge + 1]);
      const up = plot.upTo(Math.max(0, ...held.map((bin) => bin.count)), [box.bottom, box.top], plot.short);
      // Edges are inclusive: a bucket ends where the next length begins.
      const ends = [box.left, ...list.map((bucket) => across.at(bucket.edge + 1))];
      list.forEach((bucket, i) => {
        rect(svg, "bucket", ends[i], box.top, ends[i + 1] - ends[i], box.bottom - box.top)
          .attr("fill-opacity", (ratio(bucket) / darkest).toFixed(3));
      });
      plot.axes(svg, box, across, { ...up, ticks: up.ticks.filter(Number.isInteger) });
      drawBins(svg, box, held, across, up, "bin-dark");
      for (const end of ends.slice(1)) line(svg, "edge", [[end, box.top], [end, box.bottom]]);
      const names = svg.append("g").attr("aria-hidden", "true");
      for (const [y, name] of [[box.top - 26, "padding"], [box.top - 8, "edge"]]) text(names, "label", box.left - 8, y, name, "end");
      const order = list.map((_, i) => i).reverse();
      for (const i of plot.apart(order, (k) => (ends[k] + ends[k + 1]) / 2, 42)) {
        text(names, "value", (ends[i] + ends[i + 1]) / 2, box.top - 26, percent(ratio(list[i])), "middle");
      }
      for (const i of plot.apart(order, (k) => ends[k + 1], 42)) {
        text(names, "label", ends[i + 1], box.top - 8, format(list[i].edge), "middle");
      }
      plot.tell(svg, list.map((bucket, i) => ({
        node: rect(svg, "column", ends[i], box.top, ends[i + 1] - ends[i], box.bottom - box.top).node(),
        title: `up to ${counted(bucket.edge, "token")}`,
        lines: [counted(bucket.samples, "sample"), `${percent(ratio(bucket))} padding`, `batch size ${format(bucket.batch_size)}`],
      })), "buckets");
    });
  }

  /* Draw padding against the number of buckets for each rule of buckets.json. */
  function rules(container, list) {
    const numbers = [...new Set(list.flatMap((rule) => rule.points.map((point) => point.buckets)))].sort((a, b) => a - b);
    plot.show(container, (width) => plot.lineChart(container, width, {
      words: "padding against the number of buckets, by rule for their edges",
      xs: numbers, labels: ["number of buckets", "padding"], highest: 0.01, what: "numbers of buckets",
      lines: list.map((rule, i) => ({
        name: rule.name, look: rule.name === "optimal" ? "series-0 strong" : series(i),
        points: rule.points.map((point) => [point.buckets, point.padding_ratio]),
      })),
      tips: numbers.map((number) => ({
        title: counted(number, "bucket"),
        lines: list.flatMap((rule) => rule.points.filter((point) => point.buckets === number)
          .map((point) => `${rule.name}: ${percent(point.padding_ratio)} padding`)),
      })),
    }));
  }

  // Classes and samplers

  const MOST_CLASSES = 30;
  const className = (label) => (label === null ? "(no label)" : label === "" ? "(empty)" : label);

  /* Return the first `most` of these, and one row for all others. */
  function largest(list, most, number) {
    const sorted = [...list].sort((a, b) => number(b) - number(a));
    return { shown: sorted.slice(0, most), others: sorted.slice(most) };
  }

  /* Draw the samples of each class of profile.json, the largest first. */
  function classes(container, list) {
    const total = sum(list, (each) => each.count) || 1;
    const { shown, others } = largest(list, MOST_CLASSES, (each) => each.count);
    const rest = sum(others, (each) => each.count);
    const tokens = sum(others, (each) => each.count * each.mean_length);
    const rows = shown.map((each) => ({ title: className(each.label), count: each.count, mean: each.mean_length }));
    if (others.length) {
      rows.push({ title: counted(others.length, "other"), count: rest, mean: tokens / (rest || 1), look: "others" });
    }
    const told = ({ count, mean }) => [`${counted(count, "sample")} (${percent(count / total)})`, `mean length ${format(mean)}`];
    plot.show(container, (width) => plot.bars(container, width, rows.map((row) => ({
      title: row.title, notes: [], look: row.look, parts: [["real", row.count]],
      right: told(row), lines: told(row),
    })), {
      words: counted(list.length, "class", "classes"),
      end: Math.max(0, ...shown.map((each) => each.count)), label: "samples", what: "classes",
    }));
  }

  /* Return names of samplers, with their parameters where two have the same name. */
  function samplerNames(samplers) {
    const isCommon = (name) => samplers.filter((each) => each.name === name).length > 1;
    const written = (params) => Object.entries(params).map((pair) => pair.join("=")).join();
    return samplers.map(({ name, params }) => (isCommon(name) ? `${name}:${written(params)}` : name));
  }

  /* Draw what each sampler of balance.json draws per class, with a tick at what the corpus has. */
  function samplers(container, list) {
    const names = samplerNames(list);
    const every = list.map((row) => largest(row.classes, 12, (each) => each.before));
    const end = Math.max(0, ...every.flatMap(({ shown }) => shown.flatMap((each) => [each.before, each.after])));
    plot.panels(container, list).forEach((panel, i) => plot.show(panel, (width) => {
      plot.title(panel, names[i]);
      const { shown, others } = every[i];
      plot.bars(panel, Math.min(width, plot.SMALL - 1), shown.map((each) => ({
        title: className(each.label), notes: [], parts: [["real", each.after]], tick: each.before,
        right: [`${format(each.after)} (${times(each.before ? each.after / each.before : 0)})`],
        lines: [
          `${format(each.after)} drawn of ${counted(each.before, "sample")} in the corpus`,
          `each at most ${counted(each.max_repeats, "time")}`,
          `${percent(each.coverage_after)} of the class seen in all epochs`,
        ],
      })), {
        words: `${names[i]}: ${counted(list[i].samples, "sample")} per epoch, largest class / smallest ${times(list[i].class_ratio)}`,
        end, label: "", what: "classes",
      });
      if (others.length) plot.note(panel, `and ${counted(others.length, "class", "classes")} more`);
    }));
    plot.key(container, [["real", "drawn"], ["tick-key", "in the corpus"]]);
  }

  /* Draw the share of the corpus that each sampler of balance.json has drawn, epoch by epoch. */
  function coverage(container, list) {
    const names = samplerNames(list);
    const epochs = list[0].epochs.map((_, k) => k + 1);
    const shares = list.map((row) => row.epochs.map((each) => each.coverage));
    const lines = [];
    shares.forEach((own, i) => {
      const same = lines.find((each) => own.every((share, k) => Math.abs(share - each.shares[k]) < SAME_LINE));
      if (same) same.names.push(names[i]);
      else lines.push({ names: [names[i]], shares: own, number: i });
    });
    plot.show(container, (width) => plot.lineChart(container, width, {
      words: `samples seen at least once after ${counted(epochs.length, "epoch")}, by sampler`,
      xs: epochs, labels: ["epochs", "samples seen at least once"], highest: 1, what: "epochs",
      lines: lines.map((each) => ({
        name: each.names.join(", "), look: `strong ${series(each.number)}`,
        points: each.shares.map((share, k) => [k + 1, share]),
      })),
      tips: epochs.map((epoch) => ({
        title: `after ${counted(epoch, "epoch")}`,
        lines: list.map((_, i) => `${names[i]}: ${percent(shares[i][epoch - 1])}`),
      })),
    }));
  }

  return { lengths, classes, samplers, coverage, buckets, rules };
})());
