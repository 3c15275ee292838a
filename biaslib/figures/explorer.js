(() => {
  const { make, bytes, number, picture, begin, replace } = globalThis.biaslibPage;

  // A map's cells at a finer grid, bilinear between the cells' centres.
  const finer = (cells, [rows, columns], size) => {
    const out = new Float32Array(size * size);
    const place = (i, n) => {
      const at = Math.min(Math.max(((i + 0.5) * n) / size - 0.5, 0), n - 1);
      const low = Math.floor(at);
      return [low, Math.min(low + 1, n - 1), at - low];
    };
    for (let y = 0; y < size; y++) {
      const [top, bottom, v] = place(y, rows);
      for (let x = 0; x < size; x++) {
        const [left, right, u] = place(x, columns);
        out[y * size + x] =
          (cells[top * columns + left] * (1 - u) + cells[top * columns + right] * u) * (1 - v) +
          (cells[bottom * columns + left] * (1 - u) + cells[bottom * columns + right] * u) * v;
      }
    }
    return out;
  };

  const heat = (values, size, lut, opacity) => {
    const canvas = make("canvas", { width: size, height: size });
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(size, size);
    values.forEach((value, i) => {
      const level = Math.round(value);
      pixels.data.set(lut.subarray(3 * level, 3 * level + 3), 4 * i);
      pixels.data[4 * i + 3] = 255 * opacity * (value / 255) ** 0.7;
    });
    context.putImageData(pixels, 0, 0);
    return canvas;
  };

  // The border between inside and outside, as line segments in pixels of the image.
  const outline = (bits, offset, [height, width]) => {
    const inside = (y, x) => {
      const at = offset + y * width + x;
      return y >= 0 && x >= 0 && y < height && x < width && (bits[at >> 3] >> (7 - (at & 7))) & 1;
    };
    const path = new Path2D();
    for (let y = 0; y <= height; y++)
      for (let x = 0; x <= width; x++) {
        if (inside(y, x) != inside(y - 1, x)) { path.moveTo(x, y); path.lineTo(x + 1, y); }
        if (inside(y, x) != inside(y, x - 1)) { path.moveTo(x, y); path.lineTo(x, y + 1); }
      }
    return path;
  };

  const spark = (values, current, range) => {
    const [width, height] = [84, 20];
    const x = (i) => 4 + (i * (width - 8)) / Math.max(values.length - 1, 1);
    const y = (v) => height - 4 - ((v - range[0]) / (range[1] - range[0] || 1)) * (height - 8);
    const known = values.map((v, i) => [v, i]).filter(([v]) => v != null);
    const line = known.map(([v, i], k) => `${k ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("");
    const dot = values[current] == null ? "" : `<circle cx="${x(current)}" cy="${y(values[current])}" r="3.4"/>`;
    const box = make("span", { class: "biaslib-spark", "aria-hidden": "true" });
    box.innerHTML = `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"><path d="${line}"/>${dot}</svg>`;
    return box;
  };

  begin("explorer", async (figure, data) => {
    const [height, width] = data.size;
    const n = data.titles.length;
    const cells = data.grid[0] * data.grid[1];
    const maps = bytes(data.maps);
    const lut = bytes(data.lut);
    const masks = data.masks && bytes(data.masks);
    const sprite = await picture(data.images);
    const state = { image: 0, setting: 0, opacity: 0.8, outline: Boolean(masks) };

    const canvas = make("canvas", { width: 4 * width, height: 4 * height, role: "img" });
    const title = make("p", { class: "biaslib-piece-title" });
    const chosen = make("output", {});
    const slider = make("input", {
      type: "range", min: 0, max: data.settings.length - 1, step: 1, value: 0,
      oninput: (event) => set({ setting: Number(event.target.value) }),
    });
    const rows = make("tbody");
    const step = (by) => set({ image: (state.image + by + n) % n });
    const thumbs = data.titles.map((text, i) => {
      const small = make("canvas", { width, height, "aria-hidden": "true" });
      small.getContext("2d").drawImage(sprite, 0, i * height, width, height, 0, 0, width, height);
      return make("button", { type: "button", "aria-label": `image ${i + 1}: ${text}`, title: text,
        onclick: () => set({ image: i }) }, small);
    });

    const draw = () => {
      const context = canvas.getContext("2d");
      context.imageSmoothingEnabled = true;
      context.imageSmoothingQuality = "high";
      context.drawImage(sprite, 0, state.image * height, width, height, 0, 0, canvas.width, canvas.height);
      const start = (state.setting * n + state.image) * cells;
      const values = finer(maps.subarray(start, start + cells), data.grid, 96);
      context.drawImage(heat(values, 96, lut, state.opacity), 0, 0, canvas.width, canvas.height);
      if (masks && state.outline) {
        const path = outline(masks, state.image * height * width, data.size);
        context.save();
        context.scale(4, 4);
        for (const [colour, opacity, line] of [["black", 2 / 3, 0.9], ["white", 1, 0.45]]) {
          context.strokeStyle = colour;
          context.globalAlpha = opacity;
          context.lineWidth = line;
          context.stroke(path);
        }
        context.restore();
      }
    };

    const set = (change) => {
      Object.assign(state, change);
      const setting = data.settings[state.setting];
      chosen.textContent = setting;
      slider.setAttribute("aria-valuetext", setting);
      title.textContent = `${data.titles[state.image]} (${state.image + 1} of ${n})`;
      canvas.setAttribute("aria-label", `${data.titles[state.image]} with its map at ${data.setting_name} ${setting}`);
      thumbs.forEach((button, i) => button.setAttribute("aria-pressed", i == state.image));
      const strip = thumbs[0].parentElement;
      if (strip && "image" in change) {
        const button = thumbs[state.image];
        strip.scrollLeft = button.offsetLeft - (strip.clientWidth - button.clientWidth) / 2;
      }
      rows.replaceChildren(
        ...data.table.map(({ name, values, range }) => {
          const along = values.map((row) => row[state.image]);
          return make("tr", {}, make("th", { scope: "row" }, name),
            make("td", { class: "biaslib-number" }, number(along[state.setting])),
            make("td", {}, spark(along, state.setting, range)));
        }),
      );
      draw();
    };

    replace(figure, make("div", { class: "biaslib-explorer" },
      make("div", { class: "biaslib-stage" }, canvas),
      make("div", { class: "biaslib-panel" },
        title,
        make("label", { class: "biaslib-slide" }, make("span", {}, `${data.setting_name}: `, chosen), slider),
        make("label", { class: "biaslib-slide" }, make("span", {}, "map opacity"),
          make("input", { type: "range", min: 0, max: 1, step: 0.05, value: state.opacity,
            oninput: (event) => set({ opacity: Number(event.target.value) }) })),
        masks ? make("label", { class: "biaslib-tick" },
          make("input", { type: "checkbox", checked: true,
            onchange: (event) => set({ outline: event.target.checked }) }), ` outline of the ${data.mask_name}`) : "",
        make("table", { class: "biaslib-readout" }, make("caption", {}, "this image; the line runs over all settings"),
          rows)),
      make("div", { class: "biaslib-thumbs" },
        make("button", { type: "button", class: "biaslib-step", "aria-label": "previous image",
          onclick: () => step(-1) }, "‹"),
        make("div", { class: "biaslib-strip" }, ...thumbs),
        make("button", { type: "button", class: "biaslib-step", "aria-label": "next image",
          onclick: () => step(1) }, "›"))));
    set({ image: 0 });
  });
})();
