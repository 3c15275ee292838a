// What the interactive pieces share. Loaded once a page, however many pieces stand on it.
globalThis.biaslibPage ??= (() => {
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  };
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const number = (value, digits = 2) =>
    value == null || Number.isNaN(value) ? "n/a" : value.toFixed(digits).replace("-", "−");
  // An image that has merely loaded may still be drawn as nothing, by a browser that has not decoded it yet.
  const picture = async (source) => {
    const image = new Image();
    image.src = source;
    await image.decode();
    return createImageBitmap(image);
  };
  // Each figure of a kind that has not been started yet gets its data; a repeated script starts nothing twice.
  const begin = (kind, start) =>
    document.querySelectorAll(`figure[data-biaslib="${kind}"]:not([data-ready])`).forEach((figure) => {
      figure.dataset.ready = "true";
      start(figure, JSON.parse(figure.querySelector(".biaslib-data").textContent));
    });
  // The built piece takes the place of what stood there for readers without scripts.
  const replace = (figure, built) => figure.querySelector(".biaslib-fallback").replaceWith(built);
  return { make, bytes, number, picture, begin, replace };
})();
