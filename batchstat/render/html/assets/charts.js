/* The charts of compare.json: each function draws one into a container, as wide as that is. */
const charts = (() => {
  "use strict";

  const { format, sum, percent, times, counted, rect, text, line, path, linear } = plot;

  const LOSES = 0.005; // From this ratio of lost tokens on, they can be seen.

  // Strategies

  const batchesOf = (number) => counted(number, "batch", "batches");
  const lost = (row) => row.truncated_tokens + row.dropped_tokens;
  const lostRatio = (row) => row.truncated_ratio + row.dropped_ratio;
  const seenLost = (row) => (lostRatio(row) >= LOSES ? lost(row) : 0);
  const size = (row) => row.total_tokens + seenLost(row);
  const current = (rows, choice) => rows.find((row) => row.label === choice.current) ?? rows[0];
  const best = (rows, choice) => rows.find((row) => row.label === choice.best);

  const marksOf = (row, choice) => ["current", "best"].filter((mark) => row.label === choice[mark]);

  const inBrackets = (row, choice) => marksOf(row, choice).map((mark) => ` (${mark})`).join("");

  const look = (row, choice) => marksOf(row, choice).at(-1) ?? "";

  /** Return what a speed-up is of: time by a calibration, or estimated compute. */
  const measure = (row) => (row.seconds == null ? "compute" : "time");

  function saving(row) {
    if (!row.speed_up || (row.speed_up >= 0.995 && row.speed_up < 1.005)) return `same ${measure(row)}`;
    const [word, factor] = row.speed_up > 1 ? ["faster", row.speed_up] : ["slower", 1 / row.speed_up];
    // Not a ratio of the bars, which are tokens: of ranks, the slowest of each step counts.
    return `${factor.toFixed(2)}x ${word}${row.seconds == null ? " (estimate)" : ""}`;
  }

  function facts(row, choice) {
    return [
      ...marksOf(row, choice),
      `${percent(row.padding_ratio)} padding`,
      row.label !== choice.current && saving(row),
      `${format(row.real_tokens)} real + ${format(row.padding_tokens)} padding tokens`,
      `${batchesOf(row.batches)}, ${counted(row.steps, "step")}`,
      lost(row) > 0 && `${counted(lost(row), "token")} lost (${percent(lostRatio(row))})`,
      row.over_budget_batches > 0 && `${batchesOf(row.over_budget_batches)} over budget`,
      row.packs_rows && "needs varlen attention",
    ].filter(Boolean);
  }

  function spends(rows, choice) {
    const [mine, other] = [current(rows, choice), best(rows, choice)];
    const words = `${mine.label} spends ${percent(mine.padding_ratio)} of its compute on padding`;
    return other && other !== mine ? `${words}; ${other.label} ${percent(other.padding_ratio)}` : words;
  }

  /* Draw the real tokens and the padding of each strategy; `choice` is that of compare.json. */
  function padding(container, strategies, { choice }) {
    const rows = [...strategies].sort((a, b) => b.compute - a.compute);
    plot.show(container, (width) => {
      plot.key(container, [
        ["real", "real tokens"],
        ...(rows.some((row) => row.padding_tokens) ? [["padding", "padding"]] : []),
        ...(rows.some(seenLost) ? [["lost", "lost"]] : []),
      ]);
      plot.bars(container, width, rows.map((row) => ({
        title: row.label,
        notes: [
          ...marksOf(row, choice),
          row.packs_rows && "needs varlen attention",
          seenLost(row) > 0 && `${percent(lostRatio(row))} lost`,
        ].filter(Boolean),
        parts: [["real", row.real_tokens], ["padding", row.padding_tokens], ["lost", seenLost(row)]],
        right: [`${percent(row.padding_ratio)} padding`, row.label === choice.current ? "" : saving(row)],
        lines: facts(row, choice),
        look: look(row, choice),
      })), {
        words: spends(rows, choice),
        end: plot.reach(rows.map(size), size(current(rows, choice))),
        label: "tokens per epoch",
        what: "strategies",
      });
    });
  }

  // Batches

  /* Return the scale {maxRows, maxWidth} for lists of batches: some of each, and about 30 of the
     first where they are small. */
  function batchScale(lists) {
    const every = lists.filter((batches) => batches?.length);
    const rows = (batches) => sum(batches, (batch) => batch.rows);
    const sizes = every.map((batches) => rows(batches) / batches.length);
    const usual = Math.min(Math.max(30 * sizes[0], 120), 480);
    const wanted = Math.max(usual, 6 * sizes[0], ...sizes.map((each) => 3 * each));
    return {
      maxRows: Math.max(1, Math.min(wanted, Math.max(...every.map(rows)))),
      maxWidth: Math.max(1, ...every.flat().map((batch) => batch.width)),
    };
  }

  /* Draw batches as rectangles to scale: rows across, tokens per row up. */
  function batches(container, list, { label, maxWidth, maxRows } = {}) {
    if (!list?.length) return plot.nothing(container, "No batches to show.");
    const extent = { ...batchScale([list]), ...(maxRows && { maxRows }), ...(maxWidth && { maxWidth }) };
    const total = sum(list, (batch) => batch.rows * batch.width);
    const ratio = total ? 1 - sum(list, (batch) => batch.tokens) / total : 0;
    const words = `${label ? `${label}: ` : ""}the first ${batchesOf(list.length)} to scale, ${percent(ratio)} padding`;
    return plot.show(container, (width) => {
      if (label) plot.title(container, label);
      const box = { left: 46, right: width - 2, top: 24, bottom: width < plot.SMALL ? 130 : 160 };
      const svg = plot.canvas(container, width, box.bottom + 24, words);
      const across = linear([0, extent.maxRows], [box.left, box.right]);
      const up = linear([0, extent.maxWidth], [box.bottom, box.top]);
      plot.axes(svg, box, null, { scale: up, ticks: plot.wholeTicks(up, 4), format, label: "tokens per row" });
      const marks = [];
      let first = 0;
      for (const batch of list) {
        if (first >= extent.maxRows) break;
        marks.push(block(svg, batch, marks.length, across(first), across(Math.min(first + batch.rows, extent.maxRows)), up));
        first += batch.rows;
      }
      const shown = `${batchesOf(marks.length)} of ${counted(Math.ceil(Math.min(first, extent.maxRows)), "row")}`;
      text(svg, "label", box.right, box.bottom + 18, shown, "end").attr("aria-hidden", "true");
      plot.tell(svg, marks, "batches");
    });
  }

  /* Draw one batch between two places: its padding above its real tokens. */
  function block(svg, batch, number, from, to, up) {
    const gap = Math.min(2, 0.15 * (to - from));
    const group = svg.append("g");
    const real = up(batch.tokens / batch.rows);
    rect(group, "padding", from, up(batch.width), to - from - gap, real - up(batch.width));
    rect(group, "real", from, real, to - from - gap, up(0) - real);
    const total = batch.rows * batch.width;
    const lines = [
      `${counted(batch.rows, "row")} x ${counted(batch.width, "token")}`,
      `${percent(total ? 1 - batch.tokens / total : 0)} padding`,
    ];
    return { node: group.node(), title: `batch ${number + 1}`, lines };
  }

  // Compute against shuffling

  /* Draw compute, relative to the current setup, against length homogeneity. */
  function tradeoff(container, { strategies, choice }) {
    // Regrouped steps are as random as today's, however their samples are sorted inside of them.
    const isRandom = (row) => row.name === "regrouped" && row.shuffling !== "sorted";
    const dots = strategies.map((row) => ({
      row, x: isRandom(row) ? 0 : row.grouping.length_homogeneity ?? 0, y: row.speed_up ? 1 / row.speed_up : 1,
    }));
    const rank = ({ row }) => (row.label === choice.best ? 0 : row.label === choice.current ? 1 : 2);
    dots.sort((a, b) => rank(a) - rank(b));
    const values = dots.map((dot) => dot.y);
    const low = Math.min(...values);
    const top = plot.reach(values, Math.max(1, low));
    const space = Math.max(top - low, 0.2);
    const [mine, other] = [current(strategies, choice), best(strategies, choice)];
    const words = other && other !== mine
      ? `${other.label}: ${saving(other)} than ${mine.label}, length homogeneity ${dots[0].x.toFixed(2)}`
      : `${measure(mine)} relative to ${mine.label}, against length homogeneity`;
    plot.show(container, (width) => {
      const shapes = [["dot-key", "one sample per row"], ["square-key", "several: needs varlen attention"]];
      if (strategies.some((row) => row.packs_rows)) plot.key(container, shapes);
      const box = { left: 46, right: width - 16, top: 36, bottom: width < plot.SMALL ? 290 : 340 };
      const svg = plot.canvas(container, width, box.bottom + 44, words);
      const across = linear([Math.min(-0.05, ...dots.map((dot) => dot.x - 0.05)), 1.05], [box.left, box.right]);
      const up = linear([Math.max(0, low - 0.2 * space), top + 0.16 * space], [box.bottom, box.top]);
      plot.axes(svg, box, {
        scale: across, ticks: across.ticks(width < plot.SMALL ? 3 : 6), format: (value) => `${Number(value.toFixed(2))}`,
        label: "length homogeneity: 0 random, 1 one length per batch",
      }, {
        scale: up, ticks: up.ticks(5), format: (value) => `${value.toFixed(2)}x`,
        label: `${measure(mine)}, relative to ${plot.oneLine(mine.label, 30)}`,
      });
      const places = together(dots.map((dot) => ({
        ...dot, left: across(dot.x), top: up(Math.min(dot.y, top + 0.1 * space)), isFar: dot.y > top,
      })));
      drawDots(svg, places, choice);
      nameDots(svg, places, { ...box, left: box.left + 4, top: 18 }, choice);
    });
  }

  /* Return dots that can be told apart, each with all rows that stand there. */
  function together(dots) {
    const found = [];
    for (const dot of dots) {
      const near = found.find((each) => Math.hypot(each.left - dot.left, each.top - dot.top) < 7);
      if (near) near.rows.push(dot.row);
      else found.push({ ...dot, rows: [dot.row] });
    }
    return found;
  }

  function drawDots(svg, places, choice) {
    const marks = places.map(({ left, top, x, y, row, rows, isFar }) => {
      const radius = look(row, choice) ? 7 : 5.5;
      const shape = isFar ? `M0,${-radius}l${radius},${1.7 * radius}h${-2 * radius}z`
        : row.packs_rows ? `M${-radius},${-radius}h${2 * radius}v${2 * radius}h${-2 * radius}z`
          : `M${-radius},0a${radius},${radius} 0 1 0 ${2 * radius},0a${radius},${radius} 0 1 0 ${-2 * radius},0z`;
      const node = path(svg, `dot ${look(row, choice)}`, shape).attr("transform", `translate(${left},${top})`).node();
      const others = rows.slice(1).map((each) => `also here: ${each.label}`);
      const lines = [`${measure(row)} ${times(y)} of the current setup's`, `length homogeneity ${x.toFixed(2)}`];
      return { node, title: row.label, lines: [...lines, ...facts(row, choice), ...others] };
    });
    plot.tell(svg, marks.reverse(), "strategies");
    // The first ones matter most, so they lie on top.
    for (const mark of marks) mark.node.parentNode.append(mark.node);
  }

  const DIRECTIONS = [[1, 0], [-1, 0], [0, -1], [0, 1], [1, -1], [-1, -1], [1, 1], [-1, 1]];

  /* Write names beside dots where they cover neither a dot nor a name; others are in the tooltip. */
  function nameDots(svg, places, room, choice) {
    const taken = places.map(({ left, top }) => [left - 8, top - 8, left + 8, top + 8]);
    const group = svg.append("g").attr("class", "names").attr("aria-hidden", "true");
    for (const { left, top, row, rows, y, isFar } of places) {
      const more = rows.length > 1 ? ` + ${rows.length - 1}` : "";
      const tail = `${isFar ? `: ${times(y)}` : ""}${inBrackets(row, choice)}${more}`;
      const node = text(group, `name ${look(row, choice)}`, 0, 0, "").node();
      const across = room.right - room.left;
      plot.fit(node, plot.oneLine(row.label, Math.max(8, Math.floor(across / 14))) + tail, across);
      const half = [node.getComputedTextLength() / 2 + 2, 8];
      const boxes = [2, 8, 18].flatMap((distance) => DIRECTIONS.map(([aside, down]) => {
        const x = left + aside * (8 + distance + half[0]);
        const middle = top + down * (8 + distance + half[1]);
        return [x - half[0], middle - half[1], x + half[0], middle + half[1], distance];
      }));
      const box = boxes.find((each) => isFree(each, taken, room) && isReached(each, [left, top], taken));
      if (!box) {
        node.remove();
        continue;
      }
      taken.push(box);
      d3.select(node).attr("x", box[0] + 2).attr("y", box[3] - 4);
      if (box[4] > 2) line(group, "leader", [[left, top], [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2]]).lower();
    }
  }

  /* Return whether a line from a dot to its name crosses nothing but the dot. */
  function isReached(box, [left, top], taken) {
    const [x, y] = [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
    const within = (each, at, down) => at > each[0] && at < each[2] && down > each[1] && down < each[3];
    const others = taken.filter((each) => !within(each, left, top));
    return [0.2, 0.4, 0.6, 0.8].every((share) =>
      !others.some((each) => within(each, left + share * (x - left), top + share * (y - top))));
  }

  function isFree([left, top, right, bottom], taken, room) {
    return left >= room.left && right <= room.right && top >= room.top && bottom <= room.bottom
      && taken.every((each) => right <= each[0] || left >= each[2] || bottom <= each[1] || top >= each[3]);
  }

  // Steps and windows

  /* Draw padding against read_ahead, as compare.json's `sweep` has it. */
  function readAhead(container, sweep) {
    const { points } = sweep;
    const recommended = Number(/read_ahead=(\d+)/.exec(sweep.recommended)?.[1]);
    const least = Math.min(...points.map((point) => point.padding_ratio));
    const chosen = points.find((point) => point.read_ahead === recommended)
      ?? points.find((point) => point.padding_ratio <= least + LOSES);
    const words = `read_ahead ${format(chosen.read_ahead)} is enough: ${sweep.strategy} pads ${percent(chosen.padding_ratio)}`;
    plot.show(container, (width) => {
      const { svg, box, place } = plot.lineChart(container, width, {
        words, xs: points.map((point) => point.read_ahead), isLog: true, highest: 0.01,
        labels: ["read_ahead (log scale): samples sorted together", "padding"],
        lines: [{ look: "padding-line", points: points.map((point) => [point.read_ahead, point.padding_ratio]) }],
        tips: points.map((point) => ({
          title: `read_ahead ${format(point.read_ahead)}${point === chosen ? " (recommended)" : ""}`,
          lines: [
            `${percent(point.padding_ratio)} padding`,
            batchesOf(point.batches),
            `length homogeneity ${(point.grouping.length_homogeneity ?? 0).toFixed(2)}`,
          ],
        })),
        what: "values of read_ahead",
      });
      const [x, y] = place([chosen.read_ahead, chosen.padding_ratio]);
      const mark = svg.append("g").attr("class", "chosen");
      line(mark, "chosen-line", [[x, box.top], [x, box.bottom]]);
      line(mark, "", [[x, y - 8], [x + 7, y], [x, y + 8], [x - 7, y]]);
      const isRight = x > width / 2;
      text(mark, "", x + (isRight ? -6 : 6), box.top + 10, `recommended: ${format(chosen.read_ahead)}`, isRight ? "end" : "start");
    });
  }

  /* Draw the slowest and the mean rank of each step, one panel per strategy with a timeline. */
  function ranks(container, strategies, { choice }) {
    const rows = strategies.filter((row) => row.ranks.timeline?.length);
    if (!rows.length) return plot.nothing(container, "Every strategy runs on one rank.");
    const highest = Math.max(...rows.flatMap((row) => row.ranks.timeline.map((point) => point.slowest_tokens)));
    const several = rows.some((row) => row.ranks.timeline[0].steps > 1);
    plot.panels(container, rows).forEach((panel, i) => plot.show(panel, (width) => {
      rankPanel(panel, width, rows[i], { choice, highest, several });
    }));
    const of = several ? [", largest of each point", ", mean of each point"] : ["", ""];
    return plot.key(container, [
      ["slowest-rank", `slowest rank${of[0]}`], ["mean-rank", `mean rank${of[1]}`],
      ["waited", "what the others wait for"], ["worst", "longest wait"],
    ]);
  }

  function rankPanel(panel, width, row, { choice, highest, several }) {
    const words = `${plot.oneLine(row.label, 60)}${inBrackets(row, choice)}: ${percent(row.rank_idle_time ?? row.rank_idle)} idle, distribute ${row.ranks.distribute}`;
    plot.title(panel, words);
    const { timeline, worst } = row.ranks;
    const steps = timeline.at(-1).first_step + timeline.at(-1).steps;
    const box = { left: 46, right: width - 8, top: 36, bottom: 220 };
    const svg = plot.canvas(panel, width, box.bottom + 44, words);
    const across = linear([0, steps], [box.left, box.right]);
    const up = plot.upTo(highest, [box.bottom, box.top], plot.short);
    const { steps: each } = timeline[0];
    plot.axes(svg, box, {
      scale: across, ticks: plot.wholeTicks(across, width < 400 ? 4 : 8), format,
      label: each > 1 ? `step; each point: ${counted(each, "step")}` : "step",
    }, { ...up, label: "tokens per rank and step" });
    const stairs = (key) => timeline.flatMap((point) => [point.first_step, point.first_step + point.steps]
      .map((step) => [across(step), up.scale(point[key])]));
    const [slowest, mean] = [stairs("slowest_tokens"), stairs("mean_tokens")];
    const fill = (look, upper, lower) => line(svg, look, [...upper, ...[...lower].reverse()]);
    fill("waited", slowest, mean);
    fill("mean-rank", mean, [[box.left, box.bottom], [box.right, box.bottom]]);
    line(svg, "line slowest-rank", slowest);
    const top = timeline.findLast((point) => point.first_step <= worst.step).slowest_tokens;
    const at = [across(worst.step + 0.5), up.scale(top)];
    path(svg, "worst", `M${at[0] - 5},${at[1] - 9}h10l-5,8z`);
    const centres = timeline.map((point) => across(point.first_step + point.steps / 2));
    plot.columns(svg, box, centres, timeline.map((point) => ({
      title: point.steps > 1
        ? `steps ${format(point.first_step)} to ${format(point.first_step + point.steps - 1)}`
        : `step ${format(point.first_step)}`,
      lines: [
        `slowest rank${several ? ", largest" : ""}: ${counted(point.slowest_tokens, "token")}`,
        `mean rank: ${counted(Math.round(point.mean_tokens), "token")}`,
      ],
    })), "steps");
  }

  return { padding, batches, batchScale, tradeoff, readAhead, ranks };
})();
