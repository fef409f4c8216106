// The guided tour: five steps, each beside the view that it is about.

import type { Runs } from "./api";
import { h } from "./dom";
import { link } from "./place";

interface Look {
  text: string;
  path: string[];
  query?: Record<string, string | number>;
}

interface Step {
  title: string;
  text: string[];
  looks: Look[];
}

const STEPS: Step[] = [
  {
    title: "Background",
    text: [
      "Large models are trained by several nodes at once. Each node has a part of the training data, and its workers read and update parameters all the time. A parameter server gives every parameter a key, and workers pull (read) and push (add to) the values of keys.",
      "An access is fast if the parameter is at the worker's own node, and slow if a message must travel over the network. So it matters at which node each parameter is.",
    ],
    looks: [
      { text: "What this run trained", path: ["run", "kge-classic", "summary"] },
    ],
  },
  {
    title: "Static allocation",
    text: [
      "A classic parameter server assigns each key to one node, once. Here, every square is a parameter, and its colour is the node that owns it. Press Play: nothing moves.",
      "With N nodes and accesses that follow no pattern, only one access in N is local; all others wait for the network. The summary counts these remote accesses.",
    ],
    looks: [
      { text: "Replay", path: ["run", "kge-classic", "replay"] },
      { text: "Over time", path: ["run", "kge-classic", "time"] },
      { text: "Remote accesses", path: ["run", "kge-classic", "summary"] },
    ],
  },
  {
    title: "Dynamic allocation",
    text: [
      "Lapse moves parameters while training runs. A worker says that it will need a key (localize), and the key moves to its node in the background. Pull and push work at any node at any time, wherever the key is.",
      "Intendant's adaptive technique needs no such calls. Workers say which keys they intend to use, and when; it moves keys that one node needs, and copies those that several nodes need at the same time (hatched).",
    ],
    looks: [
      { text: "Lapse", path: ["run", "kge-lapse", "time"], query: { choose: "moved" } },
      { text: "Adaptive", path: ["run", "kge-adaptive", "time"], query: { choose: "replicated" } },
      { text: "Static beside dynamic", path: ["compare", "kge-classic", "kge-lapse"] },
    ],
  },
  {
    title: "Matrix factorisation: clustering and blocking",
    text: [
      "The rows of the matrix are divided among the nodes, so each node needs the factors of its own rows only: they are clustered, move there once, and stay.",
      "The factors of columns are needed by all nodes. The columns form blocks, and in each subepoch each worker has one block for itself; between subepochs the blocks change hands. Over time, this is a pattern of stairs.",
      "The affinity table says the same in numbers: row factors are at one node all the time, column factors are at every node for a similar share of time.",
    ],
    looks: [
      { text: "Over time", path: ["run", "mf-lapse", "time"] },
      { text: "Affinity", path: ["run", "mf-lapse", "affinity"], query: { list: "0,602,1800,4000,4026,4044" } },
      { text: "Static beside dynamic", path: ["compare", "mf-classic", "mf-lapse"] },
    ],
  },
  {
    title: "Knowledge graph embeddings: clustering and latency hiding",
    text: [
      "The triples of a knowledge graph are clustered by relation, so that a relation is used at one node. Entities are used everywhere: each worker localizes the entities of its next examples while it still computes the current ones. This hides the latency of the network.",
      "The picture over time is restless: entities move all the time, and no pattern shows. In the compared numbers, almost all remote accesses are gone nevertheless. Some accesses still wait for keys that are on their way.",
      "Under Why, see one key: who asked for it, when it came, and which accesses still waited.",
    ],
    looks: [
      { text: "Over time", path: ["run", "kge-lapse", "time"] },
      { text: "Why", path: ["run", "kge-lapse", "why"] },
      { text: "Static beside dynamic", path: ["compare", "kge-classic", "kge-lapse"] },
    ],
  },
];

/** Where a step begins. */
export function tourStart(number: number): { path: string[]; query: Record<string, string | number> } | undefined {
  const look = STEPS[number - 1]?.looks[0];
  return look === undefined ? undefined : { path: look.path, query: { ...look.query, tour: number } };
}

/** The panel of a step. */
export function tourPanel(number: number, current: string[], runs: Runs): HTMLElement | undefined {
  const step = STEPS[number - 1];
  if (step === undefined) return undefined;
  const known = (look: Look) =>
    look.path.slice(1).every((part) => runs.runs.some((run) => run.id === part) || ["summary", "replay", "time", "affinity", "why"].includes(part));
  const go = (to: number, text: string) => {
    const target = tourStart(to);
    return target === undefined ? null : h("a", { class: "button", href: link(target.path, target.query), rel: to > number ? "next" : "prev" }, text);
  };
  const looks = step.looks.filter(known);
  return h(
    "aside",
    { class: "tour", id: "tour", "aria-label": "Tour" },
    h("p", { class: "progress" }, `Step ${number} of ${STEPS.length}`),
    h("h2", {}, step.title),
    step.text.map((text) => h("p", {}, text)),
    looks.length < step.looks.length ? h("p", { class: "hint" }, "Some prepared traces of this step are not in this build.") : null,
    h("p", { class: "links" }, h("span", {}, "Look at:"), looks.map((look) =>
      h("a", {
        href: link(look.path, { ...look.query, tour: number }),
        "aria-current": look.path.join("/") === current.join("/") ? "page" : false,
      }, look.text))),
    h("p", { class: "bar" }, go(number - 1, "Back"), go(number + 1, "Next"), h("a", { href: "#/" }, "End the tour")),
  );
}
