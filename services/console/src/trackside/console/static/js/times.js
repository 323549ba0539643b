// Times relative to now: <time datetime="2026-01-31T12:00:00Z" data-relative>, and running durations:
// <time datetime="..." data-elapsed> (from that time until now). Both are written again each second.

const STEPS_S = [
    [86400 * 365, "y"],
    [86400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
];

/** Returns a length of time in its two largest units, such as "3 h 12 min". */
export function durationText(seconds) {
    const left = Math.max(0, Math.floor(seconds));
    const first = STEPS_S.findIndex(([length]) => left >= length);
    if (first < 0) return "0 s";
    const [length, unit] = STEPS_S[first];
    const text = `${Math.floor(left / length)} ${unit}`;
    const next = STEPS_S[first + 1];
    const rest = next ? Math.floor((left % length) / next[0]) : 0;
    return rest ? `${text} ${rest} ${next[1]}` : text;
}

function relativeText(then, now) {
    const seconds = (now - then) / 1000;
    if (Math.abs(seconds) < 2) return "now";
    const short = durationText(Math.abs(seconds)).split(" ").slice(0, 2).join(" ");
    return seconds > 0 ? `${short} ago` : `in ${short}`;
}

function update() {
    if (document.hidden) return;
    const now = Date.now();
    for (const element of document.querySelectorAll("time[data-relative], time[data-elapsed]")) {
        const then = Date.parse(element.dateTime);
        if (Number.isNaN(then)) continue;
        const text =
            "elapsed" in element.dataset ? durationText((now - then) / 1000) : relativeText(then, now);
        if (element.textContent !== text) element.textContent = text;
        if (!element.title) element.title = new Date(then).toLocaleString();
    }
}

/** Writes all relative times now and each second. */
export function startTimes() {
    update();
    setInterval(update, 1000);
    document.addEventListener("console:morphed", update);
    document.addEventListener("htmx:afterSettle", update);
    document.addEventListener("visibilitychange", update);
}
