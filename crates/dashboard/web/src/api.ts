// What the server answers.

export interface About {
  task: string;
  technique: string;
  allocation: string;
  techniques_used: string[];
  data: string;
  cluster: string;
  text: string;
  results: [string, string][];
  pair: string | null;
}

export interface RunName {
  id: string;
  source: "prepared" | "given" | "uploaded";
  title: string;
  about: About | null;
  /** Why it could not be read when that was last tried. */
  error: string | null;
}

export interface Uploaded extends RunName {
  /** The title of the upload that is not kept any more. */
  dropped: string | null;
}

export interface Runs {
  version: string;
  palette: string[];
  /** The colours of a key that is on its way, and of one whose owner is not known. */
  moving: string;
  unknown: string;
  uploads_max: number;
  live: string | null;
  upload_bytes_max: number;
  runs: RunName[];
}

export interface Range {
  name: string;
  first: string;
  keys: string;
  len: number;
}

export interface Waiting {
  at_us: number;
  node: number;
  key: string;
  access: string;
  by: number | null;
  after_us: number;
  cause: string;
}

export interface NodeState {
  node: number;
  events: number;
  dropped: number;
  offset_us: number;
  error_us: number | null;
}

export interface Waits {
  count: number;
  mean_us: number;
  p99_us: number;
  max_us: number;
}

export interface Overview {
  id: string;
  title: string;
  task: string;
  technique: string;
  filter: string;
  settings: [string, string][];
  ranges: Range[];
  nodes: number;
  from_us: number;
  to_us: number;
  keys: string;
  keys_with_events: number;
  events: number;
  problems: string[];
  node_states: NodeState[];
  kinds: [string, number][];
  relocations: number;
  replica_setups: number;
  replica_drops: number;
  conflicts: number;
  sync_rounds: number;
  bytes: number;
  links: number[][];
  remote: Waits;
  /** Accesses that waited for a key, or a replica, on its way. */
  waited: Waits;
  /** The mean time of an epoch but the first. */
  epoch_us: number | null;
  marks: { at_us: number; kind: string; number: number }[];
  longest: Waiting[];
}

export interface Matrix {
  keys: string[];
  total: number;
  from_us: number;
  to_us: number;
  columns: number;
  /** Row by row. See `owner` and `copies`. */
  cells: Uint16Array;
}

/** Parts of a cell: the owner (`MOVING` if the key is between two nodes, `UNKNOWN` if the trace does not tell). */
export const MOVING = 0xfff;
export const UNKNOWN = 0xffe;
export const owner = (cell: number): number => cell & 0xfff;
/** Replicas; `COPIES_MAX` stands for more, too. */
export const copies = (cell: number): number => cell >> 12;
export const COPIES_MAX = 15;
/** Whether all other nodes have a replica, as far as a cell can tell. */
export const isEverywhere = (copies: number, nodes: number): boolean =>
  nodes > 1 && copies >= Math.min(COPIES_MAX, nodes - 1);

/** Whether a picture has parts whose owner is not known. What is after the end of the run is not drawn. */
export function hasUnknown(matrix: Matrix, end: number): boolean {
  const time = (column: number) => matrix.from_us + ((matrix.to_us - matrix.from_us) * column) / matrix.columns;
  return matrix.cells.some((cell, at) => owner(cell) === UNKNOWN && time(at % matrix.columns) < end);
}

export function copiesText(copies: number): string {
  if (copies === 0) return "no replicas";
  if (copies >= COPIES_MAX) return `${COPIES_MAX} or more replicas`;
  return copies === 1 ? "1 replica" : `${copies} replicas`;
}

export interface Series {
  from_us: number;
  to_us: number;
  bins: number;
  remote: number[];
  remote_wait_us: number[];
  waited: number[];
  waited_us: number[];
  relocations: number[];
  replica_setups: number[];
  conflicts: number[];
  bytes: number[];
}

export interface AffinityRow {
  key: string;
  range: string;
  share: number[];
  moving_share: number;
  replica_share: number[];
  relocations: number[];
}

export interface Affinity {
  nodes: number;
  rows: AffinityRow[];
  /** What is no key of the run, and why. */
  refused: [string, string][];
}

export type Span = [number, number];

export interface KeyRow {
  node: number;
  owner: Span[];
  replica: Span[];
  intent: Span[];
  remote: number;
  remote_wait_us: number;
  waited: number;
  waited_us: number;
  conflicts: number;
  rounds: number;
  round_gap_us: number | null;
  longest_gap_us: number | null;
}

export interface Decision {
  at_us: number;
  node: number;
  text: string;
}

export interface KeyView {
  key: string;
  range: string;
  home: number | null;
  from_us: number;
  to_us: number;
  rows: KeyRow[];
  moving: Span[];
  remote_bins: number[];
  waited_bins: number[];
  decisions: Decision[];
  decisions_total: number;
  waits: Waiting[];
}

export interface KeyState {
  key: string;
  range: string;
  at_us: number;
  owner: number | null;
  moving: boolean;
  replicas: number[];
  intents: number[];
}

/** What makes a comparison of two runs doubtful. */
export interface Doubt {
  kind: "task" | "keys" | "nodes" | "traced_keys" | "epochs";
  text: string;
}

export interface LiveNode {
  node: number;
  address: string | null;
  state: "answers" | "waiting" | "silent";
  error: string | null;
  /** For how long it has not answered, if it has answered before. */
  silent_ms: number | null;
  workers: number;
  at_ms: number[];
  values: (number | null)[][];
}

export interface LiveAnswer {
  address: string;
  task: string;
  technique: string;
  started_unix_ms: number;
  now_unix_ms: number;
  newest: number;
  series: string[];
  nodes: LiveNode[];
  marks: { at_unix_ms: number; kind: string; number?: number; node?: number }[];
}

/** Which keys, rows and times. */
export interface Question {
  keys?: string;
  rows?: number;
  choose?: string;
  from?: number;
  to?: number;
  columns?: number;
  [other: string]: string | number | undefined;
}

export class Refused extends Error {}

async function ask(path: string, question: Question = {}, signal?: AbortSignal): Promise<Response> {
  const parts = Object.entries(question).filter(([, value]) => value !== undefined && value !== "");
  const query = new URLSearchParams(parts.map(([name, value]) => [name, String(value)])).toString();
  const response = await fetch(query === "" ? path : `${path}?${query}`, { signal: signal ?? null });
  if (!response.ok) throw new Refused(await reason(response));
  return response;
}

async function reason(response: Response): Promise<string> {
  try {
    const body: unknown = await response.json();
    if (typeof body === "object" && body !== null && "error" in body) return String(body.error);
  } catch {
    // The status says enough.
  }
  return `the server answers with status ${response.status}`;
}

async function json<T>(path: string, question?: Question, signal?: AbortSignal): Promise<T> {
  return (await (await ask(path, question, signal)).json()) as T;
}

const run = (id: string) => `/api/runs/${encodeURIComponent(id)}`;

export const api = {
  runs: () => json<Runs>("/api/runs"),
  overview: (id: string) => json<Overview>(run(id)),
  series: (id: string, question: Question, signal?: AbortSignal) =>
    json<Series>(`${run(id)}/series`, question, signal),
  affinity: (id: string, keys: string) => json<Affinity>(`${run(id)}/affinity`, { keys }),
  key: (id: string, key: string, question: Question, signal?: AbortSignal) =>
    json<KeyView>(`${run(id)}/keys/${encodeURIComponent(key)}`, question, signal),
  state: (id: string, key: string, at: number) =>
    json<KeyState>(`${run(id)}/keys/${encodeURIComponent(key)}/state`, { at: Math.round(at) }),
  compare: (a: string, b: string) =>
    json<{ doubts: Doubt[] }>(`/api/compare/${encodeURIComponent(a)}/${encodeURIComponent(b)}`),
  live: (since: number) => json<LiveAnswer>("/api/live", { since }),

  async matrix(id: string, question: Question, signal?: AbortSignal): Promise<Matrix> {
    const buffer = await (await ask(`${run(id)}/matrix`, question, signal)).arrayBuffer();
    const length = new DataView(buffer).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))) as Omit<Matrix, "cells">;
    return { ...head, cells: new Uint16Array(buffer.slice(4 + length)) };
  },

  async upload(files: FileList | File[]): Promise<Uploaded> {
    // A line with the names and sizes of the files, and then their bytes.
    const head = JSON.stringify([...files].map((file) => ({ name: file.name, bytes: file.size })));
    const body = new Blob([`${head}\n`, ...files], { type: "application/octet-stream" });
    const response = await fetch("/api/upload", { method: "POST", body });
    if (!response.ok) throw new Refused(await reason(response));
    return (await response.json()) as Uploaded;
  },
};
