// Elements of the page. Text goes into text nodes only: names in traces are data, never markup.

type Child = Node | string | number | null | undefined | false;
type Props = Record<string, unknown>;

/** Makes an element. A function `onx` listens to the event `x`; `true` and `false` set and omit an attribute. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: (Child | Child[])[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value as EventListener);
    } else if (name === "value" && "value" in element) {
      (element as HTMLInputElement).value = String(value);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...nodes(children));
  return element;
}

function nodes(children: (Child | Child[])[]): (Node | string)[] {
  const kept = children.flat().filter((child) => child !== null && child !== undefined && child !== false);
  return kept.map((child) => (child instanceof Node ? child : String(child)));
}

/** Replaces what is in an element. */
export function fill(element: Element, ...children: (Child | Child[])[]): void {
  element.replaceChildren(...nodes(children));
}

/** A table with a caption for screen readers. */
export function table(caption: string, head: Child[], rows: Child[][], numeric = 1): HTMLElement {
  const cell = (child: Child, at: number, row: Child[]) =>
    at === 0
      ? h("th", { scope: "row" }, child)
      : h("td", { class: at >= numeric ? "number" : at === row.length - 1 ? "words" : false }, child);
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, head.map((child, at) =>
        h("th", { scope: "col", class: at >= numeric ? "number" : false }, child)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell)))),
    ),
  );
}

/** A selection. */
export function choice(
  label: string,
  options: readonly (readonly [string, string])[],
  value: string,
  change: (value: string) => void,
  id?: string,
): HTMLElement {
  const select = h(
    "select",
    { id, onchange: () => change(select.value) },
    options.map(([name, text]) => h("option", { value: name, selected: name === value }, text)),
  );
  return h("label", { class: "field" }, h("span", {}, label), select);
}

export function button(text: string, click: () => void, props: Props = {}): HTMLButtonElement {
  return h("button", { type: "button", onclick: click, ...props }, text);
}

/** A message that screen readers announce. */
export function notice(text: string, kind: "error" | "info" = "info"): HTMLElement {
  return h("p", { class: `notice ${kind}`, role: kind === "error" ? "alert" : "status" }, text);
}

/** A canvas as sharp as the screen. Returns its context, in CSS pixels. */
export function sized(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  if (context === null) throw new Error("this browser draws no canvas");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** The value of a variable of the style sheet, such as `--line`. */
export function variable(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
