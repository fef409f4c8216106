// Builds the page: src -> dist. The same versions (package-lock.json) make the same bytes.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(fileURLToPath(import.meta.url));
const dist = process.argv[2] ?? join(root, "dist");
await mkdir(dist, { recursive: true });
await build({
  absWorkingDir: root,
  entryPoints: { app: "src/main.ts" },
  outdir: dist,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "ascii",
  legalComments: "none",
  logLevel: "warning",
});
for (const file of ["index.html", "icon.svg"]) await copyFile(join(root, "src", file), join(dist, file));
const version = JSON.parse(await readFile(join(root, "node_modules/uplot/package.json"), "utf8")).version;
const licence = await readFile(join(root, "node_modules/uplot/LICENSE"), "utf8");
await writeFile(join(dist, "NOTICE.txt"), `This page contains uPlot ${version}, under this licence:\n\n${licence.trim()}\n`);
