// Bundles the extension as one file, dist/extension.js, and the licences of what is in it as dist/NOTICES.txt.

import { build } from "esbuild";
import { readFile, readdir, writeFile } from "node:fs/promises";
import path from "node:path";

const { metafile } = await build({
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  bundle: true,
  minify: true,
  metafile: true,
  platform: "node",
  target: "node20", // of VS Code 1.91
  format: "cjs",
  external: ["vscode"],
  logLevel: "warning",
});

// A package may be nested: its folder follows the last node_modules/ of a path.
const folders = new Set();
for (const input of Object.keys(metafile.inputs)) {
  const found = /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(input);
  if (found) folders.add(found[0]);
}
const notices = [];
for (const folder of [...folders].sort()) {
  const { name, version, license } = JSON.parse(await readFile(path.join(folder, "package.json"), "utf8"));
  const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
  if (!file) throw new Error(`${folder} has no licence`);
  const text = await readFile(path.join(folder, file), "utf8");
  notices.push(`${name} ${version} (${license})\n\n${text.trim()}\n`);
}
await writeFile("dist/NOTICES.txt", notices.join(`\n${"-".repeat(80)}\n\n`));
