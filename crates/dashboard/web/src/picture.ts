// The picture of allocation over time: rows are keys, x is time.

import type { Matrix, Overview } from "./api";
import { copies, isEverywhere, owner } from "./api";
import { sized, variable } from "./dom";
import { moment } from "./format";
import { colour, ink, paint } from "./palette";

export interface Geometry {
  left: number;
  top: number;
  width: number;
  rowHeight: number;
  rows: number;
}

const AXIS = 26;
const FONT = "11px system-ui, sans-serif";

export function rowHeightOf(rows: number): number {
  return rows <= 0 ? 12 : Math.max(3, Math.min(18, Math.floor(520 / rows)));
}

/** Room for the labels of keys. */
export function labelWidth(keys: string[], width: number): number {
  const longest = keys.reduce((most, key) => Math.max(most, key.length), 1);
  return Math.min(longest * 7 + 12, Math.floor(width / 4));
}

/** Draws the cells, the keys beside them, the marks of the run and the axis of time. */
export function drawMatrix(
  canvas: HTMLCanvasElement,
  matrix: Matrix,
  overview: Overview,
  full: number,
  selected: string | undefined,
): Geometry {
  const rows = matrix.keys.length;
  const rowHeight = rowHeightOf(rows);
  const left = labelWidth(matrix.keys, full);
  const width = Math.max(10, full - left - 8);
  const top = 4;
  const height = top + Math.max(rows, 1) * rowHeight + AXIS;
  const context = sized(canvas, full, height);
  context.clearRect(0, 0, full, height);
  const cell = width / matrix.columns;
  const gap = rowHeight >= 8 ? 1 : 0;
  for (let row = 0; row < rows; row += 1) {
    const y = top + row * rowHeight;
    let start = 0;
    for (let column = 1; column <= matrix.columns; column += 1) {
      const before = look(matrix, row, start);
      if (column < matrix.columns && look(matrix, row, column) === before) continue;
      const replicas = copies(before);
      // After the end of the run, there is nothing to draw.
      const time = matrix.from_us + ((matrix.to_us - matrix.from_us) * start) / matrix.columns;
      if (time >= overview.to_us) break;
      paint(context, owner(before), replicas, isEverywhere(replicas, overview.nodes), left + start * cell, y, (column - start) * cell + 0.4, rowHeight - gap);
      start = column;
    }
  }
  context.font = FONT;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const every = Math.ceil(12 / rowHeight);
  matrix.keys.forEach((key, row) => {
    const isSelected = key === selected;
    if (row % every !== 0 && !isSelected) return;
    context.fillStyle = variable(isSelected ? "--accent" : "--muted");
    context.fillText(key, left - 6, top + (row + 0.5) * rowHeight, left - 8);
  });
  const chosen = selected === undefined ? -1 : matrix.keys.indexOf(selected);
  if (chosen >= 0) {
    context.strokeStyle = variable("--accent");
    context.lineWidth = 2;
    context.strokeRect(left - 1, top + chosen * rowHeight - 1, width + 2, rowHeight + 1);
  }
  const bottom = top + Math.max(rows, 1) * rowHeight;
  drawMarks(context, overview, matrix.from_us, matrix.to_us, left, width, top, bottom);
  drawAxis(context, matrix.from_us, matrix.to_us, left, width, bottom);
  return { left, top, width, rowHeight, rows };
}

function look(matrix: Matrix, row: number, column: number): number {
  return matrix.cells[row * matrix.columns + column] ?? 0;
}

export function drawMarks(
  context: CanvasRenderingContext2D,
  overview: Overview,
  from: number,
  to: number,
  left: number,
  width: number,
  top: number,
  bottom: number,
): void {
  context.save();
  context.strokeStyle = variable("--text");
  context.lineWidth = 1;
  for (const mark of overview.marks) {
    if (mark.at_us <= from || mark.at_us >= to) continue;
    const x = Math.round(left + ((mark.at_us - from) / (to - from)) * width) + 0.5;
    context.setLineDash(mark.kind === "epoch" ? [] : [3, 3]);
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x, bottom + 4);
    context.stroke();
  }
  context.restore();
}

export function drawAxis(
  context: CanvasRenderingContext2D,
  from: number,
  to: number,
  left: number,
  width: number,
  y: number,
): void {
  const steps = Math.max(1, Math.min(8, Math.floor(width / 90)));
  context.font = FONT;
  context.textBaseline = "top";
  context.fillStyle = variable("--muted");
  context.strokeStyle = variable("--line");
  context.lineWidth = 1;
  for (let step = 0; step <= steps; step += 1) {
    const x = left + (width * step) / steps;
    context.beginPath();
    context.moveTo(x, y + 2);
    context.lineTo(x, y + 7);
    context.stroke();
    context.textAlign = step === 0 ? "left" : step === steps ? "right" : "center";
    context.fillText(moment(from + ((to - from) * step) / steps, to - from), x, y + 9);
  }
}

/** The squares of a grid: how many fit, and how large they are. */
export function gridOf(cells: number, width: number): { columns: number; size: number; gap: number } {
  const size = Math.max(6, Math.min(34, Math.floor(Math.sqrt((width * Math.min(width, 560)) / Math.max(cells, 1)))));
  return { columns: Math.max(1, Math.floor(width / size)), size, gap: size >= 9 ? 1 : 0 };
}

/** Draws the state of all keys in one column of a matrix. */
export function drawGrid(
  canvas: HTMLCanvasElement,
  matrix: Matrix,
  nodes: number,
  column: number,
  full: number,
  selected: string | undefined,
  cursor: number,
  isResized: boolean,
): ReturnType<typeof gridOf> {
  const cells = matrix.keys.length;
  const grid = gridOf(cells, full);
  const height = Math.max(1, Math.ceil(cells / grid.columns)) * grid.size;
  const context = isResized ? sized(canvas, full, height) : canvas.getContext("2d");
  if (context === null) return grid;
  context.clearRect(0, 0, full, height);
  const inner = grid.size - grid.gap;
  context.font = `${Math.min(12, grid.size - 6)}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let at = 0; at < cells; at += 1) {
    const cell = matrix.cells[at * matrix.columns + column] ?? 0;
    const x = (at % grid.columns) * grid.size;
    const y = Math.floor(at / grid.columns) * grid.size;
    const replicas = copies(cell);
    paint(context, owner(cell), replicas, isEverywhere(replicas, nodes), x, y, inner, inner);
    if (grid.size >= 20 && owner(cell) < nodes) {
      if (replicas > 0) {
        // Numbers would not be readable on the hatching.
        context.fillStyle = colour(owner(cell));
        context.fillRect(x + inner / 2 - 7, y + inner / 2 - 7, 14, 14);
      }
      context.fillStyle = ink(owner(cell));
      context.fillText(String(owner(cell)), x + inner / 2, y + inner / 2 + 0.5);
    }
  }
  const outline = (at: number, color: string, width: number) => {
    if (at < 0) return;
    context.strokeStyle = variable(color);
    context.lineWidth = width;
    context.strokeRect((at % grid.columns) * grid.size, Math.floor(at / grid.columns) * grid.size, inner, inner);
  };
  outline(selected === undefined ? -1 : matrix.keys.indexOf(selected), "--text", 3);
  outline(cursor, "--accent", 2);
  return grid;
}

/** Whether any key changes between two columns. */
export function differs(matrix: Matrix, a: number, b: number): boolean {
  for (let at = 0; at < matrix.keys.length; at += 1) {
    const start = at * matrix.columns;
    if ((matrix.cells[start + a] ?? 0) !== (matrix.cells[start + b] ?? 0)) return true;
  }
  return false;
}
