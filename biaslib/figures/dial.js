(() => {
  const { make, picture, begin, replace } = globalThis.biaslibPage;

  begin("dial", async (figure, data) => {
    const [height, width] = data.size;
    const sheets = await Promise.all(data.sheets.map(picture));
    const tiles = Array.from({ length: data.pictures }, () =>
      make("div", {}, make("canvas", { width: 2 * width, height: 2 * height, "aria-hidden": "true" })));
    const board = make("div", { class: "biaslib-tiles", role: "img" }, ...tiles);
    board.style.setProperty("--biaslib-columns", data.columns);
    const chosen = make("output", {});
    const note = make("p", { class: "biaslib-note", "aria-live": "polite" });
    const slider = make("input", { type: "range", min: 0, max: data.settings.length - 1, step: 1, value: 0,
      oninput: () => set(Number(slider.value)) });
    const set = (setting) => {
      const name = data.settings[setting];
      chosen.textContent = name;
      slider.setAttribute("aria-valuetext", name);
      note.textContent = data.notes[setting] ?? "";
      board.setAttribute("aria-label", `${figure.getAttribute("aria-label")} ${data.setting_name}: ${name}.`);
      tiles.forEach((tile, i) => {
        const context = tile.firstChild.getContext("2d");
        context.imageSmoothingQuality = "high";
        context.drawImage(sheets[setting], (i % data.columns) * width, Math.floor(i / data.columns) * height,
          width, height, 0, 0, 2 * width, 2 * height);
      });
    };
    replace(figure, make("div", { class: "biaslib-dial" },
      make("label", { class: "biaslib-slide" }, make("span", {}, `${data.setting_name}: `, chosen), slider),
      data.notes.length ? note : "", board));
    set(0);
  });
})();
