/**
 * How the language server is started and what it is told. Nothing here needs VS Code: the tests start it the same way.
 */

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { homedir } from "node:os";
import { isAbsolute, join, sep } from "node:path";

/** What the extension keeps for itself; every other setting under `tclint` is one of the linter. */
export interface ServerOptions {
  /** The command: a name to look for in PATH, or a path; `~` and `${workspaceFolder}` are understood. */
  readonly path: string;
  /** What stands before `lsp` on the command line. */
  readonly arguments: readonly string[];
}

export interface Command {
  readonly file: string;
  readonly arguments: readonly string[];
}

/** A server that did not start; the message says what to do. */
export class ServerError extends Error {
  override readonly name = "ServerError";
}

/** The command line of the server, for somebody who has `folder` open. */
export function serverCommand(options: ServerOptions, folder: string | undefined): Command {
  const expand = (text: string): string =>
    text.replaceAll("${workspaceFolder}", folder ?? ".").replace(/^~(?=$|[/\\])/, homedir());
  let file = expand(options.path);
  const isPath = file.includes("/") || file.includes(sep);
  if (isPath && !isAbsolute(file) && folder !== undefined) file = join(folder, file);
  return { file, arguments: [...options.arguments.map(expand), "lsp"] };
}

/**
 * Starts the server, which speaks over its standard input and output. Raises {@link ServerError}. A server that fails
 * later is told of by `failed`, with the last line that it wrote to standard error.
 */
export async function startServer(
  command: Command,
  folder: string | undefined,
  failed: (reason: string) => void,
): Promise<ChildProcessWithoutNullStreams> {
  const server = spawn(command.file, command.arguments, {
    ...(folder === undefined ? {} : { cwd: folder }),
    windowsHide: true,
  });
  let words = "";
  server.stderr.on("data", (text: Buffer) => (words = (words + text.toString()).slice(-4096)));
  await new Promise<void>((resolve, reject) => {
    server.once("spawn", resolve);
    server.once("error", (error: NodeJS.ErrnoException) => {
      reject(new ServerError(explain(command, error)));
    });
  });
  server.once("close", (code) => {
    if (code) failed(words.trim().split("\n").at(-1) || `the language server ended with exit code ${code}`);
  });
  return server;
}

function explain(command: Command, error: NodeJS.ErrnoException): string {
  if (error.code !== "ENOENT") return `${command.file} cannot be started: ${error.message}`;
  return (
    `There is no command ${command.file}. Install it with \`pip install 'tclint-ptx[lsp]'\`, ` +
    "or say in the setting tclint.path where it is."
  );
}

type Values = Readonly<Record<string, unknown>>;

const OWN = new Set(["path", "arguments", "trace", "inlineAssembly"]);

/**
 * The settings under `tclint` as the linter's configuration files have them: `min-severity`, not `minSeverity`, and only
 * those that were set, so that the others come from the files.
 */
export function linterSettings(section: Values): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(section)) {
    if (OWN.has(key) || value === null || value === undefined || typeof value === "function") continue;
    found[key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)] = value;
  }
  return found;
}
