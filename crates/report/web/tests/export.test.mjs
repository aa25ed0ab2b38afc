// The flame graph that `quell export` writes follows speedscope's own schema, and opens in speedscope itself.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { it } from "node:test";
import { pathToFileURL } from "node:url";
import Ajv from "ajv";
import { makeFlameGraph } from "./pages.mjs";
import { shared, withPages } from "./visits.mjs";

const SPEEDSCOPE = join(dirname(createRequire(import.meta.url).resolve("speedscope/package.json")), "dist/release");

withPages("a flame graph in speedscope", makeFlameGraph, () => {
    it("follows the schema", () => {
        const schema = JSON.parse(readFileSync(join(SPEEDSCOPE, "file-format-schema.json"), "utf8"));
        const valid = new Ajv({ strict: false, allErrors: true }).compile(schema);
        assert.ok(valid(JSON.parse(readFileSync(shared.pages.graph, "utf8"))), JSON.stringify(valid.errors));
    });

    it("opens with both profiles", async () => {
        // speedscope reads a file from a disk as a script, because a page of a disk may fetch nothing.
        const script = join(shared.directory, "graph.js");
        const content = readFileSync(shared.pages.graph).toString("base64");
        writeFileSync(script, `speedscope.loadFileFromBase64("start.speedscope.json", "${content}")`);
        const page = await shared.context.newPage();
        const thrown = [];
        page.on("pageerror", (error) => thrown.push(String(error)));
        await page.goto(`${pathToFileURL(join(SPEEDSCOPE, "index.html"))}#localProfilePath=${script}`);
        await page.getByText("metadata operations by directory").first().waitFor();
        await page.keyboard.press("n");
        await page.getByText("time in calls by directory").first().waitFor();
        assert.deepEqual(thrown, []);
        await page.close();
    });
});
