/**
 * A language client against the real server, which is started as the extension starts it.
 *
 * TCLINT_COMMAND is the command `tclint` as a JSON list; without it, `tclint` is looked for in PATH.
 */

import assert from "node:assert/strict";
import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import {
  type CodeAction,
  CodeActionRequest,
  ConfigurationRequest,
  type Diagnostic,
  DiagnosticRefreshRequest,
  DidChangeConfigurationNotification,
  DidChangeTextDocumentNotification,
  DidCloseTextDocumentNotification,
  DidOpenTextDocumentNotification,
  DocumentDiagnosticRequest,
  ExitNotification,
  HoverRequest,
  InitializeRequest,
  InitializedNotification,
  type InitializeResult,
  type ProtocolConnection,
  RegistrationRequest,
  ShutdownRequest,
  StreamMessageReader,
  StreamMessageWriter,
  createProtocolConnection,
} from "vscode-languageserver-protocol/node";
import { ServerError, linterSettings, serverCommand, startServer } from "../src/server";

const TCLINT = JSON.parse(process.env["TCLINT_COMMAND"] ?? '["tclint"]') as [string, ...string[]];
const KERNEL = `.version 8.0
.target sm_90a
.address_size 64

.visible .entry gemm(.param .u64 out, .param .u64 a, .param .u64 b)
.reqntid 128
{
    .reg .f32 %f<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd0, [out];
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 0, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    st.global.f32 [%rd0], %f0;
    wgmma.wait_group.sync.aligned 0;
    ret;
}
`;
const READ = KERNEL.split("\n").findIndex((line) => line.includes("st.global"));

/** A server with a document in it, as an editor that asks for diagnostics sees it. */
class Session {
  private version = 0;
  private refreshed: (() => void) | undefined;

  private constructor(
    readonly server: ChildProcessWithoutNullStreams,
    readonly connection: ProtocolConnection,
    readonly uri: string,
    /** What the settings under `tclint` are. */
    public settings: Record<string, unknown>,
  ) {}

  static async start(folder: string, settings: Record<string, unknown> = {}): Promise<[Session, InitializeResult]> {
    const [path, ...rest] = TCLINT;
    const server = await startServer(serverCommand({ path, arguments: rest }, folder), folder, assert.fail);
    server.stderr.on("data", (text: Buffer) => process.stderr.write(text));
    const connection = createProtocolConnection(
      new StreamMessageReader(server.stdout),
      new StreamMessageWriter(server.stdin),
    );
    const session = new Session(server, connection, pathToFileURL(join(folder, "kernel.ptx")).href, settings);
    connection.onRequest(ConfigurationRequest.type, ({ items }) =>
      items.map(({ section }) => (section === "tclint" ? linterSettings(session.settings) : null)),
    );
    connection.onRequest(RegistrationRequest.type, () => undefined);
    connection.onRequest(DiagnosticRefreshRequest.type, () => session.refreshed?.());
    connection.listen();
    const result = await connection.sendRequest(InitializeRequest.type, {
      processId: process.pid,
      rootUri: pathToFileURL(folder).href,
      workspaceFolders: [{ uri: pathToFileURL(folder).href, name: "test" }],
      capabilities: {
        general: { positionEncodings: ["utf-16"] },
        workspace: {
          configuration: true,
          didChangeConfiguration: { dynamicRegistration: true },
          diagnostics: { refreshSupport: true },
        },
        textDocument: {
          diagnostic: { dynamicRegistration: true, relatedDocumentSupport: false },
          publishDiagnostics: { relatedInformation: true, codeDescriptionSupport: true, dataSupport: true },
          codeAction: {
            codeActionLiteralSupport: { codeActionKind: { valueSet: ["", "quickfix", "source", "source.fixAll"] } },
            dataSupport: true,
          },
          hover: { contentFormat: ["markdown", "plaintext"] },
        },
      },
    });
    await connection.sendNotification(InitializedNotification.type, {});
    return [session, result];
  }

  async open(text: string): Promise<void> {
    const textDocument = { uri: this.uri, languageId: "ptx", version: ++this.version, text };
    await this.connection.sendNotification(DidOpenTextDocumentNotification.type, { textDocument });
  }

  /** Puts `text` in the place of the whole line. */
  async change(line: number, text: string): Promise<void> {
    await this.connection.sendNotification(DidChangeTextDocumentNotification.type, {
      textDocument: { uri: this.uri, version: ++this.version },
      contentChanges: [{ range: { start: { line, character: 0 }, end: { line: line + 1, character: 0 } }, text }],
    });
  }

  async diagnostics(): Promise<Diagnostic[]> {
    const report = await this.connection.sendRequest(DocumentDiagnosticRequest.type, { textDocument: { uri: this.uri } });
    assert.equal(report.kind, "full");
    return report.kind === "full" ? report.items : [];
  }

  /** Resolves when the server asks for diagnostics to be pulled again. */
  refresh(): Promise<void> {
    return new Promise((resolve) => (this.refreshed = resolve));
  }

  async stop(): Promise<number | null> {
    const exit = once(this.server, "exit");
    await this.connection.sendRequest(ShutdownRequest.type);
    await this.connection.sendNotification(ExitNotification.type);
    const [code] = (await exit) as [number | null];
    this.connection.dispose();
    return code;
  }
}

let folder: string;

before(() => {
  folder = mkdtempSync(join(tmpdir(), "tclint-"));
  writeFileSync(join(folder, "kernel.ptx"), KERNEL);
});

after(() => {
  rmSync(folder, { recursive: true });
});

test("a finding comes, with its path and its rule, and goes when the kernel is right", async () => {
  const [session, { capabilities }] = await Session.start(folder);
  assert.notEqual(capabilities.diagnosticProvider, undefined);
  assert.notEqual(capabilities.positionEncoding, undefined);
  await session.open(KERNEL);
  const found = await session.diagnostics();
  assert.deepEqual(
    found.map(({ code, source, range }) => [code, source, range.start.line]),
    [["WG001", "tclint", READ]],
  );
  assert.match(found[0]?.codeDescription?.href ?? "", /WG001/);
  assert.ok((found[0]?.relatedInformation?.length ?? 0) > 0);

  await session.change(READ, "    wgmma.wait_group.sync.aligned 0;\n    st.global.f32 [%rd0], %f0;\n");
  assert.deepEqual(await session.diagnostics(), []);
  assert.equal(await session.stop(), 0);
});

test("an action hides a finding, and the server knows what an opcode is", async () => {
  const [session] = await Session.start(folder);
  await session.open(KERNEL);
  const [found] = await session.diagnostics();
  assert.ok(found);
  const textDocument = { uri: session.uri };
  const actions = (await session.connection.sendRequest(CodeActionRequest.type, {
    textDocument,
    range: found.range,
    context: { diagnostics: [found] },
  })) as CodeAction[];
  assert.ok(actions.some(({ edit }) => JSON.stringify(edit ?? {}).includes("tclint: ignore[WG001]")));
  const line = READ - 1;
  const hover = await session.connection.sendRequest(HoverRequest.type, { textDocument, position: { line, character: 8 } });
  assert.match(JSON.stringify(hover?.contents), /wgmma\.commit_group/);
  await session.connection.sendNotification(DidCloseTextDocumentNotification.type, { textDocument });
  assert.equal(await session.stop(), 0);
});

test("the server follows the settings of the editor", async () => {
  const [session] = await Session.start(folder, { ignore: ["WG001"], minSeverity: null });
  await session.open(KERNEL);
  await session.refresh();
  assert.deepEqual(await session.diagnostics(), []);
  session.settings = {};
  const told = session.refresh();
  await session.connection.sendNotification(DidChangeConfigurationNotification.type, {
    settings: { tclint: linterSettings(session.settings) },
  });
  await told;
  assert.equal((await session.diagnostics()).length, 1);
  assert.equal(await session.stop(), 0);
});

test("a command that does not exist is said in one sentence", async () => {
  const missing = serverCommand({ path: "./no-such-tclint", arguments: [] }, folder);
  await assert.rejects(startServer(missing, folder, assert.fail), (error: unknown) => {
    assert.ok(error instanceof ServerError);
    assert.match(error.message, /There is no command .*no-such-tclint.*tclint-ptx\[lsp\].*tclint\.path/);
    return true;
  });
});

test("a server that fails says why", async () => {
  const script = "process.stderr.write('warming up\\nno pygls\\n'); process.exit(2)";
  const command = { file: process.execPath, arguments: ["-e", script] };
  assert.equal(await new Promise<string>((resolve) => void startServer(command, undefined, resolve)), "no pygls");
});

test("settings of the linter are those that were set, as its files name them", () => {
  const section = { path: "x", arguments: [], trace: { server: "off" }, select: null, minSeverity: "error", ignore: ["CV"] };
  assert.deepEqual(linterSettings(section), { "min-severity": "error", ignore: ["CV"] });
});

test("the manifest names every setting, with the command's own not among the linter's", () => {
  const manifest = JSON.parse(readFileSync(join(__dirname, "../../package.json"), "utf8")) as {
    contributes: { configuration: { properties: Record<string, unknown> } };
  };
  const names = Object.keys(manifest.contributes.configuration.properties).map((name) => name.split(".")[1] ?? "");
  const settings = linterSettings(Object.fromEntries(names.map((name) => [name, 1])));
  assert.ok("per-file-ignores" in settings && !("path" in settings));
});
