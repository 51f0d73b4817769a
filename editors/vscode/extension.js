// Starts `flowc lsp` for .flow texts, tells it when files beside them change, and runs what stands above an app.

const { execFile } = require("child_process");
const fs = require("fs");
const os = require("os");
const path = require("path");
const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

// The flowc of the workspace's virtual environment, unless the settings name another one.
function command() {
  const wanted = vscode.workspace.getConfiguration("flowc").get("command");
  if (wanted !== "flowc") return wanted;
  const folders = (vscode.workspace.workspaceFolders || []).map((folder) => folder.uri.fsPath);
  const found = folders.map((folder) => path.join(folder, ".venv", "bin", "flowc")).find((file) => fs.existsSync(file));
  return found || wanted;
}

// A verb in a terminal, where its words can be read and Ctrl-C ends it.
function inTerminal(verb, file) {
  const terminal = vscode.window.createTerminal({ name: `flowc ${verb}`, cwd: path.dirname(file), shellPath: command(), shellArgs: [verb, path.basename(file)] });
  terminal.show(true);
}

// The page of `flowc report` beside the text. It is one file that asks for nothing.
async function report(file) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "flowc-"));
  const page = path.join(folder, "report.html");
  try {
    await new Promise((done, failed) => execFile(command(), ["report", file, "-o", page], (error, said, wrong) => (error ? failed(new Error(wrong || error.message)) : done())));
    const panel = vscode.window.createWebviewPanel("flowc.report", `${path.basename(file)}: report`, vscode.ViewColumn.Beside, { enableScripts: true, localResourceRoots: [], retainContextWhenHidden: true });
    panel.webview.html = fs.readFileSync(page, "utf8");
  } catch (error) {
    vscode.window.showErrorMessage(error.message);
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

async function activate(context) {
  const chosen = (file) => file || vscode.window.activeTextEditor?.document.uri.fsPath;
  for (const verb of ["run", "map"]) context.subscriptions.push(vscode.commands.registerCommand(`flowc.${verb}`, (file) => inTerminal(verb, chosen(file))));
  context.subscriptions.push(vscode.commands.registerCommand("flowc.report", (file) => report(chosen(file))));
  const watcher = vscode.workspace.createFileSystemWatcher("**/*.{flow,py,c,cu,h,onnx,profile.json,mapping.json}");
  context.subscriptions.push(watcher);
  client = new LanguageClient(
    "flowc",
    "flowc",
    { command: command(), args: ["lsp"], transport: TransportKind.stdio },
    { documentSelector: [{ language: "flow" }], synchronize: { fileEvents: watcher }, initializationOptions: { commands: true } },
  );
  try {
    await client.start();
  } catch (error) {
    vscode.window.showErrorMessage(`flowc lsp does not start (${error.message}): pip install 'flowc[editor]'`);
  }
}

function deactivate() {
  return client && client.stop();
}

module.exports = { activate, deactivate };
