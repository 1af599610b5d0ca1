// The emulator: xterm.js with this page's settings.
import { Unicode11Addon } from "./xterm/addon-unicode11.mjs";
import { Terminal } from "./xterm/xterm.mjs";

const maxTitle = 200;
const maxCount = 1000; // lines or characters: the longest side of a screen
const counted = ["I", "Z", "L", "M", "S", "T", "b"]; // sequences that xterm.js repeats without a limit

const theme = {
  background: "#14171c", foreground: "#d8dce3", cursor: "#d8dce3", cursorAccent: "#14171c", selectionBackground: "#3b4a66",
  black: "#1d2129", red: "#e05f65", green: "#6fbf73", yellow: "#d9b25f", blue: "#6c9eef", magenta: "#c58be0", cyan: "#5fc0c9", white: "#c9ced8",
  brightBlack: "#6a7282", brightRed: "#ff8a8f", brightGreen: "#98e29b", brightYellow: "#f5d98a", brightBlue: "#9cc1ff", brightMagenta: "#e3b5f7",
  brightCyan: "#8fe3ea", brightWhite: "#ffffff",
};

export function newTerminal(options = {}) {
  const terminal = new Terminal({
    theme, scrollback: 5000, fontSize: 15, lineHeight: 1.1, fontFamily: 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace',
    logLevel: "error", allowProposedApi: true, // for the widths of Unicode 11
    ...options,
  });
  terminal.loadAddon(new Unicode11Addon());
  terminal.unicode.activeVersion = "11";
  terminal.parser.registerOscHandler(8, () => true); // no links: they lead elsewhere
  for (const final of counted) terminal.parser.registerCsiHandler({ final }, ([count]) => count > maxCount); // true: ignored
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
