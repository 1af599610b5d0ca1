// The page: a terminal, and the socket to the container.
import "./csp.mjs";
import { newTerminal, plainTitle, write } from "./terminal.mjs";
import { FitAddon } from "./xterm/addon-fit.mjs";

const piece = 16384; // bytes a message; the other side takes 65536
const side = 1000; // the longest side that the other side takes
const screen = document.getElementById("screen");
const notice = document.getElementById("notice");
const encoder = new TextEncoder();
let socket, terminal, fit;

// renew makes a new terminal, for every connection: a program may leave modes and unfinished sequences
// behind. Screen readers get the rows as text at #reader. Elsewhere that would only cost time.
function renew() {
  terminal?.dispose();
  terminal = newTerminal({ screenReaderMode: location.hash === "#reader" });
  fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(screen);
  resize();
  listen();
  terminal.focus();
}

function resize() {
  const size = fit.proposeDimensions();
  if (size?.cols && size.rows) terminal.resize(Math.min(size.cols, side), Math.min(size.rows, side));
}

function isOpen() {
  return socket?.readyState === WebSocket.OPEN;
}

function send(bytes) {
  if (!isOpen()) return;
  for (let i = 0; i < bytes.length; i += piece) socket.send(bytes.subarray(i, i + piece));
}

function sendSize() {
  if (isOpen()) socket.send(JSON.stringify({ columns: terminal.cols, rows: terminal.rows }));
}

function show(text) {
  notice.textContent = text;
  notice.hidden = text === "";
}

function connect() {
  show("");
  renew();
  let fault = "";
  document.title = location.hostname;
  socket = new WebSocket("ws://" + location.host + "/ws");
  socket.binaryType = "arraybuffer";
  socket.onopen = sendSize;
  socket.onmessage = (event) => {
    try {
      write(terminal, new Uint8Array(event.data));
    } catch { // after that xterm.js would only gather output
      fault = "the page can't show this program's output";
      socket.onmessage = null;
      socket.close();
      show(fault + ".");
    }
  };
  socket.onclose = (event) => show((fault || event.reason || "the connection is lost").replace(/\.$/, "") + ". Press Enter for a new terminal.");
}

// copy puts the selection into the keyboard's element: browsers copy from elements only.
function copy() {
  terminal.textarea.value = terminal.getSelection();
  terminal.textarea.select();
  document.execCommand("copy");
  terminal.textarea.value = "";
  terminal.clearSelection();
}

function listen() {
  terminal.onData((text) => {
    if (socket.readyState === WebSocket.CLOSED && text.includes("\r")) connect();
    else send(encoder.encode(text));
  });
  terminal.onBinary((text) => send(Uint8Array.from(text, (character) => character.charCodeAt(0))));
  terminal.onResize(sendSize);
  terminal.onTitleChange((text) => { document.title = plainTitle(text) || location.hostname; });
  terminal.onBell(() => {
    screen.classList.add("bell");
    setTimeout(() => screen.classList.remove("bell"), 100);
  });

  // Ctrl+C copies the selection, if there is one. Ctrl+V is left to the browser, which pastes.
  terminal.attachCustomKeyEventHandler((event) => {
    const letter = event.key.toLowerCase();
    if (!event.ctrlKey || event.altKey || event.metaKey) return true;
    if (letter === "v") return false;
    if (letter !== "c" || !(event.shiftKey || terminal.hasSelection())) return true;
    event.preventDefault();
    if (event.type === "keydown" && terminal.hasSelection()) copy();
    return false;
  });
}

// Pasted text must not end the brackets that programs ask for around it.
screen.addEventListener("paste", (event) => {
  event.preventDefault();
  event.stopPropagation();
  const text = event.clipboardData.getData("text/plain");
  terminal.paste(terminal.modes.bracketedPasteMode ? text.replaceAll("\x1b", "") : text);
}, true);

addEventListener("focus", () => terminal.focus());
connect();
new ResizeObserver(resize).observe(screen);
