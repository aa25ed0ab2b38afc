// Builds src/ into dist/: a script for each kind of page, one style sheet, and for each script the policy that allows a
// browser these two and nothing else.
// With --check: fails when dist/ is not what src/ builds.
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { build } from "esbuild";

const here = new URL(".", import.meta.url);

/** The licences of the libraries inside, which go wherever a page goes. */
async function notices(metafile) {
    const names = Object.keys(metafile.inputs).map((path) => /node_modules\/([^/]+)\//.exec(path)?.[1]);
    const there = [...new Set(names.filter(Boolean))].sort();
    const licences = new Map();
    for (const name of there) {
        const text = (await readFile(new URL(`node_modules/${name}/LICENSE`, here), "utf8")).trim();
        licences.set(text, [...(licences.get(text) ?? []), name]);
    }
    return [...licences].map(([text, of]) => `/*! ${of.join(", ")}\n${text}\n*/\n`).join("");
}

async function bundle(entry) {
    const built = await build({
        absWorkingDir: here.pathname,
        entryPoints: [entry],
        bundle: true,
        minify: true,
        write: false,
        metafile: true,
        format: "iife",
        charset: "ascii",
        legalComments: "none",
        // Login nodes have old browsers.
        target: ["es2020", "firefox91", "chrome90", "safari15"],
    });
    const text = (await notices(built.metafile)) + built.outputFiles[0].text.trim();
    // Either would end the element that holds it.
    if (/<\/(script|style)|<!--/i.test(text)) throw new Error(`${entry} cannot stand inside a page`);
    return text;
}

const digest = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const style = await bundle("src/style/page.css");
const policy = (script) => [
    "default-src 'none'",
    `script-src ${digest(script)}`,
    `style-src ${digest(style)}`,
    "base-uri 'none'",
    "form-action 'none'",
].join("; ");

const [page, prediction] = [await bundle("src/main.ts"), await bundle("src/prediction/main.ts")];
const files = {
    "page.js": page,
    "page.css": style,
    "policy.txt": `${policy(page)}\n`,
    "prediction.js": prediction,
    "prediction.policy.txt": `${policy(prediction)}\n`,
};
const check = process.argv.includes("--check");
for (const [name, text] of Object.entries(files)) {
    const file = new URL(`dist/${name}`, here);
    const there = await readFile(file, "utf8").catch(() => "");
    if (there === text) continue;
    if (check) {
        console.error(`crates/report/web/dist/${name} is out of date; run \`npm run build\` in crates/report/web`);
        process.exitCode = 1;
    } else {
        await writeFile(file, text);
        console.log(`dist/${name}: ${text.length} bytes`);
    }
}
