// The numbers of a running cluster that the page keeps.

import type { LiveAnswer } from "./api";

/** Samples that are kept per node. */
const POINTS = 900;

/** A node that was not heard for so long does not count any more where the present is shown. */
const SILENT_MS = 5000;

interface Node {
  at: number[];
  /** Series by series, a number per time. */
  values: (number | null)[][];
}

export class Kept {
  private nodes: Node[] = [];

  clear(): void {
    this.nodes = [];
  }

  add(answer: Pick<LiveAnswer, "nodes" | "series">): void {
    for (const node of answer.nodes) {
      const own = (this.nodes[node.node] ??= { at: [], values: answer.series.map(() => []) });
      own.at.push(...node.at_ms);
      node.values.forEach((values, series) => own.values[series]?.push(...values));
      const extra = own.at.length - POINTS;
      if (extra > 0) {
        own.at.splice(0, extra);
        own.values.forEach((values) => values.splice(0, extra));
      }
    }
  }

  /** The times on which all nodes are put: those of the node that was heard for longest among those that still answer. */
  times(): number[] {
    const last = (node: Node | undefined) => node?.at.at(-1) ?? 0;
    const newest = this.nodes.reduce((newest, node) => Math.max(newest, last(node)), 0);
    const heard = this.nodes.filter((node) => last(node) > newest - SILENT_MS);
    return heard.reduce<number[]>((longest, node) => (node.at.length > longest.length ? node.at : longest), []);
  }

  /** A number of a node at given times: the newest that is known then; nothing while the node is silent. */
  known(node: number, series: number, x: number[]): (number | null)[] {
    const own = this.nodes[node];
    let next = 0;
    return x.map((time) => {
      while (own !== undefined && next < own.at.length && (own.at[next] as number) <= time + 500) next += 1;
      const value = next === 0 ? null : own?.values[series]?.[next - 1];
      const age = next === 0 ? 0 : time - (own?.at[next - 1] ?? 0);
      return value === undefined || age > SILENT_MS ? null : value;
    });
  }

  /** Of all nodes that answer at given times. */
  summed(series: number, x: number[]): (number | null)[] {
    const rows = this.nodes.map((_, node) => this.known(node, series, x));
    return x.map((_, at) => {
      const values = rows.map((row) => row[at]).filter((value): value is number => value !== null && value !== undefined);
      return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0);
    });
  }

  /** The growth of counters per second, node by node, so that a node that is lost does not count backwards. */
  rate(series: number, x: number[]): (number | null)[] {
    const rows = this.nodes.map((_, node) => this.known(node, series, x));
    return x.map((time, at) => {
      if (at === 0) return null;
      const width = (time - (x[at - 1] as number)) / 1000;
      let sum: number | null = null;
      for (const row of rows) {
        const [before, now] = [row[at - 1], row[at]];
        if (typeof before === "number" && typeof now === "number" && now >= before) sum = (sum ?? 0) + (now - before) / width;
      }
      return sum;
    });
  }

  /** A counter of the cluster: what nodes that are lost have counted stays. */
  total(series: number): number | null {
    const values = this.newest(series);
    return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0);
  }

  /** The highest of the last known numbers of the nodes. */
  highest(series: number): number | null {
    const values = this.newest(series);
    return values.length === 0 ? null : Math.max(...values);
  }

  /** The last known number of each node that has any. */
  private newest(series: number): number[] {
    return this.nodes.flatMap((node) => node.values[series]?.findLast((value) => value !== null) ?? []);
  }
}
