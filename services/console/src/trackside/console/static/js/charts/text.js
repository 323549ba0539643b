// Texts in charts: numbers, times, and small HTML elements. Values of tasks are set as text, never as HTML.

/** Returns a number as short text: at most 5 significant digits, powers of ten for very large and small ones. */
export function numberText(value) {
    if (value === null || value === undefined || Number.isNaN(value)) return "-";
    if (typeof value !== "number") return String(value);
    const size = Math.abs(value);
    if (Number.isInteger(value) && size < 1e7) return String(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e7))
        return value
            .toExponential(3)
            .replace(/\.?0+e/, "e")
            .replace("e+", "e");
    return String(Number(value.toPrecision(5)));
}

/** Returns a time in milliseconds since 1970 as local date and time. */
export function timeText(ms) {
    if (ms === null || Number.isNaN(ms)) return "-";
    const date = new Date(ms);
    const pad = (number, length = 2) => String(number).padStart(length, "0");
    return (
        `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ` +
        `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`
    );
}

/** Returns a cell as text: times for the columns that the chart says are times, numbers otherwise. */
export function cellText(value, isTime) {
    if (value === null) return "-";
    if (typeof value === "string") return value;
    return isTime ? timeText(value) : numberText(value);
}

/** Returns an element with a class and children: elements, or texts. */
export function make(tag, className, ...children) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.append(...children);
    return element;
}

/** Returns the content of a tooltip: a title, and lines of a colour (or null), a name and a value. */
export function tipContent(title, lines) {
    const content = make("div", "", make("strong", "", title));
    for (const [color, name, value] of lines) {
        const label = make("span", "");
        if (color) {
            const swatch = make("span", "swatch");
            swatch.style.background = color;
            label.append(swatch);
        }
        label.append(name);
        content.append(make("div", "pair", label, make("span", "", value)));
    }
    return content;
}

/** Returns a tooltip in a box: `show(content, x, y)` in pixels of the box, and `hide()`. */
export function makeTip(box) {
    const tip = make("div", "chart-tip");
    tip.hidden = true;
    box.append(tip);
    return {
        show(content, x, y) {
            tip.replaceChildren(content);
            tip.hidden = false;
            const right = x + tip.offsetWidth + 18 > box.clientWidth;
            tip.style.left = `${Math.max(2, right ? x - tip.offsetWidth - 12 : x + 14)}px`;
            tip.style.top = `${Math.max(2, Math.min(y + 12, box.clientHeight - tip.offsetHeight - 4))}px`;
        },
        hide() {
            tip.hidden = true;
        },
    };
}
