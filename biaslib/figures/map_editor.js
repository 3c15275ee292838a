(() => {
  const { make, bytes, number, begin, replace } = globalThis.biaslibPage;
  const parts = globalThis.biaslibAttentionIouParts;
  const score = globalThis.biaslibAttentionIou;

  const fill = (size, value) =>
    Array.from({ length: size * size }, (_, i) => value(Math.floor(i / size), i % size));
  const blob = (size, row, column, width = 1.2) =>
    fill(size, (y, x) => {
      const v = Math.exp(-((y - row) ** 2 + (x - column) ** 2) / (2 * width ** 2));
      return v < 0.03 ? 0 : Math.round(v * 100) / 100;
    });
  const add = (a, b) => a.map((value, i) => Math.min(value + b[i], 1));
  const moved = (map, size, dy, dx) =>
    fill(size, (y, x) => (y - dy in [...Array(size)] && x - dx in [...Array(size)] ? map[(y - dy) * size + x - dx] : 0));
  const larger = (map, size, times) =>
    fill(size * times, (y, x) => map[Math.floor(y / times) * size + Math.floor(x / times)]);
  const padded = (map, size) => fill(2 * size, (y, x) => (y < size && x < size ? map[y * size + x] : 0));
  const scaled = (map, factor) => map.map((value) => value * factor);

  begin("map-editor", (figure, data) => {
    const lut = bytes(data.lut);
    const base = data.size;
    const state = { size: base, a: data.a, m: data.m, brush: 1 };
    const names = { a: "map a", m: "map b" };
    const colour = (share) => {
      const at = 3 * Math.round(255 * Math.min(Math.max(share, 0), 1));
      return `rgb(${lut[at]}, ${lut[at + 1]}, ${lut[at + 2]})`;
    };
    const show = (value) => number(value, 4);

    const low = Math.floor(base / 3), high = base - 1 - low, middle = (base - 1) / 2, centre = Math.floor(middle);
    const presets = {
      "one blob, twice": () => [blob(base, middle, middle), blob(base, middle, middle)],
      "two blobs": () => [add(blob(base, low, low), blob(base, high, high)), blob(base, high, high)],
      "shifted by one": () => [blob(base, middle, middle), moved(blob(base, middle, middle), base, 0, 1)],
      "disjoint": () => [blob(base, 1, 1, 0.7), blob(base, base - 2, base - 2, 0.7)],
      "one cell of a mask": () => [fill(base, (y, x) => Number(y == centre && x == centre)),
        fill(base, (y, x) => Number(Math.abs(y - centre) < 2 && Math.abs(x - centre) < 2))],
      "b is empty": () => [state.size == base ? state.a : blob(base, middle, middle), fill(base, () => 0)],
    };

    const board = (key) => {
      let cursor = 0;
      const grid = make("div", { class: "biaslib-board", role: "grid", "aria-label": `${names[key]}: paint with the brush` });
      const cell = (i) => grid.querySelectorAll("[role=gridcell]")[i];
      const paint = (i, value) => {
        if (i == null || state[key][i] === value) return;
        state[key] = state[key].map((old, k) => (k == i ? value : old));
        refresh();
      };
      const under = (event) => {
        const found = document.elementFromPoint(event.clientX, event.clientY);
        return found && grid.contains(found) && found.dataset.index != null ? Number(found.dataset.index) : null;
      };
      const build = () => {
        grid.style.setProperty("--biaslib-size", state.size);
        cursor = 0;
        grid.replaceChildren(...Array.from({ length: state.size }, (_, y) =>
          make("div", { role: "row" }, ...Array.from({ length: state.size }, (_, x) =>
            make("div", { role: "gridcell", tabindex: y + x ? -1 : 0, "data-index": y * state.size + x })))));
      };
      const paintAll = () => {
        const top = Math.max(...state[key], 0);
        grid.querySelectorAll("[role=gridcell]").forEach((element, i) => {
          const value = state[key][i];
          element.style.background = colour(top > 0 ? value / Math.max(top, 1) : 0);
          element.setAttribute("aria-label",
            `row ${Math.floor(i / state.size) + 1}, column ${(i % state.size) + 1}: ${number(value)}`);
        });
      };
      let painting = false;
      grid.addEventListener("pointerdown", (event) => {
        painting = true;
        grid.setPointerCapture?.(event.pointerId);
        paint(under(event), state.brush);
      });
      grid.addEventListener("pointermove", (event) => painting && paint(under(event), state.brush));
      for (const name of ["pointerup", "pointercancel"]) grid.addEventListener(name, () => (painting = false));
      grid.addEventListener("focusin", (event) => {
        if (event.target.dataset.index != null) cursor = Number(event.target.dataset.index);
      });
      grid.addEventListener("keydown", (event) => {
        const [y, x, last] = [Math.floor(cursor / state.size), cursor % state.size, state.size - 1];
        const to = { ArrowUp: [Math.max(y - 1, 0), x], ArrowDown: [Math.min(y + 1, last), x],
          ArrowLeft: [y, Math.max(x - 1, 0)], ArrowRight: [y, Math.min(x + 1, last)] }[event.key];
        if (to) {
          cell(cursor).tabIndex = -1;
          cursor = to[0] * state.size + to[1];
          cell(cursor).tabIndex = 0;
          cell(cursor).focus();
        } else if (event.key == " " || event.key == "Enter") paint(cursor, state.brush);
        else if (event.key == "Delete" || event.key == "Backspace") paint(cursor, 0);
        else return;
        event.preventDefault();
        event.stopPropagation();
      });
      return { grid, build, paintAll };
    };
    const boards = { a: board("a"), m: board("m") };

    const mini = (label) => {
      const canvas = make("canvas", { class: "biaslib-mini", role: "img", "aria-label": label });
      return { canvas, paint: (values, top) => {
        canvas.width = canvas.height = state.size;
        const context = canvas.getContext("2d");
        values.forEach((value, i) => {
          context.fillStyle = colour(top > 0 ? value / top : 0);
          context.fillRect(i % state.size, Math.floor(i / state.size), 1, 1);
        });
      } };
    };
    const product = mini("where the product of the two maps is large");
    const square = mini("where the square of their mean is large");

    const result = make("output", { class: "biaslib-score", "aria-live": "polite" });
    const sums = make("span");
    const inner = make("b"), norm = make("b");
    const checks = make("tbody");
    const check = (name, value, wanted) => {
      const same = Math.abs(value - wanted) < 1e-9;
      const verdict = Number.isNaN(value) ? "undefined" : same ? "✓ holds" : "✗ differs";
      return make("tr", {}, make("th", { scope: "row" }, name),
        make("td", { class: "biaslib-number" }, Number.isNaN(value) ? "–" : show(value)), make("td", {}, verdict));
    };

    const refresh = () => {
      const { a, m, size } = state;
      Object.values(boards).forEach((one) => one.paintAll());
      const now = parts(a, m);
      const top = Math.max(...now.square.filter((v) => !Number.isNaN(v)), 0);
      product.paint(now.product, top);
      square.paint(now.square, top);
      sums.textContent = `sum of a = ${number(now.sums[0])}, sum of m = ${number(now.sums[1])}`;
      inner.textContent = Number.isNaN(now.inner) ? "–" : show(now.inner);
      norm.textContent = Number.isNaN(now.norm) ? "–" : show(now.norm);
      result.textContent = Number.isNaN(now.score) ? "undefined" : number(now.score, 3);
      checks.replaceChildren(
        check("a with itself", score(a, a), 1),
        check("b with a (swapped)", score(m, a), now.score),
        check("3 · a with b", score(scaled(a, 3), m), now.score),
        check("both upsampled × 2", score(larger(a, size, 2), larger(m, size, 2)), now.score),
        check("both padded with zeros", score(padded(a, size), padded(m, size)), now.score));
      double.disabled = state.size > base;
    };
    const put = ([a, m], size = base) => {
      Object.assign(state, { a, m, size });
      Object.values(boards).forEach((one) => one.build());
      refresh();
    };

    const button = (text, action, label) =>
      make("button", { type: "button", onclick: action, "aria-label": label }, text);
    const double = button("upsample both × 2", () =>
      put([larger(state.a, state.size, 2), larger(state.m, state.size, 2)], 2 * state.size));
    const group = `biaslib-brush-${document.querySelectorAll("figure[data-biaslib=map-editor][data-ready]").length}`;
    const brush = [1, 0.5, 0.25, 0].map((value) => {
      const swatch = make("span", { class: "biaslib-swatch", "aria-hidden": "true" });
      swatch.style.background = colour(value);
      return make("label", {}, make("input", { type: "radio", name: group, value, checked: value == 1,
        onchange: () => (state.brush = value) }), swatch, value == 0 ? "0 (erase)" : String(value));
    });
    const move = (dy, dx) => () => put([state.a, moved(state.m, state.size, dy, dx)], state.size);

    replace(figure, make("div", { class: "biaslib-editor" },
      make("div", { class: "biaslib-controls", role: "group", "aria-label": "presets" },
        ...Object.entries(presets).map(([name, maps]) => button(name, () => put(maps()))),
        button("a × 3", () => put([scaled(state.a, 3), state.m], state.size), "multiply map a by three"), double),
      make("fieldset", { class: "biaslib-controls" }, make("legend", {}, "brush"), ...brush),
      make("div", { class: "biaslib-boards" },
        ...["a", "m"].map((key) => make("div", {}, make("p", { class: "biaslib-piece-title" }, names[key]), boards[key].grid)),
        make("div", { class: "biaslib-minis" },
          make("div", {}, make("p", {}, "product of the two"), product.canvas),
          make("div", {}, make("p", {}, "square of their mean"), square.canvas))),
      make("div", { class: "biaslib-controls", role: "group", "aria-label": "move map b" }, make("span", {}, "move b"),
        button("←", move(0, -1), "move b left"), button("→", move(0, 1), "move m right"),
        button("↑", move(-1, 0), "move b up"), button("↓", move(1, 0), "move m down")),
      make("p", { class: "biaslib-sum" }, "Attention-IoU = sum of the products ÷ sum of the squares = ", inner, " ÷ ", norm,
        " = ", result),
      make("p", { class: "biaslib-note" }, sums, "; both maps are divided by their sums first"),
      make("table", { class: "biaslib-readout" }, make("caption", {}, "what must not change the score"), checks)));
    put([state.a, state.m]);
  });
})();
