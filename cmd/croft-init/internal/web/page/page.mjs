// The page: an emulator, its picture, a keyboard, and the socket to the container.
import { Emulator } from "./emulator.mjs";
import { paste, press } from "./keys.mjs";
import { Picture } from "./picture.mjs";

const piece = 16384; // bytes a message; the other side takes 65536
const screen = document.getElementById("screen");
const keys = document.getElementById("keys");
const notice = document.getElementById("notice");
const encoder = new TextEncoder();
let socket;
let composing = false;

const emulator = new Emulator(80, 24, {
  answer: (text) => send(text),
  title: (text) => { document.title = text || location.hostname; },
  bell: () => {
    screen.classList.add("bell");
    setTimeout(() => screen.classList.remove("bell"), 100);
  },
});
const picture = new Picture(screen, emulator);

function send(text) {
  if (socket?.readyState !== WebSocket.OPEN) return;
  const bytes = encoder.encode(text);
  for (let i = 0; i < bytes.length; i += piece) socket.send(bytes.subarray(i, i + piece));
}

function type(text) {
  screen.scrollTop = screen.scrollHeight;
  if (socket?.readyState === WebSocket.CLOSED) {
    if (text.includes("\r")) connect();
    return;
  }
  send(text);
}

function say(text) {
  notice.textContent = text;
  notice.hidden = text === "";
}

function tellSize() {
  const size = picture.size();
  emulator.resize(size.columns, size.rows);
  picture.later();
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(size));
}

function connect() {
  say("");
  emulator.reset(emulator.columns, emulator.rows);
  document.title = location.hostname;
  socket = new WebSocket("ws://" + location.host + "/ws");
  socket.binaryType = "arraybuffer";
  socket.onopen = tellSize;
  socket.onmessage = (event) => {
    emulator.write(new Uint8Array(event.data));
    picture.later();
  };
  socket.onclose = (event) => say((event.reason || "the connection is lost").replace(/\.$/, "") + ". Press Enter for a new terminal.");
}

// selected says whether text is marked, which Ctrl+C then copies as everywhere.
function selected() {
  return !getSelection().isCollapsed;
}

function local(event) {
  const letter = event.key.toLowerCase();
  if (event.ctrlKey && (letter === "v" || (event.shiftKey && letter === "c"))) return letter === "v" || copy(event);
  if (event.ctrlKey && letter === "c" && selected()) return copy(event);
  if (event.shiftKey && (event.key === "PageUp" || event.key === "PageDown")) {
    screen.scrollBy(0, (event.key === "PageUp" ? -1 : 1) * screen.clientHeight * 0.9);
    event.preventDefault();
    return true;
  }
  return event.shiftKey && event.key === "Insert";
}

function copy(event) {
  event.preventDefault();
  if (selected()) document.execCommand("copy");
  getSelection().removeAllRanges();
  keys.focus();
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.isComposing || composing || local(event)) return;
  const key = { key: event.key, ctrl: event.ctrlKey, alt: event.altKey, shift: event.shiftKey, meta: event.metaKey, altGraph: event.getModifierState("AltGraph") };
  const text = press(key, emulator.modes);
  if (text === undefined) {
    if (document.activeElement !== keys && !event.ctrlKey && !event.metaKey) keys.focus();
    return;
  }
  event.preventDefault();
  type(text);
});

keys.addEventListener("compositionstart", () => { composing = true; });
keys.addEventListener("compositionend", () => {
  composing = false;
  takeTyped();
});
keys.addEventListener("input", () => { if (!composing) takeTyped(); });

function takeTyped() {
  const text = keys.value.replace(/\n/g, "\r");
  keys.value = "";
  if (text) type(text);
}

document.addEventListener("paste", (event) => {
  event.preventDefault();
  type(paste(event.clipboardData.getData("text/plain"), emulator.modes));
});

// Lines end where programs ended them, not with the blanks of the screen.
document.addEventListener("copy", (event) => {
  if (!selected()) return;
  event.preventDefault();
  const lines = getSelection().toString().replace(/\u00a0/g, " ").split("\n");
  event.clipboardData.setData("text/plain", lines.map((line) => line.trimEnd()).join("\n"));
});

screen.addEventListener("mouseup", () => { if (!selected()) keys.focus({ preventScroll: true }); });
addEventListener("focus", () => screen.classList.remove("away"));
addEventListener("blur", () => screen.classList.add("away"));

new ResizeObserver(() => tellSize()).observe(screen);
keys.focus();
connect();
