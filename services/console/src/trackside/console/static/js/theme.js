// Sets the chosen theme before the first paint. A small classic script in the head: a module would run too late,
// and the page would flash in the other theme.
(() => {
    try {
        const chosen = localStorage.getItem("theme");
        if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
    } catch {
        // Storage is blocked by the browser's settings: the system's theme is used.
    }
})();
