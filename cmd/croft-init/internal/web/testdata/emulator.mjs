// What the page's emulator does, as tables. The Go tests run it in the page, as the body of a
// function of the page's module terminal. It returns the failed cases, and how many there are.
const { newTerminal, plainTitle, write } = terminal;

let cases = 0;
const failed = [];

function same(name, got, want) {
  cases++;
  if (JSON.stringify(got) === JSON.stringify(want)) return;
  failed.push(`${name}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

const encoder = new TextEncoder();

function screen(columns, rows, text, options) {
  const t = newTerminal({ cols: columns, rows, ...options });
  write(t, encoder.encode(text));
  return t;
}

// shownText is the text of the screen, without blanks at line ends.
function shownText(t) {
  const lines = [];
  const { active } = t.buffer;
  for (let i = 0; i < t.rows; i++) lines.push(active.getLine(active.baseY + i).translateToString().trimEnd());
  return lines.join("\n").replace(/\n+$/, "");
}

// cursor is [row, column]. Behind the last column is still the last one.
function cursor(t) {
  return [t.buffer.active.cursorY, Math.min(t.buffer.active.cursorX, t.cols - 1)];
}

const flags = { bold: 1, faint: 2, italic: 4, underline: 8, inverse: 16, hidden: 32, strike: 64 };

// look is the style of a cell of the first line: colours are -1 for the terminal's own, 0 to 255 of the
// palette, from 0x1000000 on red, green and blue.
function look(t, column) {
  const cell = t.buffer.active.getLine(0).getCell(column);
  const colour = (number, isDefault, isDirect) => (isDefault ? -1 : number + (isDirect ? 0x1000000 : 0));
  const set = { bold: cell.isBold(), faint: cell.isDim(), italic: cell.isItalic(), underline: cell.isUnderline(), inverse: cell.isInverse(), hidden: cell.isInvisible(), strike: cell.isStrikethrough() };
  return {
    foreground: colour(cell.getFgColor(), cell.isFgDefault(), cell.isFgRGB()),
    background: colour(cell.getBgColor(), cell.isBgDefault(), cell.isBgRGB()),
    flag: Object.keys(flags).reduce((sum, name) => sum + (set[name] ? flags[name] : 0), 0),
  };
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
  ["huge counts do no harm", 10, 2, "a" + [..."@ALMPSTXZICEb"].map((final) => "\x1b[2147483647" + final).join("") + "\x1b[H", "a", [0, 0]],
  ["names of JavaScript's own objects are no sequences", 10, 2, "a\x1b[constructor", "aonstructor".slice(0, 10) + "\nr", [1, 1]],
];

for (const [name, columns, rows, text, want, at] of shown) {
  const whole = screen(columns, rows, text);
  same(name, [shownText(whole), cursor(whole)], [want, at]);
  // Byte by byte it must be the same: the network cuts where it likes.
  const slow = screen(columns, rows, "");
  for (const byte of encoder.encode(text)) write(slow, Uint8Array.of(byte));
  same(name + ", byte by byte", [shownText(slow), cursor(slow)], [want, at]);
}

// name, what is written before an X, its foreground, background and flags.
const looks = [
  ["plain", "", -1, -1, 0],
  ["red on blue", "\x1b[31;44m", 1, 4, 0],
  ["bright", "\x1b[91;104m", 9, 12, 0],
  ["palette", "\x1b[38;5;200;48;5;17m", 200, 17, 0],
  ["direct", "\x1b[38;2;1;2;3m", 0x1010203, -1, 0],
  ["direct with colons", "\x1b[38:2::1:2:3m", 0x1010203, -1, 0],
  ["flags", "\x1b[1;3;4;7m", -1, -1, flags.bold | flags.italic | flags.underline | flags.inverse],
  ["flags off", "\x1b[1;2;3;4;7;9m\x1b[22;23;24;27;29m", -1, -1, 0],
  ["all off", "\x1b[1;31m\x1b[m", -1, -1, 0],
  ["colours off", "\x1b[31;41m\x1b[39;49m", -1, -1, 0],
  ["a colour that is cut short", "\x1b[38;5m", 0, -1, 0],
  ["another kind of colour", "\x1b[38;9;1;31m", -1, -1, 0],
];
for (const [name, text, foreground, background, flag] of looks) {
  same(name, look(screen(5, 1, text + "X"), 0), { foreground, background, flag });
}
same("erased space has the background only", look(screen(5, 1, "\x1b[1;41m\x1b[K"), 3), { foreground: -1, background: 1, flag: 0 });

// name, what is written, what is answered.
const answers = [
  ["status", "\x1b[5n", "\x1b[0n"],
  ["cursor", "ab\r\nc\x1b[6n", "\x1b[2;2R"],
  ["what are you", "\x1b[c\x1b[>c", "\x1b[?1;2c\x1b[>0;276;0c"],
  ["nobody reads titles or the clipboard back", "\x1b]0;x\x07\x1b[21t\x1b]52;c;?\x07", ""],
  ["the focus isn't reported", "\x1b[?1004h\x1b[?1004$p", "\x1b[?1004;2$y"],
  ["answers hold no text of programs", "\x1b[31m\x1bP$qm\x1b\\\x1bP$qrm -r\x1b\\\x1b]4;1;?;x;?\x07", "\x1bP1$r0m\x1b\\\x1bP0$r\x1b\\"],
];
for (const [name, text, want] of answers) {
  const t = screen(10, 3, "");
  let got = "";
  t.onData((answer) => { got += answer; });
  write(t, encoder.encode(text));
  same(name, got, want);
}

// told is what a terminal tells the page.
function told(event, text) {
  const t = screen(5, 1, "");
  const all = [];
  t[event]((value) => all.push(value ?? ""));
  write(t, encoder.encode(text));
  return all;
}
same("title", told("onTitleChange", "\x1b]0;one\x07\x1b]2;two\x1b\\"), ["one", "two"]);
same("a title is short", plainTitle("x".repeat(9999)), "x".repeat(200));
same("a title has no controls", plainTitle("one\u202e\u0007two"), "onetwo");
same("bell", told("onBell", "\x07\x07").length, 2);

same("5,000 lines are kept", screen(5, 2, "\n".repeat(6000)).buffer.normal.baseY, 5000);
const history = screen(5, 2, Array.from({ length: 20 }, (_, i) => "l" + i).join("\r\n"), { scrollback: 10 });
same("history is bounded", [history.buffer.normal.baseY, shownText(history)], [10, "l18\nl19"]);
write(history, encoder.encode("\x1b[?1049h" + "x\r\n".repeat(50) + "\x1b[?1049l"));
same("the other screen leaves no history", [history.buffer.normal.baseY, shownText(history)], [10, "l18\nl19"]);
history.resize(5, 4);
same("a higher screen takes lines back", [shownText(history), cursor(history)[0]], ["l16\nl17\nl18\nl19", 3]);
history.resize(5, 2);
same("a lower one gives them to the past", [shownText(history), cursor(history)[0]], ["l18\nl19", 1]);
history.resize(2, 2);
write(history, encoder.encode("\r\nlong"));
same("a narrower one wraps there", shownText(history), "lo\nng");
const top = screen(5, 6, "a\r\nb");
top.resize(5, 3);
same("rows without text go first", [shownText(top), cursor(top)[0], top.buffer.active.baseY], ["a\nb", 1, 0]);
const narrow = screen(10, 4, "abcdefgh\r\n$ ");
narrow.resize(5, 4);
same("a narrower one wraps long lines anew", shownText(narrow), "abcde\nfgh\n$");
narrow.resize(10, 4);
same("and a wider one joins them", shownText(narrow), "abcdefgh\n$");

// A cell with many marks is bounded, and so is what repeats it.
const marked = screen(80, 24, "x" + "\u0301".repeat(100000) + "\x1b[1000b\x1b[H\x1b[Jx" + "\u0301".repeat(16) + "\x1b[1000b\x1b[Hy");
same("a cell's marks are bounded", shownText(marked), "y");
same("marks beyond take their own cell", shownText(screen(9, 2, "x" + "\u0301".repeat(20))), "x" + "\u0301".repeat(20));
same("a cell of 17 units", screen(9, 2, "x" + "\u0301".repeat(20)).buffer.active.getLine(0).getCell(0).getChars().length, 17);
same("a character with a mark is repeated", shownText(screen(9, 2, "e\u0301\x1b[2b")), "e\u0301".repeat(3));

// A random program does no harm: the cursor stays inside, every line whole.
let seed = 7;
const random = (n) => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed % n; };
const parts = ["\x1b[", "\x1b]", "\x1bP", ";", "1", "9", "25", "?", "h", "l", "m", "H", "J", "K", "L", "M", "P", "@", "X", "S", "T", "r", "\r", "\n", "\t", "\b", "日", "a", "e\u0301", "\x1b7", "\x1b8", "\x1bM", "\x1bD", "\x1bc", "\x1b#8", "\x1b[?1049h", "\x1b[?1049l", "\x1b[?6h", "\x07", "\x9b", "\x18"];
const chaos = screen(20, 6, "", { scrollback: 50 });
let wrong = "";
for (let i = 0; i < 20000 && wrong === ""; i++) {
  write(chaos, encoder.encode(parts[random(parts.length)]));
  if (i % 97 === 0) chaos.resize(2 + random(30), 1 + random(10));
  if (i % 7 === 0) wrong = disorder(chaos, i);
}
same("chaos", wrong, "");

// disorder says what is wrong with a terminal's buffer.
function disorder(t, step) {
  const { active } = t.buffer;
  if (active.cursorX < 0 || active.cursorX > t.cols || active.cursorY < 0 || active.cursorY >= t.rows) return `step ${step}: the cursor is at ${active.cursorY}, ${active.cursorX}`;
  if (active.length > t.rows + 50) return `step ${step}: ${active.length} lines`;
  for (let row = 0; row < t.rows; row++) {
    const line = active.getLine(active.baseY + row);
    if (line.length < t.cols) return `step ${step}: a line of ${line.length} cells`;
    if (line.translateToString().length < t.cols / 2) return `step ${step}: a line of ${line.translateToString().length} characters`;
  }
  return "";
}

return [`${cases} cases, ${failed.length} failed`, ...failed].join("\n");
