// What control sequences do to an emulator.
import { normal, select, style } from "./style.mjs";

const count = (numbers, i = 0) => Math.max(numbers[i] ?? 1, 1);
const choice = (numbers) => Math.max(numbers[0] ?? 0, 0);

// place is a row as programs count, which is from the top of the region in origin mode.
function place(e, row, column) {
  if (!e.modes.origin) return e.move(row, column);
  e.move(Math.min(Math.max(row + e.top, e.top), e.bottom), column);
}

// vertical moves up or down, not out of the scroll region.
function vertical(e, by) {
  const low = e.row >= e.top ? e.top : 0;
  const high = e.row <= e.bottom ? e.bottom : e.rows - 1;
  e.move(Math.min(Math.max(e.row + by, low), high), e.column);
}

function eraseDisplay(e, what) {
  const look = e.eraseStyle();
  if (what === 0) {
    e.grid.erase(e.row, e.column, e.columns, look);
    for (let i = e.row + 1; i < e.rows; i++) e.grid.erase(i, 0, e.columns, look);
  } else if (what === 1) {
    for (let i = 0; i < e.row; i++) e.grid.erase(i, 0, e.columns, look);
    e.grid.erase(e.row, 0, e.column + 1, look);
  } else if (what === 2) {
    for (let i = 0; i < e.rows; i++) e.grid.erase(i, 0, e.columns, look);
  } else if (what === 3) e.grid.past = [];
  e.wrapNext = false;
}

function eraseLine(e, what) {
  const from = what === 0 ? e.column : 0;
  const to = what === 1 ? e.column + 1 : e.columns;
  if (what <= 2) e.grid.erase(e.row, from, to, e.eraseStyle());
  e.wrapNext = false;
}

function region(e, numbers) {
  const top = count(numbers) - 1;
  const bottom = Math.min(numbers[1] > 0 ? numbers[1] : e.rows, e.rows) - 1;
  if (top >= bottom) return;
  e.top = top;
  e.bottom = bottom;
  place(e, 0, 0);
}

// lines inserts or takes away lines at the cursor, within the region.
function lines(e, many, insert) {
  if (e.row < e.top || e.row > e.bottom) return;
  if (insert) e.grid.down(e.row, e.bottom, many, e.eraseStyle());
  else {
    const keep = e.grid.keep;
    e.grid.keep = 0; // what is taken away hasn't left at the top
    e.grid.up(e.row, e.bottom, many, e.eraseStyle());
    e.grid.keep = keep;
  }
  e.move(e.row, 0);
}

function shift(e, many) {
  e.grid.shift(e.row, e.column, many, e.eraseStyle());
  e.wrapNext = false;
}

function repeat(e, many) {
  for (let i = 0; e.last && i < Math.min(many, e.columns * e.rows); i++) e.print(e.last);
}

function report(e, what) {
  if (what === 5) e.options.answer("\x1b[0n");
  if (what === 6) e.options.answer(`\x1b[${e.row + 1 - (e.modes.origin ? e.top : 0)};${e.column + 1}R`);
}

function softReset(e) {
  Object.assign(e.modes, { wrap: true, cursor: true, insert: false, origin: false, applicationKeys: false });
  e.style = normal;
  e.top = 0;
  e.bottom = e.rows - 1;
  e.charset = 0;
  e.charsets = ["B", "B"];
}

function clearTabs(e, what) {
  if (what === 0) e.tabs.delete(e.column);
  if (what === 3) e.tabs.clear();
}

const table = {
  "@": (e, n) => shift(e, count(n)),
  A: (e, n) => vertical(e, -count(n)),
  B: (e, n) => vertical(e, count(n)),
  C: (e, n) => e.move(e.row, e.column + count(n)),
  D: (e, n) => e.move(e.row, e.column - count(n)),
  E: (e, n) => { vertical(e, count(n)); e.move(e.row, 0); },
  F: (e, n) => { vertical(e, -count(n)); e.move(e.row, 0); },
  G: (e, n) => e.move(e.row, count(n) - 1),
  "`": (e, n) => e.move(e.row, count(n) - 1),
  H: (e, n) => place(e, count(n) - 1, count(n, 1) - 1),
  f: (e, n) => place(e, count(n) - 1, count(n, 1) - 1),
  I: (e, n) => e.tab(count(n)),
  Z: (e, n) => e.tabBack(count(n)),
  J: (e, n) => eraseDisplay(e, choice(n)),
  K: (e, n) => eraseLine(e, choice(n)),
  L: (e, n) => lines(e, count(n), true),
  M: (e, n) => lines(e, count(n), false),
  P: (e, n) => shift(e, -count(n)),
  X: (e, n) => { e.grid.erase(e.row, e.column, Math.min(e.column + count(n), e.columns), e.eraseStyle()); e.wrapNext = false; },
  S: (e, n) => e.grid.up(e.top, e.bottom, count(n), e.eraseStyle()),
  T: (e, n) => e.grid.down(e.top, e.bottom, count(n), e.eraseStyle()),
  a: (e, n) => e.move(e.row, e.column + count(n)),
  b: (e, n) => repeat(e, count(n)),
  c: (e, n) => { if (choice(n) === 0) e.options.answer("\x1b[?62;22c"); },
  ">c": (e, n) => { if (choice(n) === 0) e.options.answer("\x1b[>0;0;0c"); },
  d: (e, n) => place(e, count(n) - 1, e.column),
  e: (e, n) => vertical(e, count(n)),
  g: (e, n) => clearTabs(e, choice(n)),
  m: (e, n) => { e.style = select(e.style, n); },
  n: (e, n) => report(e, choice(n)),
  r: (e, n) => region(e, n),
  s: (e) => e.save(),
  u: (e) => e.restore(),
  "!p": (e) => softReset(e),
};

export const sequences = {
  run(e, name, numbers) {
    if (Object.hasOwn(table, name)) table[name](e, numbers);
  },
  background: (of) => style(normal.foreground, of.background, 0),
};

const switches = { "?1": "applicationKeys", "?7": "wrap", "?25": "cursor", "?2004": "pasteBrackets", 4: "insert", 20: "newLine" };

export function setModes(e, prefix, numbers, on) {
  for (const n of numbers) {
    const name = prefix + n;
    if (Object.hasOwn(switches, name)) e.modes[switches[name]] = on;
    if (name === "?6") {
      e.modes.origin = on;
      place(e, 0, 0);
    } else if (name === "?47" || name === "?1047") other(e, on, false);
    else if (name === "?1048" && on) e.save();
    else if (name === "?1048") e.restore();
    else if (name === "?1049") other(e, on, true);
  }
}

// other shows the other screen, empty, or the main one as it was.
function other(e, on, cursor) {
  if (on === e.alternate) return;
  if (on && cursor) e.save();
  e.show(on);
  if (on) eraseDisplay(e, 2);
  if (!on && cursor) e.restore();
}
