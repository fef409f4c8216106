// Where the user is: the part of the address after `#`. Every view has one, so that links lead to it.

export interface Place {
  /** The parts of the path: `run`, its id, the view. */
  path: string[];
  query: Map<string, string>;
}

export function here(): Place {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return {
    path: path.split("/").filter((part) => part !== "").map(decoded),
    query: new Map(new URLSearchParams(query)),
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function link(path: string[], query: Record<string, string | number | undefined | null> = {}): string {
  const kept = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text === "" ? "" : `?${text}`}`;
}

export function go(path: string[], query: Record<string, string | number | undefined | null> = {}): void {
  location.hash = link(path, query);
}

/** Writes what changes within a view into the address, without a step of the history. */
export function note(changes: Record<string, string | number | undefined | null>): void {
  const place = here();
  const query: Record<string, string | number | undefined | null> = Object.fromEntries(place.query);
  history.replaceState(null, "", link(place.path, { ...query, ...changes }));
}

export function numberOf(text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  const value = Number(text);
  return Number.isFinite(value) ? value : undefined;
}
