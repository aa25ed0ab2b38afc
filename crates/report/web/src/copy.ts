// Copying: commands, tables, and the numbers of the page as a file.

import { button, el } from "./dom";

/** How long a button says that it has copied. Unit: milliseconds. */
const CONFIRMED = 1600;

async function toClipboard(text: string): Promise<boolean> {
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        // Older browsers, and pages that a browser does not trust with the clipboard.
        const area = el("textarea", { class: "unseen", readonly: true });
        area.value = text;
        document.body.append(area);
        area.select();
        const copied = document.execCommand("copy");
        area.remove();
        return copied;
    }
}

/** A button that copies what `text` gives at the moment of the click. */
export function copyButton(label: string, text: () => string, name?: string): HTMLButtonElement {
    const words = el("span", { "aria-live": "polite" }, label);
    const made = button({ class: "copy", "aria-label": name }, async () => {
        words.textContent = (await toClipboard(text())) ? "Copied" : "Not allowed";
        setTimeout(() => (words.textContent = label), CONFIRMED);
    }, words);
    return made;
}

/** Gives every command of the page a button. */
export function makeCommandsCopyable(): void {
    for (const pre of document.querySelectorAll("pre.command")) {
        const wrapped = el("div", { class: "command-line" });
        pre.replaceWith(wrapped);
        wrapped.append(pre, copyButton("Copy", () => pre.textContent ?? "", "Copy the command"));
    }
}

/** Saves text as a file. */
export function save(name: string, type: string, text: string): void {
    const address = URL.createObjectURL(new Blob([text], { type }));
    const link = el("a", { href: address, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), CONFIRMED);
}

/** Rows as RFC 4180 has them. */
export function csv(rows: (string | number | null)[][]): string {
    const cell = (value: string | number | null) => {
        const text = value === null ? "" : String(value);
        return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
    };
    return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}
