// Summary of a run.

import { h, notice, table } from "../dom";
import { bytes, count, micros } from "../format";
import { heading, swatch, tabs } from "../frame";
import type { App, Focus, View } from "../view";
import { about } from "./start";
import { waitTable } from "./why";

export function summary(app: App, focus: Focus): View {
  const { overview } = focus;
  const run = app.runs.runs.find((run) => run.id === overview.id);
  const span = overview.to_us - overview.from_us;
  const tiles: [string, string][] = [
    ["events", count(overview.events)],
    ["keys with events", count(overview.keys_with_events)],
    ["relocations", count(overview.relocations)],
    ["replicas set up", count(overview.replica_setups)],
    ["remote accesses", count(overview.remote.count)],
    ["accesses that waited", count(overview.waited.count)],
    ["localization conflicts", count(overview.conflicts)],
    ["bytes sent", bytes(overview.bytes)],
    ["sync rounds", count(overview.sync_rounds)],
  ];
  const traced = overview.filter === "all" || overview.filter === ""
    ? "All keys were traced"
    : `Only some keys were traced (${shortened(overview.filter)}): the counts are of these; bytes sent and sync rounds are of all keys`;
  const total = Math.max(1, ...overview.links.flat());
  const nodes = overview.node_states.map((state) => state.node);
  const links = h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Bytes between nodes" },
    h("table", {},
      h("caption", {}, "Bytes sent, from row to column"),
      h("thead", {}, h("tr", {}, h("td", {}), overview.links.map((_, to) => h("th", { scope: "col", class: "number" }, swatch(to), ` ${to}`)))),
      h("tbody", {}, overview.links.map((row, from) =>
        h("tr", {}, h("th", { scope: "row" }, swatch(from), ` ${from}`), row.map((value) => {
          const cell = h("td", { class: "number heat" }, value === 0 ? "–" : bytes(value));
          cell.style.setProperty("--heat", (value / total).toFixed(3));
          return cell;
        }))))),
  );
  const element = h(
    "div",
    {},
    heading(overview),
    tabs(app, focus, "summary"),
    overview.problems.map((problem) => notice(problem)),
    run?.about ? about(run.about) : null,
    h("h2", {}, "In the trace"),
    h("p", { class: "hint", id: "counted" }, `${traced}. Counts are of the whole run with its evaluations.`),
    h("dl", { class: "tiles", id: "tiles" }, tiles.map(([name, value]) =>
      h("div", { "data-name": name }, h("dt", {}, name), h("dd", {}, value)))),
    h("div", { class: "flow" },
      h("section", {}, h("h2", {}, "Accesses that took time"),
        table("Times of accesses", ["", "Remote", "Waited"], [
          ["mean", micros(overview.remote.mean_us), micros(overview.waited.mean_us)],
          ["99 of 100 are shorter than", micros(overview.remote.p99_us), micros(overview.waited.p99_us)],
          ["longest", micros(overview.remote.max_us), micros(overview.waited.max_us)],
        ]),
        h("p", { class: "hint" }, "Another node serves a remote access. An access that waited found the key, or a replica, on its way to its node.")),
      h("section", {}, h("h2", {}, "Events"), table("Events of each kind", ["Kind", "Count"], overview.kinds.map(([kind, n]) => [kind.replaceAll("_", " "), count(n)]))),
      h("section", {}, h("h2", {}, "Model"),
        table("Ranges of keys", ["Range", "Keys", "First key", "Numbers per value"],
          overview.ranges.map((range) => [range.name, count(Number(range.keys)), range.first, range.len]))),
      nodes.length > 1 && nodes.length <= 32 ? h("section", {}, h("h2", {}, "Network"), links) : null,
      h("section", {}, h("h2", {}, "Nodes and clocks"),
        table("Nodes and their clocks", ["Node", "Events", "Dropped", "Clock offset", "Error at most"],
          overview.node_states.map((state) => [
            h("span", { class: "node" }, swatch(state.node), ` ${state.node}`),
            count(state.events), count(state.dropped), micros(state.offset_us),
            state.error_us === null ? "not known" : micros(state.error_us)]))),
      overview.settings.length > 0
        ? h("section", {}, h("details", {}, h("summary", {}, "Settings"), table("Settings of the run", ["Setting", "Value"], overview.settings, 9)))
        : null),
    h("h2", {}, "Longest waits"),
    waitTable(overview.longest, span),
  );
  return { element, title: overview.title };
}

/** Lists of keys may be long. */
function shortened(text: string): string {
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
