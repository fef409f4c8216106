// Starts programs and waits for what they print.
import { spawn } from "node:child_process";

const running = new Set();

/** Runs a program to its end. */
export function run(path, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(path, args, { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    child.stderr.on("data", (data) => (said += data));
    child.on("error", reject);
    child.on("exit", (code) => (code === 0 ? resolve() : reject(new Error(`${path} ${args.join(" ")}: exit ${code}\n${said}`))));
  });
}

/** Starts a program. Resolves with what `pattern` finds in its output. */
export function start(path, args, pattern) {
  const child = spawn(path, args, { stdio: ["ignore", "pipe", "pipe"] });
  running.add(child);
  const ended = new Promise((resolve) => child.on("exit", (code) => {
    running.delete(child);
    resolve(code);
  }));
  return new Promise((resolve, reject) => {
    let said = "";
    const hear = (data) => {
      said += data;
      const found = pattern.exec(said);
      if (found !== null) resolve({ found: found[1], ended, stop: (signal) => child.kill(signal) });
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.on("error", reject);
    void ended.then((code) => reject(new Error(`${path} ${args.join(" ")}: exit ${code} before it was ready\n${said}`)));
  });
}

/** Ends all that was started. */
export function stopAll() {
  for (const child of running) child.kill("SIGKILL");
}
