// Pages that are made once for a group of tests, and a browser that visits them.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe } from "node:test";
import { CHROMIUM, open, withBrowser } from "../browser.mjs";

/** Why nothing can be tested here; a failure where everything must. */
function obstacle() {
    if (existsSync(CHROMIUM)) return false;
    assert.notEqual(process.env.QUELL_TESTS_MUST_RUN, "1", `there is no ${CHROMIUM}`);
    console.error(`skipped, because there is no ${CHROMIUM}`);
    return `there is no ${CHROMIUM}`;
}

/** The directory of a group's files, and its pages. Shape of `pages`: name to path. */
export const shared = { pages: {} };

/** A group of tests with one browser. `makePages(directory)` gives the pages, name to path. */
export function withPages(name, makePages, tests) {
    describe(name, { skip: obstacle() }, () => {
        let finish;
        let closed;
        before(async () => {
            shared.directory = await mkdtemp(join(tmpdir(), "quell-pages-"));
            shared.pages = await makePages(shared.directory);
            const done = new Promise((resolve) => (finish = resolve));
            await new Promise((ready, failed) => {
                closed = withBrowser((context) => {
                    shared.context = context;
                    ready();
                    return done;
                });
                closed.catch(failed);
            });
        });
        after(async () => {
            finish?.();
            await closed;
            await rm(shared.directory, { recursive: true, force: true });
        });
        tests();
    });
}

/** Opens a page, hands it to `use`, and sees that it made no complaint and no request. */
export async function visit(name, use, options) {
    const { page, complaints } = await open(shared.context, shared.pages[name], options);
    await use(page);
    assert.deepEqual(complaints, []);
    await page.close();
}

/** What `--json` said beside a page. */
export const numbers = (name) => JSON.parse(readFileSync(join(shared.directory, `${name}.json`), "utf8"));

/** Gives a page another width. Ends when charts are drawn for it: they hear of it after the next frame has begun. */
export async function resize(page, width) {
    await page.setViewportSize({ width, height: 900 });
    await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
}
