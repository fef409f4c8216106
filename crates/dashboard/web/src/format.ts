// Numbers and times as people read them.

const counts = new Intl.NumberFormat("en-GB");

export function count(value: number): string {
  return counts.format(Math.round(value));
}

/** Digits behind the point that tell multiples of a step apart. */
function digitsOf(step: number): number {
  for (let digits = 0; digits < 6; digits += 1) {
    const scaled = step * 10 ** digits;
    if (Math.abs(scaled - Math.round(scaled)) < 1e-6 * Math.max(1, scaled) && Math.round(scaled) > 0) return digits;
  }
  return 6;
}

/** A number in few letters. Those of an axis are `step` apart, and all different. */
export function compact(value: number, step?: number): string {
  const isShort = Math.abs(value) >= 10_000;
  const unit = isShort ? 1000 ** Math.min(4, Math.floor(Math.log10(Math.abs(value)) / 3)) : 1;
  const digits = step === undefined ? 1 : digitsOf(step / unit);
  const notation = isShort ? "compact" : "standard";
  return new Intl.NumberFormat("en-GB", { notation, maximumFractionDigits: digits }).format(value);
}

/** A share in percent, without the sign. Only nothing is 0, and only all is 100. */
export function percentage(share: number, step?: number): string {
  const value = share * 100;
  if (value <= 0 || value === 100) return String(Math.round(value));
  let digits = step !== undefined ? digitsOf(step * 100) : value < 10 || (value > 99 && value < 100) ? 1 : 0;
  while (digits < 10 && [0, 100].includes(Number(value.toFixed(digits)))) digits += 1;
  return value.toFixed(digits);
}

export function percent(share: number, step?: number): string {
  return `${percentage(share, step)} %`;
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

/** Bytes, or bytes per second. Those of an axis are `step` apart, and all different. */
export function bytes(value: number, step?: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  let scale = 1;
  while (Math.abs(value / scale) >= 999.5 && unit < units.length - 1) {
    scale *= 1000;
    unit += 1;
  }
  const scaled = value / scale;
  const digits = step === undefined ? (unit === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(scaled))))) : digitsOf(step / scale);
  return `${Number(scaled.toFixed(digits))} ${units[unit]}`;
}

/** The size of an upload: its limit is given in mebibytes. Never less than it is. */
export function mebibytes(value: number): string {
  return `${counts.format(Math.ceil((value / (1 << 20)) * 10) / 10)} MiB`;
}
