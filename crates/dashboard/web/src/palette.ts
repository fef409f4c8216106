// How nodes look: a colour, and beyond the colours of the palette also a pattern; always with the number.

import { MOVING, UNKNOWN } from "./api";

let colours: string[] = ["#0072b2"];
let others = { moving: "#ffffff", unknown: "#d9d9d9" };

/** The same colours as in pictures of the command line. */
export function setPalette(palette: string[], moving: string, unknown: string): void {
  if (palette.length > 0) colours = palette;
  others = { moving, unknown };
}

export function colour(node: number): string {
  if (node === MOVING) return others.moving;
  if (node === UNKNOWN) return others.unknown;
  return colours[node % colours.length] as string;
}

/** The pattern of a node: 0 is plain. */
export function pattern(node: number): number {
  return node >= UNKNOWN ? 0 : Math.floor(node / colours.length) % 5;
}

/** Black or white, whichever is easier to read on a colour. */
export function ink(node: number): string {
  const hex = colour(node).replace("#", "");
  const part = (at: number) => {
    const value = parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  const light = 0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4);
  return light > 0.3 ? "#000000" : "#ffffff";
}

const hatches = new Map<string, CanvasPattern>();

/** A fill to lay over a node's colour. `few` and `many` are replicas, a number is the pattern of a node. */
export function hatch(context: CanvasRenderingContext2D, kind: "few" | "many" | number, ink: string): CanvasPattern | string {
  const name = `${kind} ${ink}`;
  const known = hatches.get(name);
  if (known !== undefined) return known;
  const tile = document.createElement("canvas");
  const size = kind === "few" ? 8 : kind === "many" ? 5 : 6;
  tile.width = size;
  tile.height = size;
  const on = tile.getContext("2d");
  if (on === null) return "transparent";
  on.strokeStyle = ink;
  on.fillStyle = ink;
  on.lineWidth = 1.1;
  if (kind === "few" || kind === "many") {
    on.beginPath();
    for (const shift of [-size, 0, size]) {
      on.moveTo(shift, size);
      on.lineTo(shift + size, 0);
    }
    on.stroke();
  } else {
    const shape = (kind - 1) % 4;
    if (shape === 0) on.fillRect(1, 1, 2, 2);
    if (shape === 1) on.fillRect(2, 0, 1, size);
    if (shape === 2) on.fillRect(0, 2, size, 1);
    if (shape === 3) {
      on.fillRect(0, 2, size, 1);
      on.fillRect(2, 0, 1, size);
    }
  }
  const made = context.createPattern(tile, "repeat");
  if (made === null) return "transparent";
  hatches.set(name, made);
  return made;
}

/** Fills a rectangle as a node looks; `replicas` adds the hatching. `all` replicas are on every other node. */
export function paint(
  context: CanvasRenderingContext2D,
  node: number,
  replicas: number,
  all: boolean,
  x: number,
  y: number,
  width: number,
  height: number,
): void {
  context.fillStyle = colour(node);
  context.fillRect(x, y, width, height);
  const own = pattern(node);
  if (own > 0) {
    context.fillStyle = hatch(context, own, ink(node));
    context.fillRect(x, y, width, height);
  }
  if (replicas > 0) {
    context.fillStyle = hatch(context, all ? "many" : "few", ink(node));
    context.fillRect(x, y, width, height);
  }
}

/** What a cell says, in words. */
export function ownerText(node: number): string {
  if (node === MOVING) return "on its way";
  if (node === UNKNOWN) return "not known";
  return `node ${node}`;
}
