// What surrounds the views of a run: its name, the links to its views, the focus, the legend.

import type { Overview } from "./api";
import { MOVING, UNKNOWN } from "./api";
import { button, choice, fill, h, sized } from "./dom";
import { count, micros, moment } from "./format";
import { paint } from "./palette";
import { link } from "./place";
import type { App, Focus } from "./view";

export const VIEWS = [
  ["summary", "Summary"],
  ["replay", "Replay"],
  ["time", "Over time"],
  ["affinity", "Affinity"],
  ["why", "Why"],
  ["compare", "Compare"],
] as const;

export function tabs(app: App, focus: Focus, active: string): HTMLElement {
  const id = focus.overview.id;
  const run = app.runs.runs.find((run) => run.id === id);
  const others = app.runs.runs.filter((other) => other.id !== id);
  const pair = run?.about?.pair ?? others.find((other) => other.source === run?.source)?.id ?? others[0]?.id ?? id;
  const address = (view: string) =>
    view === "compare" ? link(["compare", id, pair], focus.query()) : link(["run", id, view], focus.query());
  return h(
    "nav",
    { class: "tabs", "aria-label": "Views of this run" },
    VIEWS.map(([view, title]) => {
      const tab = h("a", { href: address(view), "aria-current": view === active ? "page" : false }, title);
      // The focus may have changed since the link was made.
      tab.addEventListener("mousedown", () => tab.setAttribute("href", address(view)));
      tab.addEventListener("focus", () => tab.setAttribute("href", address(view)));
      return tab;
    }),
  );
}

export function heading(overview: Overview): HTMLElement {
  const facts = [
    overview.task,
    overview.technique,
    `${overview.nodes} nodes`,
    `${count(Number(overview.keys))} keys`,
    micros(overview.to_us - overview.from_us),
  ];
  return h(
    "div",
    { class: "heading" },
    h("h1", { tabindex: "-1" }, overview.title),
    h("p", { class: "facts" }, facts.filter((fact) => fact !== "").map((fact) => h("span", {}, fact))),
  );
}

/** What is wrong with a trace, in short: every view of it is about what is left. */
export function warnings(overview: Overview, name = ""): HTMLElement | null {
  const [first, ...others] = overview.problems;
  if (first === undefined) return null;
  const short = first.length > 160 ? `${first.slice(0, 160)}…` : first;
  const more = others.length === 0 ? "" : ` And ${count(others.length)} more.`;
  return h(
    "p",
    { class: "notice warning", role: "status" },
    h("b", {}, name === "" ? "This trace is not whole: " : `Trace ${name} is not whole: `),
    `${short}.${more} `,
    h("a", { href: link(["run", overview.id, "summary"]) }, "Summary"),
  );
}

export const CHOICES = [
  ["even", "evenly among keys"],
  ["moved", "that move most"],
  ["replicated", "with most replicas"],
  ["remote", "with most remote accesses"],
] as const;

/** The focus on keys: which, how many rows, and chosen how. `changed` is called when it changes. */
export function focusBar(
  focus: Focus,
  rows: { value: number; options: number[]; what: string; set: (rows: number) => void } | undefined,
  choose: { value: string; set: (choose: string) => void } | undefined,
  changed: () => void,
): HTMLElement {
  const said = h("span", { id: "focus-said", class: "hint", role: "status" });
  const input = h("input", {
    id: "focus-keys",
    value: focus.keys,
    placeholder: "all",
    spellcheck: "false",
    autocomplete: "off",
    "aria-describedby": "focus-said",
  });
  const apply = () => {
    focus.keys = input.value.trim();
    focus.save();
    changed();
  };
  const all = button("All keys", () => {
    input.value = "";
    apply();
  });
  const form = h(
    "form",
    {
      class: "bar",
      "aria-label": "Focus",
      onsubmit: (event: Event) => {
        event.preventDefault();
        apply();
      },
    },
    h("label", { class: "field grow" }, h("span", {}, "Keys"), input),
    h("button", { type: "submit" }, "Focus"),
    all,
    rows === undefined
      ? null
      : choice(rows.what, rows.options.map((value) => [String(value), count(value)] as const), String(rows.value), (value) =>
          rows.set(Number(value)), "focus-rows"),
    choose === undefined ? null : choice("Rows", CHOICES, choose.value, choose.set, "focus-choose"),
  );
  form.append(said);
  said.textContent = "A list and ranges: 7,100..200; or a sample: sample:1/100.";
  return form;
}

/** Says how many keys are shown. */
export function sayShown(shown: number, total: number, error?: string): void {
  const said = document.getElementById("focus-said");
  if (said === null) return;
  said.className = error === undefined ? "hint" : "hint error";
  said.textContent =
    error ??
    (shown < total ? `${count(shown)} of ${count(total)} keys are shown.` : `${count(total)} keys are shown.`);
}

/** The window of time: buttons to zoom and to move. */
export function timeBar(focus: Focus, changed: () => void): { element: HTMLElement; refresh: () => void; key: (event: KeyboardEvent) => boolean } {
  const text = h("span", { class: "window", id: "time-window", role: "status" });
  const refresh = () => {
    const width = focus.end - focus.start;
    text.textContent = `${moment(focus.start, width)} to ${moment(focus.end, width)}`;
  };
  const act = (change: () => void) => () => {
    change();
    refresh();
    changed();
  };
  const acts = {
    in: act(() => focus.zoom(0.5)),
    out: act(() => focus.zoom(2)),
    left: act(() => focus.pan(-0.25)),
    right: act(() => focus.pan(0.25)),
    all: act(() => focus.window()),
  };
  refresh();
  const element = h(
    "div",
    { class: "bar", role: "group", "aria-label": "Time" },
    h("span", { class: "field" }, "Time"),
    button("−", acts.out, { "aria-label": "Zoom out", title: "Zoom out (-)" }),
    button("+", acts.in, { "aria-label": "Zoom in", title: "Zoom in (+)" }),
    button("◀", acts.left, { "aria-label": "Earlier", title: "Earlier (Shift and arrow)" }),
    button("▶", acts.right, { "aria-label": "Later", title: "Later (Shift and arrow)" }),
    button("All", acts.all, { title: "The whole run (0)" }),
    text,
  );
  const key = (event: KeyboardEvent) => {
    const name = event.shiftKey ? `shift ${event.key}` : event.key;
    const found = {
      "+": acts.in,
      "=": acts.in,
      "shift +": acts.in,
      "-": acts.out,
      "0": acts.all,
      "shift ArrowLeft": acts.left,
      "shift ArrowRight": acts.right,
    }[name];
    found?.();
    return found !== undefined;
  };
  return { element, refresh, key };
}

export const TIME_SHORTCUTS = [
  { keys: "+ and -", what: "zoom in and out" },
  { keys: "Shift ← →", what: "earlier and later" },
  { keys: "0", what: "the whole run" },
];

/** A small picture of how something is drawn. */
export function swatch(node: number, replicas = 0, all = false): HTMLElement {
  const canvas = h("canvas", { class: "swatch", "aria-hidden": "true" });
  paint(sized(canvas, 16, 16), node, replicas, all, 0, 0, 16, 16);
  return canvas;
}

/** What colours mean. `counts` appear beside the nodes. */
export function legend(nodes: number, marks: { replicas?: boolean; moving?: boolean } = {}): HTMLElement {
  const shown = Math.min(nodes, 64);
  return h(
    "ul",
    { class: "legend", "aria-label": "Legend" },
    Array.from({ length: shown }, (_, node) =>
      h("li", {}, swatch(node), h("span", {}, `node ${node}`), h("b", { "data-node": node })),
    ),
    nodes > shown ? h("li", {}, `and ${nodes - shown} more`) : null,
    marks.moving === false ? null : h("li", {}, swatch(MOVING), h("span", {}, "on its way"), h("b", { "data-node": MOVING })),
    h("li", { hidden: true }, swatch(UNKNOWN), h("span", {}, "not known"), h("b", { "data-node": UNKNOWN })),
    marks.replicas === false
      ? null
      : [
          h("li", {}, swatch(0, 1), h("span", {}, "with replicas"), h("b", { "data-node": "replicas" })),
          h("li", {}, swatch(0, 1, true), h("span", {}, "replicas on all nodes")),
        ],
  );
}

/** Whether the legend has the colour of keys whose owner is not known. */
export function showUnknown(legend: HTMLElement, isShown: boolean): void {
  const place = legend.querySelector<HTMLElement>(`[data-node="${UNKNOWN}"]`)?.parentElement;
  if (place) place.hidden = !isShown;
}

export function clearLegend(element: HTMLElement): void {
  element.querySelectorAll("b").forEach((count) => fill(count));
}
