// Replay: a square per key in the colour of its owner.

import type { Matrix } from "../api";
import { MOVING, api, copies, copiesText, hasUnknown, owner } from "../api";
import { button, choice, fill, h, notice } from "../dom";
import { count, moment } from "../format";
import { TIME_SHORTCUTS, focusBar, heading, legend, sayShown, showUnknown, tabs, timeBar, warnings } from "../frame";
import { ownerText } from "../palette";
import { differs, drawGrid } from "../picture";
import { here, link, note, numberOf } from "../place";
import type { App, Focus, View } from "../view";
import { Latest, onWidth, words } from "../view";

/** Steps of the run, unless that would be too much to send. */
const STEPS = 600;
const CELLS_MAX = 900_000;
/** Seconds that the run lasts at speed 1. */
const LASTS = 30;
const SPEEDS = ["0.25", "0.5", "1", "2", "4", "8"];

export function replay(app: App, focus: Focus): View {
  const { overview } = focus;
  const query = here().query;
  let rows = numberOf(query.get("rows")) ?? 1024;
  let speed = 1;
  let matrix: Matrix | undefined;
  let column = 0;
  let wanted = numberOf(query.get("t"));
  let width = 0;
  let cursor = -1;
  let frame: number | undefined;
  let played = 0;
  let resized = true;
  const latest = new Latest();

  const canvas = h("canvas", {
    tabindex: "0",
    role: "img",
    id: "grid",
    "aria-label": "Grid of keys, coloured by owner. Arrow keys move, Enter selects a key.",
  });
  const box = h("div", { class: "picture" }, canvas);
  const tip = h("p", { class: "tip", id: "tip", role: "status" }, "Point at a square, or press Tab and the arrow keys.");
  const chosen = h("div", { class: "chosen", id: "chosen" });
  const names = legend(overview.nodes);
  const seek = h("input", {
    type: "range",
    id: "seek",
    class: "seek",
    min: "0",
    max: String(STEPS - 1),
    value: "0",
    "aria-label": "Time",
    oninput: () => show(Number(seek.value)),
  });
  const clock = h("output", { id: "clock", class: "clock", for: "seek" });
  const play = button("Play", () => toggle(), { class: "primary", id: "play", title: "Play or pause (Space)" });
  const time = timeBar(focus, () => load());

  const at = (column: number) =>
    matrix === undefined ? focus.start : matrix.from_us + ((matrix.to_us - matrix.from_us) * column) / matrix.columns;

  function draw(): void {
    if (matrix === undefined || width === 0) return;
    drawGrid(canvas, matrix, overview.nodes, column, width, focus.selected, cursor, resized);
    resized = false;
  }

  function show(next: number): void {
    if (matrix === undefined) return;
    column = Math.max(0, Math.min(matrix.columns - 1, next));
    seek.value = String(column);
    const text = moment(at(column), matrix.to_us - matrix.from_us);
    clock.textContent = text;
    seek.setAttribute("aria-valuetext", text);
    const owned = new Map<string, number>();
    for (let row = 0; row < matrix.keys.length; row += 1) {
      const cell = matrix.cells[row * matrix.columns + column] ?? 0;
      const node = String(owner(cell));
      owned.set(node, (owned.get(node) ?? 0) + 1);
      if (copies(cell) > 0) owned.set("replicas", (owned.get("replicas") ?? 0) + 1);
    }
    names.querySelectorAll<HTMLElement>("[data-node]").forEach((place) => {
      place.textContent = count(owned.get(place.dataset["node"] ?? "") ?? 0);
    });
    draw();
    say();
  }

  function say(): void {
    if (matrix === undefined || cursor < 0) return;
    const key = matrix.keys[cursor];
    if (key === undefined) return;
    const cell = matrix.cells[cursor * matrix.columns + column] ?? 0;
    const where = owner(cell) === MOVING ? "on its way" : `owner ${ownerText(owner(cell))}`;
    tip.textContent = `Key ${key}: ${where}, ${copiesText(copies(cell))}`;
  }

  function load(): void {
    pause();
    note({ rows: rows === 1024 ? undefined : rows });
    void latest.run(async (signal) => {
      const columns = Math.max(50, Math.min(STEPS, Math.floor(CELLS_MAX / rows)));
      const question = { keys: focus.keys, rows, columns, from: focus.start, to: focus.end, mode: "instant" };
      matrix = await api.matrix(overview.id, question, signal);
      seek.max = String(matrix.columns - 1);
      sayShown(matrix.keys.length, matrix.total);
      showUnknown(names, hasUnknown(matrix, overview.to_us));
      cursor = -1;
      resized = true;
      const span = matrix.to_us - matrix.from_us;
      const start = wanted === undefined ? 0 : Math.floor(((wanted - matrix.from_us) / span) * matrix.columns);
      wanted = undefined;
      canvas.dataset["ready"] = "true";
      show(start);
    }, (error) => sayShown(0, 0, words(error)));
  }

  function tick(now: number): void {
    if (frame === undefined || matrix === undefined) return;
    const due = Math.floor(((now - played) / 1000) * speed * (matrix.columns / LASTS));
    if (due > 0) {
      played += (due * 1000 * LASTS) / (speed * matrix.columns);
      show(column + due);
      if (column >= matrix.columns - 1) return pause();
    }
    frame = requestAnimationFrame(tick);
  }

  function pause(): void {
    if (frame !== undefined) cancelAnimationFrame(frame);
    frame = undefined;
    play.textContent = "Play";
    if (matrix !== undefined) note({ t: Math.round(at(column)) });
  }

  function toggle(): void {
    if (frame !== undefined) return pause();
    if (matrix !== undefined && column >= matrix.columns - 1) show(0);
    play.textContent = "Pause";
    played = performance.now();
    frame = requestAnimationFrame(tick);
  }

  function step(by: number): void {
    pause();
    show(column + by);
    note({ t: Math.round(at(column)) });
  }

  /** To the next step in which a key of the grid changes. */
  function jump(direction: 1 | -1): void {
    pause();
    if (matrix === undefined) return;
    let next = column + direction;
    while (next > 0 && next < matrix.columns - 1 && !differs(matrix, next - 1, next)) next += direction;
    show(next);
    note({ t: Math.round(at(column)) });
  }

  async function select(row: number): Promise<void> {
    const key = matrix?.keys[row];
    if (key === undefined) return;
    cursor = row;
    focus.select(key);
    focus.remember(key);
    show(column);
    try {
      const state = await api.state(overview.id, key, at(column));
      const list = (nodes: number[]) => (nodes.length === 0 ? "none" : nodes.join(", "));
      fill(
        chosen,
        h("h2", {}, `Key ${key}`),
        h("dl", {},
          h("dt", {}, "range"), h("dd", {}, state.range),
          h("dt", {}, "owner"), h("dd", { id: "chosen-owner" }, state.owner === null ? "on its way" : `node ${state.owner}`),
          h("dt", {}, "replicas on nodes"), h("dd", { id: "chosen-replicas" }, list(state.replicas)),
          h("dt", {}, "intent of nodes"), h("dd", {}, list(state.intents)),
          h("dt", {}, "at"), h("dd", {}, moment(state.at_us, focus.end - focus.start)),
        ),
        h("p", { class: "links" },
          h("a", { href: link(["run", overview.id, "affinity"], focus.query()) }, "Affinity"),
          h("a", { href: link(["run", overview.id, "why"], focus.query()) }, "Why")),
      );
    } catch (error) {
      fill(chosen, notice(words(error), "error"));
    }
  }

  function rowAt(event: MouseEvent): number {
    if (matrix === undefined) return -1;
    const place = canvas.getBoundingClientRect();
    const grid = drawnGrid();
    const x = Math.floor((event.clientX - place.left) / grid.size);
    const y = Math.floor((event.clientY - place.top) / grid.size);
    const row = y * grid.columns + x;
    return x < grid.columns && row < matrix.keys.length ? row : -1;
  }

  function drawnGrid(): ReturnType<typeof drawGrid> {
    if (matrix === undefined) return { columns: 1, size: 1, gap: 0 };
    return drawGrid(canvas, matrix, overview.nodes, column, width, focus.selected, cursor, false);
  }

  canvas.addEventListener("mousemove", (event) => {
    const row = rowAt(event);
    if (row >= 0 && row !== cursor) {
      cursor = row;
      draw();
      say();
    }
  });
  canvas.addEventListener("click", (event) => void select(rowAt(event)));
  canvas.addEventListener("keydown", (event) => {
    if (event.shiftKey) return;
    const across = drawnGrid().columns;
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across }[event.key];
    if (by !== undefined && matrix !== undefined) {
      cursor = Math.max(0, Math.min(matrix.keys.length - 1, cursor < 0 ? 0 : cursor + by));
      draw();
      say();
    } else if (event.key === "Enter") {
      void select(cursor);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  });

  const stop = onWidth(box, (next) => {
    width = next;
    resized = true;
    draw();
  });
  const element = h(
    "div",
    {},
    heading(overview),
    tabs(app, focus, "replay"),
    warnings(overview),
    focusBar(focus, { value: rows, options: [256, 1024, 2048, 4096], what: "Squares", set: (next) => { rows = next; load(); } }, undefined, load),
    h("div", { class: "bar player" },
      play,
      button("‹", () => step(-1), { "aria-label": "Step back", title: "Step back (,)" }),
      button("›", () => step(1), { "aria-label": "Step", title: "Step (.)" }),
      button("« change", () => jump(-1), { title: "To the change before (p)" }),
      button("change »", () => jump(1), { title: "To the next change (n)" }),
      choice("Speed", SPEEDS.map((speed) => [speed, `${speed}×`] as const), "1", (value) => { speed = Number(value); played = performance.now(); }, "speed"),
      seek,
      clock),
    time.element,
    names,
    h("div", { class: "beside" }, h("div", {}, box, tip), chosen),
  );
  load();
  return {
    element,
    title: `Replay of ${overview.title}`,
    shortcuts: [
      { keys: "Space", what: "play or pause" },
      { keys: ", and .", what: "step back and on" },
      { keys: "p and n", what: "to the change before and the next one" },
      ...TIME_SHORTCUTS,
    ],
    key: (event) => {
      const acts: Record<string, () => void> = { " ": toggle, ",": () => step(-1), ".": () => step(1), n: () => jump(1), p: () => jump(-1) };
      const act = acts[event.key];
      if (act !== undefined) {
        act();
        return true;
      }
      return time.key(event);
    },
    close: () => {
      if (frame !== undefined) cancelAnimationFrame(frame);
      frame = undefined;
      latest.stop();
      stop();
    },
  };
}
