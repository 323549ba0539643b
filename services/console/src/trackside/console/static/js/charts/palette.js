// Colours and fonts of charts, read from the page's CSS variables, so that charts follow the theme.

const SERIES = 10;

/** Returns a function that resolves a CSS colour of an element, such as "var(--text)", to #rrggbb. */
function resolver() {
    const probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
    queueMicrotask(() => probe.remove());
    return (color, status) => {
        if (status !== undefined) probe.dataset.status = status;
        probe.style.color = color;
        const channels = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3);
        return "#" + channels.map((each) => Math.round(Number(each)).toString(16).padStart(2, "0")).join("");
    };
}

/** Returns a colour of the page, such as that of "--text", as #rrggbb. */
export function variable(name) {
    return resolver()(`var(${name})`);
}

/** Returns the colours of the present theme. */
export function palette() {
    const resolve = resolver();
    const read = (name) => resolve(`var(${name})`);
    return {
        text: read("--text"),
        muted: read("--muted"),
        surface: read("--surface"),
        border: read("--border"),
        grid: read("--grid-line"),
        accent: read("--accent"),
        font: getComputedStyle(document.body).fontFamily,
        series: Array.from({ length: SERIES }, (_, index) => read(`--series-${index + 1}`)),
        scale: isDark()
            ? ["#3b4cc0", "#4f8fd8", "#4fc3b0", "#b9d65f", "#ffd75e"]
            : ["#3b2f8f", "#2f6fbf", "#1f9e89", "#7fb83b", "#e0b000"],
    };
}

/** Returns whether the present theme is dark. */
export function isDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Returns a function from a status to its colour: that of its badge. */
export function statusColors() {
    const known = new Map();
    return (status) => {
        if (!known.has(status)) known.set(status, resolver()("var(--status)", status ?? ""));
        return known.get(status);
    };
}

/** Returns a CSS colour with an opacity between 0 and 1; the colour must be written as #rrggbb. */
export function faded(color, opacity) {
    return (
        color +
        Math.round(opacity * 255)
            .toString(16)
            .padStart(2, "0")
    );
}
