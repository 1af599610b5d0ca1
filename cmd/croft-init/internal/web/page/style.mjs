// How characters look. A style is never changed, and there is one object for each.

// Colours: -1 the terminal's own, 0 to 255 of the palette, from 0x1000000 on red,
// green and blue.
export const own = -1;
const direct = 0x1000000;

export const flags = { bold: 1, faint: 2, italic: 4, underline: 8, inverse: 16, hidden: 32, strike: 64 };

const most = 4096; // styles that are remembered as one
const known = new Map();

export function style(foreground, background, flag) {
  const key = foreground + "," + background + "," + flag;
  let found = known.get(key);
  if (!found) {
    found = Object.freeze({ foreground, background, flag });
    if (known.size >= most) known.clear();
    known.set(key, found);
  }
  return found;
}

export const normal = style(own, own, 0);

const set = { 1: 1, 2: 2, 3: 4, 4: 8, 7: 16, 8: 32, 9: 64, 21: 8 };
const unset = { 22: 3, 23: 4, 24: 8, 27: 16, 28: 32, 29: 64 };

// select is the style after "select graphic rendition" with these numbers.
export function select(before, numbers) {
  let { foreground, background, flag } = before;
  for (let i = 0; i < numbers.length; i++) {
    const n = Math.max(numbers[i], 0);
    if (n === 0) [foreground, background, flag] = [own, own, 0];
    else if (set[n]) flag |= set[n];
    else if (unset[n]) flag &= ~unset[n];
    else if (n >= 30 && n <= 37) foreground = n - 30;
    else if (n >= 40 && n <= 47) background = n - 40;
    else if (n >= 90 && n <= 97) foreground = n - 82;
    else if (n >= 100 && n <= 107) background = n - 92;
    else if (n === 39) foreground = own;
    else if (n === 49) background = own;
    else if (n === 38 || n === 48) {
      const [colour, used] = extended(numbers, i + 1);
      i += used;
      if (colour !== undefined && n === 38) foreground = colour;
      if (colour !== undefined && n === 48) background = colour;
    }
  }
  return style(foreground, background, flag);
}

function extended(numbers, at) {
  const part = (i) => Math.min(Math.max(numbers[at + i] ?? 0, 0), 255);
  if (numbers[at] === 5) return [part(1), 2];
  if (numbers[at] === 2) return [direct + part(1) * 65536 + part(2) * 256 + part(3), 4];
  return [undefined, numbers.length];
}

const basic = [
  "#1d2129", "#e05f65", "#6fbf73", "#d9b25f", "#6c9eef", "#c58be0", "#5fc0c9", "#c9ced8",
  "#6a7282", "#ff8a8f", "#98e29b", "#f5d98a", "#9cc1ff", "#e3b5f7", "#8fe3ea", "#ffffff",
];

// css is a colour as a browser wants it, "" for the terminal's own.
export function css(colour) {
  if (colour === own) return "";
  if (colour >= direct) return "#" + (colour - direct).toString(16).padStart(6, "0");
  if (colour < 16) return basic[colour];
  if (colour >= 232) return "rgb(" + Array(3).fill(8 + (colour - 232) * 10).join(",") + ")";
  const step = (n) => (n === 0 ? 0 : 55 + n * 40);
  const cube = colour - 16;
  return "rgb(" + [Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map(step).join(",") + ")";
}
