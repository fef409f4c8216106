// Why: the life of one key. A row per node: where it is owned, replicated, and wanted.

import type { KeyView, Waiting } from "../api";
import { api } from "../api";
import { button, fill, h, notice, sized, table, variable } from "../dom";
import { count, micros, moment } from "../format";
import { TIME_SHORTCUTS, heading, swatch, tabs, timeBar, warnings } from "../frame";
import { colour, hatch, ink, paint } from "../palette";
import { drawAxis, drawMarks } from "../picture";
import { here, note } from "../place";
import type { App, Focus, View } from "../view";
import { Latest, onWidth, words } from "../view";

const ROW = 30;
const LEFT = 64;
const PAGE = 100;

export function why(app: App, focus: Focus): View {
  const { overview } = focus;
  let view: KeyView | undefined;
  let width = 0;
  let offset = 0;
  const latest = new Latest();
  const canvas = h("canvas", { id: "why", role: "img", "aria-label": "Owners, replicas and intents of the key, a row per node" });
  const box = h("div", { class: "picture" }, canvas);
  const facts = h("p", { class: "tip", id: "why-facts", role: "status" });
  const decisions = h("div", { id: "decisions" });
  const numbers = h("div", { id: "why-numbers" });
  const waits = h("div", { id: "why-waits" });
  const bar = timeBar(focus, () => {
    // Another time has other events: they begin with the first.
    offset = 0;
    load();
  });
  const input = h("input", { id: "why-key", value: focus.selected ?? "", inputmode: "numeric", spellcheck: "false", autocomplete: "off" });

  async function start(): Promise<void> {
    if (focus.selected !== undefined) return load();
    // Without a key, the one with the most to tell.
    const matrix = await api.matrix(overview.id, { keys: focus.keys, rows: 1, choose: "moved", columns: 1 });
    const key = matrix.keys[0];
    if (key === undefined) {
      fill(facts, "There are no keys in this trace.");
      return;
    }
    focus.select(key);
    input.value = key;
    load();
  }

  function load(): void {
    const key = focus.selected;
    if (key === undefined || width === 0) return;
    note({ key });
    void latest.run(async (signal) => {
      const columns = Math.max(50, Math.min(1600, width - LEFT));
      view = await api.key(overview.id, key, { from: focus.start, to: focus.end, columns, offset, count: PAGE }, signal);
      // Only now it is known that the run has this key.
      focus.remember(key);
      bar.refresh();
      draw();
      tell();
      canvas.dataset["ready"] = "true";
    }, (error) => {
      fill(facts, notice(words(error), "error"));
      fill(decisions);
      fill(numbers);
      fill(waits);
    });
  }

  function draw(): void {
    if (view === undefined || width === 0) return;
    const { rows, from_us, to_us } = view;
    const inner = width - LEFT - 8;
    const kinds = [
      { name: "remote", bins: view.remote_bins, color: "--warning" },
      { name: "waited", bins: view.waited_bins, color: "--muted" },
    ].filter(({ bins }) => Math.max(...bins, 0) > 0);
    const bins = 34 * kinds.length;
    const bottom = 4 + rows.length * ROW + bins;
    const context = sized(canvas, width, bottom + 28);
    const x = (us: number) => LEFT + ((Math.max(from_us, Math.min(us, to_us)) - from_us) / (to_us - from_us)) * inner;
    context.font = "12px system-ui, sans-serif";
    rows.forEach((row, at) => {
      const y = 4 + at * ROW;
      context.fillStyle = variable("--row");
      context.fillRect(LEFT, y, inner, ROW - 3);
      context.fillStyle = variable("--text");
      context.textAlign = "right";
      context.textBaseline = "middle";
      context.fillText(`node ${row.node}`, LEFT - 8, y + ROW / 2 - 2);
      for (const [start, end] of row.replica) {
        context.fillStyle = variable("--row");
        const [left, right] = [x(start), x(end)];
        const span = Math.max(1, right - left);
        context.fillRect(left, y, span, ROW - 9);
        context.globalAlpha = 0.45;
        context.fillStyle = colour(row.node);
        context.fillRect(left, y, span, ROW - 9);
        context.globalAlpha = 1;
        context.fillStyle = hatch(context, "few", variable("--text"));
        context.fillRect(left, y, span, ROW - 9);
      }
      for (const [start, end] of row.owner) paint(context, row.node, 0, false, x(start), y, Math.max(1, x(end) - x(start)), ROW - 9);
      context.fillStyle = variable("--text");
      for (const [start, end] of row.intent) context.fillRect(x(start), y + ROW - 8, Math.max(1, x(end) - x(start)), 4);
    });
    kinds.forEach((kind, place) => {
      const top = 4 + rows.length * ROW + 34 * place;
      const most = Math.max(...kind.bins);
      const cell = inner / kind.bins.length;
      context.fillStyle = variable(kind.color);
      kind.bins.forEach((accesses, at) => {
        const height = (accesses / most) * 28;
        if (accesses > 0) context.fillRect(LEFT + at * cell, top + 32 - height, Math.max(1, cell), height);
      });
      context.fillStyle = variable("--muted");
      context.textAlign = "right";
      context.fillText(kind.name, LEFT - 8, top + 17);
    });
    drawMarks(context, overview, from_us, to_us, LEFT, inner, 4, bottom);
    drawAxis(context, from_us, to_us, LEFT, inner, bottom);
  }

  function tell(): void {
    if (view === undefined) return;
    const span = view.to_us - view.from_us;
    const moves = view.decisions_total;
    fill(facts, `Key ${view.key} of ${view.range}`, view.home === null ? "" : `, home node ${view.home}`, `; ${count(moves)} events in this time.`);
    const pages = moves > PAGE
      ? h("div", { class: "bar" },
          button("Earlier", () => { offset = Math.max(0, offset - PAGE); load(); }, { disabled: offset === 0 }),
          `${count(offset + 1)} to ${count(Math.min(offset + PAGE, moves))} of ${count(moves)}`,
          button("Later", () => { offset += PAGE; load(); }, { disabled: offset + PAGE >= moves }))
      : null;
    fill(
      decisions,
      h("h2", {}, "What happened, and why"),
      moves === 0
        ? h("p", { class: "empty" }, "Nothing happened to this key in this time.")
        : tall(table("Decisions and their causes", ["Time", "Node", "What"],
            view.decisions.map((decision) => [
              moment(decision.at_us, span), h("span", { class: "node" }, swatch(decision.node), ` ${decision.node}`), decision.text]), 9)),
      pages,
    );
    fill(
      numbers,
      h("h2", {}, "Accesses and staleness per node"),
      table("Numbers per node in this time",
        ["Node", "Remote accesses", "Time", "Waited for the key", "Time", "Conflicts", "Rounds with a replica", "Between rounds", "Longest"],
        view.rows.map((row) => [
          h("span", { class: "node" }, swatch(row.node), ` ${row.node}`),
          count(row.remote), micros(row.remote_wait_us), count(row.waited), micros(row.waited_us), count(row.conflicts), count(row.rounds),
          row.round_gap_us === null ? "–" : micros(row.round_gap_us),
          row.longest_gap_us === null ? "–" : micros(row.longest_gap_us)])),
      h("p", { class: "hint" }, "A replica is as stale as the time since its node's last synchronisation round. Rounds with nothing to send are not recorded."),
    );
    fill(waits, h("h2", {}, "Longest waits"), waitTable(view.waits, span));
  }

  const stop = onWidth(box, (next) => {
    width = next;
    if (view === undefined) load();
    else draw();
  });
  const element = h(
    "div",
    {},
    heading(overview),
    tabs(app, focus, "why"),
    warnings(overview),
    h("form", {
      class: "bar",
      "aria-label": "Key",
      onsubmit: (event: Event) => {
        event.preventDefault();
        offset = 0;
        focus.select(input.value.trim());
        load();
      },
    }, h("label", { class: "field" }, h("span", {}, "Key"), input), h("button", { type: "submit", class: "primary" }, "Show")),
    bar.element,
    h("ul", { class: "legend", "aria-label": "Legend" },
      h("li", {}, swatch(0), h("span", {}, "owner (the node's colour)")),
      h("li", {}, replicaSwatch(), h("span", {}, "replica")),
      h("li", {}, h("span", { class: "intent-mark", "aria-hidden": "true" }), h("span", {}, "intent")),
      h("li", {}, h("span", { class: "remote-mark", "aria-hidden": "true" }), h("span", {}, "remote accesses; below, those that waited for the key"))),
    box,
    facts,
    decisions,
    numbers,
    waits,
  );
  offset = Number(here().query.get("offset") ?? 0) || 0;
  start().catch((error: unknown) => fill(facts, notice(words(error), "error")));
  return {
    element,
    title: `Why: ${overview.title}`,
    shortcuts: TIME_SHORTCUTS,
    key: bar.key,
    close: () => {
      latest.stop();
      stop();
    },
  };
}

function replicaSwatch(): HTMLElement {
  const canvas = h("canvas", { class: "swatch", "aria-hidden": "true" });
  const context = sized(canvas, 16, 16);
  context.globalAlpha = 0.45;
  context.fillStyle = colour(0);
  context.fillRect(0, 0, 16, 16);
  context.globalAlpha = 1;
  context.fillStyle = hatch(context, "few", ink(0) === "#ffffff" ? variable("--text") : ink(0));
  context.fillRect(0, 0, 16, 16);
  return canvas;
}

function tall(element: HTMLElement): HTMLElement {
  element.classList.add("tall");
  return element;
}

export function waitTable(waits: Waiting[], span: number): HTMLElement {
  if (waits.length === 0) return h("p", { class: "empty" }, "No access waited.");
  return table("Longest waits", ["Time", "Key", "Node", "Access", "Answered by", "Waited", "Why"],
    waits.map((wait) => [
      moment(wait.at_us, span), wait.key, wait.node, wait.access, wait.by ?? "–", micros(wait.after_us), wait.cause]), 9);
}
