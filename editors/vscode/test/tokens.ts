/**
 * Prints what the TextMate grammar makes of files, one JSON line for each: [line, start, end, scopes without the root's].
 *
 * Usage: node out/test/tokens.js FILE...
 */

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createOnigScanner, createOnigString, loadWASM } from "vscode-oniguruma";
import { INITIAL, Registry, parseRawGrammar } from "vscode-textmate";

const GRAMMAR = join(__dirname, "../../syntaxes/ptx.tmLanguage.json");

async function main(paths: string[]): Promise<void> {
  await loadWASM(readFileSync(join(dirname(require.resolve("vscode-oniguruma")), "onig.wasm")));
  const registry = new Registry({
    onigLib: Promise.resolve({ createOnigScanner, createOnigString }),
    loadGrammar: (scope) =>
      Promise.resolve(scope === "source.ptx" ? parseRawGrammar(readFileSync(GRAMMAR, "utf8"), GRAMMAR) : null),
  });
  const grammar = await registry.loadGrammar("source.ptx");
  if (grammar === null) throw new Error(`${GRAMMAR} has no scope source.ptx`);
  for (const path of paths) {
    const tokens: [number, number, number, string][] = [];
    let stack = INITIAL;
    readFileSync(path, "utf8")
      .split("\n")
      .forEach((line, number) => {
        const result = grammar.tokenizeLine(line, stack);
        if (result.stoppedEarly) throw new Error(`${path}:${number + 1}: took too long`);
        stack = result.ruleStack;
        for (const token of result.tokens) {
          const end = Math.min(token.endIndex, line.length); // the last one reaches behind the line break
          tokens.push([number, token.startIndex, end, token.scopes.slice(1).join(" ")]);
        }
      });
    process.stdout.write(JSON.stringify({ path, depth: stack.depth, tokens }) + "\n");
  }
}

void main(process.argv.slice(2));
