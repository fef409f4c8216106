// Drives the page in Chromium, and checks what it shows against the files of the nodes.
//
//   node e2e/run.mjs [FOLDER-OF-PROGRAMS [PROGRAM-WITH-METRICS]]     default: target/debug of the project
//
// Screenshots are in target/dashboard-e2e.
import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { bundled } from "./bundle.mjs";
import { tests as keptTests } from "./kept.mjs";
import { run, start, stopAll } from "./program.mjs";
import { Run } from "./trace.mjs";

const { bytes, compact, mebibytes, micros, percent } = await bundled("format.ts");
const root = resolve(dirname(fileURLToPath(import.meta.url)), "../../../..");
const bin = resolve(process.argv[2] ?? join(root, "target/debug"));
const kge = join(bin, "intendant-kge");
const measured = resolve(process.argv[3] ?? kge);
const shots = join(root, "target/dashboard-e2e");
const work = mkdtempSync(join(tmpdir(), "dashboard-e2e-"));
rmSync(shots, { recursive: true, force: true });
mkdirSync(shots, { recursive: true });
const number = (value) => new Intl.NumberFormat("en-GB").format(value);
const files = (folder, nodes) => Array.from({ length: nodes }, (_, node) => join(folder, `node-${node}.trace`));

const problems = [];

/** A page that notes all that goes wrong in it. */
async function open(browser, base, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light", reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("console", (message) => {
    // The test itself reads colours back.
    const isOwn = message.text().includes("getImageData");
    if (["error", "warning"].includes(message.type()) && !isOwn) problems.push(`${message.type()}: ${message.text()}`);
  });
  page.on("dialog", (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(base) && !request.url().startsWith("data:")) problems.push(`request to ${request.url()}`);
  });
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  });
  await page.goto(base);
  return page;
}

const go = async (page, hash) => {
  await page.evaluate((hash) => {
    document.querySelectorAll("canvas").forEach((canvas) => delete canvas.dataset.ready);
    location.hash = hash;
  }, hash);
};
const ready = (page, canvas) => page.waitForSelector(`${canvas}[data-ready]`);
const tile = async (page, name) => (await page.textContent(`[data-name="${name}"] dd`)).trim();

/** The colour of a point of a canvas, in CSS pixels. */
const pixel = (page, canvas, x, y) =>
  page.evaluate(([canvas, x, y]) => {
    const element = document.querySelector(canvas);
    const ratio = element.width / element.clientWidth;
    const [r, g, b] = element.getContext("2d").getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data;
    return `#${[r, g, b].map((part) => part.toString(16).padStart(2, "0")).join("")}`;
  }, [canvas, x, y]);

const api = async (page, path) => page.evaluate(async (path) => (await fetch(path)).json(), path);

const tests = {
  async "the first page lists the prepared traces of three tasks"(page) {
    await page.waitForSelector("article");
    for (const task of ["kge", "word2vec", "mf"]) {
      for (const technique of ["classic", "lapse", "adaptive"]) await page.waitForSelector(`[data-run="${task}-${technique}"]`);
    }
    assert.equal(await page.locator('[data-run^="trace-"]').count(), 6);
    // A card tells what is wrong with its trace, and which numbers are of all keys.
    assert.match(await page.textContent('[data-run="trace-6"] .notice.error'), /it has no traces; name a folder/);
    assert.match(await page.textContent('[data-run="kge-lapse"] h4'), /all keys/);
    assert.match(await page.textContent('[data-run="kge-lapse"]'), /65,107/);
    assert.match(await page.textContent(".drop"), /up to 512 MiB.*newest 4 uploads/);
  },

  async "the summary tells the numbers of the trace"(page, { adaptive }) {
    await go(page, "#/run/trace-1/summary");
    await page.waitForSelector("#tiles");
    assert.equal(await tile(page, "events"), number(adaptive.events.length));
    assert.equal(await tile(page, "relocations"), number(adaptive.count("arrived")));
    assert.equal(await tile(page, "replicas set up"), number(adaptive.count("replica_set_up")));
    assert.equal(await tile(page, "remote accesses"), number(adaptive.count("remote")));
    assert.equal(await tile(page, "accesses that waited"), number(adaptive.count("waited")));
    assert.equal(await tile(page, "localization conflicts"), number(adaptive.count("conflict")));
    assert.equal(await tile(page, "bytes sent"), bytes(adaptive.sum("sent")));
    assert.equal(await tile(page, "sync rounds"), number(adaptive.count("synced")));
  },

  async "accesses that waited are told apart from remote ones"(page, { lapse }) {
    const counts = new Map();
    for (const event of lapse.events) if (event.kind === "waited") counts.set(event.key, (counts.get(event.key) ?? 0) + 1);
    assert.ok(counts.size > 0, "some accesses waited");
    const [key] = [...counts].sort((a, b) => b[1] - a[1])[0];
    await go(page, "#/run/trace-3/summary");
    await page.waitForSelector("#tiles");
    assert.equal(await tile(page, "accesses that waited"), number(lapse.count("waited")));
    assert.equal(await tile(page, "remote accesses"), number(lapse.count("remote")));
    await go(page, `#/run/trace-3/why?key=${key}`);
    await ready(page, "#why");
    for (let node = 0; node < 3; node += 1) {
      const cells = await page.locator("#why-numbers tbody tr").nth(node).locator("td").allTextContents();
      const own = lapse.of(key).filter((event) => event.kind === "waited" && event.node === node);
      assert.equal(cells[2], number(own.length), `node ${node}`);
      assert.equal(cells[3], micros(own.reduce((sum, event) => sum + event.detail, 0)), `node ${node}`);
    }
  },

  async "the replay shows the owners of a moment, plays, pauses, steps and seeks"(page, { adaptive, palette, homes }) {
    const keys = 400;
    await go(page, `#/run/trace-1/replay?keys=0..${keys}`);
    await ready(page, "#grid");
    const columns = Number(await page.getAttribute("#seek", "max")) + 1;
    for (const column of [0, Math.floor(columns / 3), columns - 1]) {
      await page.locator("#seek").fill(String(column));
      const at = Math.floor(adaptive.from + ((adaptive.to - adaptive.from) * column) / columns);
      const owned = new Map();
      let replicated = 0;
      for (let key = 0; key < keys; key += 1) {
        const owner = adaptive.ownerAt(key, homes.get(key), at) ?? 4095;
        owned.set(owner, (owned.get(owner) ?? 0) + 1);
        replicated += adaptive.replicasAt(key, at).length > 0 ? 1 : 0;
      }
      for (const node of [0, 1, 2, 4095]) {
        assert.equal(await page.textContent(`.legend [data-node="${node}"]`), number(owned.get(node) ?? 0), `node ${node} at ${at}`);
      }
      assert.equal(await page.textContent('.legend [data-node="replicas"]'), number(replicated));
    }
    // Squares are drawn in the owner's colour, and a click tells more.
    const column = Math.floor(columns / 2);
    await page.locator("#seek").fill(String(column));
    const at = Math.floor(adaptive.from + ((adaptive.to - adaptive.from) * column) / columns);
    const box = await page.locator("#grid").boundingBox();
    const size = Math.max(6, Math.min(34, Math.floor(Math.sqrt((Math.floor(box.width) * Math.min(Math.floor(box.width), 560)) / keys))));
    const across = Math.floor(Math.floor(box.width) / size);
    let tried = 0;
    for (let key = 0; key < keys && tried < 12; key += 7) {
      const owner = adaptive.ownerAt(key, homes.get(key), at);
      if (owner === undefined || adaptive.replicasAt(key, at).length > 0) continue;
      const [x, y] = [(key % across) * size, Math.floor(key / across) * size];
      assert.equal(await pixel(page, "#grid", x + 2, y + 2), palette[owner], `key ${key}`);
      tried += 1;
    }
    assert.ok(tried > 3);
    const key = 123;
    await page.locator("#grid").click({ position: { x: (key % across) * size + size / 2, y: Math.floor(key / across) * size + size / 2 } });
    await page.waitForSelector("#chosen h2");
    assert.equal(await page.textContent("#chosen h2"), `Key ${key}`);
    const owner = adaptive.ownerAt(key, homes.get(key), at);
    assert.equal(await page.textContent("#chosen-owner"), owner === undefined ? "on its way" : `node ${owner}`);
    assert.equal(await page.textContent("#chosen-replicas"), adaptive.replicasAt(key, at).join(", ") || "none");
    // Play and pause, by mouse and by key.
    await page.locator("#seek").fill("0");
    await page.selectOption("#speed", "8");
    await page.click("#play");
    await page.waitForFunction(() => Number(document.querySelector("#seek").value) > 5);
    await page.click("#play");
    const stopped = await page.inputValue("#seek");
    await page.locator("#grid").focus();
    await page.keyboard.press(".");
    assert.equal(await page.inputValue("#seek"), String(Number(stopped) + 1));
    await page.keyboard.press(",");
    assert.equal(await page.inputValue("#seek"), stopped);
    await page.keyboard.press("Space");
    await page.waitForFunction((before) => Number(document.querySelector("#seek").value) > before, Number(stopped));
    await page.keyboard.press("Space");
    await page.keyboard.press("n");
    await page.keyboard.press("ArrowRight");
    assert.match(await page.textContent("#tip"), /^Key \d+: /);
  },

  async "over time shows rows in the colours of their owners, and zooms"(page, { adaptive, palette, homes }) {
    const keys = 50;
    await go(page, `#/run/trace-1/time?keys=0..${keys}`);
    await ready(page, "#time");
    assert.equal(await page.textContent("#focus-said"), `${keys} keys are shown.`);
    const box = await page.locator("#time").boundingBox();
    const full = Math.floor(box.width);
    const left = Math.min(2 * 7 + 12, Math.floor(full / 4));
    const width = full - left - 8;
    const height = Math.max(3, Math.min(18, Math.floor(520 / keys)));
    let tried = 0;
    for (let key = 0; key < keys; key += 1) {
      const moves = adaptive.moves(key, homes.get(key));
      for (let at = 0; at < moves.length; at += 1) {
        const [start, end] = [moves[at].at, moves[at + 1]?.at ?? adaptive.to];
        const middle = Math.floor((start + end) / 2);
        const isLong = (end - start) / (adaptive.to - adaptive.from) > 8 / width;
        const calm = [start, middle, end].every((time) => adaptive.replicasAt(key, time).length === 0)
          && !adaptive.of(key).some((event) => event.kind === "replica_set_up" && event.at >= start && event.at <= end);
        if (moves[at].owner === undefined || !isLong || !calm) continue;
        const x = left + ((middle - adaptive.from) / (adaptive.to - adaptive.from)) * width;
        assert.equal(await pixel(page, "#time", x, 4 + key * height + height / 2 - 1), palette[moves[at].owner], `key ${key} at ${middle}`);
        tried += 1;
      }
    }
    assert.ok(tried > 20, `${tried}`);
    const before = await page.textContent("#time-window");
    await page.click('button[aria-label="Zoom in"]');
    await page.waitForFunction((before) => document.querySelector("#time-window").textContent !== before, before);
    assert.match(page.url(), /from=\d+&to=\d+/);
    await page.keyboard.press("0");
    await page.waitForFunction((before) => document.querySelector("#time-window").textContent === before, before);
    await page.mouse.move(box.x + left + width * 0.25, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + left + width * 0.5, box.y + 60, { steps: 4 });
    await page.mouse.up();
    await page.waitForFunction((before) => document.querySelector("#time-window").textContent !== before, before);
    const from = Number(/from=(\d+)/.exec(page.url())[1]);
    const expected = adaptive.from + (adaptive.to - adaptive.from) * 0.25;
    assert.ok(Math.abs(from - expected) < ((adaptive.to - adaptive.from) / width) * 3, `${from} ${expected}`);
    // What names no keys is refused in words.
    await page.fill("#focus-keys", "<script>alert(1)</script>");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#focus-said.error");
    assert.match(await page.textContent("#focus-said"), /names no keys/);
    problems.splice(0, problems.length, ...problems.filter((problem) => !problem.includes("400 (Bad Request)")));
  },

  async "the affinity table tells shares of time and relocations"(page, { adaptive, homes }) {
    await go(page, "#/run/trace-1/affinity");
    await page.fill("#affinity-keys", "3,100..104");
    await page.keyboard.press("Enter");
    await page.waitForSelector('tr[data-key="103"]');
    for (const key of [3, 100, 101, 102, 103]) {
      const cells = await page.locator(`tr[data-key="${key}"] td.number`).allTextContents();
      const shares = adaptive.shares(key, homes.get(key));
      for (let node = 0; node < 3; node += 1) {
        assert.ok(Math.abs(Number(cells[node]) - shares[node] * 100) <= 0.5001, `key ${key} at node ${node}: ${cells[node]} ${shares[node]}`);
        const moves = adaptive.of(key).filter((event) => event.kind === "arrived" && event.node === node).length;
        assert.equal(cells[3 + node], String(moves));
      }
    }
    await page.click('button[aria-label="Remove key 101"]');
    await page.waitForSelector('tr[data-key="101"]', { state: "detached" });
    assert.equal(await page.locator("tr[data-key]").count(), 4);
    // What is no key of the run is said, and does not stay.
    await page.fill("#affinity-keys", "<b>,99999999,5");
    await page.keyboard.press("Enter");
    await page.waitForSelector('tr[data-key="5"]');
    assert.match(await page.textContent("#affinity-said"), /"<b>" is no key.*key 99999999 is not in this trace/);
    assert.equal(await page.locator("tr[data-key]").count(), 5);
    assert.ok(!page.url().includes("99999999"), page.url());
  },

  async "why tells what happened to a key"(page, { adaptive }) {
    const counts = new Map();
    for (const event of adaptive.events) if (event.kind === "remote") counts.set(event.key, (counts.get(event.key) ?? 0) + 1);
    const key = [...counts].sort((a, b) => b[1] - a[1])[0][0];
    await go(page, `#/run/trace-1/why?key=${key}`);
    await ready(page, "#why");
    const own = adaptive.of(key);
    assert.match(await page.textContent("#why-facts"), new RegExp(`; ${number(own.length)} events in this time`));
    const rows = await page.locator("#decisions tbody tr").count();
    assert.equal(rows, Math.min(own.length, 100));
    for (let node = 0; node < 3; node += 1) {
      const cells = await page.locator("#why-numbers tbody tr").nth(node).locator("td").allTextContents();
      const remote = own.filter((event) => event.kind === "remote" && event.node === node).length;
      assert.equal(cells[0], number(remote), `remote accesses of node ${node}`);
      const waited = own.filter((event) => event.kind === "waited" && event.node === node).length;
      assert.equal(cells[2], number(waited), `accesses of node ${node} that waited`);
    }
    const waits = own.filter((event) => event.kind === "remote" || event.kind === "waited").map((event) => event.detail);
    waits.sort((a, b) => b - a);
    const shown = await page.locator("#why-waits tbody tr").evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
    assert.deepEqual(shown.map((cells) => cells[5]), waits.slice(0, 10).map(micros));
    assert.ok(shown.every((cells) => cells[6].length > 5), "every wait has a cause");
    const all = await page.textContent("#decisions");
    if (own.some((event) => event.kind === "left")) assert.match(all, /moves to node|comes from node/);
    // A key that is none.
    await page.fill("#why-key", "<img src=x onerror=alert(1)>");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#why-facts .error");
    problems.splice(0, problems.length, ...problems.filter((problem) => !problem.includes("400 (Bad Request)")));
  },

  async "why begins with the first events of another time"(page) {
    const total = async () => Number(/; ([\d,]+) events/.exec(await page.textContent("#why-facts"))?.[1].replaceAll(",", "") ?? NaN);
    const changed = (selector, before) =>
      page.waitForFunction(([selector, before]) => document.querySelector(selector).textContent !== before, [selector, before]);
    // Without a key, the view shows the one that moves most.
    await go(page, "#/run/mf-lapse/why");
    await ready(page, "#why");
    const all = await total();
    assert.ok(all > 101, `the key that moves most has ${all} events`);
    while (!(await page.locator('#decisions button:text-is("Later")').isDisabled())) {
      const before = await page.textContent("#decisions .bar");
      await page.click('#decisions button:text-is("Later")');
      await changed("#decisions .bar", before);
    }
    const before = await page.textContent("#why-facts");
    await page.click('button[aria-label="Zoom in"]');
    await changed("#why-facts", before);
    const shown = await total();
    assert.ok(shown > 0 && shown < all, `${shown} of ${all}`);
    assert.equal(await page.locator("#decisions tbody tr").count(), Math.min(100, shown));
  },

  async "compare shows the numbers of both runs"(page, { adaptive, classic }) {
    await go(page, "#/compare/trace-2/trace-1");
    await ready(page, "#compare-0");
    await ready(page, "#compare-1");
    const row = async (name) => {
      const rows = page.locator("#compare-numbers tbody tr").filter({ has: page.locator(`th:text-is("${name}")`) });
      return rows.locator("td").allTextContents();
    };
    for (const [name, kind] of [["remote accesses", "remote"], ["accesses that waited", "waited"], ["relocations", "arrived"], ["replicas set up", "replica_set_up"]]) {
      assert.deepEqual((await row(name)).slice(0, 2), [number(classic.count(kind)), number(adaptive.count(kind))], name);
    }
    await page.selectOption("#compare-axis", "own");
    await page.waitForFunction(() => location.hash.includes("axis=own"));
  },

  async "compare tells what is not alike, and shows no ratio for it"(page, { lapse }) {
    const ratios = async () => Object.fromEntries(await page.locator("#compare-numbers tbody tr")
      .evaluateAll((rows) => rows.map((row) => [row.cells[0].textContent, row.cells[3].textContent])));
    await go(page, "#/compare/trace-2/trace-1");
    await ready(page, "#compare-1");
    assert.equal(await page.locator("#doubts").count(), 0);
    assert.match((await ratios())["remote accesses"], /×/);
    // All keys beside some of them: rows are those that both have.
    await go(page, "#/compare/trace-3/trace-4");
    await ready(page, "#compare-0");
    await ready(page, "#compare-1");
    assert.match(await page.textContent("#doubts"), /different keys were traced/);
    await page.waitForFunction(() => document.querySelector("#focus-said").textContent.includes("both traces have"));
    const keys = lapse.header.ranges.reduce((sum, range) => sum + range.keys, 0);
    assert.equal(await page.textContent("#focus-said"), `5 keys are shown that both traces have: A has ${number(keys)}, B 5.`);
    const some = await ratios();
    assert.deepEqual(["remote accesses", "mean wait of a remote access", "relocations"].map((name) => some[name]), ["–", "–", "–"]);
    assert.notEqual(some["bytes sent"], "–");
    // Another task.
    await go(page, "#/compare/kge-lapse/mf-lapse");
    await ready(page, "#compare-0");
    await ready(page, "#compare-1");
    assert.match(await page.textContent("#doubts"), /different tasks.*different numbers of keys/);
    assert.deepEqual([...new Set(Object.values(await ratios()))], ["–"]);
    await page.waitForFunction(() => document.querySelector("#focus-said").textContent.startsWith("Rows do not show the same keys"));
  },

  async "every view of a trace that is not whole says so"(page) {
    for (const [view, canvas] of [["replay", "#grid"], ["time", "#time"], ["why", "#why"], ["affinity", "#affinity"]]) {
      await go(page, `#/run/trace-5/${view}`);
      await page.waitForSelector(canvas);
      assert.match(await page.textContent(".notice.warning"), /there is no file of node 1/, view);
      assert.equal(await page.getAttribute(".notice.warning a", "href"), "#/run/trace-5/summary");
    }
    await go(page, "#/compare/trace-1/trace-5");
    await page.waitForSelector("#compare-0");
    assert.match(await page.textContent(".notice.warning"), /Trace B is not whole: .*node 1/);
    await go(page, "#/run/trace-1/time");
    await ready(page, "#time");
    assert.equal(await page.locator(".notice.warning").count(), 0);
    // The legend has the colour of keys that are on their way, and that of what is not known only if there is any.
    assert.equal(await pixel(page, '.legend li:has([data-node="4095"]) canvas', 8, 8), "#ffffff");
    assert.equal(await page.locator('.legend li:has([data-node="4094"])').isVisible(), false);
  },

  async "numbers of axes differ, and only nothing is 0 %"() {
    const axis = (format, step, values) => values.map((value) => format(value, step));
    assert.deepEqual(axis(compact, 0.25, [0, 0.25, 0.5, 0.75]), ["0", "0.25", "0.5", "0.75"]);
    assert.deepEqual(axis(compact, 50, [9950, 10_000, 10_050]).map((text) => text.toUpperCase()), ["9,950", "10K", "10.05K"]);
    assert.deepEqual(axis(bytes, 0.25, [0, 0.25, 0.5, 1]), ["0 B", "0.25 B", "0.5 B", "1 B"]);
    assert.deepEqual(axis(bytes, 500, [0, 500, 1000, 1500]), ["0 B", "500 B", "1 kB", "1.5 kB"]);
    assert.deepEqual(axis(percent, 0.005, [0.99, 0.995, 1]), ["99.0 %", "99.5 %", "100 %"]);
    assert.deepEqual([1, 0.995, 0.9996, 0.99999, 0.5, 0.05, 0.0004, 0].map((share) => percent(share)),
      ["100 %", "99.5 %", "99.96 %", "99.999 %", "50 %", "5.0 %", "0.04 %", "0 %"]);
    assert.deepEqual([999, 999_999, 118_460_000, 0].map((value) => bytes(value)), ["999 B", "1 MB", "118 MB", "0 B"]);
    assert.deepEqual([512 << 20, (512 << 20) + 1].map(mebibytes), ["512 MiB", "512.1 MiB"]);
  },

  async "the tour leads through five steps"(page) {
    await go(page, "#/tour/1");
    for (let step = 1; step <= 5; step += 1) {
      await page.waitForSelector(`#tour .progress:text-is("Step ${step} of 5")`);
      const links = await page.locator("#tour .links a").count();
      assert.ok(links >= 1);
      for (let at = 0; at < links; at += 1) {
        await page.locator("#tour .links a").nth(at).click();
        await page.waitForFunction((at) => document.querySelectorAll("#tour .links a")[at]?.getAttribute("aria-current") === "page", at);
        await page.waitForSelector("main h1");
        assert.equal(await page.locator(".notice.error").count(), 0, `step ${step}`);
      }
      if (step < 5) await page.click('#tour a[rel="next"]');
    }
  },

  async "own traces can be uploaded, and what is none is refused"(page, { real, realFiles }) {
    await go(page, "#/");
    await page.waitForSelector("#upload");
    const hostile = join(work, "<img src=x onerror=alert(1)>.trace");
    writeFileSync(hostile, Buffer.alloc(100_000));
    await page.setInputFiles("#upload", hostile);
    await page.waitForSelector("#upload-said .error");
    assert.match(await page.textContent("#upload-said"), /^<img src=x onerror=alert\(1\)>\.trace: it is no trace; upload a merged Parquet file/);
    problems.splice(0, problems.length, ...problems.filter((problem) => !problem.includes("422 (Unprocessable")));
    await page.setInputFiles("#upload", realFiles);
    await page.waitForSelector("#tiles");
    assert.equal(await tile(page, "events"), number(real.events.length));
    assert.equal(await tile(page, "relocations"), number(real.count("arrived")));
    assert.equal(await tile(page, "remote accesses"), number(real.count("remote")));
    await page.click('.tabs a:text-is("Replay")');
    await ready(page, "#grid");
    // The fifth upload drops the first one, and says so.
    for (let upload = 0; upload < 4; upload += 1) {
      await go(page, "#/");
      await page.waitForSelector("#upload");
      assert.equal(await page.locator(".notice").filter({ hasText: "The oldest upload" }).count(), 0);
      await page.setInputFiles("#upload", realFiles);
      await page.waitForSelector("#tiles");
    }
    assert.match(await page.textContent(".notice"), /The oldest upload, node-0\.trace and 1 more, is gone: the dashboard keeps the newest 4/);
  },

  async "what no node answers is said at the top"(page) {
    // Nothing listens at this address.
    const other = await start(join(bin, "intendant"), ["dashboard", "--live", "1", "--listen", "127.0.0.1:0"], /(http:\S+)\n/);
    const own = await open(page.context().browser(), other.found);
    await go(own, "#/live");
    await own.waitForFunction(() => document.querySelector("#live-trouble .error")?.textContent.includes("refused"));
    assert.match(await own.textContent("#live-trouble"), /There are no numbers of a cluster from 127\.0\.0\.1:1: .*refused/);
    assert.equal(await own.locator("#live-tiles").isVisible(), false);
    assert.equal(await own.locator(".live .chart").first().isVisible().catch(() => false), false);
    await own.screenshot({ path: join(shots, "live-refused.png"), fullPage: true });
    await own.context().close();
    other.stop("SIGTERM");
    await other.ended;
  },

  async "the keyboard reaches everything"(page) {
    await go(page, "#/run/trace-1/time");
    await ready(page, "#time");
    await page.locator("#time").focus();
    await page.keyboard.press("?");
    await page.waitForSelector("#help[open]");
    assert.match(await page.textContent("#help"), /zoom in and out/);
    await page.keyboard.press("Escape");
    await page.waitForSelector("#help", { state: "detached" });
    await page.keyboard.press("d");
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
    await page.keyboard.press("d");
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");
    await page.evaluate(() => {
      localStorage.removeItem("theme");
      delete document.documentElement.dataset.theme;
    });
    await page.keyboard.press("2");
    await page.waitForSelector("#grid");
    await ready(page, "#grid");
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.id), "focus-keys");
    await page.keyboard.type("1..4");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector("#focus-said").textContent === "3 keys are shown.");
  },

  async "live shows a running cluster"(page, { training, report }) {
    await go(page, "#/live");
    await page.waitForFunction(() => Number(document.querySelector('[data-name="examples"] dd')?.textContent.replaceAll(",", "")) > 0, undefined, { timeout: 90_000 });
    await page.waitForFunction(() => document.querySelectorAll("#live-nodes .state.answers").length === 2);
    // Several points, so that there are lines.
    await page.waitForFunction(() => Number(document.querySelector(".chart").dataset.last) > 0, undefined, { timeout: 60_000 });
    const answer = await api(page, "/api/live?since=0");
    const at = answer.series.indexOf("examples");
    const total = (answer) => answer.nodes.reduce((sum, node) => sum + (node.values[at].at(-1) ?? 0), 0);
    const shown = Number((await tile(page, "examples")).replaceAll(",", ""));
    assert.ok(shown > 0 && shown <= total(await api(page, "/api/live?since=0")));
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      for (const [name, width] of [["wide", 1280], ["narrow", 360]]) {
        await page.setViewportSize({ width, height: 900 });
        await page.waitForTimeout(1500);
        await page.screenshot({ path: join(shots, `live-${name}-${scheme}.png`), fullPage: true });
        assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width);
      }
    }
    await page.emulateMedia({ colorScheme: "light" });
    await page.setViewportSize({ width: 1280, height: 900 });
    assert.equal(await training.ended, 0);
    await page.waitForFunction(() => document.querySelectorAll("#live-nodes .state.silent").length === 2, undefined, { timeout: 60_000 });
    await page.waitForSelector("#live-trouble .dead");
    assert.match(await page.textContent("#live-trouble"), /No node answers, since \d\d:\d\d:\d\d \(.*\): the run has ended or has crashed/);
    assert.equal(await tile(page, "nodes answering"), "0 of 2");
    await page.screenshot({ path: join(shots, "live-dead.png") });
    const examples = JSON.parse(readFileSync(report, "utf8")).epochs.reduce((sum, epoch) => sum + epoch.examples, 0);
    const last = total(await api(page, "/api/live?since=0"));
    assert.ok(last > 0 && last <= examples, `${last} of ${examples}`);
  },
};

const PICTURES = {
  start: "#/", summary: "#/run/kge-lapse/summary", replay: "#/run/kge-adaptive/replay?t=20000", time: "#/run/mf-lapse/time?rows=200",
  affinity: "#/run/mf-lapse/affinity?list=0,602,1800,4000,4026,4044", why: "#/run/trace-1/why", compare: "#/compare/kge-classic/kge-lapse?axis=own",
  tour: "#/tour/4",
};

/** Pictures of all views, light and dark, wide and narrow. Nothing is wider than the screen. */
async function pictures(browser, base) {
  for (const scheme of ["light", "dark"]) {
    for (const [name, width] of [["wide", 1280], ["narrow", 360]]) {
      const page = await open(browser, base, { viewport: { width, height: 800 }, colorScheme: scheme });
      for (const [view, hash] of Object.entries(PICTURES)) {
        await go(page, hash);
        await page.waitForLoadState("networkidle");
        await page.waitForTimeout(300);
        await page.screenshot({ path: join(shots, `${view}-${name}-${scheme}.png`), fullPage: true });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `${view} is ${wide} wide on a screen of ${width}`);
      }
      await page.context().close();
    }
  }
}

/** The owner of each key at the beginning. The first event that moves a key agrees with it. */
function homesOf(adaptive, keys) {
  const homes = new Map();
  for (let key = 0; key < keys; key += 1) {
    homes.set(key, adaptive.home(key));
    assert.equal(adaptive.firstOwner(key) ?? homes.get(key), homes.get(key), `the home of key ${key}`);
  }
  return homes;
}

async function main() {
  const common = ["--dim", "16", "--batch", "64", "--negatives", "16", "--no-progress", "--valid-every", "0"];
  const simulated = ["--simulate", "--nodes", "3", "--workers", "2", "--epochs", "1", ...common];
  const folder = (name) => join(work, name);
  await run(kge, [...simulated, "--technique", "adaptive", "--trace", folder("adaptive")]);
  await run(kge, [...simulated, "--technique", "classic", "--trace", folder("classic")]);
  await run(kge, [...simulated, "--technique", "lapse", "--trace", folder("lapse")]);
  await run(kge, [...simulated, "--technique", "lapse", "--trace-keys", "0..5", "--trace", folder("few")]);
  mkdirSync(folder("part"));
  for (const node of [0, 2]) copyFileSync(join(folder("adaptive"), `node-${node}.trace`), join(folder("part"), `node-${node}.trace`));
  mkdirSync(folder("empty"));
  await run(kge, ["--nodes", "2", "--workers", "1", "--epochs", "1", ...common, "--technique", "adaptive", "--trace", folder("real")]);
  const realFiles = files(folder("real"), 2);
  const lapse = new Run(files(folder("lapse"), 3));
  const [adaptive, classic, real] = [new Run(files(folder("adaptive"), 3)), new Run(files(folder("classic"), 3)), new Run(realFiles)];
  const report = folder("report.json");
  const only = process.env.ONLY;
  const training = only !== undefined && !only.includes("live") ? undefined : await start(
    measured,
    ["--nodes", "2", "--workers", "1", "--epochs", "25", "--dim", "128", "--valid-every", "0", "--technique", "adaptive",
      "--checkpoint", folder("checkpoints"), "--checkpoint-seconds", "4", "--metrics", "0", "--report", report],
    /metrics of node 0: http:\/\/([^/]+)\/metrics/,
  );
  const dashboard = await start(
    join(bin, "intendant"),
    ["dashboard", "--trace", folder("adaptive"), "--trace", folder("classic"), "--trace", folder("lapse"),
      "--trace", folder("few"), "--trace", folder("part"), "--trace", folder("empty"), "--live", training?.found ?? "1", "--listen", "127.0.0.1:0"],
    /(http:\S+)\n/,
  );
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync"],
  });
  let failed = 0;
  try {
    const page = await open(browser, dashboard.found);
    const palette = (await api(page, "/api/runs")).palette;
    const homes = homesOf(adaptive, 400);
    const known = { adaptive, classic, lapse, real, realFiles, palette, homes, training, report };
    const chosen = Object.entries(tests).filter(([name]) => only === undefined || new RegExp(only).test(name));
    for (const [name, test] of chosen) {
      problems.length = 0;
      try {
        await test(page, known);
        assert.deepEqual(problems, []);
        console.log(`ok      ${name}`);
      } catch (error) {
        failed += 1;
        console.log(`FAILED  ${name}\n${error.stack}\n${problems.join("\n")}`);
        await page.screenshot({ path: join(shots, `failed-${failed}.png`), fullPage: true });
      }
    }
    for (const [name, test] of Object.entries(keptTests)) {
      test();
      console.log(`ok      ${name}`);
    }
    problems.length = 0;
    if (only === undefined) {
      await pictures(browser, dashboard.found);
      assert.deepEqual(problems, []);
      console.log(`ok      pictures in ${shots}`);
    }
    dashboard.stop("SIGTERM");
    assert.equal(await dashboard.ended, 0, "the dashboard ends when it is told to");
  } finally {
    await browser.close();
    stopAll();
    rmSync(work, { recursive: true, force: true });
  }
  process.exitCode = failed === 0 ? 0 : 1;
}

main().catch((error) => {
  console.error(error);
  stopAll();
  process.exitCode = 1;
});
