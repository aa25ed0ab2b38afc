// Makes the types of the pages' objects from their schemas, so that the pages are checked against what quell writes today.
import { mkdir, writeFile } from "node:fs/promises";
import { compileFromFile } from "json-schema-to-typescript";

const here = new URL(".", import.meta.url).pathname;
await mkdir(`${here}generated`, { recursive: true });
for (const [name, schema] of [["report", "../../../docs/schema/report.json"], ["prediction", "prediction.schema.json"]]) {
    const types = await compileFromFile(`${here}${schema}`, {
        additionalProperties: false,
        bannerComment: `// Made from ${schema.replace(/^[./]*/, "")} by types.mjs.`,
        format: false,
    });
    await writeFile(`${here}generated/${name}.d.ts`, types);
}
