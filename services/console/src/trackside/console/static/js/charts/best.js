// The values of trials, and the best value so far as a stepped line (uPlot, by lines.js).
//
// Columns: x (number, or a time in ms with options.xIsTime), value, optionally best, and time or ended_ms (ms) for the
// axes of time. Options: direction ("minimize" by
// default, or "maximize"), and those of lines.js.

import { Table } from "../packed.js";
import { create as createLines } from "./lines.js";

const BEST = "best so far";
const VALUE = "value";
const TOOLS = ["axis", "log"]; // a smoothed best value would be wrong
const X_NAMES = ["number", "trial", "x", "ended"];
const TIMES = ["time", "ended_ms"];

/** Draws the history of a search's objective. */
export async function create(context) {
    const { options } = context;
    const lines = await createLines({
        ...context,
        options: {
            ...options,
            y: [VALUE, BEST],
            series: "",
            points: [VALUE],
            stepped: [BEST],
            tools: options.tools ?? TOOLS,
        },
    });
    return {
        draw: (table) => lines.draw(withBest(table, options)),
        resize: () => lines.resize(),
        close: () => lines.close(),
        times: lines.times,
    };
}

function withBest(table, options) {
    const x = table.column(options.x ?? X_NAMES.find((name) => table.has(name)) ?? table.columns[0].name);
    const value = table.column(options.y ?? VALUE);
    const best = table.has("best")
        ? table.column("best").values
        : bestSoFar(x.values, value.values, options.direction);
    const columns = [x, { ...value, name: VALUE }, { name: BEST, values: best, labels: null }];
    const time = TIMES.find((name) => table.has(name) && name !== x.name);
    if (time) columns.push({ ...table.column(time), name: "time" });
    return new Table(columns, table.meta);
}

function bestSoFar(xs, values, direction) {
    const isBetter = direction === "maximize" ? (one, other) => one > other : (one, other) => one < other;
    const best = new Float64Array(values.length).fill(NaN);
    let found = NaN;
    for (const row of Array.from(xs, (_, index) => index).sort((one, other) => xs[one] - xs[other])) {
        if (Number.isFinite(values[row]) && (Number.isNaN(found) || isBetter(values[row], found)))
            found = values[row];
        best[row] = found;
    }
    return best;
}
