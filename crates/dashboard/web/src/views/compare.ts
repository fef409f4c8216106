// Compare: two runs side by side, with the same axis of time.

import type { Overview, Series } from "../api";
import { api } from "../api";
import { Chart } from "../chart";
import { button, choice, h, notice, table } from "../dom";
import { bytes, compact, count, micros } from "../format";
import { legend, tabs } from "../frame";
import { colour } from "../palette";
import { drawMatrix } from "../picture";
import { go, note, here } from "../place";
import type { App, View } from "../view";
import { Focus, Latest, onWidth, words } from "../view";

const BINS = 200;
const ROWS = 60;

type Number = [string, (run: Overview) => number, (value: number) => string];

const NUMBERS: Number[] = [
  ["time", (run) => run.to_us - run.from_us, micros],
  ["time per epoch", (run) => run.epoch_us ?? NaN, (value) => (Number.isNaN(value) ? "–" : micros(value))],
  ["remote accesses", (run) => run.remote.count, count],
  ["mean wait of a remote access", (run) => run.remote.mean_us, micros],
  ["waiting in remote accesses", (run) => run.remote.mean_us * run.remote.count, micros],
  ["accesses that waited", (run) => run.waited.count, count],
  ["waiting for keys on their way", (run) => run.waited.mean_us * run.waited.count, micros],
  ["relocations", (run) => run.relocations, count],
  ["localization conflicts", (run) => run.conflicts, count],
  ["replicas set up", (run) => run.replica_setups, count],
  ["synchronisation rounds", (run) => run.sync_rounds, count],
  ["bytes sent", (run) => run.bytes, bytes],
];

export function compare(app: App, left: Overview, right: Overview): View {
  const focus = new Focus(left);
  const runs = [left, right] as const;
  const longest = Math.max(...runs.map((run) => run.to_us - run.from_us));
  let axis = here().query.get("axis") === "own" ? "own" : "same";
  /** How much time a picture shows: as much in both, or each run as a whole. */
  const spanOf = (run: Overview) => (axis === "same" ? longest : run.to_us - run.from_us);
  const latest = new Latest();
  const options = app.runs.runs.map((run) => [run.id, run.title] as const);
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
      for (const picture of pictures) {
        if (picture.width === 0) continue;
        const to = picture.run.from_us + spanOf(picture.run);
        const question = { keys: focus.keys, rows: ROWS, columns: Math.max(50, picture.width - 60), from: picture.run.from_us, to, mode: "most" };
        const matrix = await api.matrix(picture.run.id, question, signal);
        drawMatrix(picture.canvas, matrix, picture.run, picture.width, undefined);
        picture.canvas.dataset["ready"] = "true";
        said.textContent = `${count(matrix.keys.length)} of ${count(matrix.total)} keys are shown.`;
        said.className = "hint";
      }
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
        NUMBERS.map(([name, of, format]) => [name, format(of(left)), format(of(right)), ratio(of(left), of(right))]))),
    h("p", { class: "hint" }, "Counts are those of the keys that were traced, of the whole run with its evaluations; the time per epoch is that after the first one; bytes are those of all keys."),
    legend(Math.max(left.nodes, right.nodes)),
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
