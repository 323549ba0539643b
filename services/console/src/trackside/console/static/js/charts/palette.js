// Colours and fonts of charts, read from the page's CSS variables, so that charts follow the theme.

const SERIES = 10;

/** Returns the value of a CSS variable of the page, such as "--text". */
export function variable(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Returns the colours of the present theme. */
export function palette() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
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
    return getComputedStyle(document.documentElement).colorScheme === "dark";
}

/** Returns a function from a status to its colour: that of its badge. */
export function statusColors() {
    const probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
    const known = new Map();
    const color = (status) => {
        if (!known.has(status)) {
            probe.dataset.status = status ?? "";
            known.set(status, getComputedStyle(probe).getPropertyValue("--status").trim());
        }
        return known.get(status);
    };
    queueMicrotask(() => probe.remove());
    return color;
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
