// The picture of an emulator in a page: one element a line, the past above the screen.
import { css, flags } from "./style.mjs";

const names = { bold: flags.bold, faint: flags.faint, italic: flags.italic, underline: flags.underline, strike: flags.strike, hidden: flags.hidden };

export class Picture {
  constructor(element, emulator) {
    this.element = element;
    this.emulator = emulator;
    this.pending = false;
    this.cursorLine = undefined;
    this.shown = new Map(); // line → its element
  }

  // size is how many characters fit.
  size() {
    const probe = document.createElement("span");
    probe.textContent = "m".repeat(100);
    const line = document.createElement("div");
    line.append(probe);
    this.element.append(line);
    const box = probe.getBoundingClientRect();
    const height = line.getBoundingClientRect().height;
    line.remove();
    const look = getComputedStyle(this.element);
    const across = this.element.clientWidth - parseFloat(look.paddingLeft) - parseFloat(look.paddingRight);
    const down = this.element.clientHeight - parseFloat(look.paddingTop) - parseFloat(look.paddingBottom);
    const within = (n) => Math.min(Math.max(Math.floor(n), 2), 1000);
    return { columns: within(across / (box.width / 100)), rows: within(down / height) };
  }

  // later draws once, however much comes until then.
  later() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
    });
  }

  draw() {
    const { grid, row, column, modes } = this.emulator;
    const atEnd = this.element.scrollHeight - this.element.scrollTop - this.element.clientHeight < 8;
    const lines = this.emulator.alternate ? grid.lines : [...grid.past, ...grid.lines];
    const cursorLine = modes.cursor ? grid.lines[row] : undefined;
    if (this.cursorLine) this.cursorLine.changed = true;
    if (cursorLine) cursorLine.changed = true;
    this.cursorLine = cursorLine;
    const before = this.shown;
    this.shown = new Map();
    for (const line of lines) {
      let element = before.get(line);
      if (!element || line.changed) {
        element ??= document.createElement("div");
        element.replaceChildren(...this.runs(line.cells, line === cursorLine ? column : -1));
        line.changed = false;
      }
      this.shown.set(line, element);
    }
    for (const [line, element] of before) if (!this.shown.has(line)) element.remove();
    let at = this.element.firstChild;
    for (const element of this.shown.values()) {
      if (element === at) at = at.nextSibling;
      else this.element.insertBefore(element, at);
    }
    if (atEnd) this.element.scrollTop = this.element.scrollHeight;
  }

  // runs are elements for cells of the same look.
  runs(cells, cursor) {
    const out = [];
    let text = "";
    let look;
    const flush = () => {
      if (text !== "") out.push(this.run(text, look, ""));
      text = "";
    };
    cells.forEach((cell, i) => {
      if (cell.columns === 0) return;
      const special = i === cursor || (cell.columns === 2 && i + 1 === cursor);
      if (special || cell.columns === 2) {
        flush();
        out.push(this.run(cell.text, cell.style, (special ? "cursor " : "") + (cell.columns === 2 ? "wide" : "")));
        return;
      }
      if (cell.style !== look) flush();
      look = cell.style;
      text += cell.text;
    });
    flush();
    return out;
  }

  run(text, look, classes) {
    const span = document.createElement("span");
    span.textContent = text;
    let { foreground, background } = look;
    if (look.flag & flags.bold && foreground >= 0 && foreground < 8) foreground += 8;
    let front = css(foreground);
    let back = css(background);
    if (look.flag & flags.inverse) [front, back] = [back || "var(--background)", front || "var(--foreground)"];
    if (front) span.style.color = front;
    if (back) span.style.background = back;
    for (const [name, flag] of Object.entries(names)) if (look.flag & flag) span.classList.add(name);
    for (const name of classes.split(" ")) if (name) span.classList.add(name);
    return span;
  }
}
