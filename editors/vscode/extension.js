// Starts `flowc lsp` for .flow texts, and tells it when files beside them change.

const fs = require("fs");
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

async function activate(context) {
  const watcher = vscode.workspace.createFileSystemWatcher("**/*.{flow,py,c,cu,h,onnx,profile.json,mapping.json}");
  context.subscriptions.push(watcher);
  client = new LanguageClient(
    "flowc",
    "flowc",
    { command: command(), args: ["lsp"], transport: TransportKind.stdio },
    { documentSelector: [{ language: "flow" }], synchronize: { fileEvents: watcher } },
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
