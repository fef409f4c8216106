// Allocation over time: a row per key, in the colours of its owners.

import type { Matrix } from "../api";
import { api, copies, copiesText, hasUnknown, owner } from "../api";
import { h } from "../dom";
import { moment } from "../format";
import { TIME_SHORTCUTS, focusBar, heading, legend, sayShown, showUnknown, tabs, timeBar, warnings } from "../frame";
import { ownerText } from "../palette";
import type { Geometry } from "../picture";
import { drawMatrix, labelWidth } from "../picture";
import { here, link, note, numberOf } from "../place";
import type { App, Focus, View } from "../view";
import { Latest, onWidth, words } from "../view";

export function time(app: App, focus: Focus): View {
  const { overview } = focus;
  const query = here().query;
  let rows = numberOf(query.get("rows")) ?? 100;
  let choose = query.get("choose") ?? "even";
  let matrix: Matrix | undefined;
  let geometry: Geometry | undefined;
  let width = 0;
  let cursor = -1;
  const latest = new Latest();

  const canvas = h("canvas", {
    tabindex: "0",
    role: "img",
    id: "time",
    "aria-label": "Owners of keys over time. Arrow keys up and down choose a row, Enter selects its key.",
  });
  const drag = h("div", { class: "drag", hidden: true });
  const box = h("div", { class: "picture" }, canvas, drag);
  const tip = h("p", { class: "tip", id: "tip", role: "status" }, "Point at a row. Drag to zoom into a time.");
  const links = h("p", { class: "links", id: "chosen" });
  const names = legend(overview.nodes);
  const bar = timeBar(focus, () => load());

  function draw(): void {
    if (matrix === undefined || width === 0) return;
    const marked = cursor >= 0 ? matrix.keys[cursor] : focus.selected;
    geometry = drawMatrix(canvas, matrix, overview, width, marked);
  }

  function load(): void {
    note({ rows: rows === 100 ? undefined : rows, choose: choose === "even" ? undefined : choose });
    if (width === 0) return;
    void latest.run(async (signal) => {
      const columns = Math.max(50, Math.min(1600, width - labelWidth(matrix?.keys ?? ["00000"], width)));
      const question = { keys: focus.keys, rows, choose, columns, from: focus.start, to: focus.end, mode: "most" };
      matrix = await api.matrix(overview.id, question, signal);
      sayShown(matrix.keys.length, matrix.total);
      showUnknown(names, hasUnknown(matrix, overview.to_us));
      cursor = -1;
      bar.refresh();
      draw();
      canvas.dataset["ready"] = "true";
    }, (error) => sayShown(0, 0, words(error)));
  }

  function say(column: number): void {
    const key = matrix?.keys[cursor];
    if (matrix === undefined || key === undefined) return;
    const cell = matrix.cells[cursor * matrix.columns + column] ?? 0;
    const us = matrix.from_us + ((matrix.to_us - matrix.from_us) * (column + 0.5)) / matrix.columns;
    tip.textContent = `${moment(us, matrix.to_us - matrix.from_us)}: key ${key}, ${ownerText(owner(cell))}, ${copiesText(copies(cell))}`;
  }

  function select(): void {
    const key = matrix?.keys[cursor];
    if (key === undefined) return;
    focus.select(key);
    focus.remember(key);
    draw();
    links.replaceChildren(
      h("b", {}, `Key ${key}`), " ",
      h("a", { href: link(["run", overview.id, "affinity"], focus.query()) }, "Affinity"), " ",
      h("a", { href: link(["run", overview.id, "why"], focus.query()) }, "Why"),
    );
  }

  /** Row and column under the pointer. */
  function point(event: PointerEvent): { row: number; share: number } | undefined {
    if (geometry === undefined) return undefined;
    const place = canvas.getBoundingClientRect();
    const row = Math.floor((event.clientY - place.top - geometry.top) / geometry.rowHeight);
    const share = (event.clientX - place.left - geometry.left) / geometry.width;
    return { row: row >= 0 && row < geometry.rows ? row : -1, share: Math.max(0, Math.min(1, share)) };
  }

  let dragged: number | undefined;
  canvas.addEventListener("pointerdown", (event) => {
    dragged = point(event)?.share;
    if (event.pointerType === "mouse") canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const found = point(event);
    if (found === undefined || matrix === undefined || geometry === undefined) return;
    if (dragged !== undefined && event.buttons > 0 && event.pointerType === "mouse") {
      const [a, b] = [Math.min(dragged, found.share), Math.max(dragged, found.share)];
      drag.hidden = b - a < 0.005;
      drag.style.left = `${geometry.left + a * geometry.width}px`;
      drag.style.width = `${(b - a) * geometry.width}px`;
    } else if (found.row !== cursor && found.row >= 0) {
      cursor = found.row;
      draw();
    }
    say(Math.min(matrix.columns - 1, Math.floor(found.share * matrix.columns)));
  });
  canvas.addEventListener("pointerup", (event) => {
    const found = point(event);
    drag.hidden = true;
    if (found === undefined || dragged === undefined) return;
    const [a, b] = [Math.min(dragged, found.share), Math.max(dragged, found.share)];
    dragged = undefined;
    if (b - a >= 0.005 && event.pointerType === "mouse") {
      const span = focus.end - focus.start;
      focus.window(focus.start + a * span, focus.start + b * span);
      load();
    } else if (found.row >= 0) {
      cursor = found.row;
      select();
    }
  });
  canvas.addEventListener("pointercancel", () => {
    dragged = undefined;
    drag.hidden = true;
  });
  canvas.addEventListener("wheel", (event) => {
    // Without the key, the wheel scrolls the page.
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const place = canvas.getBoundingClientRect();
    const share = geometry === undefined ? 0.5 : (event.clientX - place.left - geometry.left) / geometry.width;
    focus.zoom(event.deltaY > 0 ? 1.25 : 0.8, Math.max(0, Math.min(1, share)));
    load();
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (event.shiftKey || matrix === undefined) return;
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (by !== undefined) {
      cursor = Math.max(0, Math.min(matrix.keys.length - 1, cursor + by));
      draw();
      say(Math.floor(matrix.columns / 2));
    } else if (event.key === "Enter") {
      select();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  });

  const stop = onWidth(box, (next) => {
    width = next;
    load();
  });
  const element = h(
    "div",
    {},
    heading(overview),
    tabs(app, focus, "time"),
    warnings(overview),
    focusBar(
      focus,
      { value: rows, options: [25, 50, 100, 200, 400], what: "Number", set: (next) => { rows = next; load(); } },
      { value: choose, set: (next) => { choose = next; load(); } },
      load,
    ),
    bar.element,
    names,
    box,
    tip,
    links,
  );
  return {
    element,
    title: `${overview.title} over time`,
    shortcuts: TIME_SHORTCUTS,
    key: bar.key,
    close: () => {
      latest.stop();
      stop();
    },
  };
}
