// Elements without markup: text of a trace never passes through a parser. Attributes are set one by one, and style
// only through properties, because the page's policy forbids style attributes.

type Value = string | number | boolean | null | undefined;
type Attributes = Record<string, Value>;
export type Child = Node | string | null | undefined | false;

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
    for (const [name, value] of Object.entries(attributes)) {
        if (value === null || value === undefined || value === false) continue;
        element.setAttribute(name, value === true ? "" : String(value));
    }
    element.append(...children.filter((child): child is Node | string => Boolean(child)));
    return element;
}

/** An element with attributes and content. */
export function el<K extends keyof HTMLElementTagNameMap>(
    tag: K,
    attributes: Attributes = {},
    ...children: Child[]
): HTMLElementTagNameMap[K] {
    return fill(document.createElement(tag), attributes, children);
}

/** The same of SVG. */
export function svg<K extends keyof SVGElementTagNameMap>(
    tag: K,
    attributes: Attributes = {},
    ...children: Child[]
): SVGElementTagNameMap[K] {
    return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/** A button with what it does. */
export function button(attributes: Attributes, act: () => void, ...children: Child[]): HTMLButtonElement {
    const made = el("button", { type: "button", ...attributes }, ...children);
    made.addEventListener("click", act);
    return made;
}

/** Calls `draw` with the element's width now, and whenever that changes. */
export function whenResized(element: Element, draw: (width: number) => void): void {
    let last = -1;
    new ResizeObserver(() => {
        const width = Math.floor(element.clientWidth);
        if (width > 0 && width !== last) draw((last = width));
    }).observe(element);
}
