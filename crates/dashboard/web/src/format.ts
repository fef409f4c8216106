// Numbers and times as people read them.

const counts = new Intl.NumberFormat("en-GB");
const short = new Intl.NumberFormat("en-GB", { notation: "compact", maximumFractionDigits: 1 });

export function count(value: number): string {
  return counts.format(Math.round(value));
}

export function compact(value: number): string {
  return Math.abs(value) < 10_000 ? counts.format(Math.round(value * 10) / 10) : short.format(value);
}

export function percent(share: number): string {
  const value = share * 100;
  return `${value > 0 && value < 10 ? value.toFixed(1) : Math.round(value)} %`;
}

/** A duration, or a moment of a run. */
export function micros(us: number): string {
  const abs = Math.abs(us);
  if (abs < 1000) return `${Math.round(us)} µs`;
  if (abs < 1_000_000) return `${trim(us / 1000)} ms`;
  if (abs < 120_000_000) return `${trim(us / 1_000_000)} s`;
  const seconds = Math.round(us / 1_000_000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** A moment of a window, with as many digits as tell it from others in the window. */
export function moment(us: number, window: number): string {
  const digits = Math.max(0, Math.min(6, 3 - Math.floor(Math.log10(Math.max(window, 1) / 1_000_000))));
  return `${(us / 1_000_000).toFixed(digits)} s`;
}

function trim(value: number): string {
  return String(Number(value.toPrecision(4)));
}

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (Math.abs(value) >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(value) : Number(value.toPrecision(3))} ${units[unit]}`;
}
