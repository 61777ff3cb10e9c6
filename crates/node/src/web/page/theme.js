// Light, dark, or as the reader's system has it.

const KEY = "cards-theme";
const NEXT = { auto: "dark", dark: "light", light: "auto" };

/** What was chosen here before; a browser may keep nothing. */
function chosen() {
  try {
    return NEXT[localStorage.getItem(KEY)] ? localStorage.getItem(KEY) : "auto";
  } catch {
    return "auto";
  }
}

function keep(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // It lasts as long as the page, then.
  }
}

/** Has a button switch between the three; `changed` draws anew what does not by itself. */
export function theme(button, changed) {
  const show = (theme) => {
    document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  show(chosen());
  button.addEventListener("click", () => {
    const next = NEXT[document.documentElement.dataset.theme];
    keep(next);
    show(next);
    changed();
  });
}
