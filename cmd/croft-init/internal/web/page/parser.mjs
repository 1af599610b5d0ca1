// Cuts what a program writes into characters, controls and sequences, after the
// state machine that DEC's terminals had. It knows what a sequence looks like, not
// what it does; whoever wrote it, no sequence takes more than the limits here.

const maxNumbers = 32;
const maxNumber = 65535;
const maxText = 4096;

export class Parser {
  // handler: print(code), control(code), escape(intermediates, final),
  // sequence(prefix, numbers, intermediates, final), command(text).
  constructor(handler) {
    this.handler = handler;
    this.decoder = new TextDecoder("utf-8"); // what isn't UTF-8 becomes U+FFFD
    this.state = this.ground;
    this.clear();
  }

  clear() {
    this.prefix = "";
    this.between = "";
    this.numbers = [];
    this.number = -1;
    this.text = "";
  }

  // write takes bytes; a character may come in parts.
  write(bytes) {
    for (const character of this.decoder.decode(bytes, { stream: true })) this.take(character.codePointAt(0));
  }

  take(code) {
    if (this.state === this.string || this.state === this.stringEscape) {
      this.state(code);
    } else if (code === 0x18 || code === 0x1a) {
      this.state = this.ground;
    } else if (code === 0x1b) {
      this.clear();
      this.state = this.escape;
    } else if (code < 0x20) {
      this.handler.control(code);
    } else if (code !== 0x7f) {
      this.state(code);
    }
  }

  ground(code) {
    if (code >= 0x80 && code < 0xa0) this.eightBit(code);
    else this.handler.print(code);
  }

  eightBit(code) {
    this.clear();
    if (code === 0x9b) this.state = this.csi;
    else if (code === 0x9d || code === 0x90 || code === 0x98 || code === 0x9e || code === 0x9f) this.begin(code - 0x40);
    else if (code === 0x84 || code === 0x85 || code === 0x88 || code === 0x8d) this.handler.escape("", String.fromCharCode(code - 0x40));
  }

  escape(code) {
    if (code >= 0x20 && code < 0x30) {
      this.between = (this.between + String.fromCharCode(code)).slice(-4);
      return;
    }
    this.state = this.ground;
    const final = String.fromCharCode(code);
    if (this.between === "" && final === "[") this.state = this.csi;
    else if (this.between === "" && "]PX^_".includes(final)) this.begin(code);
    else if (code < 0x7f) this.handler.escape(this.between, final);
  }

  csi(code) {
    if (code >= 0x30 && code <= 0x39) {
      this.number = Math.min(maxNumber, Math.max(this.number, 0) * 10 + code - 0x30);
    } else if (code === 0x3a || code === 0x3b) {
      this.pushNumber();
    } else if (code >= 0x3c && code <= 0x3f) {
      this.prefix = String.fromCharCode(code);
    } else if (code >= 0x20 && code < 0x30) {
      this.between = (this.between + String.fromCharCode(code)).slice(-4);
    } else {
      this.pushNumber();
      this.state = this.ground;
      if (code >= 0x40 && code < 0x7f) this.handler.sequence(this.prefix, this.numbers, this.between, String.fromCharCode(code));
    }
  }

  // pushNumber ends a number; one that was left out is -1.
  pushNumber() {
    if (this.numbers.length < maxNumbers) this.numbers.push(this.number);
    this.number = -1;
  }

  // begin starts a string: an operating system command, or another kind, which
  // is read over.
  begin(code) {
    this.command = code === 0x5d;
    this.state = this.string;
  }

  string(code) {
    if (code === 0x1b) {
      this.state = this.stringEscape;
    } else if (code === 0x07 || code === 0x9c) {
      this.endString();
    } else if (code === 0x18 || code === 0x1a) {
      this.state = this.ground;
    } else if (this.command && this.text.length < maxText) {
      this.text += String.fromCodePoint(code);
    }
  }

  stringEscape(code) {
    this.endString();
    if (code === 0x5c) return;
    this.clear();
    this.state = this.escape;
    this.take(code);
  }

  endString() {
    this.state = this.ground;
    if (this.command) this.handler.command(this.text);
    this.text = "";
  }
}
