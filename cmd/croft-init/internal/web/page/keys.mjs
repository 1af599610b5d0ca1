// What keys and pastes send to programs. Nothing here knows of a browser but the
// names that it gives to keys.

const arrows = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F" };
const tilde = { Insert: 2, Delete: 3, PageUp: 5, PageDown: 6, F5: 15, F6: 17, F7: 18, F8: 19, F9: 20, F10: 21, F11: 23, F12: 24 };
const firstFour = { F1: "P", F2: "Q", F3: "R", F4: "S" };
const simple = { Enter: "\r", Tab: "\t", Escape: "\x1b", Backspace: "\x7f" };
const controls = { " ": "\0", "@": "\0", "[": "\x1b", "\\": "\x1c", "]": "\x1d", "^": "\x1e", "_": "\x1f", "/": "\x1f", "?": "\x7f", 2: "\0", 6: "\x1e" };

// press returns what a key sends, undefined when it isn't the terminal's or when
// the text that it makes is to be typed. key: {key, ctrl, alt, shift, meta, altGraph}.
export function press(key, modes) {
  if (key.meta || (key.altGraph && key.key.length === 1)) return undefined;
  const modifier = 1 + (key.shift ? 1 : 0) + (key.alt ? 2 : 0) + (key.ctrl ? 4 : 0);
  if (Object.hasOwn(arrows, key.key)) return arrow(arrows[key.key], modifier, modes.applicationKeys);
  if (Object.hasOwn(firstFour, key.key)) return modifier > 1 ? `\x1b[1;${modifier}${firstFour[key.key]}` : `\x1bO${firstFour[key.key]}`;
  if (Object.hasOwn(tilde, key.key)) return modifier > 1 ? `\x1b[${tilde[key.key]};${modifier}~` : `\x1b[${tilde[key.key]}~`;
  const before = key.alt ? "\x1b" : "";
  if (key.key === "Tab" && key.shift) return before + "\x1b[Z";
  if (key.key === "Backspace" && key.ctrl) return before + "\b";
  if (Object.hasOwn(simple, key.key)) return before + simple[key.key];
  if ([...key.key].length !== 1) return undefined;
  if (key.ctrl) {
    const text = control(key.key);
    return text === undefined ? undefined : before + text;
  }
  return key.alt ? before + key.key : undefined;
}

function arrow(letter, modifier, application) {
  if (modifier > 1) return `\x1b[1;${modifier}${letter}`;
  return (application ? "\x1bO" : "\x1b[") + letter;
}

function control(key) {
  const code = key.toLowerCase().charCodeAt(0);
  if (code >= 0x61 && code <= 0x7a) return String.fromCharCode(code - 0x60);
  return Object.hasOwn(controls, key) ? controls[key] : undefined;
}

// paste is what pasted text sends: lines end as Enter does, and no text can end
// the brackets around it.
export function paste(text, modes) {
  const plain = text.replace(/\r?\n/g, "\r");
  if (!modes.pasteBrackets) return plain;
  return "\x1b[200~" + plain.replace(/\x1b/g, "") + "\x1b[201~";
}
