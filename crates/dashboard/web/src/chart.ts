// Line charts.

import uPlot from "uplot";
import { h, variable } from "./dom";
import { colour } from "./palette";

export interface Line {
  label: string;
  color: string;
  dash?: number[];
}

export interface Mark {
  x: number;
  text: string;
  color: string;
  /** Of the line of text, from the top. */
  row: number;
}

/** The colour of a line of a node. Nodes beyond the palette have dashed lines. */
export function nodeLine(label: string, node: number, colours: number): Line {
  const round = Math.floor(node / Math.max(colours, 1));
  return { label, color: colour(node), ...(round > 0 ? { dash: [8 / round, 4] } : {}) };
}

/** A chart that fills the width of its place. */
export class Chart {
  readonly element: HTMLElement;
  private readonly place: HTMLElement;
  private readonly plot: uPlot;
  private readonly observer: ResizeObserver;
  private marks: Mark[] = [];

  constructor(
    title: string,
    lines: Line[],
    x: (value: number, step?: number) => string,
    y: (value: number, step?: number) => string,
    private readonly height = 170,
  ) {
    const small = "11px system-ui, sans-serif";
    const axis = (format: (value: number, step?: number) => string): uPlot.Axis => ({
      stroke: () => variable("--muted"),
      grid: { stroke: () => variable("--line"), width: 1 },
      ticks: { stroke: () => variable("--line"), width: 1 },
      font: small,
      values: (_, values, _axis, _space, step) => values.map((value) => (value === null ? "" : format(value, step))),
    });
    const options: uPlot.Options = {
      width: 300,
      height,
      scales: { x: { time: false }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 0) > 0 ? (high ?? 1) * 1.05 : 1] } },
      axes: [{ ...axis(x), size: 28 }, { ...axis(y), size: 62 }],
      legend: { live: true },
      cursor: { points: { size: 6 } },
      series: [
        { label: "time", value: (_, value) => (value === null ? "–" : x(value)) },
        ...lines.map((line) => ({
          label: line.label,
          stroke: line.color,
          width: 2,
          ...(line.dash === undefined ? {} : { dash: line.dash }),
          points: { show: false },
          value: (_: uPlot, value: number | null) => (value === null || value === undefined ? "–" : y(value)),
        })),
      ],
      hooks: { draw: [(plot) => this.drawMarks(plot)] },
    };
    this.place = h("div", { class: "plot" });
    this.element = h("figure", { class: "chart", "aria-label": title }, h("figcaption", {}, title), this.place);
    this.plot = new uPlot(options, [[], ...lines.map(() => [])], this.place);
    this.observer = new ResizeObserver((entries) => {
      const width = Math.floor(entries[0]?.contentRect.width ?? 0);
      if (width > 0) this.plot.setSize({ width, height: this.height });
    });
    this.observer.observe(this.place);
  }

  set(x: number[], lines: (number | null)[][], marks: Mark[] = []): void {
    this.marks = marks;
    this.plot.setData([x, ...lines] as uPlot.AlignedData);
    const last = lines.map((line) => line.at(-1)).filter((value) => value !== null && value !== undefined);
    this.element.dataset["last"] = last.join(" ");
  }

  redraw(): void {
    this.plot.redraw();
  }

  private drawMarks(plot: uPlot): void {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.font = `${10 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    // Texts that would overlap are left out.
    const ends: number[] = [];
    for (const mark of this.marks) {
      const x = plot.valToPos(mark.x, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = mark.color;
      ctx.fillStyle = mark.color;
      ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.lineWidth = devicePixelRatio;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const start = x + 3 * devicePixelRatio;
      const end = start + ctx.measureText(mark.text).width;
      if (start < (ends[mark.row] ?? 0) || end > bbox.left + bbox.width) continue;
      ends[mark.row] = end + 4 * devicePixelRatio;
      // Lines pass behind the text.
      ctx.setLineDash([]);
      ctx.strokeStyle = variable("--card");
      ctx.lineWidth = 3 * devicePixelRatio;
      ctx.strokeText(mark.text, start, bbox.top + (10 + 11 * mark.row) * devicePixelRatio);
      ctx.fillText(mark.text, start, bbox.top + (10 + 11 * mark.row) * devicePixelRatio);
    }
    ctx.restore();
  }

  close(): void {
    this.observer.disconnect();
    this.plot.destroy();
  }
}
