// Makes the types of the report from its schema, so that the page is checked against what quell writes today.
import { mkdir, writeFile } from "node:fs/promises";
import { compileFromFile } from "json-schema-to-typescript";

const here = new URL(".", import.meta.url).pathname;
const types = await compileFromFile(`${here}../../../docs/schema/report.json`, {
    additionalProperties: false,
    bannerComment: "// Made from docs/schema/report.json by types.mjs.",
    format: false,
});
await mkdir(`${here}generated`, { recursive: true });
await writeFile(`${here}generated/report.d.ts`, types);
