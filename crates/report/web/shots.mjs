// Pictures of a report, for eyes: node shots.mjs REPORT.html DIRECTORY [WIDTH] [SECTION]
import { mkdir } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { open, withBrowser } from "./browser.mjs";

const [file, directory, width, section] = process.argv.slice(2);
await mkdir(directory, { recursive: true });
await withBrowser(async (context) => {
    for (const columns of width ? [Number(width)] : [1280, 400]) {
        for (const scheme of ["light", "dark"]) {
            const { page, complaints } = await open(context, resolve(file), { width: columns, scheme });
            complaints.forEach((complaint) => console.error(complaint));
            const name = `${basename(file, ".html")}-${columns}-${scheme}.png`;
            const target = section ? page.locator(section) : page;
            await target.screenshot({ path: join(directory, name), ...(section ? {} : { fullPage: true }) });
            await page.close();
        }
    }
});
