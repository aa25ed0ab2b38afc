// The page of a prediction as a reader meets it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import { open, withBrowser } from "../browser.mjs";
import { numbers, resize, shared, visit, withPages } from "./visits.mjs";

const QUELL = process.env.QUELL;
const HOSTILE = "</script><script>window.harmed=1</script>";
const MEASURED = "nodes,ppn,seconds\n64,24,3.1\n512,24,19\n4096,24,180\n";

function quell(words) {
    return run(["predict", ...words]);
}

function run(words) {
    return execFileSync(QUELL, ["--quiet", ...words], { cwd: shared.directory, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

/** Real predictions, made once. Shape: name to path. */
function makePages(directory) {
    const pages = { start: join(directory, "start.html") };
    writeFileSync(join(directory, "measured.csv"), MEASURED);
    const own = quell(["--print-fs", "gpfs"]).replace('name = "gpfs"', `name = "${HOSTILE}"`);
    writeFileSync(join(directory, "hostile.toml"), own);
    const creates = {
        many: ["--fs", "gpfs", "--nodes", "1..4096", "--ppn", "24", "--files", "3", "--measured", "measured.csv"],
        one: ["--fs", "coral", "--nodes", "4096"],
        tokenless: ["--fs", "lustre", "--nodes", "3,17,90000"],
        hostile: ["--fs", "hostile.toml", "--nodes", "1..64"],
    };
    run(["record", "-o", "app.qtrace", "--", "python3", "-c", "import json"]);
    const start = ["app.qtrace", "--root", "/", "--fs", "lustre,nfs,hopper-home", "--nodes", "1..256", "--samples", "10"];
    quell([...start, "--html", pages.start, "--measured", "measured.csv"]);
    writeFileSync(join(directory, "start.json"), quell([...start, "--json"]));
    for (const [name, words] of Object.entries(creates)) {
        pages[name] = join(directory, `${name}.html`);
        quell(["create", ...words, "--html", pages[name]]);
        const json = words.includes("--measured") ? words.slice(0, -2) : words;
        writeFileSync(join(directory, `${name}.json`), quell(["create", ...json, "--json"]));
    }
    return pages;
}

withPages("a prediction in a browser", makePages, () => {
    it("opens in any size and colour, silently, and never scrolls sideways", async () => {
        for (const name of Object.keys(shared.pages)) {
            await visit(name, async (page) => {
                for (const width of [1280, 400]) {
                    for (const colorScheme of ["light", "dark"]) {
                        await page.emulateMedia({ colorScheme });
                        await resize(page, width);
                        const wide = await page.evaluate(() => document.scrollingElement.scrollWidth - window.innerWidth);
                        assert.ok(wide <= 0, `${name} at ${width} is ${wide} pixels too wide`);
                        const nan = await page.evaluate(() => document.querySelector("#charts").innerHTML.includes("NaN"));
                        assert.equal(nan, false, `${name} draws what is no number`);
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

    it("draws a line, a band, bounds, a dot for each point and what was measured", async () => {
        await visit("many", async (page) => {
            for (const [what, number] of [["path.median", 1], ["path.band", 1], ["path.bound", 2], ["circle", 13], ["path.measured", 3]]) {
                assert.equal(await page.locator(`.curves ${what}`).count(), number, what);
            }
            assert.match(await page.locator(".curves .name").first().innerHTML(), /block splits/);
        });
    });

    it("draws every file system with its knee, side by side", async () => {
        await visit("start", async (page) => {
            assert.equal(await page.locator(".curves path.median").count(), 3);
            const knees = await page.locator(".curves .name").allTextContents();
            assert.ok(knees.length > 0 && knees.every((name) => name.startsWith("knee, ")), knees.join());
            assert.equal(await page.locator(".tornado").count(), 3);
            assert.equal(await page.locator("#what-if table").count(), 3);
            assert.match(await page.locator("#what-if").innerText(), /from an image that each node reads/);
        });
    });

    it("reads a number of nodes under the pointer and under the arrow keys", async () => {
        await visit("many", async (page) => {
            const plot = page.locator(".curves");
            await plot.scrollIntoViewIfNeeded();
            const box = await plot.boundingBox();
            await page.mouse.move(box.x + box.width - 12, box.y + 150);
            assert.match(await page.locator(".tooltip").innerText(), /4\s096 nodes[\s\S]*gpfs[\s\S]*measured, 24 a node/);
            await plot.focus();
            await page.keyboard.press("Home");
            await page.keyboard.press("ArrowLeft");
            assert.match(await page.locator("figure [aria-live]").first().innerText(), /nodes?: gpfs \d/);
        });
    });

    it("hides and shows a file system", async () => {
        await visit("many", async (page) => {
            const key = page.locator(".legend").getByRole("button", { name: /^gpfs/ });
            await key.click();
            assert.deepEqual([await page.locator(".curves path.median").count(), await key.getAttribute("aria-pressed")], [0, "false"]);
            await key.click();
            assert.equal(await page.locator(".curves path.median").count(), 1);
        });
    });

    it("shows the figure that spreads the range most first", async () => {
        await visit("many", async (page) => {
            assert.equal(await page.locator(".tornado tbody th").first().innerText(), "shared_directory.inode_token_us");
        });
    });

    it("shows hostile names as the text that they are", async () => {
        await visit("hostile", async (page) => {
            assert.equal(await page.evaluate(() => window.harmed), undefined);
            assert.ok((await page.locator("body").innerText()).includes(HOSTILE));
            assert.equal(await page.evaluate(() => document.scripts.length), 3);
        });
    });

    it("says what matters without a script", async () => {
        await withBrowser(async (context) => {
            const { page } = await open(context, shared.pages.many);
            const text = await page.locator("body").innerText();
            for (const seen of ["take", "four in five", "Points", "block splits", "What if", "Advice", "Made from", "JavaScript"]) {
                assert.ok(text.includes(seen), `${seen}: ${text}`);
            }
        }, { javaScriptEnabled: false });
    });
});
