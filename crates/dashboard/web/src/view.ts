// What a view is, and what views of a run share.

import type { Overview, Runs } from "./api";
import { api } from "./api";
import { here, note, numberOf } from "./place";

export interface Shortcut {
  keys: string;
  what: string;
}

export interface View {
  element: HTMLElement;
  title: string;
  shortcuts?: Shortcut[];
  /** Whether the key was used. */
  key?: (event: KeyboardEvent) => boolean;
  close?: () => void;
}

export interface App {
  runs: Runs;
  reload: () => Promise<void>;
  /** What the next view says above all. */
  said?: string | undefined;
}

/** The focus on keys and time, and the selection. It lives in the address. */
export class Focus {
  keys: string;
  from: number | undefined;
  to: number | undefined;
  selected: string | undefined;
  affinity: string[];

  constructor(readonly overview: Overview) {
    const { query } = here();
    this.keys = query.get("keys") ?? "";
    this.from = numberOf(query.get("from"));
    this.to = numberOf(query.get("to"));
    this.selected = query.get("key");
    this.affinity = (query.get("list") ?? "").split(",").filter((key) => key !== "");
  }

  get start(): number {
    return Math.max(this.from ?? this.overview.from_us, this.overview.from_us);
  }

  get end(): number {
    return Math.max(this.start + 1, Math.min(this.to ?? this.overview.to_us, this.overview.to_us));
  }

  /** Limits the time; nothing means all of it. */
  window(from?: number, to?: number): void {
    const { from_us, to_us } = this.overview;
    if (from === undefined || to === undefined || (from <= from_us && to >= to_us)) {
      this.from = undefined;
      this.to = undefined;
    } else {
      const width = Math.max(10, Math.min(to - from, to_us - from_us));
      const start = Math.max(from_us, Math.min(from, to_us - width));
      this.from = Math.round(start);
      this.to = Math.round(start + width);
    }
    this.save();
  }

  zoom(factor: number, at = 0.5): void {
    const width = this.end - this.start;
    const middle = this.start + width * at;
    this.window(middle - width * factor * at, middle + width * factor * (1 - at));
  }

  pan(share: number): void {
    const shift = (this.end - this.start) * share;
    this.window(this.start + shift, this.end + shift);
  }

  select(key: string | undefined): void {
    this.selected = key;
    this.save();
  }

  /** Adds a key of the run to the table of affinity. */
  remember(key: string): void {
    if (this.affinity.includes(key)) return;
    this.affinity = [...this.affinity, key].slice(-200);
    this.save();
  }

  save(): void {
    note(this.query());
  }

  query(): Record<string, string | number | undefined> {
    return {
      keys: this.keys,
      from: this.from,
      to: this.to,
      key: this.selected,
      list: this.affinity.join(","),
      tour: here().query.get("tour"),
    };
  }
}

const overviews = new Map<string, Promise<Overview>>();

/** What a run is; asked for once. */
export function overviewOf(id: string): Promise<Overview> {
  let known = overviews.get(id);
  if (known === undefined) {
    known = api.overview(id);
    overviews.set(id, known);
    // A run that could not be read is asked for again.
    known.catch(() => overviews.delete(id));
  }
  return known;
}

/** Runs one request at a time; a newer one ends the older one. */
export class Latest {
  private controller: AbortController | undefined;

  async run(work: (signal: AbortSignal) => Promise<void>, failed: (error: unknown) => void): Promise<void> {
    this.controller?.abort();
    const controller = new AbortController();
    this.controller = controller;
    try {
      await work(controller.signal);
    } catch (error) {
      if (!controller.signal.aborted) failed(error);
    }
  }

  stop(): void {
    this.controller?.abort();
  }
}

export function words(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Calls `act` when the width of an element changes. Returns what ends this. */
export function onWidth(element: HTMLElement, act: (width: number) => void): () => void {
  let before = 0;
  const observer = new ResizeObserver((entries) => {
    const width = Math.floor(entries[0]?.contentRect.width ?? 0);
    if (width > 0 && width !== before) {
      before = width;
      act(width);
    }
  });
  observer.observe(element);
  return () => observer.disconnect();
}
