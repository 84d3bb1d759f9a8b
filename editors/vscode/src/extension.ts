/** Starts the language server when a PTX file is opened, and keeps it in step with the settings. */

import {
  type ExtensionContext,
  type LogOutputChannel,
  type WorkspaceConfiguration,
  commands,
  window,
  workspace,
} from "vscode";
import { CloseAction, LanguageClient, type LanguageClientOptions } from "vscode-languageclient/node";
import { type ServerOptions, linterSettings, serverCommand, startServer } from "./server";

const SECTION = "tclint";
const INSTALLED = [`${SECTION}.path`, `${SECTION}.arguments`, `${SECTION}.inlineAssembly`];
const HOSTS = ["cuda-cpp", "cpp", "python"];

let running: LanguageClient | undefined;
let queue: Promise<void> = Promise.resolve();

export async function activate(context: ExtensionContext): Promise<void> {
  const output = window.createOutputChannel("tclint", { log: true });
  context.subscriptions.push(
    output,
    commands.registerCommand("tclint.restart", () => restart(output)),
    commands.registerCommand("tclint.showOutput", () => output.show()),
    workspace.onDidChangeConfiguration(async (change) => {
      if (INSTALLED.some((setting) => change.affectsConfiguration(setting))) await restart(output);
      else if (change.affectsConfiguration(SECTION)) await announce();
    }),
    workspace.onDidGrantWorkspaceTrust(() => restart(output)),
  );
  await restart(output);
}

export async function deactivate(): Promise<void> {
  queue = queue.then(stop);
  await queue;
}

/** One restart after another, however fast they are asked for. */
function restart(output: LogOutputChannel): Promise<void> {
  queue = queue.then(stop).then(() => start(output));
  return queue;
}

async function stop(): Promise<void> {
  const client = running;
  running = undefined;
  await client?.dispose(2000).catch(() => undefined); // a server that died cannot be asked to stop
}

async function start(output: LogOutputChannel): Promise<void> {
  const folder = workspace.workspaceFolders?.find(({ uri }) => uri.scheme === "file")?.uri.fsPath;
  const command = serverCommand(ownSettings(), folder);
  let reason: string | undefined;
  const server = (): ReturnType<typeof startServer> => {
    output.info(`starting ${[command.file, ...command.arguments].join(" ")}`);
    return startServer(command, folder, (words) => {
      reason = words;
      if (running === client) complain(output, words);
    });
  };
  const client = new LanguageClient(SECTION, "tclint", server, clientOptions(output));
  const again = client.createDefaultErrorHandler();
  client.clientOptions.errorHandler = {
    error: (...problem) => again.error(...problem),
    // One that never came up would not the next time either.
    closed: () => (running === client ? again.closed() : { action: CloseAction.DoNotRestart, handled: true }),
  };
  try {
    await client.start();
    running = client;
  } catch (error) {
    await client.dispose().catch(() => undefined);
    complain(output, reason ?? (error instanceof Error ? error.message : String(error)));
  }
}

function clientOptions(output: LogOutputChannel): LanguageClientOptions {
  const hosts = workspace.getConfiguration(SECTION).get("inlineAssembly", false) ? HOSTS : [];
  return {
    documentSelector: [
      { scheme: "file", language: "ptx" },
      { scheme: "untitled", language: "ptx" },
      ...hosts.map((language) => ({ scheme: "file", language })),
    ],
    outputChannel: output,
    synchronize: {
      fileEvents: workspace.createFileSystemWatcher("**/{tclint-ptx,pyproject}.toml"),
    },
    initializationFailedHandler: () => false, // start() says why
    middleware: {
      workspace: {
        configuration: async (params, token, next) => {
          const values: unknown = await next(params, token);
          if (!Array.isArray(values)) return values as never;
          return values.map((value: unknown, index) =>
            params.items[index]?.section === SECTION && isObject(value) ? linterSettings(value) : value,
          ) as never;
        },
      },
    },
  };
}

/** Tells the server that settings changed; it asks for them. */
async function announce(): Promise<void> {
  const settings = { [SECTION]: linterSettings(workspace.getConfiguration(SECTION)) };
  await running?.sendNotification("workspace/didChangeConfiguration", { settings });
}

function ownSettings(): ServerOptions {
  const settings: WorkspaceConfiguration = workspace.getConfiguration(SECTION);
  return { path: settings.get("path", "tclint"), arguments: settings.get("arguments", []) };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

/** Says it in a message, and does not wait until somebody has read it. */
function complain(output: LogOutputChannel, message: string): void {
  output.error(message);
  const [settings, show] = ["Open settings", "Show output"];
  void window.showErrorMessage(`tclint: ${message}`, settings, show).then((chosen) => {
    if (chosen === show) output.show();
    return chosen === settings && commands.executeCommand("workbench.action.openSettings", `${SECTION}.path`);
  });
}
