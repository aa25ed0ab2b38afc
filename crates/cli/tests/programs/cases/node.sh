# Node: packages below the root, a worker, a child, a watcher, files written and renamed.

plant() {
    mkdir -p env/node_modules/part/lib env/node_modules/esm
    echo '{"name":"part","main":"lib/index.js"}' >env/node_modules/part/package.json
    echo 'exports.name = require("path").basename(__filename)' >env/node_modules/part/lib/index.js
    echo '{"name":"esm","type":"module","exports":"./index.mjs"}' >env/node_modules/esm/package.json
    echo 'export const name = import.meta.url.split("/").pop()' >env/node_modules/esm/index.mjs
    cat >env/run.mjs <<'END'
import fs from "fs"; import path from "path"; import { execFileSync } from "child_process";
import { Worker, isMainThread, parentPort } from "worker_threads";
import { createRequire } from "module"; import { fileURLToPath } from "url";
import { name } from "esm";
const here = path.dirname(fileURLToPath(import.meta.url)), require = createRequire(import.meta.url);
if (!isMainThread) {
    parentPort.postMessage(require("part").name + name);
} else {
    const worker = new Worker(fileURLToPath(import.meta.url));
    worker.on("message", message => console.log("worker", message));
    worker.on("exit", code => {
        console.log("ended", code);
        console.log(execFileSync("ls", [here]).toString());
        try { require("absent") } catch (error) { console.log(error.code) }
        fs.writeFileSync(here + "/out.new", "text"); fs.renameSync(here + "/out.new", here + "/out");
        fs.appendFileSync(here + "/out", " more");
        console.log(fs.readFileSync(here + "/out", "utf8"), fs.existsSync(here + "/out.new"));
        const watcher = fs.watch(here, (event, file) => { console.log(event, file); watcher.close() });
        setTimeout(() => fs.writeFileSync(here + "/watched", ""), 20);
    });
}
END
}

use() {
    rm -f env/watched env/out
    node env/run.mjs
}

"$1"
