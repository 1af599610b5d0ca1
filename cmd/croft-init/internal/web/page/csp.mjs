// xterm.js makes style elements and style attributes, which the Content-Security-Policy
// forbids: injected text could hold them too. Here the same styles go through the CSS object
// model, which only scripts reach. It must be imported before a terminal is opened.

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
