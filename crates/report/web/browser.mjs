// A headless Chromium that asks the network for nothing, for the tests and the screenshots.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

/** The browser of the Debian package. */
export const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
// The sandbox cannot be had by root; the rest are the services by which a browser talks on its own.
const FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/** Runs `use` with a browser whose profile is new and goes away with it. */
export async function withBrowser(use, options = {}) {
    const profile = await mkdtemp(join(tmpdir(), "quell-chromium-"));
    const context = await chromium.launchPersistentContext(profile, {
        executablePath: CHROMIUM,
        args: FLAGS,
        headless: true,
        viewport: { width: 1280, height: 900 },
        ...options,
    });
    try {
        return await use(context);
    } finally {
        await context.close();
        await rm(profile, { recursive: true, force: true });
    }
}

/** Opens a report from the disk; what it says on the console, throws and asks for is listed. */
export async function open(context, file, { width = 1280, height = 900, scheme = "light" } = {}) {
    const page = await context.newPage();
    const complaints = [];
    page.on("console", (message) => {
        if (["error", "warning"].includes(message.type())) complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(String(error)));
    const address = pathToFileURL(file).href;
    page.on("request", (request) => {
        if (!request.url().startsWith(address) && !request.url().startsWith("blob:")) complaints.push(`asked for ${request.url()}`);
    });
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height });
    await page.goto(address);
    return { page, complaints };
}
