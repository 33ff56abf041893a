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
