// A terminal without a picture: what programs for xterm-256color write becomes
// cells, a cursor, a title and answers. Nothing here knows of a browser.
import { Grid } from "./grid.mjs";
import { Parser } from "./parser.mjs";
import { sequences, setModes } from "./sequences.mjs";
import { normal } from "./style.mjs";
import { width } from "./width.mjs";

const maxTitle = 200;
const maxCell = 16; // code units: a character with what goes onto it
const lineDrawing = "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·";

export class Emulator {
  constructor(columns, rows, options = {}) {
    this.options = { history: 5000, answer() {}, title() {}, bell() {}, ...options };
    this.parser = new Parser(this);
    this.reset(columns, rows);
  }

  reset(columns, rows) {
    this.main = new Grid(columns, rows, this.options.history);
    this.other = new Grid(columns, rows, 0);
    this.grid = this.main;
    this.row = 0;
    this.column = 0;
    this.wrapNext = false;
    this.style = normal;
    this.top = 0;
    this.bottom = rows - 1;
    this.modes = { wrap: true, cursor: true, insert: false, origin: false, applicationKeys: false, pasteBrackets: false, newLine: false };
    this.charsets = ["B", "B"];
    this.charset = 0;
    this.saved = { main: undefined, other: undefined };
    this.last = 0;
    this.tabs = new Set();
    for (let i = 8; i < 1000; i += 8) this.tabs.add(i);
  }

  get columns() { return this.grid.columns; }
  get rows() { return this.grid.rows; }
  get alternate() { return this.grid === this.other; }

  write(bytes) { this.parser.write(bytes); }

  resize(columns, rows) {
    if (columns === this.columns && rows === this.rows) return;
    const moved = this.main.resize(columns, rows, this.alternate ? rows - 1 : this.row);
    this.other.resize(columns, rows, this.alternate ? this.row : 0);
    if (!this.alternate) this.row += moved;
    this.top = 0;
    this.bottom = rows - 1;
    this.wrapNext = false;
    this.move(this.row, this.column);
  }

  // move sets the cursor, within the screen.
  move(row, column) {
    this.row = Math.min(Math.max(row, 0), this.rows - 1);
    this.column = Math.min(Math.max(column, 0), this.columns - 1);
    this.wrapNext = false;
  }

  print(code) {
    let text = String.fromCodePoint(code);
    if (this.charsets[this.charset] === "0" && code >= 0x60 && code < 0x7f) text = lineDrawing[code - 0x60];
    let columns = width(code);
    if (columns === 0) return this.combine(text);
    if (columns > this.columns) columns = 1;
    this.last = code;
    const over = this.column + columns > this.columns;
    if (this.modes.wrap && (this.wrapNext || over)) {
      this.column = 0;
      this.lineFeed();
    } else if (over) this.column = this.columns - columns;
    if (this.modes.insert) this.grid.shift(this.row, this.column, columns, this.style);
    this.grid.put(this.row, this.column, { text, columns, style: this.style });
    this.wrapNext = this.column + columns >= this.columns;
    this.column = Math.min(this.column + columns, this.columns - 1);
  }

  // combine puts an accent, or whatever takes no room, onto the character before.
  combine(text) {
    const line = this.grid.lines[this.row];
    let at = this.wrapNext ? this.column : this.column - 1;
    if (at > 0 && line.cells[at].columns === 0) at--;
    if (at < 0 || line.cells[at].text.length >= maxCell) return;
    line.cells[at] = { ...line.cells[at], text: line.cells[at].text + text };
    line.changed = true;
  }

  control(code) {
    if (code === 0x07) this.options.bell();
    else if (code === 0x08) this.move(this.row, this.column - 1);
    else if (code === 0x09) this.tab(1);
    else if (code >= 0x0a && code <= 0x0c) {
      if (this.modes.newLine) this.column = 0;
      this.lineFeed();
    } else if (code === 0x0d) this.move(this.row, 0);
    else if (code === 0x0e) this.charset = 1;
    else if (code === 0x0f) this.charset = 0;
  }

  tab(count) {
    let column = this.column;
    for (let i = 0; i < Math.min(count, this.columns); i++) {
      do column++; while (column < this.columns - 1 && !this.tabs.has(column));
    }
    this.move(this.row, column);
  }

  tabBack(count) {
    let column = this.column;
    for (let i = 0; i < Math.min(count, this.columns); i++) {
      do column--; while (column > 0 && !this.tabs.has(column));
    }
    this.move(this.row, column);
  }

  lineFeed() {
    this.wrapNext = false;
    if (this.row === this.bottom) this.grid.up(this.top, this.bottom, 1, this.eraseStyle());
    else if (this.row < this.rows - 1) this.row++;
  }

  lineBack() {
    this.wrapNext = false;
    if (this.row === this.top) this.grid.down(this.top, this.bottom, 1, this.eraseStyle());
    else if (this.row > 0) this.row--;
  }

  // eraseStyle is what empty space gets: the background, and nothing else.
  eraseStyle() {
    return this.style.background === normal.background ? normal : sequences.background(this.style);
  }

  escape(between, final) {
    if (between === "(" || between === ")") this.charsets[between === "(" ? 0 : 1] = final;
    else if (between === "#" && final === "8") this.fill("E");
    else if (between !== "") return;
    else if (final === "7") this.save();
    else if (final === "8") this.restore();
    else if (final === "D") this.lineFeed();
    else if (final === "E") { this.column = 0; this.lineFeed(); }
    else if (final === "M") this.lineBack();
    else if (final === "H") this.tabs.add(this.column);
    else if (final === "c") this.reset(this.columns, this.rows);
  }

  fill(text) {
    for (let row = 0; row < this.rows; row++) {
      for (let column = 0; column < this.columns; column++) this.grid.put(row, column, { text, columns: 1, style: normal });
    }
    this.move(0, 0);
  }

  save() {
    const { row, column, style, charset, wrapNext } = this;
    this.saved[this.alternate ? "other" : "main"] = { row, column, style, charset, wrapNext, charsets: [...this.charsets], origin: this.modes.origin };
  }

  restore() {
    const saved = this.saved[this.alternate ? "other" : "main"];
    this.move(saved?.row ?? 0, saved?.column ?? 0);
    this.style = saved?.style ?? normal;
    this.charset = saved?.charset ?? 0;
    this.charsets = [...(saved?.charsets ?? ["B", "B"])];
    this.modes.origin = saved?.origin ?? false;
    this.wrapNext = saved?.wrapNext ?? false;
  }

  // show switches between the main screen and the other one.
  show(other) {
    if (other === this.alternate) return;
    this.grid = other ? this.other : this.main;
    this.grid.touch(0, this.rows - 1);
    this.move(this.row, this.column);
  }

  sequence(prefix, numbers, between, final) {
    if (final === "h" || final === "l") setModes(this, prefix, numbers, final === "h");
    else sequences.run(this, prefix + between + final, numbers);
  }

  command(text) {
    const at = text.indexOf(";");
    const number = at < 0 ? text : text.slice(0, at);
    if (number !== "0" && number !== "2") return;
    this.options.title(text.slice(at + 1).replace(/[\p{Cc}\p{Cf}]/gu, "").slice(0, maxTitle));
  }

  // text is the whole screen, for reading and for tests.
  text() {
    const rows = [];
    for (let i = 0; i < this.rows; i++) rows.push(this.grid.text(i));
    return rows.join("\n").replace(/\n+$/, "");
  }
}
