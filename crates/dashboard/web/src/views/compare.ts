// Compare: two runs side by side, with the same axis of time.

import type { Doubt, Matrix, Overview, Series } from "../api";
import { api, hasUnknown } from "../api";
import { Chart } from "../chart";
import { button, choice, h, notice, table } from "../dom";
import { bytes, compact, count, micros } from "../format";
import { legend, showUnknown, tabs, warnings } from "../frame";
import { colour } from "../palette";
import { drawMatrix } from "../picture";
import { go, note, here } from "../place";
import type { App, View } from "../view";
import { Focus, Latest, onWidth, words } from "../view";

const BINS = 200;
const ROWS = 60;

/** What the ratio of a number means something for: the whole run, an epoch, or one access. */
type Of = "run" | "epoch" | "access";

/** Of which keys a number is. */
type Keys = "all" | "traced";

type Number = [name: string, value: (run: Overview) => number, format: (value: number) => string, of: Of, keys: Keys];

const NUMBERS: Number[] = [
  ["time", (run) => run.to_us - run.from_us, micros, "run", "all"],
  ["time per epoch", (run) => run.epoch_us ?? NaN, (value) => (Number.isNaN(value) ? "–" : micros(value)), "epoch", "all"],
  ["remote accesses", (run) => run.remote.count, count, "run", "traced"],
  ["mean wait of a remote access", (run) => run.remote.mean_us, micros, "access", "traced"],
  ["waiting in remote accesses", (run) => run.remote.mean_us * run.remote.count, micros, "run", "traced"],
  ["accesses that waited", (run) => run.waited.count, count, "run", "traced"],
  ["waiting for keys on their way", (run) => run.waited.mean_us * run.waited.count, micros, "run", "traced"],
  ["relocations", (run) => run.relocations, count, "run", "traced"],
  ["localization conflicts", (run) => run.conflicts, count, "run", "traced"],
  ["replicas set up", (run) => run.replica_setups, count, "run", "traced"],
  ["synchronisation rounds", (run) => run.sync_rounds, count, "run", "all"],
  ["bytes sent", (run) => run.bytes, bytes, "run", "all"],
];

/** Whether the ratio of such a number of two runs means something. */
function isComparable(doubts: Doubt[], of: Of, keys: Keys): boolean {
  const has = (kind: Doubt["kind"]) => doubts.some((doubt) => doubt.kind === kind);
  if (has("task") || has("keys")) return false;
  return !(keys === "traced" && has("traced_keys")) && !(of === "run" && has("epochs"));
}

export function compare(app: App, left: Overview, right: Overview, doubts: Doubt[]): View {
  const focus = new Focus(left);
  const runs = [left, right] as const;
  const longest = Math.max(...runs.map((run) => run.to_us - run.from_us));
  let axis = here().query.get("axis") === "own" ? "own" : "same";
  /** How much time a picture shows: as much in both, or each run as a whole. */
  const spanOf = (run: Overview) => (axis === "same" ? longest : run.to_us - run.from_us);
  const latest = new Latest();
  const options = app.runs.runs.map((run) => [run.id, run.title] as const);
  const isModelSame = !doubts.some((doubt) => doubt.kind === "task" || doubt.kind === "keys");
  const names = legend(Math.max(left.nodes, right.nodes));
  const said = h("span", { id: "focus-said", class: "hint", role: "status" });
  const input = h("input", { id: "focus-keys", value: focus.keys, placeholder: "all", spellcheck: "false", autocomplete: "off" });
  const lines = [
    { label: "A", color: colour(5) },
    { label: "B", color: colour(0), dash: [6, 3] },
  ];
  const seconds = (value: number) => micros(value * 1_000_000);
  const charts = {
    remote: new Chart("Remote accesses per second", lines, seconds, compact),
    waited: new Chart("Accesses that waited per second", lines, seconds, compact),
    relocations: new Chart("Relocations per second", lines, seconds, compact),
    bytes: new Chart("Bytes sent per second", lines, seconds, bytes),
  };
  const pictures = runs.map((run, at) => {
    const canvas = h("canvas", { role: "img", "aria-label": `Allocation over time of run ${"AB"[at]}`, id: `compare-${at}` });
    return { run, canvas, box: h("div", { class: "picture" }, canvas), width: 0 };
  });

  function draw(): void {
    void latest.run(async (signal) => {
      const drawn = pictures.filter((picture) => picture.width > 0);
      const ask = (picture: (typeof pictures)[number], keys: string) => {
        const to = picture.run.from_us + spanOf(picture.run);
        return api.matrix(picture.run.id, { keys, rows: ROWS, columns: Math.max(50, picture.width - 60), from: picture.run.from_us, to, mode: "most" }, signal);
      };
      const matrices = await Promise.all(drawn.map((picture) => ask(picture, focus.keys)));
      const isSame = () => matrices.every((matrix) => matrix.keys.join() === matrices[0]?.keys.join());
      const totals = matrices.map((matrix) => matrix.total);
      // Rows beside each other are of the same key: of those that both traces have.
      if (isModelSame && matrices.length === 2 && !isSame()) {
        const few = (totals[0] as number) <= (totals[1] as number) ? 0 : 1;
        const listed = (at: number) => (matrices[at] as Matrix).keys.join(",");
        if (listed(few) !== "") {
          matrices[1 - few] = await ask(drawn[1 - few] as (typeof pictures)[number], listed(few));
          if (!isSame() && listed(1 - few) !== "") matrices[few] = await ask(drawn[few] as (typeof pictures)[number], listed(1 - few));
        }
      }
      matrices.forEach((matrix, at) => {
        const picture = drawn[at] as (typeof pictures)[number];
        drawMatrix(picture.canvas, matrix, picture.run, picture.width, undefined);
        picture.canvas.dataset["ready"] = "true";
      });
      showUnknown(names, matrices.some((matrix, at) => hasUnknown(matrix, (drawn[at] as (typeof pictures)[number]).run.to_us)));
      said.textContent = isSame() && new Set(totals).size === 1
        ? `${count(matrices[0]?.keys.length ?? 0)} of ${count(totals[0] ?? 0)} keys are shown.`
        : isSame()
          ? `${count(matrices[0]?.keys.length ?? 0)} keys are shown that both traces have: A has ${count(totals[0] ?? 0)}, B ${count(totals[1] ?? 0)}.`
          : `Rows do not show the same keys: ${matrices.map((matrix, at) => `${count(matrix.keys.length)} of ${count(totals[at] ?? 0)} keys of ${"AB"[at]}`).join(", ")}.`;
      said.className = "hint";
      const series: Series[] = [];
      for (const run of runs) {
        series.push(await api.series(run.id, { keys: focus.keys, columns: BINS, from: run.from_us, to: run.from_us + longest }, signal));
      }
      const width = longest / BINS / 1_000_000;
      const x = Array.from({ length: BINS }, (_, at) => (at + 0.5) * width);
      const rate = (pick: (series: Series) => number[]) =>
        series.map((found, run) => pick(found).map((value, at) => {
          const end = runs[run] as Overview;
          return at * (longest / BINS) > end.to_us - end.from_us ? null : value / width;
        }));
      charts.remote.set(x, rate((found) => found.remote));
      charts.waited.set(x, rate((found) => found.waited));
      charts.relocations.set(x, rate((found) => found.relocations));
      charts.bytes.set(x, rate((found) => found.bytes));
    }, (error) => {
      said.textContent = words(error);
      said.className = "hint error";
    });
  }

  const ends = pictures.map((picture) =>
    onWidth(picture.box, (width) => {
      picture.width = width;
      draw();
    }));
  const ratio = (a: number, b: number) =>
    a === 0 || b === 0 || Number.isNaN(a) || Number.isNaN(b) ? "–" : b > a ? `${compact(b / a)}× more` : b < a ? `${compact(a / b)}× less` : "equal";
  const keep = () => ({ keys: focus.keys, tour: here().query.get("tour") });
  const chooser = (label: string, at: 0 | 1, id: string) =>
    choice(label, options, runs[at].id, (value) => {
      const ids = runs.map((run) => run.id);
      ids[at] = value;
      go(["compare", ...ids], keep());
    }, id);
  const element = h(
    "div",
    {},
    h("div", { class: "heading" }, h("h1", { tabindex: "-1" }, "Compare"),
      h("p", { class: "facts" }, h("span", {}, left.title), h("span", {}, right.title))),
    tabs(app, focus, "compare"),
    warnings(left, "A"),
    warnings(right, "B"),
    doubts.length === 0
      ? null
      : h("div", { class: "notice warning", id: "doubts", role: "status" },
        h("b", {}, "These runs are not alike:"),
        h("ul", { class: "doubts" }, doubts.map((doubt) => h("li", {}, doubt.text))),
        h("span", {}, "A ratio that means nothing for that is left out.")),
    h("form", {
      class: "bar",
      "aria-label": "Runs and focus",
      onsubmit: (event: Event) => {
        event.preventDefault();
        focus.keys = input.value.trim();
        note({ keys: focus.keys });
        draw();
      },
    },
      chooser("Run A", 0, "compare-a"),
      chooser("Run B", 1, "compare-b"),
      button("Swap", () => go(["compare", right.id, left.id], keep())),
      h("label", { class: "field grow" }, h("span", {}, "Keys"), input),
      h("button", { type: "submit" }, "Focus"),
      choice("Time", [["same", "same scale for both"], ["own", "each run as a whole"]], axis, (value) => {
        axis = value === "own" ? "own" : "same";
        note({ axis: axis === "own" ? "own" : undefined });
        draw();
      }, "compare-axis"),
      said),
    h("div", { id: "compare-numbers" },
      table("Numbers of both runs", ["", "A", "B", "B is"],
        NUMBERS.map(([name, value, format, of, keys]) =>
          [name, format(value(left)), format(value(right)), isComparable(doubts, of, keys) ? ratio(value(left), value(right)) : "–"]))),
    h("p", { class: "hint" }, "Counts are those of the keys that were traced, of the whole run with its evaluations; the time per epoch is that after the first one; bytes are those of all keys."),
    names,
    h("div", { class: "pair" }, pictures.map((picture, at) =>
      h("section", {}, h("h2", {}, `${"AB"[at]}: ${picture.run.title}`), picture.box))),
    h("div", { class: "charts" }, Object.values(charts).map((chart) => chart.element)),
  );
  if (left.id === right.id) element.append(notice("Both runs are the same one; choose another run."));
  return {
    element,
    title: `${left.title} beside ${right.title}`,
    close: () => {
      latest.stop();
      ends.forEach((end) => end());
      Object.values(charts).forEach((chart) => chart.close());
    },
  };
}
