// Light or dark: as the system says, until the reader says otherwise.

import { button } from "./dom";

const KEY = "quell-theme";
type Theme = "light" | "dark";

function remembered(): Theme | null {
    try {
        const theme = localStorage.getItem(KEY);
        return theme === "light" || theme === "dark" ? theme : null;
    } catch {
        return null; // Storage may be forbidden for files.
    }
}

function remember(theme: Theme): void {
    try {
        localStorage.setItem(KEY, theme);
    } catch {
        // The choice lasts as long as the page.
    }
}

/** The button that switches. */
export function themeButton(): HTMLButtonElement {
    const root = document.documentElement;
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    const current = (): Theme => (root.dataset.theme as Theme | undefined) ?? (system.matches ? "dark" : "light");
    const chosen = remembered();
    if (chosen) root.dataset.theme = chosen;
    const made = button({ class: "theme" }, () => {
        const next = current() === "dark" ? "light" : "dark";
        root.dataset.theme = next;
        remember(next);
        label();
    });
    const label = () => {
        const next = current() === "dark" ? "Light" : "Dark";
        made.textContent = next;
        made.setAttribute("aria-label", `${next} colours`);
    };
    label();
    system.addEventListener("change", label);
    return made;
}
