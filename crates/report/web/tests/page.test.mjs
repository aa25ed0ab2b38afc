// The page as a reader meets it: opened from a disk in a real browser, clicked, sorted, filtered.
import assert from "node:assert/strict";
import { it } from "node:test";
import { open, withBrowser } from "../browser.mjs";
import { HOSTILE, makePages } from "./pages.mjs";
import { numbers, resize, shared, visit, withPages } from "./visits.mjs";

const SIZES = [1280, 400];
const SCHEMES = ["light", "dark"];

/** What a cell says as a number: units and groups taken away; nothing is zero. */
function amount(text) {
    const scale = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };
    const [, digits, unit] = /^([\d\s.]*)\s*([A-Za-z]*)/.exec(text.replace(/[<>]/g, "")) ?? [];
    return Number((digits ?? "").replace(/\s/g, "")) * (scale[unit] ?? 1);
}

/** Every table of the page, each behind its tab. */
async function eachTable(page, use) {
    for (const tab of await page.getByRole("tab").all()) {
        await tab.click();
        const name = (await tab.innerText()).replace(/\s[\d\s]*$/, "");
        await use(page.locator(`.sorted:has(caption:text-is("${name}"))`), name);
    }
}

withPages("a report in a browser", makePages, () => {
    it("opens from a disk in any size and colour, silently, and never scrolls sideways", async () => {
        for (const name of Object.keys(shared.pages)) {
            await visit(name, async (page) => {
                for (const width of SIZES) {
                    for (const colorScheme of SCHEMES) {
                        await page.emulateMedia({ colorScheme });
                        await resize(page, width);
                        const wide = await page.evaluate(() => document.scrollingElement.scrollWidth - window.innerWidth);
                        assert.ok(wide <= 0, `${name} at ${width} is ${wide} pixels too wide`);
                    }
                }
            });
        }
    });

    it("holds the numbers of --json", async () => {
        for (const name of Object.keys(shared.pages)) {
            await visit(name, async (page) => {
                const inside = await page.evaluate(() => document.getElementById("report").textContent);
                assert.deepEqual(JSON.parse(inside), numbers(name));
            });
        }
    });

    it("sorts every table by every column, both ways", async () => {
        await visit("many", async (page) => {
            await eachTable(page, async (table, name) => {
                const titles = table.locator("thead th");
                for (let at = 0; at < (await titles.count()); at += 1) {
                    for (const click of [1, 2]) {
                        await titles.nth(at).getByRole("button").click();
                        const order = await titles.nth(at).getAttribute("aria-sort");
                        const cells = await table.locator(`tbody tr td:nth-child(${at + 1})`).allInnerTexts();
                        const kind = await titles.nth(at).getAttribute("class");
                        assertSorted(cells, kind, order, `${name}, column ${at + 1}, click ${click}`);
                    }
                }
            });
        });
    });

    it("filters every table, and says so", async () => {
        await visit("many", async (page) => {
            const table = page.locator('.sorted:has(caption:text-is("Paths"))');
            const search = page.getByLabel("Filter Paths");
            await search.fill("nowhere NAME-1");
            const rows = await table.locator("tbody tr").allInnerTexts();
            assert.ok(rows.length > 0 && rows.every((row) => row.includes("/nowhere/") && row.includes("name-1")), rows[0]);
            assert.match(await table.locator("output").innerText(), /^\d[\d\s]* of 1\s000$/);
            await search.fill("no such path anywhere");
            assert.equal(await table.locator("tbody").innerText(), "Nothing matches.");
            await search.fill("");
            assert.equal(await table.locator("tbody tr").count(), 12);
            await table.getByRole("button", { name: /^Show \d+ more$/ }).click();
            assert.equal(await table.locator("tbody tr").count(), 1000);
        });
    });

    it("gives a table away as CSV, filtered and sorted as it is shown", async () => {
        await visit("many", async (page) => {
            await page.evaluate(() => {
                // The event that the browser raises holds the copied text.
                navigator.clipboard.writeText = () => Promise.reject(new Error("not allowed"));
                document.addEventListener("copy", () => (window.copied = document.activeElement.value));
            });
            await page.getByLabel("Filter Paths").fill("name-1499");
            await page.getByRole("button", { name: "Copy Paths as CSV" }).click();
            await page.getByText("Copied").waitFor();
            const found = numbers("many").top_paths.filter((row) => row.path.includes("name-1499"));
            const lines = found.map((row) => `${row.path},${row.metadata_operations},${row.missed},${row.served_by}\r\n`);
            const copied = (await page.evaluate(() => window.copied)).replace(/\r?\n/g, "\r\n");
            assert.equal(copied, ["path,operations,missed,served by\r\n", ...lines].join(""));
        });
    });

    it("shows and hides what the legend names", async () => {
        await visit("start", async (page) => {
            const missed = page.locator(".plot path.part-missed");
            assert.ok((await missed.count()) > 1, "all operations and some classes have misses");
            const key = page.locator(".legend").getByRole("button", { name: /^missed/ });
            await key.click();
            assert.deepEqual([await missed.count(), await key.getAttribute("aria-pressed")], [0, "false"]);
            await key.click();
            assert.ok((await missed.count()) > 1);
        });
    });

    it("reads the time under the pointer and under the arrow keys, and looks closer", async () => {
        await visit("start", async (page) => {
            const plot = page.locator(".plot");
            await plot.scrollIntoViewIfNeeded();
            const box = await plot.boundingBox();
            await page.mouse.move(box.x + 200, box.y + 100);
            assert.match(await page.locator(".tooltip").innerText(), /together/);
            await page.mouse.down();
            await page.mouse.move(box.x + 500, box.y + 100, { steps: 4 });
            await page.mouse.up();
            assert.match(await page.locator(".range").innerText(), / to /);
            await page.mouse.dblclick(box.x + 300, box.y + 100);
            assert.equal(await page.locator(".range").count(), 0);
            await plot.focus();
            await page.keyboard.press("ArrowRight");
            assert.match(await page.locator(".timeline [aria-live]").innerText(), /together \d/);
        });
    });

    it("goes into a directory of the map, by pointer and by key, and back", async () => {
        await visit("start", async (page) => {
            const crumbs = page.locator(".crumbs [aria-current]");
            const first = page.locator('.tile[role="button"]').first();
            await first.focus();
            await page.keyboard.press("Enter");
            const inside = await crumbs.innerText();
            assert.notEqual(inside, "/");
            await page.getByRole("button", { name: "List its paths" }).click();
            assert.equal(await page.getByLabel("Filter Paths").inputValue(), `/${inside.replace(/^\//, "")}/`);
            await page.locator(".crumbs button").first().click();
            assert.equal(await crumbs.innerText(), "/");
            await page.locator(".tile.group > span").first().click();
            assert.notEqual(await crumbs.innerText(), "/");
        });
    });

    it("changes its colours and remembers which", async () => {
        await visit("start", async (page) => {
            const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
            const light = await paper();
            await page.getByRole("button", { name: "Dark colours" }).click();
            const dark = await paper();
            assert.notEqual(dark, light);
            await page.reload();
            assert.equal(await paper(), dark);
            await page.getByRole("button", { name: "Light colours" }).click();
            assert.equal(await paper(), light);
        });
    });

    it("shows hostile names as the text that they are", async () => {
        await visit("hostile", async (page) => {
            assert.equal(await page.evaluate(() => window.harmed), undefined);
            assert.deepEqual(await page.evaluate(() => [document.scripts.length, document.images.length]), [2, 0]);
            const text = await page.locator("body").innerText();
            for (const seen of [HOSTILE[0], HOSTILE[1], "\\xe2\\x80\\xa8line\\xe2\\x80\\xa9", "evil\\xe2\\x80\\xaegpj.exe"]) {
                assert.ok(text.includes(seen), seen);
            }
        });
    });

    it("cannot reach the network, nor run what is not its own", async () => {
        const { page, complaints } = await open(shared.context, shared.pages.start);
        const reached = await page.evaluate(async () => {
            const script = document.createElement("script");
            script.textContent = "window.harmed = 3";
            document.head.append(script);
            const answer = await fetch("data:text/plain,x").then(() => "reached", () => "refused");
            return [window.harmed, answer];
        });
        assert.deepEqual(reached, [undefined, "refused"]);
        assert.ok(complaints.length > 0, "a complaint would be seen");
        assert.ok(complaints.every((complaint) => /Content Security Policy/.test(complaint)), complaints.join("\n"));
        await page.close();
    });

    it("says in words that a recording is partial or empty", async () => {
        await visit("partial", async (page) => {
            assert.match(await page.getByRole("note").innerText(), /partial/);
        });
        await visit("empty", async (page) => {
            assert.match(await page.getByRole("note").innerText(), /no events/);
            assert.match(await page.locator("h1").innerText(), /Nothing was asked/);
        });
    });

    it("prints without its buttons", async () => {
        await visit("start", async (page) => {
            await page.emulateMedia({ media: "print" });
            assert.equal(await page.locator("header nav").isVisible(), false);
            assert.equal(await page.getByText("Copy as CSV").first().isVisible(), false);
            assert.equal(await page.locator("h1").isVisible(), true);
        });
    });

    it("says what matters without a script", async () => {
        await withBrowser(async (context) => {
            const { page } = await open(context, shared.pages.partial);
            const text = await page.locator("body").innerText();
            for (const seen of ["Read with care", "metadata operations", "missed", "Next", "need JavaScript"]) {
                assert.ok(text.includes(seen), `${seen}: ${text}`);
            }
        }, { javaScriptEnabled: false });
    });
});

function assertSorted(cells, kind, order, where) {
    assert.notEqual(order, "none", where);
    if (kind === "cell-bar" || cells.length < 2) return;
    const direction = order === "ascending" ? 1 : -1;
    const known = cells.filter((cell) => cell !== "" || (kind !== "cell-text" && kind !== "cell-path"));
    for (let at = 1; at < known.length; at += 1) {
        const [a, b] = [known[at - 1], known[at]];
        const difference = kind === "cell-text" || kind === "cell-path" ? (a < b ? -1 : Number(a > b)) : amount(a) - amount(b);
        assert.ok(difference * direction <= 0, `${where}: ${a} before ${b}`);
    }
}
