// Affinity: how long keys were at each node, and how often they moved there.

import { api } from "../api";
import { button, fill, h, notice } from "../dom";
import { percentage } from "../format";
import { heading, swatch, tabs, warnings } from "../frame";
import { link } from "../place";
import type { App, Focus, View } from "../view";
import { words } from "../view";

export function affinity(app: App, focus: Focus): View {
  const { overview } = focus;
  const place = h("div", { id: "affinity" });
  const said = h("div", { id: "affinity-said", role: "status" });
  const input = h("input", { id: "affinity-keys", placeholder: "7,100..110", spellcheck: "false", autocomplete: "off" });
  const add = (keys: string[]) => {
    focus.affinity = [...new Set([...focus.affinity, ...keys])].slice(0, 200);
    focus.save();
    void load();
  };

  async function suggest(choose: string): Promise<void> {
    try {
      const matrix = await api.matrix(overview.id, { keys: focus.keys, rows: 8, choose, columns: 1 });
      add(matrix.keys);
    } catch (error) {
      fill(place, notice(words(error), "error"));
    }
  }

  async function load(): Promise<void> {
    if (focus.affinity.length === 0) {
      fill(said);
      fill(place, h("p", { class: "empty" }, "No keys yet: add some here, or select keys in the replay or over time."));
      return;
    }
    try {
      const found = await api.affinity(overview.id, focus.affinity.join(","));
      // What is no key of this run does not stay in the list.
      if (found.refused.length > 0) {
        focus.affinity = found.rows.map((row) => row.key);
        focus.save();
      }
      fill(said, found.refused.length === 0 ? null : notice(refusals(found.refused), "error"));
      show(found);
    } catch (error) {
      fill(place, notice(words(error), "error"));
    }
  }

  function show(found: Awaited<ReturnType<typeof api.affinity>>): void {
    const nodes = Array.from({ length: found.nodes }, (_, node) => node);
    const most = Math.max(1, ...found.rows.flatMap((row) => row.relocations));
    const heat = (share: number, text: string) => {
      const cell = h("td", { class: "number heat" }, text);
      cell.style.setProperty("--heat", share.toFixed(3));
      return cell;
    };
    const head = (label: string) => [
      ...nodes.map((node, at) =>
        h("th", { scope: "col", class: at === 0 ? "number first" : "number", "aria-label": `${label} ${node}` }, swatch(node), ` ${node}`)),
    ];
    fill(
      place,
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "Affinity of keys" },
        h(
          "table",
          { class: "affinity" },
          h("caption", {}, "Share of time at each node (%) and relocations to each node"),
          h("thead", {},
            h("tr", {}, h("td", {}), h("td", {}),
              h("th", { scope: "colgroup", colspan: found.nodes, class: "first" }, "Time at node (%)"),
              h("th", { scope: "colgroup", colspan: found.nodes, class: "first" }, "Relocations to node"),
              h("td", {})),
            h("tr", {}, h("th", { scope: "col" }, "Key"), h("th", { scope: "col" }, "Range"), head("Time at node"), head("Relocations to node"), h("td", {}))),
          h("tbody", {}, found.rows.map((row) =>
            h("tr", { "data-key": row.key },
              h("th", { scope: "row" }, h("a", { href: link(["run", overview.id, "why"], { ...focus.query(), key: row.key }) }, row.key)),
              h("td", {}, row.range),
              row.share.map((share) => heat(share, percentage(share))),
              row.relocations.map((moves) => heat(moves / most, String(moves))),
              h("td", {}, button("✕", () => {
                focus.affinity = focus.affinity.filter((key) => key !== row.key);
                focus.save();
                void load();
              }, { "aria-label": `Remove key ${row.key}`, title: "Remove" })))))),
      ),
    );
  }

  const element = h(
    "div",
    {},
    heading(overview),
    tabs(app, focus, "affinity"),
    warnings(overview),
    h("form", {
      class: "bar",
      "aria-label": "Keys of the table",
      onsubmit: (event: Event) => {
        event.preventDefault();
        const keys = expand(input.value);
        input.value = "";
        add(keys);
      },
    },
      h("label", { class: "field grow" }, h("span", {}, "Add keys"), input),
      h("button", { type: "submit", class: "primary" }, "Add"),
      button("Add keys that move most", () => void suggest("moved")),
      button("Add keys with most replicas", () => void suggest("replicated")),
      button("Remove all", () => {
        focus.affinity = [];
        focus.save();
        void load();
      })),
    said,
    place,
    h("p", { class: "hint" }, "Time between nodes, while a key is on its way, belongs to no node."),
  );
  void load();
  return { element, title: `Affinity in ${overview.title}` };
}

/** What was refused, the first few. */
function refusals(refused: [string, string][]): string {
  const more = refused.length > 3 ? `; and ${refused.length - 3} more` : "";
  return refused.slice(0, 3).map(([, reason]) => reason).join("; ") + more;
}

/** The keys of a list with ranges, the first 200 of them. What is no key is left to the server to refuse. */
function expand(text: string): string[] {
  const keys: string[] = [];
  for (const part of text.split(",").map((part) => part.trim()).filter((part) => part !== "")) {
    const range = /^(\d{1,15})\.\.(\d{1,15})$/.exec(part);
    if (range === null) {
      keys.push(part);
      continue;
    }
    for (let key = Number(range[1]); key < Number(range[2]) && keys.length < 200; key += 1) keys.push(String(key));
  }
  return keys.slice(0, 200);
}
