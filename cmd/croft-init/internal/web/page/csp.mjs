// xterm.js creates style elements and style attributes. The Content-Security-Policy forbids
// both, because injected markup could contain them. This module sets the same styles through
// the CSS object model, which only scripts can use. Import it before a terminal is opened.

const createElement = document.createElement.bind(document);

document.createElement = (name, options) => {
  if (name !== "style") return createElement(name, options);
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  return Object.defineProperty(createElement("template"), "textContent", { set: (text) => sheet.replaceSync(text) });
};

HTMLSpanElement.prototype.setAttribute = function setAttribute(name, value) {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
};
