// Reads the files of nodes, byte by byte and apart from the program, so that the page can be checked against
// them: a simple model of where every key is.
import { readFileSync } from "node:fs";

const KINDS = {
  1: "intent_began", 2: "intent_ended", 4: "left", 5: "arrived", 6: "replica_set_up", 7: "replica_dropped",
  11: "remote", 12: "waited", 13: "conflict", 14: "synced", 15: "sent", 18: "marked",
};

/** The header and the events of a node. */
export function readNode(path) {
  const file = readFileSync(path);
  if (file.subarray(0, 8).toString("latin1") !== "ITDTRACE") throw new Error(`${path} is no trace`);
  const length = file.readUInt32LE(12);
  const text = file.subarray(16, 16 + length).toString("utf8");
  // The seed has 64 bits.
  const header = { ...JSON.parse(text), layout_seed: BigInt(/"layout_seed":(\d+)/.exec(text)[1]) };
  const events = [];
  let at = 16 + length + 8;
  while (at < file.length) {
    if (file.subarray(at, at + 4).toString("latin1") !== "BLCK") throw new Error(`${path} is damaged at ${at}`);
    const records = file.readUInt32LE(at + 4);
    at += 24;
    for (let record = 0; record < records; record += 1, at += 32) {
      const key = file.readBigUInt64LE(at + 8);
      events.push({
        node: header.node,
        at: Number(file.readBigUInt64LE(at)),
        key: key === 0xffffffffffffffffn ? undefined : Number(key),
        detail: Number(file.readBigUInt64LE(at + 16)),
        kind: KINDS[file[at + 24]] ?? `kind ${file[at + 24]}`,
      });
    }
  }
  return { header, events };
}

const WORD = (1n << 64n) - 1n;

/** The finaliser of SplitMix64. */
function mix(word) {
  let z = (word + 0x9e3779b97f4a7c15n) & WORD;
  z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & WORD;
  z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & WORD;
  return z ^ (z >> 31n);
}

/** The place of a number below `length` in the permutation of a seed: a Feistel network of four rounds, walked until it lands within. */
function permuted(index, length, seed) {
  const bits = length <= 1n ? 2 : (length - 1n).toString(2).length;
  const half = BigInt(Math.ceil(bits / 2));
  const mask = (1n << half) - 1n;
  let at = index;
  do {
    let [left, right] = [at >> half, at & mask];
    for (let round = 0n; round < 4n; round += 1n) {
      const key = mix(seed ^ mix(round));
      [left, right] = [right, left ^ (mix(right ^ key) & mask)];
    }
    at = (left << half) | right;
  } while (at >= length);
  return at;
}

/** A run: the events of all nodes. Those of simulated runs are on one clock. */
export class Run {
  constructor(paths) {
    const nodes = paths.map(readNode);
    this.header = nodes[0].header;
    this.events = nodes.flatMap((node) => node.events);
    // Events of one time stay in the order of nodes and files.
    this.events.sort((a, b) => a.at - b.at);
    this.from = this.events[0].at;
    this.to = this.events.at(-1).at;
  }

  count(kind, key) {
    return this.events.filter((event) => event.kind === kind && (key === undefined || event.key === key)).length;
  }

  sum(kind) {
    return this.events.filter((event) => event.kind === kind).reduce((sum, event) => sum + event.detail, 0);
  }

  of(key) {
    return this.events.filter((event) => event.key === key);
  }

  /** The owners of a key: times and nodes, `undefined` while it is on its way. Before the first, `home`. */
  moves(key, home) {
    const moves = [{ at: this.from, owner: home }];
    for (const event of this.of(key)) {
      if (event.kind === "left") moves.push({ at: event.at, owner: undefined });
      if (event.kind === "arrived") moves.push({ at: event.at, owner: event.node });
    }
    return moves;
  }

  /** The node that owns a key at the beginning: a random order of the keys of each range, in equal parts. */
  home(key) {
    const { ranges, nodes, key_order: order, layout_seed: seed } = this.header;
    if (order !== "random") throw new Error(`keys are in order ${order}`);
    let start = 0;
    for (const range of ranges) {
      if (key < start + range.keys) {
        const state = mix(mix(seed) ^ mix(BigInt(start)));
        const rank = permuted(BigInt(key - start), BigInt(range.keys), state);
        return Number((rank * BigInt(nodes)) / BigInt(range.keys));
      }
      start += range.keys;
    }
    throw new Error(`there is no key ${key}`);
  }

  /** The first node that a key leaves or, without any move, nothing. */
  firstOwner(key) {
    return this.of(key).find((event) => event.kind === "left")?.node;
  }

  ownerAt(key, home, at) {
    return this.moves(key, home).filter((move) => move.at <= at).at(-1).owner;
  }

  replicasAt(key, at) {
    const nodes = new Set();
    for (const event of this.of(key).filter((event) => event.at <= at)) {
      if (event.kind === "replica_set_up") nodes.add(event.node);
      if (event.kind === "replica_dropped" || event.kind === "arrived") nodes.delete(event.node);
    }
    return [...nodes].sort((a, b) => a - b);
  }

  /** Shares of time at each node. */
  shares(key, home) {
    const shares = Array.from({ length: this.header.nodes }, () => 0);
    const moves = this.moves(key, home);
    moves.forEach((move, at) => {
      if (move.owner !== undefined) shares[move.owner] += (moves[at + 1]?.at ?? this.to) - move.at;
    });
    return shares.map((time) => time / (this.to - this.from));
  }
}
