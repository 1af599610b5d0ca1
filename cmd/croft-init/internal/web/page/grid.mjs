// The characters of a screen, and the lines that have left it at the top.
import { normal } from "./style.mjs";

// A cell is {text, columns, style}: columns is 2 for a wide character, whose right
// half is a cell with none.
export function blank(style) {
  return { text: " ", columns: 1, style };
}

export class Grid {
  constructor(columns, rows, keep) {
    this.columns = columns;
    this.rows = rows;
    this.keep = keep;
    this.past = [];
    this.lines = [];
    for (let i = 0; i < rows; i++) this.lines.push(this.newLine(normal));
  }

  newLine(style) {
    const cells = [];
    for (let i = 0; i < this.columns; i++) cells.push(blank(style));
    return { cells, changed: true };
  }

  // put writes a cell, and mends a wide character that it cuts in two.
  put(row, column, cell) {
    const line = this.lines[row];
    const cells = line.cells;
    line.changed = true;
    for (let i = column; i < column + cell.columns && i < this.columns; i++) this.split(cells, i, cell.style);
    cells[column] = cell;
    if (cell.columns === 2 && column + 1 < this.columns) cells[column + 1] = { text: "", columns: 0, style: cell.style };
  }

  split(cells, column, style) {
    if (cells[column].columns === 0 && column > 0) cells[column - 1] = blank(style);
    if (cells[column].columns === 2 && column + 1 < this.columns) cells[column + 1] = blank(style);
  }

  erase(row, from, to, style) {
    if (from >= to) return;
    const line = this.lines[row];
    line.changed = true;
    this.split(line.cells, from, style);
    this.split(line.cells, to - 1, style);
    for (let i = from; i < to; i++) line.cells[i] = blank(style);
  }

  // shift moves cells right of a column by count, which is negative to the left.
  shift(row, column, count, style) {
    const line = this.lines[row];
    const cells = line.cells;
    line.changed = true;
    this.split(cells, column, style);
    const many = Math.min(Math.abs(count), this.columns - column);
    const fresh = [];
    for (let i = 0; i < many; i++) fresh.push(blank(style));
    if (count > 0) {
      cells.splice(column, 0, ...fresh);
      cells.length = this.columns;
    } else {
      cells.splice(column, many);
      cells.push(...fresh);
      if (cells[column].columns === 0) cells[column] = blank(style);
    }
    const last = cells[this.columns - 1];
    if (last.columns === 2) cells[this.columns - 1] = blank(style);
  }

  // up scrolls the lines from top to bottom up; those that leave the whole
  // screen are kept.
  up(top, bottom, count, style) {
    for (let i = 0; i < Math.min(count, bottom - top + 1); i++) {
      const [gone] = this.lines.splice(top, 1);
      if (top === 0) this.remember(gone);
      this.lines.splice(bottom, 0, this.newLine(style));
    }
    this.touch(top, bottom);
  }

  down(top, bottom, count, style) {
    for (let i = 0; i < Math.min(count, bottom - top + 1); i++) {
      this.lines.splice(bottom, 1);
      this.lines.splice(top, 0, this.newLine(style));
    }
    this.touch(top, bottom);
  }

  remember(line) {
    if (this.keep === 0) return;
    this.past.push(line);
    if (this.past.length > this.keep) this.past.splice(0, this.past.length - this.keep);
  }

  touch(top, bottom) {
    for (let i = top; i <= bottom; i++) this.lines[i].changed = true;
  }

  // resize returns by how many rows the content has moved down. Lines that are
  // too long are cut, not wrapped anew.
  resize(columns, rows, cursorRow) {
    this.columns = columns;
    for (const line of this.lines) this.fit(line);
    let moved = 0;
    while (this.lines.length > rows) {
      if (cursorRow + moved < this.lines.length - 1) this.lines.pop();
      else {
        this.remember(this.lines.shift());
        moved--;
      }
    }
    while (this.lines.length < rows) {
      const line = this.past.pop();
      if (line) {
        this.fit(line);
        this.lines.unshift(line);
        moved++;
      } else this.lines.push(this.newLine(normal));
    }
    this.rows = rows;
    this.touch(0, rows - 1);
    return moved;
  }

  fit(line) {
    while (line.cells.length < this.columns) line.cells.push(blank(normal));
    line.cells.length = this.columns;
    const last = line.cells[this.columns - 1];
    if (last.columns === 2) line.cells[this.columns - 1] = blank(last.style);
  }

  text(row) {
    return this.lines[row].cells.map((cell) => cell.text).join("").trimEnd();
  }
}
