// Splits a table into curves, and smooths them.
//
// Long form: a column of labels (options.series, default "series"), x and y. Wide form: x and one column a curve
// (options.y: a name or a list; default all others). Optional: the band of a curve in "<y>_min" and "<y>_max" (long form:
// also "min" and "max"), and its wall time in ms in options.time (default "time").

const BARE_BAND = new Set(["min", "max"]);
const X_NAMES = ["step", "x", "number", "trial"];

/**
 * A curve. `time` is the wall time of each point in ms; `low` and `high` are its band.
 * @typedef {{name: string, x: number[], y: number[], time: number[]|null, low: number[]|null, high: number[]|null}} Curve
 */

/** Returns the curves of a table, in the order of their labels or columns. Points without x are left out. */
export function curves(table, options) {
    const xName = options.x ?? X_NAMES.find((name) => table.has(name)) ?? table.columns[0].name;
    const seriesName = options.series ?? "series";
    const timeName = options.time ?? "time";
    const time = table.has(timeName) && timeName !== xName ? timeName : null;
    if (table.has(seriesName)) return longForm(table, xName, seriesName, time, options);
    const taken = new Set([xName, time]);
    const isBand = (name) =>
        BARE_BAND.has(name) || (/_(min|max)$/.test(name) && table.has(name.replace(/_(min|max)$/, "")));
    const given = [options.y ?? []].flat().filter((name) => table.has(name));
    const names = given.length
        ? given
        : table.columns
              .filter(({ name, labels }) => !labels && !taken.has(name) && !isBand(name))
              .map(({ name }) => name);
    const rows = Array.from({ length: table.length }, (_, row) => row);
    const band = (name, end) =>
        table.has(`${name}_${end}`) ? `${name}_${end}` : names.length === 1 ? end : "";
    return names.map((name) =>
        curve(table, rows, name, {
            x: xName,
            y: name,
            time,
            low: band(name, "min"),
            high: band(name, "max"),
        }),
    );
}

function longForm(table, xName, seriesName, time, options) {
    const y = [options.y, "value", "y"].flat().find((name) => table.has(name));
    const { values, labels } = table.column(seriesName);
    const rows = labels.map(() => []);
    for (let row = 0; row < table.length; row++) rows[values[row]]?.push(row);
    const band = (end) => [`${y}_${end}`, end].find((name) => table.has(name)) ?? "";
    const names = { x: xName, y, time, low: band("min"), high: band("max") };
    return labels.map((label, index) => curve(table, rows[index], label, names)).filter(({ x }) => x.length);
}

function curve(table, rows, name, names) {
    const xs = table.column(names.x).values;
    const kept = rows.filter((row) => !Number.isNaN(xs[row])).sort((one, other) => xs[one] - xs[other]);
    const pick = (column) => (table.has(column) ? kept.map((row) => table.column(column).values[row]) : null);
    const hasBand = table.has(names.low) && table.has(names.high);
    return {
        name,
        x: pick(names.x),
        y: pick(names.y) ?? missing(table, names.y),
        time: names.time ? pick(names.time) : null,
        low: hasBand ? pick(names.low) : null,
        high: hasBand ? pick(names.high) : null,
    };
}

function missing(table, name) {
    return table.column(name).values; // throws the error that names the columns there are
}

/**
 * Returns values smoothed as in TensorBoard: an exponential moving average of weight 0 to 1, corrected for its start at
 * zero. Missing values stay missing. Source: tensorboard/components/vz_line_chart2 (resmoothDataset).
 */
export function smooth(values, weight) {
    let last = 0;
    let count = 0;
    const isConstant = values.every((value) => value === values[0]);
    return values.map((value) => {
        if (isConstant || !Number.isFinite(value)) return value;
        last = last * weight + (1 - weight) * value;
        count += 1;
        return last / (1 - weight ** count);
    });
}

/** Returns the x values of a curve on an axis: "step", "relative" (s since its first point) or "wall" (s since 1970). */
export function xOn(axis, curve) {
    if (axis === "step" || !curve.time) return curve.x;
    const first = curve.time.find((ms) => !Number.isNaN(ms)) ?? 0;
    return curve.time.map((ms) => (axis === "wall" ? ms : ms - first) / 1000);
}
