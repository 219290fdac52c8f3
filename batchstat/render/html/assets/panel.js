/*
 * The what-if panel: chooses one of the plans in its table by strategy, size and ranks, and shows
 * its row, that of the current setup on as many ranks, and the command that prints them.
 */
(() => {
  "use strict";

  const data = document.getElementById("data-what-if");
  const table = document.querySelector("#what-if-all table");
  if (data === null || table === null) return;

  const { choices, first, current } = JSON.parse(data.textContent);
  const rows = [...table.tBodies[0].rows];
  const KEYS = ["strategy", "size", "ranks"];
  const element = (name) => document.getElementById(`what-if-${name}`);

  /** Fill the lists with what there is for the values before them; keep what was chosen. */
  function offer(wanted) {
    let left = choices;
    for (const key of KEYS) {
      const values = [...new Set(left.map((choice) => choice[key]))];
      const chosen = values.includes(wanted[key]) ? wanted[key] : usual(values);
      element(key).replaceChildren(
        ...values.map((value) => new Option(value, value, false, value === chosen)),
      );
      left = left.filter((choice) => choice[key] === chosen);
    }
    return left[0];
  }

  /** Return the value of the report, else the first. */
  const usual = (values) =>
    values.find((value) => value.endsWith("(now)")) ??
    values.find((value) => value === choices[first].ranks) ??
    values[0];

  function show(choice) {
    const row = rows[choices.indexOf(choice)];
    const beside = rows.find(
      (_, i) => choices[i].ranks === choice.ranks && rows[i].classList.contains("current"),
    );
    const shown = [...new Set([row, beside])].filter(Boolean);
    const body = document.createElement("tbody");
    body.append(...shown.map((each) => each.cloneNode(true)));
    element("chosen").replaceChildren(table.tHead.cloneNode(true), body);
    const cell = (name) => row.cells[[...table.tHead.rows[0].cells].findIndex((each) => each.textContent === name)];
    element("summary").textContent =
      `${row.cells[0].textContent} on ${choice.ranks}: ${cell("padding").textContent} padding, ` +
      `${cell("speed-up").textContent} as fast as ${current}.`;
    element("command").textContent = choice.command;
  }

  element("form").addEventListener("submit", (event) => event.preventDefault());
  element("form").addEventListener("input", () =>
    show(offer(Object.fromEntries(KEYS.map((key) => [key, element(key).value])))),
  );
  show(offer(choices[first]));
})();
