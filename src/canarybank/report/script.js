"use strict";
(() => {
  const root = document.documentElement;

  const themes = ["auto", "light", "dark"];
  const named = { auto: "automatic", light: "light", dark: "dark" };
  const button = document.getElementById("theme");
  const remember = (theme) => { try { localStorage.setItem("canarybank-theme", theme); } catch { /* no storage here */ } };
  const remembered = () => { try { return localStorage.getItem("canarybank-theme"); } catch { return null; } };
  const show = (theme) => {
    root.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
    button.setAttribute("aria-label", `Colour theme: ${named[theme]}`);
  };
  show(themes.includes(remembered()) ? remembered() : "auto");
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
    show(next);
    remember(next);
  });

  // A saved figure is a file of its own, so it carries the colours and fonts that the page shows it with.
  const shown = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "font-family", "font-size", "font-weight", "text-anchor"];
  const drawn = (svg) => {
    const copy = svg.cloneNode(true);
    const [own, others] = [svg, copy].map((one) => [one, ...one.querySelectorAll("*")]);
    own.forEach((one, index) => {
      const style = getComputedStyle(one);
      shown.forEach((name) => others[index].setAttribute(name, style.getPropertyValue(name)));
    });
    const { x, y, width, height } = svg.viewBox.baseVal;
    const sheet = document.createElementNS(svg.namespaceURI, "rect");
    Object.entries({ x, y, width, height, fill: getComputedStyle(document.body).backgroundColor }).forEach(([name, value]) => sheet.setAttribute(name, value));
    copy.prepend(sheet);
    copy.setAttribute("xmlns", svg.namespaceURI);
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    return [new XMLSerializer().serializeToString(copy), width, height];
  };
  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const asPng = (text, width, height, name) => {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [2 * width, 2 * height];
      canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
      canvas.toBlob((blob) => save(blob, name));
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  };
  document.querySelectorAll(".save").forEach((line) => {
    line.hidden = false;
    line.addEventListener("click", (event) => {
      const kind = event.target.dataset.kind;
      const figure = line.closest("figure");
      if (kind) [...figure.querySelectorAll(".plot svg")].filter((svg) => svg.checkVisibility()).forEach((svg, index) => {
        const [text, width, height] = drawn(svg);
        const name = `${figure.id}${index ? `-${index + 1}` : ""}.${kind}`;
        if (kind === "png") asPng(text, width, height, name);
        else save(new Blob([text], { type: "image/svg+xml" }), name);
      });
    });
  });

  // What is wider than its frame says so: nothing is hidden by a frame that only looks whole.
  const frames = [...document.querySelectorAll(".plot, .scroll")];
  const tell = () => frames.forEach((frame) => {
    const line = frame.matches(".plot") ? frame.nextElementSibling : frame.previousElementSibling;
    line.hidden = frame.scrollWidth <= frame.clientWidth + 1;
  });
  const watch = new ResizeObserver(tell);
  frames.forEach((frame) => watch.observe(frame));

  const terms = document.getElementById("terms");
  document.querySelectorAll("a.term").forEach((link) => link.addEventListener("click", () => { terms.open = true; }));

  const choice = document.getElementById("choice");
  if (choice) {
    const panels = [...document.querySelectorAll(".panel")];
    const choose = (id) => panels.forEach((panel) => { panel.hidden = panel.id !== id; });
    choice.hidden = false;
    choice.addEventListener("change", (event) => choose(event.target.value));
    choose(choice.querySelector("input:checked").value);
  }

  const number = (text) => {
    const plain = text.trim().replace(/[,%]/g, "").replace("−", "-").replace("at least ", "");
    if (plain === "∞") return Infinity;
    if (plain === "—" || plain === "") return NaN;
    return Number(plain.split(" to ")[0]);
  };
  const ordered = (a, b) => {
    const [x, y] = [number(a), number(b)];
    if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
    if (Number.isNaN(x)) return a < b ? -1 : a > b ? 1 : 0;
    return x - y || 0;
  };
  const sort = (table, column) => {
    const heads = [...table.tHead.rows[0].cells];
    const down = heads[column].getAttribute("aria-sort") === "ascending";
    heads.forEach((head, index) => head.setAttribute("aria-sort", index !== column ? "none" : down ? "descending" : "ascending"));
    const rows = [...table.tBodies[0].rows];
    const sign = down ? -1 : 1;
    rows.sort((one, other) => sign * ordered(one.cells[column].textContent, other.cells[column].textContent));
    table.tBodies[0].append(...rows);
  };
  document.querySelectorAll("table.sortable").forEach((table) => {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => sort(table, column));
    });
  });
})();
