// The page against a browser's bare bones: enough of a document to draw into, to
// type at, and to speak to a socket. It shows that the parts fit, not how it looks.
let cases = 0;
let failed = 0;

function same(name, got, want) {
  cases++;
  if (JSON.stringify(got) === JSON.stringify(want)) return;
  failed++;
  console.log(`${name}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

class Listening {
  listeners = {};
  addEventListener(name, f) { (this.listeners[name] ??= []).push(f); }
  fire(name, event = {}) {
    const full = { key: "", prevented: false, getModifierState: () => false, preventDefault() { this.prevented = true; }, ...event };
    for (const f of this.listeners[name] ?? []) f(full);
    return full;
  }
}

class Element extends Listening {
  children = [];
  style = {};
  classes = new Set();
  classList = { add: (c) => this.classes.add(c), remove: (c) => this.classes.delete(c) };
  textContent = "";
  hidden = false;
  value = "";
  scrollTop = 0;
  clientWidth = 808;
  clientHeight = 488;
  get scrollHeight() { return Math.max(this.children.length * 20 + 8, this.clientHeight); }
  get firstChild() { return this.children[0] ?? null; }
  get nextSibling() { return this.parent.children[this.parent.children.indexOf(this) + 1] ?? null; }
  append(...all) { for (const e of all) this.insertBefore(e, null); }
  replaceChildren(...all) { this.children = []; this.append(...all); }
  insertBefore(e, before) {
    e.remove();
    e.parent = this;
    const at = before === null ? this.children.length : this.children.indexOf(before);
    this.children.splice(at, 0, e);
  }
  remove() {
    if (!this.parent) return;
    this.parent.children = this.parent.children.filter((c) => c !== this);
    this.parent = undefined;
  }
  getBoundingClientRect() { return { width: 8 * this.textContent.length, height: 20 }; }
  scrollBy(_, y) { this.scrollTop += y; }
  focus() { document.activeElement = this; }
  get text() { return this.children.map((c) => c.textContent).join(""); }
}

const parts = { screen: new Element(), keys: new Element(), notice: new Element() };
globalThis.document = Object.assign(new Listening(), {
  getElementById: (id) => parts[id], createElement: () => new Element(), title: "", copied: 0, execCommand() { this.copied++; },
});
let frame;
let collapsed = true;
globalThis.requestAnimationFrame = (f) => { frame = f; };
globalThis.getComputedStyle = () => ({ paddingLeft: "4px", paddingRight: "4px", paddingTop: "4px", paddingBottom: "4px" });
globalThis.getSelection = () => ({ get isCollapsed() { return collapsed; }, removeAllRanges() { collapsed = true; }, toString: () => "a   \nb  " });
globalThis.location = { host: "10.1.1.20:7681", hostname: "10.1.1.20" };
const windowEvents = new Listening();
globalThis.addEventListener = (name, f) => windowEvents.addEventListener(name, f);
globalThis.ResizeObserver = class {
  constructor(f) { globalThis.resized = f; }
  observe() { globalThis.resized(); }
};
const sockets = [];
globalThis.WebSocket = class {
  static OPEN = 1;
  static CLOSED = 3;
  sent = [];
  readyState = 0;
  constructor(url) { this.url = url; sockets.push(this); }
  send(data) { this.sent.push(typeof data === "string" ? data : new TextDecoder().decode(data)); }
};

const draw = () => { const f = frame; frame = undefined; f?.(); };
const receive = (text) => { sockets.at(-1).onmessage({ data: new TextEncoder().encode(text).buffer }); draw(); };
const lines = () => parts.screen.children.map((line) => line.text.trimEnd());
const taken = () => sockets.at(-1).sent.splice(0).join("|");
const opened = () => { sockets.at(-1).readyState = 1; sockets.at(-1).onopen(); };

await import("../page/page.mjs");
same("it calls its own host", [sockets.length, sockets[0].url, sockets[0].binaryType], [1, "ws://10.1.1.20:7681/ws", "arraybuffer"]);
opened();
same("the size is told", taken(), '{"columns":100,"rows":24}');
receive("hello \x1b[1;31mred\x1b[m\r\n日本$ ");
same("text is drawn", lines().slice(0, 3), ["hello red", "日本$", ""]);
same("as many lines as fit", lines().length, 24);
const red = parts.screen.children[0].children.find((c) => c.textContent === "red");
same("bold red", [red.style.color, [...red.classes]], ["#ff8a8f", ["bold"]]);
const second = parts.screen.children[1].children;
same("wide characters have room", second.slice(0, 2).map((c) => [c.textContent, ...c.classes]), [["日", "wide"], ["本", "wide"]]);
same("one cursor", parts.screen.children.flatMap((l) => l.children).filter((c) => c.classes.has("cursor")).length, 1);
receive("x");
same("the cursor has moved", [lines()[1], parts.screen.children.flatMap((l) => l.children).filter((c) => c.classes.has("cursor")).length], ["日本$ x", 1]);
receive("\x1b[7mI\x1b[m");
same("inverse", second.length > 0 && parts.screen.children[1].children.find((c) => c.textContent === "I").style, { color: "var(--background)", background: "var(--foreground)" });
receive("\x1b]0;work\x07\x1b[6n");
same("title and answer", [document.title, taken()], ["work", "\x1b[2;9R"]);

same("a key", [document.fire("keydown", { key: "ArrowUp" }).prevented, taken()], [true, "\x1b[A"]);
same("text isn't a key's affair", [document.fire("keydown", { key: "a" }).prevented, taken()], [false, ""]);
parts.keys.value = "aé";
parts.keys.fire("input");
same("text is typed", [taken(), parts.keys.value], ["aé", ""]);
parts.keys.fire("compositionstart");
parts.keys.value = "に";
parts.keys.fire("input");
same("a composition isn't sent early", taken(), "");
parts.keys.fire("compositionend");
same("but at its end", taken(), "に");
same("Ctrl+C interrupts", [document.fire("keydown", { key: "c", ctrlKey: true }).prevented, taken()], [true, "\x03"]);
collapsed = false;
document.fire("keydown", { key: "c", ctrlKey: true });
same("Ctrl+C copies what is marked", [document.copied, taken()], [1, ""]);
collapsed = false;
let copied;
document.fire("copy", { clipboardData: { setData: (_, text) => { copied = text; } } });
same("copies have no blanks at line ends", copied, "a\nb");
collapsed = true;
document.fire("paste", { clipboardData: { getData: () => "one\ntwo" } });
same("paste", taken(), "one\rtwo");
receive("\x1b[?2004h");
document.fire("paste", { clipboardData: { getData: () => "x".repeat(40000) } });
const pasted = sockets.at(-1).sent.splice(0);
same("a long paste goes in pieces", [pasted.length, pasted.every((p) => p.length <= 16384), pasted.join("").length], [3, true, 40012]);

receive(Array.from({ length: 100 }, (_, i) => "\r\nline" + i).join(""));
same("the past is kept and shown", [lines().length, lines().at(-1), parts.screen.scrollTop], [102, "line99", parts.screen.scrollHeight]);
parts.screen.scrollTop = 0;
receive("\r\nmore");
same("who reads the past isn't disturbed", [lines().at(-1), parts.screen.scrollTop], ["more", 0]);
receive("\x1b[?1049h\x1b[Hedit");
same("the other screen is alone", [lines().length, lines()[0]], [24, "edit"]);
receive("\x1b[?1049l");
same("and goes", [lines().length, lines().at(-1)], [103, "more"]);
parts.screen.clientWidth = 408;
globalThis.resized();
draw();
same("another size is told", taken(), '{"columns":50,"rows":24}');

sockets.at(-1).readyState = 3;
sockets.at(-1).onclose({ reason: "the shell has ended with code 0" });
same("the end is said", [parts.notice.hidden, parts.notice.textContent], [false, "the shell has ended with code 0. Press Enter for a new terminal."]);
document.fire("keydown", { key: "ArrowUp" });
same("only Enter begins anew", sockets.length, 1);
document.fire("keydown", { key: "Enter" });
opened();
receive("fresh");
same("a new terminal", [sockets.length, parts.notice.hidden, lines()[0], lines().length], [2, true, "fresh", 24]);

console.log(`${cases} cases, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
