// Real reports of real recordings, made once for all tests: a start, ranks, many paths, hostile names, a recording that
// was ended early, and one without events.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, truncateSync, writeFileSync } from "node:fs";
import { cp } from "node:fs/promises";
import { join } from "node:path";

const QUELL = process.env.QUELL;

/** Names that do harm where they are taken for anything but text. */
export const HOSTILE = [
    "</script><script>window.harmed=1</script>",
    "<img src=x onerror=window.harmed=2>",
    "<!--",
    "]]>",
    "\"quoted\" 'single' &amp;",
    "\u2028line\u2029",
    "\u05e9\u05dc\u05d5\u05dd.so",
    "evil\u202egpj.exe",
    "a,b;\"c\"",
    "=cmd|' /C calc'!A0",
];

const PROGRAMS = {
    start: "import json, asyncio, email.mime.text",
    many: `
import os
for i in range(1500):
    try: os.stat(f"/nowhere/{i % 37}/name-{i}.so")
    except OSError: pass
for i in range(200):
    with open(f"file-{i}", "w") as f: f.write("x" * i)
    with open(f"file-{i}") as f: f.read()
`,
    hostile: `
import os, sys
names = [os.fsencode(name) for name in sys.argv[1:]] + [b"\\xff\\xfe\\x01\\x1b[31m", b"/".join([b"long" * 60] * 17)]
for name in names:
    for _ in range(50):
        try: os.stat(b"/nowhere/" + name)
        except OSError: pass
`,
    waits: "import time; print('started', flush=True); time.sleep(600)",
};

function quell(directory, words, environment = {}) {
    return execFileSync(QUELL, ["--quiet", ...words], {
        cwd: directory,
        env: { ...process.env, ...environment },
        encoding: "utf8",
        maxBuffer: 1 << 28,
        stdio: ["ignore", "pipe", "inherit"],
    });
}

const record = (directory, name, words, environment, flags = []) =>
    quell(directory, ["record", ...flags, "-o", `${name}.qtrace`, "--", ...words], environment);

/** Four ranks, as a launcher would start them. */
function ranks(directory) {
    for (const rank of [0, 1, 2, 3]) {
        const environment = {
            SLURM_JOB_ID: "7", SLURM_STEP_ID: "0", SLURM_NTASKS: "4", SLURM_PROCID: `${rank}`, SLURM_LOCALID: `${rank}`,
            QUELL_RANKS: "0,1,2,3",
        };
        record(directory, "ranks", ["python3", "-c", "import json"], environment);
    }
}

/** A recorder that is killed leaves its spool. */
async function partial(directory) {
    const words = ["--quiet", "record", "-o", "partial.qtrace", "--", "python3", "-c", PROGRAMS.waits];
    const recorder = spawn(QUELL, words, { cwd: directory, stdio: ["ignore", "pipe", "inherit"] });
    await new Promise((resolve, reject) => {
        recorder.stdout.once("data", resolve);
        recorder.once("exit", () => reject(new Error("the recorder ended by itself")));
    });
    recorder.kill("SIGKILL");
    await new Promise((resolve) => recorder.once("exit", resolve));
}

/** Bytes of the spool's head: its magic. */
const HEAD = 8;

/** The same without any event: a spool that was cut behind its head. */
async function empty(directory) {
    await cp(join(directory, "partial.qtrace"), join(directory, "empty.qtrace"), { recursive: true });
    truncateSync(join(directory, "empty.qtrace", "spool"), HEAD);
}

/** Makes all reports in a directory. Shape: name to path. */
export async function makePages(directory) {
    if (!QUELL || !existsSync(QUELL)) throw new Error("QUELL must name the binary: QUELL=$(pwd)/target/debug/quell");
    mkdirSync(directory, { recursive: true });
    for (const name of ["start", "many"]) record(directory, name, ["python3", "-c", PROGRAMS[name]]);
    record(directory, "hostile", ["python3", "-c", PROGRAMS.hostile, ...HOSTILE]);
    record(directory, "imports", ["python3", "-c", PROGRAMS.start], {}, ["--python"]);
    ranks(directory);
    await partial(directory);
    await empty(directory);
    const pages = {};
    for (const name of ["start", "many", "hostile", "imports", "ranks", "partial", "empty"]) {
        const traces = readdirSync(directory).filter((file) => file.startsWith(name) && file.endsWith(".qtrace")).sort();
        pages[name] = join(directory, `${name}.html`);
        quell(directory, ["report", ...traces, "--html", pages[name]]);
        writeFileSync(join(directory, `${name}.json`), quell(directory, ["report", ...traces, "--json"]));
    }
    return pages;
}

/** Makes the flame graph of a start in a directory. Shape: name to path. */
export function makeFlameGraph(directory) {
    record(directory, "start", ["python3", "-c", PROGRAMS.start]);
    quell(directory, ["export", "start.qtrace", "--format", "speedscope"]);
    return { graph: join(directory, "start.speedscope.json") };
}
