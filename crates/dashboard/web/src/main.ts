// The page: which view is shown, the theme, the keyboard.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import type { Runs } from "./api";
import { api } from "./api";
import { button, fill, h, notice } from "./dom";
import { setPalette } from "./palette";
import { go, here, link, numberOf } from "./place";
import { tourPanel, tourStart } from "./tour";
import type { App, Shortcut, View } from "./view";
import { Focus, overviewOf, words } from "./view";
import { affinity } from "./views/affinity";
import { compare } from "./views/compare";
import { live } from "./views/live";
import { replay } from "./views/replay";
import { start } from "./views/start";
import { summary } from "./views/summary";
import { time } from "./views/time";
import { why } from "./views/why";

const RUN_VIEWS: Record<string, (app: App, focus: Focus) => View> = { summary, replay, time, affinity, why };

const main = document.getElementById("main") as HTMLElement;
const header = document.getElementById("header") as HTMLElement;
let current: View | undefined;
let turn = 0;

async function view(app: App): Promise<View> {
  const { path } = here();
  const [kind, id = "", name = "summary"] = path;
  if (kind === "run") {
    const make = RUN_VIEWS[name];
    if (make === undefined) throw new Error(`There is no view ${name}.`);
    return make(app, new Focus(await overviewOf(id)));
  }
  if (kind === "compare") {
    const [left, right] = await Promise.all([overviewOf(id), overviewOf(name)]);
    return compare(app, left, right, (await api.compare(id, name)).doubts);
  }
  if (kind === "live") return live(app);
  if (kind === undefined) return start(app);
  throw new Error(`There is no page ${path.join("/")}.`);
}

async function show(app: App): Promise<void> {
  const { path, query } = here();
  if (path[0] === "tour") {
    const target = tourStart(numberOf(path[1]) ?? 1);
    if (target !== undefined) location.replace(link(target.path, target.query));
    return;
  }
  turn += 1;
  const own = turn;
  current?.close?.();
  current = undefined;
  fill(main, notice("The trace is being read."));
  let next: View;
  try {
    next = await view(app);
  } catch (error) {
    next = {
      element: h("div", {}, h("h1", { tabindex: "-1" }, "This cannot be shown"), notice(words(error), "error"), h("p", {}, h("a", { href: "#/" }, "All runs"))),
      title: "Error",
    };
  }
  // Another page was asked for meanwhile.
  if (own !== turn) {
    next.close?.();
    return;
  }
  current = next;
  const step = numberOf(query.get("tour"));
  const said = app.said === undefined ? null : notice(app.said);
  app.said = undefined;
  fill(main, said, step === undefined ? null : tourPanel(step, path, app.runs), next.element);
  document.title = `${next.title} · Intendant`;
  menu(app.runs);
  // Screen readers begin at the heading of what is new.
  main.querySelector<HTMLElement>("h1")?.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function menu(runs: Runs): void {
  const { path } = here();
  const item = (target: string[], text: string) =>
    h("a", { href: link(target), "aria-current": (path[0] ?? "") === (target[0] ?? "") ? "page" : false }, text);
  fill(
    header,
    h("a", { class: "brand", href: "#/" }, h("img", { src: "icon.svg", alt: "", width: 22, height: 22 }), "Intendant"),
    h("nav", { "aria-label": "Main" }, item([], "Runs"), item(["tour", "1"], "Tour"), runs.live === null ? null : item(["live"], "Live")),
    h("span", { class: "grow" }),
    button("?", help, { class: "round", "aria-label": "Keyboard shortcuts", title: "Keyboard shortcuts (?)" }),
    button("◐", flip, { class: "round", id: "theme", "aria-label": "Light or dark", title: "Light or dark (d)" }),
  );
}

const GENERAL: Shortcut[] = [
  { keys: "?", what: "these shortcuts" },
  { keys: "d", what: "light or dark" },
  { keys: "g", what: "all runs" },
  { keys: "1 to 6", what: "the views of a run" },
  { keys: "/", what: "focus on keys" },
  { keys: "Esc", what: "close" },
];

function help(): void {
  const list = (shortcuts: Shortcut[]) =>
    h("dl", { class: "keys" }, shortcuts.flatMap(({ keys, what }) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, what)]));
  const dialog = h("dialog", { "aria-label": "Keyboard shortcuts", id: "help", onclose: () => dialog.remove() },
    h("h2", {}, "Keyboard shortcuts"),
    list(GENERAL),
    current?.shortcuts === undefined ? null : [h("h3", {}, "In this view"), list(current.shortcuts)],
    button("Close", () => dialog.close(), { class: "primary" }));
  document.body.append(dialog);
  dialog.showModal();
}

function flip(): void {
  const root = document.documentElement;
  const isDark = (root.dataset["theme"] ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  theme(isDark ? "light" : "dark");
  try {
    localStorage.setItem("theme", isDark ? "light" : "dark");
  } catch {
    // Without storage, the choice lasts as long as the page.
  }
}

function theme(name: string): void {
  document.documentElement.dataset["theme"] = name;
  document.dispatchEvent(new Event("themed"));
}

function typed(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  const isField = ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName) && (target as HTMLInputElement).type !== "range";
  if (isField || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") !== null) return;
  if (event.key === " " && ["BUTTON", "A", "SUMMARY"].includes(target.tagName)) return;
  if (target.tagName === "INPUT" && event.key.startsWith("Arrow")) return;
  const acts: Record<string, () => void> = {
    "?": help,
    d: flip,
    g: () => go([]),
    "/": () => document.querySelector<HTMLInputElement>("#focus-keys, #affinity-keys, #why-key")?.focus(),
  };
  const tab = /^[1-6]$/.test(event.key) ? document.querySelectorAll<HTMLElement>(".tabs a")[Number(event.key) - 1] : undefined;
  const act = acts[event.key];
  if (tab !== undefined) {
    tab.focus();
    tab.click();
  } else if (act !== undefined) {
    act();
  } else if (!(current?.key?.(event) ?? false)) {
    return;
  }
  event.preventDefault();
}

async function begin(): Promise<void> {
  try {
    const chosen = localStorage.getItem("theme");
    if (chosen === "light" || chosen === "dark") theme(chosen);
  } catch {
    // The choice of the operating system holds.
  }
  const app: App = {
    runs: await api.runs(),
    reload: async () => {
      app.runs = await api.runs();
    },
  };
  setPalette(app.runs.palette, app.runs.moving, app.runs.unknown);
  menu(app.runs);
  window.addEventListener("hashchange", () => void show(app));
  document.addEventListener("keydown", typed);
  // Pictures take their colours when they are drawn.
  const redraw = () => void show(app);
  document.addEventListener("themed", () => {
    if (here().path[0] !== "live") redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  await show(app);
}

begin().catch((error: unknown) => fill(main, notice(words(error), "error")));
