// Live: the numbers of a running cluster.

import type { LiveAnswer, LiveNode } from "../api";
import { api } from "../api";
import type { Mark } from "../chart";
import { Chart, nodeLine } from "../chart";
import { fill, h, notice, table, variable } from "../dom";
import { bytes, compact, count, percent } from "../format";
import { swatch } from "../frame";
import { Kept } from "../kept";
import { colour } from "../palette";
import type { App, View } from "../view";
import { words } from "../view";

const EVERY_MS = 1000;

export function live(app: App): View {
  if (app.runs.live === null) {
    return {
      element: h("div", {}, h("h1", { tabindex: "-1" }, "Live"),
        h("p", { class: "empty" }, "No cluster is being watched. Start the training with --metrics 9100, and the dashboard with --live 9100.")),
      title: "Live",
    };
  }
  const kept = new Kept();
  let newest = 0;
  let started = 0;
  let charts: Chart[] = [];
  let nodes = 0;
  let timer: number | undefined;
  let last: LiveAnswer | undefined;
  /** By node: since when it does not answer, on the clock of this page. */
  const silent = new Map<number, number>();
  const said = h("p", { class: "facts", id: "live-said" });
  const trouble = h("div", { role: "alert", id: "live-trouble" });
  const place = h("div", { class: "charts" });
  const states = h("div", { id: "live-nodes" });
  const tiles = h("dl", { class: "tiles", id: "live-tiles" });

  const at = (answer: LiveAnswer, name: string) => answer.series.indexOf(name);

  /** Begins anew, for so many nodes. */
  function begin(answer: LiveAnswer): void {
    charts.forEach((chart) => chart.close());
    nodes = answer.nodes.length;
    const seconds = (value: number) => `${Math.round(value * 10) / 10} s`;
    const one = [{ label: "cluster", color: colour(0) }];
    const perNode = answer.nodes.slice(0, 64).map((node) => nodeLine(`node ${node.node}`, node.node, app.runs.palette.length));
    charts = [
      new Chart("Examples per second", one, seconds, compact),
      new Chart("Local share of accesses", one, seconds, percent),
      new Chart("Synchronisation rounds per second", one, seconds, compact),
      new Chart("Bytes sent per second", one, seconds, bytes),
      new Chart("Relocations and replicas per second", [{ label: "relocations", color: colour(0) }, { label: "replicas", color: colour(5), dash: [6, 3] }], seconds, compact),
      new Chart("Waiting commands and operations", [{ label: "commands", color: colour(0) }, { label: "operations", color: colour(5), dash: [6, 3] }], seconds, compact),
      new Chart("Memory per node", perNode, seconds, bytes),
      new Chart("Values held per node", perNode, seconds, compact),
    ];
    fill(place, charts.map((chart) => chart.element));
  }

  function add(answer: LiveAnswer): void {
    if (answer.started_unix_ms !== started || answer.newest < newest) {
      started = answer.started_unix_ms;
      kept.clear();
    }
    newest = answer.newest;
    kept.add(answer);
    if (answer.nodes.length !== nodes) begin(answer);
  }

  function show(answer: LiveAnswer): void {
    const x = kept.times();
    const shown = x.map((time) => (time - started) / 1000);
    const marks = answer.marks.slice(-60).map((mark) => markOf(mark, started));
    const of = (name: string) => at(answer, name);
    const local = kept.rate(of("local"), x);
    const remote = kept.rate(of("remote"), x);
    const share = local.map((value, at) => {
      const all = (value ?? 0) + (remote[at] ?? 0);
      return value === null || all === 0 ? null : value / all;
    });
    const each = (name: string) => answer.nodes.slice(0, 64).map((node) => kept.known(node.node, of(name), x));
    const data = [
      [kept.rate(of("examples"), x)],
      [share],
      [kept.rate(of("rounds"), x)],
      [kept.rate(of("bytes"), x)],
      [kept.rate(of("relocations"), x), kept.rate(of("replica_setups"), x)],
      [kept.summed(of("inbox"), x), kept.summed(of("operations"), x)],
      each("memory"),
      each("held"),
    ];
    charts.forEach((chart, at) => chart.set(shown, data[at] ?? [], marks));
    const total = (name: string) => kept.total(of(name));
    const text = (value: number | null, format: (value: number) => string) => (value === null ? "–" : format(value));
    const accesses = (total("local") ?? 0) + (total("remote") ?? 0);
    const [epoch, epochs] = [kept.highest(of("epoch")), kept.highest(of("epochs"))];
    const answering = answer.nodes.filter((node) => node.state === "answers").length;
    const entries: [string, string][] = [
      ["epoch", epoch === null ? "–" : `${epoch}${epochs ? ` of ${epochs}` : ""}`],
      ["examples", text(total("examples"), count)],
      ["local share", accesses === 0 ? "–" : percent((total("local") ?? 0) / accesses)],
      ["relocations", text(total("relocations"), count)],
      ["replicas set up", text(total("replica_setups"), count)],
      ["bytes sent", text(total("bytes"), bytes)],
      ["checkpoints", count(answer.marks.filter((mark) => mark.kind === "checkpoint").length)],
      ["nodes answering", `${answering} of ${answer.nodes.length}`],
      // Nodes that answer tell of those that do not.
      ["nodes lost", answering === 0 ? "–" : count(answer.marks.filter((mark) => mark.kind === "lost").length)],
    ];
    fill(tiles, entries.map(([name, value]) => h("div", { "data-name": name }, h("dt", {}, name), h("dd", {}, value))));
    fill(said, [answer.task, answer.technique, `${answer.nodes.length} nodes`, answer.address].filter((text) => text !== "").map((text) => h("span", {}, text)));
    const words = { answers: "answers", waiting: "has not answered yet", silent: "does not answer any more" };
    fill(states, h("h2", {}, "Nodes"), table("Nodes", ["Node", "State", "Address", "Memory", "Values held"], answer.nodes.map((node) => [
      h("span", { class: "node" }, swatch(node.node), ` ${node.node}`),
      h("span", { class: `state ${node.state}` }, words[node.state], node.error === null ? "" : `: ${node.error}`),
      node.address ?? "–",
      text(kept.known(node.node, of("memory"), x).at(-1) ?? null, bytes),
      text(kept.known(node.node, of("held"), x).at(-1) ?? null, count),
    ]), 3));
  }

  /** What does not answer, above all. Screen readers say it when it changes. */
  function tell(text: string, isDead: boolean): void {
    if (trouble.textContent === text) return;
    const said = text === "" ? null : notice(text, "error");
    if (isDead) said?.classList.add("dead");
    fill(trouble, said);
  }

  function check(answer: LiveAnswer): void {
    for (const node of answer.nodes) {
      if (node.silent_ms === null) silent.delete(node.node);
      else if (!silent.has(node.node)) silent.set(node.node, Date.now() - node.silent_ms);
    }
    const of = (state: LiveNode["state"]) => answer.nodes.filter((node) => node.state === state);
    const since = (time: number) => new Date(time).toLocaleTimeString("en-GB");
    const heard = answer.nodes.length - of("waiting").length;
    // Without any answer, there are no numbers.
    const isEmpty = heard === 0;
    const isDead = of("answers").length === 0;
    [tiles, place, states].forEach((part) => {
      part.hidden = isEmpty;
      part.classList.toggle("stale", isDead && part !== states);
    });
    const reasons = [...new Set(answer.nodes.map((node) => node.error).filter((error) => error !== null))];
    const reason = reasons.length === 0 ? "" : ` (${reasons.slice(0, 3).join("; ")})`;
    if (isEmpty) {
      tell(reasons.length === 0
        ? `The node at ${answer.address} is being asked.`
        : `There are no numbers of a cluster from ${answer.address}: ${reasons.slice(0, 3).join("; ")}. Is a training running there with --metrics? This page goes on asking.`, reasons.length > 0);
    } else if (isDead) {
      tell(`● No node answers, since ${since(Math.max(...silent.values()))}${reason}: the run has ended or has crashed. The numbers below are its last ones.`, true);
    } else if (silent.size > 0) {
      const nodes = [...silent].slice(0, 16).map(([node, time]) => `${node} (since ${since(time)})`).join(", ");
      tell(`${silent.size} of ${answer.nodes.length} nodes do not answer${reason}: ${nodes}${silent.size > 16 ? ", and more" : ""}.`, false);
    } else {
      tell("", false);
    }
  }

  async function poll(): Promise<void> {
    try {
      const answer = await api.live(newest);
      last = answer;
      check(answer);
      add(answer);
      show(answer);
    } catch (error) {
      tell(`The dashboard does not answer: ${words(error)}`, true);
    }
    if (timer !== -1) timer = window.setTimeout(() => void poll(), EVERY_MS);
  }
  const themed = () => {
    if (last !== undefined) charts.forEach((chart) => chart.redraw());
  };
  document.addEventListener("themed", themed);
  void poll();
  return {
    element: h("div", { class: "live" },
      h("div", { class: "heading" }, h("h1", { tabindex: "-1" }, "Live"), said), trouble, tiles, place,
      states),
    title: "Live",
    close: () => {
      window.clearTimeout(timer);
      timer = -1;
      document.removeEventListener("themed", themed);
      charts.forEach((chart) => chart.close());
    },
  };
}

/** How a mark is drawn: losses at the top, then epochs, then checkpoints. */
function markOf(mark: LiveAnswer["marks"][number], started: number): Mark {
  const x = (mark.at_unix_ms - started) / 1000;
  const number = mark.number ?? "";
  if (mark.kind === "lost") return { x, text: `node ${mark.node ?? "?"} lost`, color: variable("--error"), row: 0 };
  if (mark.kind === "checkpoint") return { x, text: `checkpoint ${number}`, color: variable("--ok"), row: 2 };
  return { x, text: `${mark.kind} ${number}`, color: variable("--muted"), row: 1 };
}
