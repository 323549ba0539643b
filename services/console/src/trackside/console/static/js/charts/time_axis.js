// Ticks of a time axis from a week to milliseconds.

const S = 1000;
const STEPS_MS = [
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    S,
    2 * S,
    5 * S,
    10 * S,
    15 * S,
    30 * S,
    60 * S,
    120 * S,
    300 * S,
    600 * S,
    900 * S,
    1800 * S,
    3600 * S,
    7200 * S,
    10800 * S,
    21600 * S,
    43200 * S,
    86400 * S,
    2 * 86400 * S,
    7 * 86400 * S,
    14 * 86400 * S,
    28 * 86400 * S,
];

/** Returns times in ms between `from` and `to`, at most one each `px` pixels, at round local times; and their texts. */
export function timeTicks(from, to, width, px = 96) {
    const smallest = ((to - from) / width) * px;
    const step = STEPS_MS.find((length) => length >= smallest) ?? STEPS_MS.at(-1);
    const zone = new Date(from).getTimezoneOffset() * 60 * S;
    const ticks = [];
    for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step)
        ticks.push({ at, text: tickText(at, step) });
    return ticks;
}

function tickText(at, step) {
    const date = new Date(at);
    const pad = (value, length = 2) => String(value).padStart(length, "0");
    const day = `${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
    if (step >= 86400 * S) return day;
    const minute = `${pad(date.getHours())}:${pad(date.getMinutes())}`;
    if (step >= 60 * S) return date.getHours() + date.getMinutes() === 0 ? day : minute;
    const second = `${minute}:${pad(date.getSeconds())}`;
    return step >= S ? second : `${second}.${pad(date.getMilliseconds(), 3)}`;
}
