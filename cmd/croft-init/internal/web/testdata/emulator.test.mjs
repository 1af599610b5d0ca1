// What the emulator, the keys and the page do, as tables. Run by the Go tests:
// node emulator.test.mjs. Each case that fails is said; the last line counts.
import { Emulator } from "../page/emulator.mjs";
import { paste, press } from "../page/keys.mjs";
import { css, flags } from "../page/style.mjs";

let cases = 0;
let failed = 0;

function same(name, got, want) {
  cases++;
  if (JSON.stringify(got) === JSON.stringify(want)) return;
  failed++;
  console.log(`${name}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

const encoder = new TextEncoder();

function screen(columns, rows, text, options) {
  const e = new Emulator(columns, rows, options);
  e.write(encoder.encode(text));
  return e;
}

// name, columns, rows, what is written, what is shown, [row, column] of the cursor.
const shown = [
  ["text", 10, 3, "hello", "hello", [0, 5]],
  ["lines", 10, 3, "one\r\ntwo", "one\ntwo", [1, 3]],
  ["a line feed alone keeps the column", 10, 3, "one\ntwo", "one\n   two", [1, 6]],
  ["backspace", 10, 3, "abc\b\bX", "aXc", [0, 2]],
  ["tab", 20, 2, "a\tb", "a       b", [0, 9]],
  ["tab back", 20, 2, "a\tbc\x1b[2ZX", "X       bc", [0, 1]],
  ["tabs set and cleared", 20, 2, "\x1b[3g\x1b[5G\x1bH\r\tX", "    X", [0, 5]],
  ["wraps at the edge only with the next character", 5, 3, "abcde", "abcde", [0, 4]],
  ["wraps", 5, 3, "abcdefg", "abcde\nfg", [1, 2]],
  ["return after the last column stays on the line", 5, 3, "abcde\rX", "Xbcde", [0, 1]],
  ["doesn't wrap when it shall not", 5, 3, "\x1b[?7labcdefg", "abcdg", [0, 4]],
  ["scrolls", 5, 2, "a\r\nb\r\nc", "b\nc", [1, 1]],
  ["cursor position", 10, 4, "\x1b[3;4HX", "\n\n   X", [2, 4]],
  ["cursor position beyond", 10, 4, "\x1b[99;99HX", "\n\n\n         X", [3, 9]],
  ["cursor up down right left", 10, 4, "\x1b[2;2H\x1b[A\x1b[3C\x1b[2B\x1b[DX", "\n\n   X", [2, 4]],
  ["next and previous line", 10, 4, "ab\x1b[2Ecd\x1b[FX", "ab\nX\ncd", [1, 1]],
  ["column and row", 10, 4, "\x1b[5GX\x1b[3dY", "    X\n\n     Y", [2, 6]],
  ["erase to the end of the line", 10, 2, "abcdef\x1b[4G\x1b[K", "abc", [0, 3]],
  ["erase to the start of the line", 10, 2, "abcdef\x1b[3G\x1b[1K", "   def", [0, 2]],
  ["erase the line", 10, 2, "abcdef\x1b[2K", "", [0, 6]],
  ["erase below", 5, 3, "aa\r\nbb\r\ncc\x1b[2;2H\x1b[J", "aa\nb", [1, 1]],
  ["erase above", 5, 3, "aa\r\nbb\r\ncc\x1b[2;1H\x1b[1J", "\n b\ncc", [1, 0]],
  ["erase all", 5, 3, "aa\r\nbb\x1b[2J", "", [1, 2]],
  ["erase characters", 10, 2, "abcdef\x1b[2G\x1b[3X", "a   ef", [0, 1]],
  ["delete characters", 10, 2, "abcdef\x1b[2G\x1b[2P", "adef", [0, 1]],
  ["insert characters", 10, 2, "abcdef\x1b[2G\x1b[2@", "a  bcdef", [0, 1]],
  ["insert mode", 10, 2, "abc\x1b[1G\x1b[4hXY\x1b[4l", "XYabc", [0, 2]],
  ["repeat", 10, 2, "a\x1b[3b", "aaaa", [0, 4]],
  ["insert lines", 5, 4, "a\r\nb\r\nc\x1b[2H\x1b[L", "a\n\nb\nc", [1, 0]],
  ["delete lines", 5, 4, "a\r\nb\r\nc\x1b[2H\x1b[M", "a\nc", [1, 0]],
  ["scroll region", 5, 4, "a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[3H\nX", "a\nc\nX\nd", [2, 1]],
  ["scroll region up at its top", 5, 4, "a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[2H\x1bMX", "a\nX\nb\nd", [1, 1]],
  ["origin mode", 5, 4, "\x1b[2;3r\x1b[?6h\x1b[1;1HX\x1b[9;1HY", "\nX\nY", [2, 1]],
  ["scroll up and down", 5, 3, "a\r\nb\r\nc\x1b[S\x1b[2T", "\n\nb", [2, 1]],
  ["save and restore", 10, 3, "ab\x1b7\x1b[3;3HX\x1b8Y", "abY\n\n  X", [0, 3]],
  ["the other screen and back", 10, 2, "main\x1b[?1049hother\x1b[?1049l!", "main!", [0, 5]],
  ["the other screen is empty each time", 10, 2, "\x1b[?1049hold\x1b[?1049l\x1b[?1049h\x1b[Hnew", "new", [0, 3]],
  ["line drawing", 10, 2, "\x1b(0lqk\x1b(Bq", "┌─┐q", [0, 4]],
  ["line drawing by shift out", 10, 2, "\x1b)0\x0eq\x0fq", "─q", [0, 2]],
  ["umlauts and more", 10, 2, "äß→€", "äß→€", [0, 4]],
  ["wide characters take two columns", 10, 2, "日本x", "日本x", [0, 5]],
  ["a wide character doesn't fit and wraps", 5, 2, "abcd日", "abcd\n日", [1, 2]],
  ["half of a wide character", 10, 2, "日本\x1b[2GX", " X本", [0, 2]],
  ["accents go onto the character before", 10, 2, "e\u0301x", "e\u0301x", [0, 2]],
  ["what isn't UTF-8 is shown as such", 10, 2, "a\ufffdb", "a\ufffdb", [0, 3]],
  ["reset", 10, 2, "abc\x1b[31m\x1bcX", "X", [0, 1]],
  ["soft reset keeps the screen", 10, 2, "abc\x1b[?7l\x1b[!pX", "abcX", [0, 4]],
  ["all E", 3, 2, "\x1b#8", "EEE\nEEE", [0, 0]],
  ["titles aren't shown", 10, 2, "a\x1b]0;title\x07b\x1b]2;x\x1b\\c", "abc", [0, 3]],
  ["strings of other kinds are read over", 10, 2, "a\x1bPq#0\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d", "abcd", [0, 4]],
  ["an unknown sequence is read over", 10, 2, "a\x1b[?999h\x1b[5;5;5zb\x1b[>4;1mc\x1b[ qd", "abcd", [0, 4]],
  ["a sequence is broken off", 10, 2, "a\x1b[12\x18b", "ab", [0, 2]],
  ["a control inside of a sequence acts", 10, 2, "a\x1b[\r2CX", "a X", [0, 3]],
  ["too many numbers do no harm", 10, 2, "a\x1b[" + "1;".repeat(1000) + "1mb", "ab", [0, 2]],
  ["huge counts do no harm", 10, 2, "a\x1b[99999999b\x1b[99999999L\x1b[99999999@\x1b[99999999S\x1b[H", "", [0, 0]],
  ["names of JavaScript's own objects are no sequences", 10, 2, "a\x1b[constructor", "aonstructor".slice(0, 10) + "\nr", [1, 1]],
];

for (const [name, columns, rows, text, want, cursor] of shown) {
  const e = screen(columns, rows, text);
  same(name, [e.text(), [e.row, e.column]], [want, cursor]);
  // Byte by byte it must be the same: the network cuts where it likes.
  const slow = new Emulator(columns, rows);
  for (const byte of encoder.encode(text)) slow.write(Uint8Array.of(byte));
  same(name + ", byte by byte", [slow.text(), [slow.row, slow.column]], [want, cursor]);
}

// name, what is written before an X, its foreground, background and flags.
const looks = [
  ["plain", "", -1, -1, 0],
  ["red on blue", "\x1b[31;44m", 1, 4, 0],
  ["bright", "\x1b[91;104m", 9, 12, 0],
  ["palette", "\x1b[38;5;200;48;5;17m", 200, 17, 0],
  ["direct", "\x1b[38;2;1;2;3m", 0x1010203, -1, 0],
  ["direct with colons", "\x1b[38:2:1:2:3m", 0x1010203, -1, 0],
  ["flags", "\x1b[1;3;4;7m", -1, -1, flags.bold | flags.italic | flags.underline | flags.inverse],
  ["flags off", "\x1b[1;2;3;4;7;9m\x1b[22;23;24;27;29m", -1, -1, 0],
  ["all off", "\x1b[1;31m\x1b[m", -1, -1, 0],
  ["colours off", "\x1b[31;41m\x1b[39;49m", -1, -1, 0],
  ["a colour that is cut short", "\x1b[38;5m", 0, -1, 0],
  ["another kind of colour", "\x1b[38;9;1;31m", -1, -1, 0],
];
for (const [name, text, foreground, background, flag] of looks) {
  const cell = screen(5, 1, text + "X").grid.lines[0].cells[0];
  same(name, [cell.text, cell.style], ["X", { foreground, background, flag }]);
}
same("erased space has the background only", screen(5, 1, "\x1b[1;41m\x1b[K").grid.lines[0].cells[3].style, { foreground: -1, background: 1, flag: 0 });
same("css", [css(-1), css(16), css(231), css(232), css(255), css(0x1ff8001)], ["", "rgb(0,0,0)", "rgb(255,255,255)", "rgb(8,8,8)", "rgb(238,238,238)", "#ff8001"]);

// name, what is written, what is answered.
const answers = [
  ["status", "\x1b[5n", "\x1b[0n"],
  ["cursor", "ab\r\nc\x1b[6n", "\x1b[2;2R"],
  ["what are you", "\x1b[c\x1b[>c", "\x1b[?62;22c\x1b[>0;0;0c"],
  ["nobody reads titles or the clipboard back", "\x1b]0;x\x07\x1b[21t\x1b]52;c;?\x07\x1bP$qm\x1b\\", ""],
];
for (const [name, text, want] of answers) {
  let got = "";
  screen(10, 3, text, { answer: (s) => { got += s; } });
  same(name, got, want);
}

let title = "";
screen(5, 1, "\x1b]0;a\u202eb\x1b]2;" + "x".repeat(9999) + "\x07", { title: (s) => { title = s; } });
same("a title is short", title, "x".repeat(200));
screen(5, 1, "\x1b]2;one\u202etwo\x07", { title: (s) => { title = s; } });
same("a title has no controls", title, "onetwo");
let bells = 0;
screen(5, 1, "\x07\x07", { bell: () => { bells++; } });
same("bell", bells, 2);

const history = screen(5, 2, Array.from({ length: 20 }, (_, i) => "l" + i).join("\r\n"), { history: 10 });
same("history is bounded", [history.main.past.length, history.text()], [10, "l18\nl19"]);
history.write(encoder.encode("\x1b[?1049h" + "x\r\n".repeat(50) + "\x1b[?1049l"));
same("the other screen leaves no history", [history.main.past.length, history.text()], [10, "l18\nl19"]);
history.resize(5, 4);
same("a higher screen takes lines back", [history.text(), history.row], ["l16\nl17\nl18\nl19", 3]);
history.resize(5, 2);
same("a lower one gives them to the past", [history.text(), history.row], ["l18\nl19", 1]);
history.resize(2, 2);
history.write(encoder.encode("\r\nlong"));
same("a narrower one wraps there", history.text(), "lo\nng");
const top = screen(5, 6, "a\r\nb");
top.resize(5, 3);
same("rows without text go first", [top.text(), top.row, top.main.past.length], ["a\nb", 1, 0]);
const wide = screen(4, 1, "ab日");
wide.resize(3, 1);
same("a wide character that is cut is gone", wide.text(), "ab");

// A random program does no harm: the cursor stays inside, every line whole.
let seed = 7;
const random = (n) => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed % n; };
const parts = ["\x1b[", "\x1b]", "\x1bP", ";", "1", "9", "25", "?", "h", "l", "m", "H", "J", "K", "L", "M", "P", "@", "X", "S", "T", "r", "\r", "\n", "\t", "\b", "日", "a", "e\u0301", "\x1b7", "\x1b8", "\x1bM", "\x1bD", "\x1bc", "\x1b#8", "\x1b[?1049h", "\x1b[?1049l", "\x1b[?6h", "\x07", "\x9b", "\x18"];
const chaos = new Emulator(20, 6, { history: 50 });
let whole = true;
for (let i = 0; i < 20000 && whole; i++) {
  chaos.write(encoder.encode(parts[random(parts.length)]));
  if (i % 97 === 0) chaos.resize(1 + random(30), 1 + random(10));
  const { grid } = chaos;
  whole = chaos.row >= 0 && chaos.row < grid.rows && chaos.column >= 0 && chaos.column < grid.columns && grid.lines.length === grid.rows &&
    grid.past.length <= 50 && grid.lines.every((line) => line.cells.length === grid.columns && line.cells.every((cell, at, all) =>
      cell.columns === 1 || (cell.columns === 2 && all[at + 1]?.columns === 0) || (cell.columns === 0 && all[at - 1]?.columns === 2)));
  if (!whole) console.log("after", i, "parts:", JSON.stringify({ row: chaos.row, column: chaos.column, columns: grid.columns, rows: grid.rows, lines: grid.lines.map((l) => l.cells.map((c) => c.columns).join("")) }));
}
same("chaos", whole, true);

const off = { applicationKeys: false, pasteBrackets: false };
const on = { applicationKeys: true, pasteBrackets: true };
const key = (name, more = {}) => ({ key: name, ctrl: false, alt: false, shift: false, meta: false, altGraph: false, ...more });
const presses = [
  ["Enter", {}, off, "\r"], ["Tab", {}, off, "\t"], ["Tab", { shift: true }, off, "\x1b[Z"], ["Escape", {}, off, "\x1b"],
  ["Backspace", {}, off, "\x7f"], ["Backspace", { ctrl: true }, off, "\b"], ["Backspace", { alt: true }, off, "\x1b\x7f"],
  ["ArrowUp", {}, off, "\x1b[A"], ["ArrowUp", {}, on, "\x1bOA"], ["ArrowLeft", { ctrl: true }, on, "\x1b[1;5D"],
  ["Home", {}, off, "\x1b[H"], ["End", {}, on, "\x1bOF"], ["Delete", {}, off, "\x1b[3~"], ["PageUp", {}, off, "\x1b[5~"],
  ["PageDown", { ctrl: true }, off, "\x1b[6;5~"], ["F1", {}, off, "\x1bOP"], ["F4", { shift: true }, off, "\x1b[1;2S"],
  ["F5", {}, off, "\x1b[15~"], ["F12", { alt: true }, off, "\x1b[24;3~"], ["c", { ctrl: true }, off, "\x03"], ["C", { ctrl: true, shift: true }, off, "\x03"],
  [" ", { ctrl: true }, off, "\0"], ["[", { ctrl: true }, off, "\x1b"], ["\\", { ctrl: true }, off, "\x1c"], ["x", { alt: true }, off, "\x1bx"],
  ["x", { alt: true, ctrl: true }, off, "\x1b\x18"], ["a", {}, off, undefined], ["@", { altGraph: true, ctrl: true, alt: true }, off, undefined],
  ["Shift", { shift: true }, off, undefined], ["c", { meta: true }, off, undefined], ["ä", { ctrl: true }, off, undefined], ["toString", {}, off, undefined],
];
for (const [name, more, modes, want] of presses) same("key " + name + JSON.stringify(more), press(key(name, more), modes) ?? null, want ?? null);

same("paste", paste("a\r\nb\nc", off), "a\rb\rc");
same("paste in brackets", paste("a\nb", on), "\x1b[200~a\rb\x1b[201~");
same("pasted text doesn't end its brackets", paste("a\x1b[201~rm\n", on), "\x1b[200~a[201~rm\r\x1b[201~");

console.log(`${cases} cases, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
