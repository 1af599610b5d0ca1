// The emulator: xterm.js with this page's settings.
import { Unicode11Addon } from "./xterm/addon-unicode11.mjs";
import { Terminal } from "./xterm/xterm.mjs";

const maxTitle = 200;
const maxMarks = 16; // combining marks in a cell
const maxRepeated = 16; // UTF-16 units of a cell that is repeated
const maxCount = 1000; // lines or characters: the longest side of a screen
const counted = ["I", "Z", "L", "M", "S", "T"]; // sequences that xterm.js repeats without a limit
const colours = [4, 10, 11, 12, 104, 110, 111, 112]; // sequences that change the page's colours, or ask for them

const theme = {
  background: "#14171c", foreground: "#d8dce3", cursor: "#d8dce3", cursorAccent: "#14171c", selectionBackground: "#3b4a66",
  black: "#1d2129", red: "#e05f65", green: "#6fbf73", yellow: "#d9b25f", blue: "#6c9eef", magenta: "#c58be0", cyan: "#5fc0c9", white: "#c9ced8",
  brightBlack: "#6a7282", brightRed: "#ff8a8f", brightGreen: "#98e29b", brightYellow: "#f5d98a", brightBlue: "#9cc1ff", brightMagenta: "#e3b5f7",
  brightCyan: "#8fe3ea", brightWhite: "#ffffff",
};

// boundedWidths are the widths of Unicode 11, with a bound on the marks that join a cell: the next one
// takes a cell of its own. xterm.js keeps 1 bit for "joins", 2 for the width, the rest for the provider.
function boundedWidths() {
  let widths;
  new Unicode11Addon().activate({ unicode: { register: (provider) => { widths = provider; } } });
  return {
    version: "bounded",
    wcwidth: (character) => widths.wcwidth(character),
    charProperties(character, before) {
      const properties = widths.charProperties(character, before);
      if ((properties & 1) === 0) return properties;
      const marks = (before >> 3) + 1;
      return marks > maxMarks ? 1 << 1 : (properties & 7) | (marks << 3);
    },
  };
}

// isLong is whether the cell before the cursor, which may be two columns wide, holds much text.
function isLong(buffer) {
  const line = buffer.getLine(buffer.baseY + buffer.cursorY);
  return [1, 2].some((columns) => line?.getCell(buffer.cursorX - columns)?.getChars().length > maxRepeated);
}

export function newTerminal(options = {}) {
  const terminal = new Terminal({
    theme, scrollback: 5000, fontSize: 15, lineHeight: 1.1, fontFamily: 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace',
    logLevel: "error", allowProposedApi: true, // for the widths of Unicode 11
    ...options,
  });
  terminal.unicode.register(boundedWidths());
  terminal.unicode.activeVersion = "bounded";
  terminal.parser.registerOscHandler(8, () => true); // no links: they lead elsewhere
  for (const number of colours) terminal.parser.registerOscHandler(number, () => true); // the colours are the page's
  terminal.parser.registerCsiHandler({ prefix: "?", final: "h" }, (modes) => modes.includes(1004)); // no reports of the focus
  for (const final of counted) terminal.parser.registerCsiHandler({ final }, ([count]) => count > maxCount); // true: ignored
  terminal.parser.registerCsiHandler({ final: "b" }, ([count]) => count > maxCount || isLong(terminal.buffer.active));
  return terminal;
}

// write processes bytes before it returns. The public write puts them into a queue and
// discards output when that is full: a fast program would lose output instead of waiting.
export function write(terminal, bytes) {
  terminal._core.writeSync(bytes);
}

// plainTitle is a title without control characters, and short.
export function plainTitle(text) {
  return text.replace(/[\p{Cc}\p{Cf}]/gu, "").slice(0, maxTitle);
}
