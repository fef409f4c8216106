// The first page: which run to look at.

import type { About, RunName } from "../api";
import { api } from "../api";
import { fill, h, notice } from "../dom";
import { mebibytes } from "../format";
import { go, link } from "../place";
import type { App, View } from "../view";
import { words } from "../view";

/** What a prepared run is about. */
export function about(about: About): HTMLElement {
  return h(
    "div",
    { class: "about" },
    h("p", {}, about.text),
    h("dl", {},
      h("dt", {}, "allocation"), h("dd", {}, `${about.allocation} (${about.technique})`),
      h("dt", {}, "locality techniques"), h("dd", {}, about.techniques_used.length === 0 ? "none" : about.techniques_used.join(", ")),
      h("dt", {}, "data"), h("dd", {}, about.data),
      h("dt", {}, "cluster"), h("dd", {}, about.cluster)),
    about.results.length === 0 ? null : [
      h("h4", {}, "In the report: all keys, training only"),
      h("dl", {}, about.results.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    ],
  );
}

function card(run: RunName): HTMLElement {
  return h(
    "article",
    { class: "card", "data-run": run.id },
    h("h3", {}, h("a", { href: link(["run", run.id, "summary"]) }, run.title)),
    run.about === null ? null : about(run.about),
    run.error === null ? null : notice(run.error, "error"),
    h("p", { class: "links" },
      h("a", { href: link(["run", run.id, "replay"]) }, "Replay"),
      h("a", { href: link(["run", run.id, "time"]) }, "Over time"),
      run.about?.pair ? h("a", { href: link(["compare", run.id, run.about.pair]) }, "Compare") : null),
  );
}

const TASKS: [string, string][] = [
  ["kge", "Knowledge graph embeddings"],
  ["word2vec", "Word vectors"],
  ["mf", "Matrix factorisation"],
];

export function start(app: App): View {
  const of = (source: RunName["source"]) => app.runs.runs.filter((run) => run.source === source);
  const prepared = of("prepared");
  const other = prepared.filter((run) => !TASKS.some(([task]) => task === run.about?.task));
  const section = (title: string, runs: RunName[]) =>
    runs.length === 0 ? null : h("section", {}, h("h2", {}, title), h("div", { class: "cards" }, runs.map(card)));
  const said = h("div", { id: "upload-said" });
  const file = h("input", { type: "file", id: "upload", multiple: true, accept: ".parquet,.trace", onchange: () => void send(file.files) });
  const drop = h("label", { class: "drop", for: "upload" },
    h("b", {}, "Open a trace of your own"),
    h("span", {}, `Choose the files node-N.trace of a run, or one merged .parquet file; up to ${mebibytes(app.runs.upload_bytes_max)}. They go to the machine of the dashboard only, which keeps the newest ${app.runs.uploads_max} uploads until it ends.`),
    file);

  async function send(files: FileList | File[] | null): Promise<void> {
    if (files === null || files.length === 0) return;
    const total = Array.from(files).reduce((sum, file) => sum + file.size, 0);
    if (total > app.runs.upload_bytes_max) {
      fill(said, notice(`These files have ${mebibytes(total)}; the server takes up to ${mebibytes(app.runs.upload_bytes_max)}. Record fewer keys, or start it with --upload-max.`, "error"));
      return;
    }
    fill(said, notice("The trace is being read."));
    try {
      const run = await api.upload(files);
      await app.reload();
      if (run.dropped !== null) app.said = `The oldest upload, ${run.dropped}, is gone: the dashboard keeps the newest ${app.runs.uploads_max}.`;
      go(["run", run.id, "summary"]);
    } catch (error) {
      fill(said, notice(words(error), "error"));
    }
  }
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    void send(event.dataTransfer?.files ?? null);
  });

  const element = h(
    "div",
    { class: "start" },
    h("div", { class: "hero" },
      h("h1", { tabindex: "-1" }, "See parameters move"),
      h("p", {}, "Intendant moves and copies parameters between the nodes of a cluster, so that workers find them where they need them. These views show which node had which parameter at which time, and why."),
      h("p", { class: "links" },
        h("a", { class: "button primary", href: link(["tour", "1"]) }, "Take the tour"),
        app.runs.live === null ? null : h("a", { class: "button", href: link(["live"]) }, "Watch the running cluster"))),
    section("Your traces", of("given")),
    section("Uploaded traces", of("uploaded")),
    TASKS.map(([task, title]) => section(title, prepared.filter((run) => run.about?.task === task))),
    section("Other runs", other),
    h("section", {}, h("h2", {}, "Upload"), drop, said,
      h("p", { class: "hint" }, "Programs record a trace with --trace DIR; intendant trace merge makes one file of a folder.")),
  );
  return { element, title: "Start" };
}
